package tarball

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// site answers the first byte at each address with a status, and 0 not at all. As where a router knows GET alone, HEAD finds nothing.
type site struct {
	mu     sync.Mutex
	status map[string]int
	asked  int
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	status := s.status[r.URL.String()]
	switch {
	case r.Method != http.MethodGet:
		status = http.StatusNotFound
	case status == 0 || r.Header.Get("Range") != "bytes=0-0":
		return nil, errors.New("no answer")
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func (s *site) says(first, second int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = map[string]int{wanted.Addresses[0]: first, wanted.Addresses[1]: second}
}

func (s *site) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

var wanted = Wanted{Addresses: []string{"https://mirror.example/Downloads/m", "https://mirror.example/archives/m"}}

// idle waits until nothing is being asked.
func (w *Watch) idle(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		asking := false
		for _, a := range w.known {
			asking = asking || a.asking
		}
		w.mu.Unlock()
		if !asking {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it still asks")
		}
	}
}

// TestMissing: a tarball is missing when every address says so, and that counts for an hour where no address says so any more.
func TestMissing(t *testing.T) {
	const gone = "https://mirror.example/Downloads/m: HTTP 404; https://mirror.example/archives/m: HTTP 410"
	s, now := &site{}, clocktesting.NewFakePassiveClock(time.Now())
	w := NewWatch(&http.Client{Transport: s}, now)
	for i, step := range []struct {
		what          string
		first, second int
		after         time.Duration
		calls         int // since the step before
		want          string
	}{
		{"it is in the archives", 404, 200, 0, 2, ""},
		{"an answer counts for a day", 404, 410, 23 * time.Hour, 0, ""},
		{"it was withdrawn", 404, 410, time.Hour, 2, gone},
		{"the site does not answer", 0, 0, 5 * time.Minute, 2, gone},
		{"half of it says", 404, 503, 5 * time.Minute, 2, gone},
		{"it still does not", 0, 503, 45 * time.Minute, 2, gone},
		{"nobody has said so for an hour", 0, 503, 5 * time.Minute, 2, ""},
		{"it is said once more", 404, 410, time.Hour, 2, gone},
		{"not within five minutes", 200, 200, 4 * time.Minute, 0, gone},
		{"it is back", 206, 404, time.Minute, 1, ""},
		{"it is not for us to read", 403, 403, 24 * time.Hour, 2, ""},
		{"it went in the meantime", 404, 410, 24 * time.Hour, 2, gone},
	} {
		s.says(step.first, step.second)
		now.SetTime(now.Now().Add(step.after))
		earlier := s.times()
		if _, asked := w.Missing(wanted); asked != (i > 0) {
			t.Errorf("%s: asked already: %t", step.what, asked)
		}
		w.idle(t)
		if got, asked := w.Missing(wanted); got != step.want || !asked || s.times()-earlier != step.calls {
			t.Errorf("%s: %q after %d calls, want %q after %d", step.what, got, s.times()-earlier, step.want, step.calls)
		}
	}
	now.SetTime(now.Now().Add(4 * 24 * time.Hour))
	w.Missing(Wanted{Addresses: []string{"https://mirror.example/other"}})
	w.idle(t)
	if len(w.known) != 1 {
		t.Errorf("%d answers are kept, of which one is asked for", len(w.known))
	}
}

// TestForbidden: S3 says 403 of a missing key to those who may not list the bucket. That it is missing shows at the tarball of the version in
// service, where the site lets that be read.
func TestForbidden(t *testing.T) {
	of := Of("9.7.5", "9.7.4", &v1alpha1.DownloadSpec{Mirror: "https://mirror.example"}, "arm64")
	const present = "https://mirror.example/Downloads/MySQL-9.7/mysql-9.7.4-linux-glibc2.28-x86_64-minimal.tar.xz"
	if !slices.Contains(of.InService, present) || len(of.InService) != 4 {
		t.Fatalf("the tarballs in service are at %q", of.InService)
	}
	for name, row := range map[string]struct {
		status  map[string]int
		missing bool
	}{
		"the one in service is read":         {map[string]int{present: 206}, true},
		"nothing is read":                    {map[string]int{}, false},
		"the one in service was taken away":  {map[string]int{present: 404}, false},
		"an address may not be read, either": {map[string]int{present: 206, of.Addresses[1]: 503}, false},
	} {
		s := &site{status: map[string]int{}}
		for _, address := range slices.Concat(of.Addresses, of.InService) {
			s.status[address] = http.StatusForbidden
		}
		maps.Copy(s.status, row.status)
		if got := Ask(t.Context(), &http.Client{Transport: s}, of); got.Missing != row.missing || got.Found != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if same := Of("9.7.5", "9.7.5", nil, "arm64"); slices.ContainsFunc(same.InService, func(address string) bool { return slices.Contains(same.Addresses, address) }) {
		t.Errorf("compared with itself: %q", same.InService)
	}
	if own := Of("9.7.5", "9.7.4", &v1alpha1.DownloadSpec{URL: "https://mirror.example/m"}, "arm64"); len(own.InService) != 0 {
		t.Errorf("an address of one tarball says nothing of another: %q", own.InService)
	}
}

// TestOnlyTheFirstByteIsRead of a site that sends everything.
func TestOnlyTheFirstByteIsRead(t *testing.T) {
	gaveUp := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gaveUp)
		for block := make([]byte, 1<<16); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	if got := Ask(t.Context(), server.Client(), Wanted{Addresses: []string{server.URL}}); got.Found != server.URL {
		t.Errorf("%+v", got)
	}
	<-gaveUp
}

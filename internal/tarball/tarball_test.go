package tarball

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// site answers each address with a status, and 0 not at all.
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
	if status == 0 || r.Method != http.MethodHead {
		return nil, errors.New("no answer")
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func (s *site) says(first, second int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = map[string]int{addresses[0]: first, addresses[1]: second}
}

func (s *site) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

var addresses = []string{"https://mirror.example/Downloads/m", "https://mirror.example/archives/m"}

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

// TestMissing: a tarball is missing when every address says so, and what no address says leaves what is known.
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
		{"the site does not answer", 0, 0, time.Hour, 2, gone},
		{"half of it says", 404, 503, time.Hour, 2, gone},
		{"not within five minutes", 200, 200, 4 * time.Minute, 0, gone},
		{"it is back", 200, 404, time.Minute, 1, ""},
		{"it is not for us to read", 403, 403, 24 * time.Hour, 2, ""},
		{"it went in the meantime", 404, 410, 24 * time.Hour, 2, gone},
	} {
		s.says(step.first, step.second)
		now.SetTime(now.Now().Add(step.after))
		earlier := s.times()
		if _, asked := w.Missing(addresses); asked != (i > 0) {
			t.Errorf("%s: asked already: %t", step.what, asked)
		}
		w.idle(t)
		if got, asked := w.Missing(addresses); got != step.want || !asked || s.times()-earlier != step.calls {
			t.Errorf("%s: %q after %d calls, want %q after %d", step.what, got, s.times()-earlier, step.want, step.calls)
		}
	}
	now.SetTime(now.Now().Add(4 * 24 * time.Hour))
	w.Missing([]string{"https://mirror.example/other"})
	w.idle(t)
	if len(w.known) != 1 {
		t.Errorf("%d answers are kept, of which one is asked for", len(w.known))
	}
}

// Package tarball watches whether MySQL's tarballs are where instances look for them. An instance downloads when it is launched, which
// may be a year after the cluster was made: that a release was withdrawn is to be known before a member has to be replaced.
package tarball

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
)

const (
	// foundFor is how long the answer counts that a tarball is there, anyOther how long any other one does.
	foundFor = 24 * time.Hour
	anyOther = 5 * time.Minute
	// missingFor is how long a tarball counts as missing after the last answer that said so.
	missingFor = time.Hour
	// unusedFor is how long an answer is kept for which nobody asks.
	unusedFor = 3 * foundFor
	// patience bounds asking at all addresses of one tarball.
	patience = 20 * time.Second
)

// Wanted is a tarball that instances are to download.
type Wanted struct {
	// Addresses are where it may be.
	Addresses []string
	// InService are where the tarballs of the version in service may be, for any architecture, at the same site.
	InService []string
}

// Of returns the tarball of a version for instances of an architecture, which EC2 names. InService is the version that the members run, empty
// where none does.
func Of(version, inService string, d *v1alpha1.DownloadSpec, architecture string) Wanted {
	var from bootstrap.Download
	if d != nil {
		from.URL, from.Mirror = d.URL, d.Mirror
	}
	w := Wanted{Addresses: bootstrap.Addresses(version, from, architecture)}
	if from.URL != "" || inService == "" {
		return w
	}
	for _, other := range bootstrap.Architectures() {
		for _, address := range bootstrap.Addresses(inService, from, other) {
			if !slices.Contains(w.Addresses, address) {
				w.InService = append(w.InService, address)
			}
		}
	}
	return w
}

// Answer is what the addresses of a tarball say.
type Answer struct {
	// Found is the address that has it, empty for none.
	Found string
	// Missing is true when each address says that it is not there.
	Missing bool
	// Said is what each address answered, if none has it.
	Said string
}

// Ask asks at the addresses of a tarball. 404 and 410 say that it is not there. So does 403 where the site lets the tarball of the version in
// service be read: S3 answers so for a missing key to those who may not list the bucket.
func Ask(ctx context.Context, client *http.Client, w Wanted) Answer {
	missing, said := true, []string{}
	readable := sync.OnceValue(func() bool {
		return slices.ContainsFunc(w.InService, func(address string) bool {
			status, err := get(ctx, client, address)
			return err == nil && has(status)
		})
	})
	for _, address := range w.Addresses {
		status, err := get(ctx, client, address)
		switch {
		case err != nil:
			missing, said = false, append(said, fmt.Sprintf("%s: %v", address, err))
			continue
		case has(status):
			return Answer{Found: address}
		}
		said = append(said, fmt.Sprintf("%s: HTTP %d", address, status))
		absent := status == http.StatusNotFound || status == http.StatusGone || status == http.StatusForbidden && missing && readable()
		missing = missing && absent
	}
	return Answer{Missing: missing, Said: strings.Join(said, "; ")}
}

func has(status int) bool { return status == http.StatusOK || status == http.StatusPartialContent }

// get asks for the first byte at an address, as instances ask for all of them, and returns the status. Some sites answer HEAD otherwise than
// GET. The body is not read, because a site may send all of it.
func get(ctx context.Context, client *http.Client, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Range", "bytes=0-0")
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// Watch remembers what the addresses of tarballs answered. Clusters of one version share an answer. The zero value is not usable.
type Watch struct {
	client *http.Client
	clock  clock.PassiveClock

	mu    sync.Mutex
	known map[string]*answer // by the addresses
}

// answer is what is known of one tarball.
type answer struct {
	asked, used time.Time
	asking      bool
	found       bool
	missing     string
	missingAt   time.Time
}

// NewWatch makes a Watch that asks by a client.
func NewWatch(client *http.Client, now clock.PassiveClock) *Watch {
	return &Watch{client: client, clock: now, known: map[string]*answer{}}
}

// Missing returns what the addresses of a tarball answered if each said that it is not there. The answers are empty while one has it, and
// while no address says: instances may reach what this process does not. Asked is false until all were asked once. Missing does not
// wait: it asks in the background, once a day.
func (w *Watch) Missing(wanted Wanted) (answers string, asked bool) {
	key, now := strings.Join(append(slices.Clone(wanted.Addresses), wanted.InService...), " "), w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, a := range w.known {
		if now.Sub(a.used) > unusedFor && !a.asking {
			delete(w.known, other)
		}
	}
	a := w.known[key]
	if a == nil {
		a = &answer{}
		w.known[key] = a
	}
	a.used = now
	if !a.asking && (a.asked.IsZero() || now.Sub(a.asked) >= a.life()) {
		a.asking = true
		go w.ask(a, wanted)
	}
	return a.missing, !a.asked.IsZero()
}

func (a *answer) life() time.Duration {
	if a.found {
		return foundFor
	}
	return anyOther
}

// ask asks at the addresses. That a tarball is missing counts for a while where they no longer say so.
func (w *Watch) ask(a *answer, wanted Wanted) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got := Ask(ctx, w.client, wanted)
	w.mu.Lock()
	defer w.mu.Unlock()
	a.asking, a.asked, a.found = false, w.clock.Now(), got.Found != ""
	switch {
	case got.Missing:
		a.missing, a.missingAt = got.Said, a.asked
	case a.found, a.asked.Sub(a.missingAt) >= missingFor:
		a.missing = ""
	}
}

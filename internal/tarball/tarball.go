// Package tarball watches whether MySQL's tarballs are where instances look for them. An instance downloads when it is launched, which
// may be a year after the cluster was made: that a release was withdrawn is to be known before a member has to be replaced.
package tarball

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// foundFor is how long the answer counts that a tarball is there, anyOther how long any other one does.
	foundFor = 24 * time.Hour
	anyOther = 5 * time.Minute
	// unusedFor is how long an answer is kept for which nobody asks.
	unusedFor = 3 * foundFor
	// patience bounds asking at all addresses of one tarball.
	patience = time.Minute
)

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
}

// NewWatch makes a Watch that asks by a client.
func NewWatch(client *http.Client, now clock.PassiveClock) *Watch {
	return &Watch{client: client, clock: now, known: map[string]*answer{}}
}

// Missing returns what the addresses of a tarball answered if each said that it is not there. The answers are empty while one has it, and
// while no address says: instances may reach what this process does not. Asked is false until all were asked once. Missing does not
// wait: it asks in the background, once a day.
func (w *Watch) Missing(addresses []string) (answers string, asked bool) {
	key, now := strings.Join(addresses, " "), w.clock.Now()
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
		go w.ask(a, addresses)
	}
	return a.missing, !a.asked.IsZero()
}

func (a *answer) life() time.Duration {
	if a.found {
		return foundFor
	}
	return anyOther
}

// ask asks at the addresses, and keeps what was known where they do not say.
func (w *Watch) ask(a *answer, addresses []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, said := false, []string{}
	for _, address := range addresses {
		status := w.head(ctx, address)
		if found = status == http.StatusOK; found {
			break
		}
		if status == http.StatusNotFound || status == http.StatusGone {
			said = append(said, fmt.Sprintf("%s: HTTP %d", address, status))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.asking, a.asked, a.found = false, w.clock.Now(), found
	switch {
	case found:
		a.missing = ""
	case len(said) == len(addresses):
		a.missing = strings.Join(said, "; ")
	}
}

// head returns the status of an address, 0 when there was no answer.
func (w *Watch) head(ctx context.Context, address string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return 0
	}
	response, err := w.client.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

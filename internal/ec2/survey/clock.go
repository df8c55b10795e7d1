package survey

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock compares the clock here with AWS's, by the Date header of what AWS answers.
type Clock struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	ahead time.Duration
	known bool
}

// NewClock knows nothing yet.
func NewClock(c clock.PassiveClock) *Clock { return &Clock{clock: c} }

// Ahead is by how much AWS's clock was ahead of the one here at the last answer; false while there was none. A Date header counts
// whole seconds.
func (c *Clock) Ahead() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, c.known
}

// Wrap returns a transport that looks at each answer: the Middleware of awsapi.Config.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper { return watched{next, c} }

type watched struct {
	next  http.RoundTripper
	clock *Clock
}

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	begun := w.clock.clock.Now()
	answer, err := w.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		took := w.clock.clock.Since(begun)
		w.clock.mu.Lock()
		w.clock.ahead, w.clock.known = date.Sub(begun.Add(took/2)), true
		w.clock.mu.Unlock()
	}
	return answer, nil
}

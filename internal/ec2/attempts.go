package ec2

import (
	"strings"
	"sync"
	"time"
)

// unknownFor is how long a snapshot whose answer was lost is looked for before it is asked for again. CreateSnapshot
// takes no client token, so a look-up that comes too early would make a second snapshot.
const unknownFor = 30 * time.Second

// attempts remembers calls without client token whose answer was lost.
type attempts struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newAttempts() *attempts { return &attempts{at: map[string]time.Time{}} }

func (a *attempts) unknown(key string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, at := range a.at {
		if now.Sub(at) >= unknownFor {
			delete(a.at, k)
		}
	}
	_, ok := a.at[key]
	return ok
}

// unknownLike says the same of any key that begins and ends like this.
func (a *attempts) unknownLike(begin, end string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, at := range a.at {
		if now.Sub(at) < unknownFor && strings.HasPrefix(k, begin) && strings.HasSuffix(k, end) {
			return true
		}
	}
	return false
}

func (a *attempts) lost(key string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[key] = now
}

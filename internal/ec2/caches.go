package ec2

import (
	"sync"
	"time"
)

const (
	// imageFor is how long an image or the alias of one is taken as read: a new image a day or so is what AWS publishes.
	imageFor = time.Hour
	// typeFor is how long an instance type's properties and zones are taken as read.
	typeFor = 24 * time.Hour
	// launchableFor is how long a launch whose dry run found nothing is not tried again for other clusters: policies change seldom, and
	// after a zone's end a thousand clusters ask the same.
	launchableFor = 5 * time.Minute
)

// cache keeps answers that change rarely. It holds no failures.
type cache[T any] struct {
	mu      sync.Mutex
	life    time.Duration
	entries map[string]cached[T]
}

type cached[T any] struct {
	value T
	until time.Time
}

func newCache[T any](life time.Duration) *cache[T] {
	return &cache[T]{life: life, entries: map[string]cached[T]{}}
}

func (c *cache[T]) get(key string, now time.Time) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || !now.Before(e.until) {
		delete(c.entries, key)
		var none T
		return none, false
	}
	return e.value, true
}

func (c *cache[T]) set(key string, value T, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = cached[T]{value: value, until: now.Add(c.life)}
}

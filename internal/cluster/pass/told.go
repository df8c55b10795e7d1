package pass

import (
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// ToldCache is what was last reported in events and status, and since when it has been so.
type ToldCache struct {
	mu sync.Mutex
	// announced is when the last event of each action was sent. Actions of several members read and write it in parallel.
	announced map[string]time.Time
	// Status is that which events were last derived from.
	Status *v1alpha1.MySQLClusterStatus
	// Promotion is the promotion that status was last written with; a cache may not show it yet. Nil since the operator started.
	Promotion *v1alpha1.PromotionStatus
	// HinderedSince is since when trouble has stood in the way of a deletion, in each pass.
	HinderedSince time.Time
	// Standstill is what a deletion has been waiting for without a change.
	Standstill Standstill
	// FailingSince is since when the cluster has had no primary; zero while it has one.
	FailingSince time.Time
	// Writes is since when the cluster should have taken a write and did not.
	Writes Writes
	// Timeline is what is known of the present failure of a primary, or of the switchover under way.
	Timeline Timeline
}

// Standstill is what a deletion waits for, since when for just that, and when that was seen last.
type Standstill struct {
	Left        string
	Since, Seen time.Time
}

// newsAfter is how long an action that is taken again and again is told of only once.
const newsAfter = 30 * time.Second

// News says whether an action is to be told of, and notes that it was. Several members are served at the same time.
func (c *ToldCache) News(action string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for told, at := range c.announced {
		if now.Sub(at) > newsAfter {
			delete(c.announced, told)
		}
	}
	if _, told := c.announced[action]; told {
		return false
	}
	c.announced[action] = now
	return true
}

// Writes is what is remembered of the writes that a cluster should take.
type Writes struct {
	// Since is when this process began to watch them.
	Since time.Time
	// Due is when a write should have succeeded and none has since: the last one that did, or when the cluster had to take some.
	// Zero while it does not have to: it is being deleted, hibernates, wakes, or never had a primary.
	Due time.Time
}

package engine

import (
	"maps"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// listsShow is how soon EC2 is asked again for a change that it took and its lists do not show: they may be some seconds old. A stop
// has a rule of its own (stopShows), and an order a client token.
const listsShow = 3 * time.Second

// shownByLists says whether an action changes a resource in a way that EC2's lists show, and whose repetition changes nothing.
func shownByLists(action topology.Action) bool {
	switch action.(type) {
	case topology.StartInstance, topology.TerminateInstance, topology.AttachVolume, topology.DetachVolume, topology.DeleteVolume,
		topology.DeleteSnapshot, topology.DeleteSecurityGroup:
		return true
	}
	return false
}

// take records that EC2 took an attempt.
func (q *Requests) take(key Attempt, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.taken, func(_ Attempt, at time.Time) bool { return now.Sub(at) >= listsShow })
	q.taken[key] = now
}

// justTaken says whether EC2 took an attempt so recently that its lists need not show it yet.
func (q *Requests) justTaken(key Attempt, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, taken := q.taken[key]
	return taken && now.Sub(at) < listsShow
}

package engine

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// stopPatience is how long an instance may be stopping before its stop is asked for again: one without the shutdown of its operating
	// system waits for nothing in the instance.
	stopPatience = time.Minute
	// stopShows is how long EC2's lists may go on showing an instance as running after EC2 took its stop.
	stopShows = 30 * time.Second
)

// stopped is what is known of the stops of one instance.
type stopped struct {
	// since is when it was first seen stopping, taken when EC2 last took a stop of it; zero for never.
	since, taken time.Time
	// cut is true once EC2 took one without the shutdown of its operating system.
	cut bool
}

// stopTaken records that EC2 took a stop.
func (q *Requests) stopTaken(a topology.StopInstance, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stops[a.InstanceID]
	s.taken, s.cut = now, s.cut || !a.Gracefully
	q.stops[a.InstanceID] = s
}

// showStop shows whether the stop of an instance is stuck.
func (q *Requests) showStop(in *topology.Instance, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, known := q.stops[in.ID]
	switch {
	case in.State == inventory.StateStopping:
		if s.since.IsZero() {
			s.since = now
			q.stops[in.ID] = s
		}
		in.PowerCut = s.cut
		in.StopStuck = now.Sub(s.since) >= stopPatience && now.Sub(s.taken) >= stopPatience
	case !known, in.State == inventory.StateRunning && now.Sub(s.taken) < stopShows:
	default:
		delete(q.stops, in.ID)
	}
}

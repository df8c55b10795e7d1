package controllers

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// startSettles is how soon after EC2 took a start a machine that is stopped again is one that EC2 could not start.
	startSettles = 2 * time.Minute
	// startPause is for how long such a machine is left alone the first time, startPauseMax the longest time; each is twice the
	// one before.
	startPause    = 15 * time.Second
	startPauseMax = 5 * time.Minute
)

// starts is what came of the starts of one machine.
type starts struct {
	// taken is when EC2 took the last one; zero once it is known what came of it.
	taken time.Time
	// failed is how many failed, one after the other, after EC2 had taken them.
	failed int
}

// start starts a member's stopped instance. A zone may be out of capacity for that as for a launch, which EC2 says at once or
// only after it took the start.
func (r *executor) start(ctx context.Context, s *pass, a topology.StartInstance) error {
	in, zone := topology.Instance{}, ""
	if m := s.observed.Members[a.Member]; m != nil && m.CurrentInstance() != nil {
		in = *m.CurrentInstance()
		zone = in.Zone
	}
	if failed := s.cache.requests.startFailed(a.InstanceID, in.StateReason, r.Clock.Now()); failed > 0 {
		s.cache.requests.noteCapacity(a.Member, zone, codeNoCapacity, ec2.StopError(in.StateReason), r.Clock.Now())
		pause := min(startPause<<min(failed-1, 8), startPauseMax)
		return &problem{
			reason: v1alpha1.ReasonBootFailed, after: afterWaiting, pause: pause, pauseFrom: pause,
			message: fmt.Sprintf("EC2 took the start and did not carry it out: %s; it is tried again, less and less often, every five minutes at the least", in.StateReason),
		}
	}
	cloud, uid := s.access.cloud, s.uid()
	finish := func(_ context.Context, s *pass, err error) error {
		if err == nil && s.cache.requests.startTaken(a.InstanceID, r.Clock.Now()) > 0 {
			return nil // it was taken before as well: whether the zone has room is not known yet
		}
		s.cache.requests.noteCapacity(a.Member, zone, codeNoCapacity, err, r.Clock.Now())
		return err
	}
	return r.attempts.unhurried(ctx, s, &call{action: a, finish: finish}, func(ctx context.Context) error { return cloud.StartInstance(ctx, uid, a.InstanceID) })
}

// startTaken notes that EC2 took a start, and returns how many failed before it, one after the other.
func (q *requestCache) startTaken(instance string, now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.starts, func(other string, s starts) bool {
		return other != instance && !s.taken.IsZero() && now.Sub(s.taken) > startSettles
	})
	failed := q.starts[instance].failed
	q.starts[instance] = starts{taken: now, failed: failed}
	return failed
}

// startFailed judges the last start of a machine that is stopped: how many have failed one after the other, when it is one
// that EC2 took and could not carry out; 0 when it is none, or was judged before. Why the machine stopped is EC2's to say, and
// a machine that a person or the operator stopped says so.
func (q *requestCache) startFailed(instance, why string, now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.starts[instance]
	switch {
	case known.taken.IsZero():
		return 0
	case why == "", strings.Contains(why, "InitiatedShutdown"), now.Sub(known.taken) > startSettles:
		delete(q.starts, instance)
		return 0
	}
	known = starts{failed: known.failed + 1}
	q.starts[instance] = known
	return known.failed
}

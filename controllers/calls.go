package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// attempts sends requests to EC2 and records their outcome. A request that failed is retried with back-off.
type attempts struct {
	*Ports
	announcer *announcer
}

const (
	// callWait is how long a pass waits for EC2 to take a request that it does not depend on, callLimit how long that may take.
	callWait  = 300 * time.Millisecond
	callLimit = 15 * time.Second
	// promotionSettles is how long after a promotion its voters are still being pointed at the new primary.
	promotionSettles = 10 * time.Second
)

// errUnderWay says that a request to EC2 goes on by itself: what comes of it is not known yet, and a later pass takes it.
var errUnderWay = errors.New("EC2 has not answered yet")

// call is a request to EC2 that may outlast the pass that made it. It works on values of its own.
type call struct {
	// action is what the request is for, nil for upkeep.
	action topology.Action
	// finish takes its outcome within a pass, that which made it or a later one, and returns what is left of the error.
	finish func(context.Context, *pass, error) error
	// late is true once no pass waits for it any more.
	late atomic.Bool
	// err is written before done is closed and read only after.
	done chan struct{}
	err  error
}

func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// asItIs is the finish of a request whose outcome changes nothing that is remembered.
func asItIs(_ context.Context, _ *pass, err error) error { return err }

// powerOff powers a machine off, or shuts it down. It may be a fence, and nothing that follows from it may wait for an EC2
// that answers slowly.
func (r *attempts) powerOff(ctx context.Context, s *pass, a topology.StopInstance) error {
	cloud, uid := s.access.cloud, s.uid()
	return r.detachCall(ctx, s, topology.Identity(a), &call{action: a, finish: asItIs}, func(ctx context.Context) error {
		return cloud.StopInstance(ctx, uid, a.InstanceID, !a.Gracefully)
	})
}

// unhurried makes a call to EC2 for a member's machine. While the cluster has no primary, and just after it got one, the
// voters wait to be pointed at it: then no pass waits for EC2 for long.
func (r *attempts) unhurried(ctx context.Context, s *pass, c *call, request func(context.Context) error) error {
	promoted := time.Unix(s.plan.Records.PromotedAt, 0)
	if !s.plan.Failing && r.Clock.Since(promoted) > promotionSettles {
		return c.finish(ctx, s, request(ctx))
	}
	if _, makes := c.action.(topology.LaunchInstance); !makes {
		return r.detachCall(ctx, s, topology.Identity(c.action), c, request)
	}
	n := s.cache
	n.requests.doubt(r.Clock.Now()) // no pass may be left to take the outcome
	return r.detachCall(ctx, s, topology.Identity(c.action), c, func(ctx context.Context) error {
		err := request(ctx)
		n.requests.doubtAfter(err, r.Clock.Now())
		return err
	})
}

// detachCall makes a call to EC2 that goes on by itself after a moment, and not twice at a time. errUnderWay says that it
// does; the cluster is looked at again as soon as it ends.
func (r *attempts) detachCall(ctx context.Context, s *pass, key attempt, c *call, request func(context.Context) error) error {
	c.done = make(chan struct{})
	if !s.cache.requests.begin(key, c) {
		return errUnderWay
	}
	name := client.ObjectKeyFromObject(s.cluster)
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	go func() {
		defer cancel()
		c.err = request(detached)
		close(c.done)
		if c.late.Load() {
			r.wake(name)
		}
	}()
	timer := time.NewTimer(callWait)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.late.Store(true)
		if !c.ended() {
			return errUnderWay
		}
	}
	s.cache.requests.end(key)
	return c.finish(ctx, s, c.err)
}

// takeAnswers takes what came of the requests that had outlasted their passes. Only now are they announced, or told of.
func (r *attempts) takeAnswers(ctx context.Context, s *pass) {
	s.result.answered = map[attempt]bool{}
	for key, c := range s.cache.requests.answers() {
		s.result.answered[key] = true
		err := c.finish(ctx, s, c.err)
		switch {
		case err == nil && c.action != nil:
			r.settle(s, c.action)
		case err == nil:
			s.cache.requests.succeed(key)
		case c.action != nil:
			r.refuse(s, c.action, r.cloudFailure(s, c.action, err))
		default:
			s.result.problems = append(s.result.problems, r.upkeepFailed(s, key, err))
		}
	}
}

// cloudFailure turns what EC2 answered to an action into a problem. EC2 is not asked again for a while for what it has just
// refused; the fence is tried more often than the rest.
func (r *attempts) cloudFailure(s *pass, action topology.Action, err error) *problem {
	s.cache.requests.doubtAfter(err, r.Clock.Now())
	p := cloudError(err)
	longest := longestPause
	if _, fence := action.(topology.StopInstance); fence {
		longest = fencePause
	}
	p.pause = max(p.pause, longest)
	if s.cache.requests.mismatchedFor(action, r.Clock.Now()) >= tokenTold {
		p.reason = v1alpha1.ReasonWaitingForDependency
	}
	return p
}

// wake has a cluster looked at now. When so many wait there that there is no room, a look is due anyway.
func (r *attempts) wake(name types.NamespacedName) {
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = name.Namespace, name.Name
	select {
	case r.Wake <- event.GenericEvent{Object: cluster}:
	default:
	}
}

// begin notes a request that goes out, unless one for the same is under way or has not been taken yet. Several members
// are served at the same time.
func (q *requestCache) begin(key attempt, c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.calls[key] != nil {
		return false
	}
	q.calls[key] = c
	return true
}

// end notes that a request's outcome is taken.
func (q *requestCache) end(key attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.calls, key)
}

// answers takes the requests that have ended.
func (q *requestCache) answers() map[attempt]*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := map[attempt]*call{}
	for key, c := range q.calls {
		if c.ended() {
			ended[key] = c
			delete(q.calls, key)
		}
	}
	return ended
}

// order is one for a machine or a volume of a member: all its tries bear one client token.
type order struct {
	volume      bool
	member      string
	incarnation int
}

// orderOf returns the order that an action places, if it does.
func orderOf(action topology.Action) (order, bool) {
	switch a := action.(type) {
	case topology.LaunchInstance:
		return order{member: a.Member, incarnation: a.Incarnation}, true
	case topology.CreateVolume:
		return order{volume: true, member: a.Member, incarnation: a.Incarnation}, true
	}
	return order{}, false
}

// token is what EC2's answers say about an order's client token.
type token struct {
	// refused is true after EC2 answered the order and made nothing.
	refused bool
	// mismatched is since when EC2 has known the token from a request that differed, and shown nothing that it made; zero when
	// it does not say so.
	mismatched time.Time
}

// tokenSpent says whether an order's client token will never make anything: EC2 knows it from a request that differed, and
// either made nothing of that, or has shown nothing of it for so long that there is none any more.
func (q *requestCache) tokenSpent(o order, err error, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.tokens[o]
	delete(q.tokens, o)
	switch {
	case err == nil:
		return false
	case ec2.Code(err) != ec2.CodeTokenMismatch:
		known.mismatched = time.Time{}
		if known.refused = ec2.RefusesOrder(err) || known.refused && !mayHaveMade(err); !known.refused {
			return false
		}
	case known.mismatched.IsZero():
		known.mismatched = now
	}
	if !known.mismatched.IsZero() && (known.refused || now.Sub(known.mismatched) >= tokenPatience) {
		return true
	}
	q.tokens[o] = known
	return false
}

// mayHaveMade says whether an order may have been taken although it was answered with err.
func mayHaveMade(err error) bool {
	class := ec2.Classify(err)
	return class == ec2.Unreachable || class == ec2.Transient
}

// mismatchedFor is for how long EC2 has shown nothing of an order that it says it took.
func (q *requestCache) mismatchedFor(action topology.Action, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	o, ok := orderOf(action)
	if since := q.tokens[o].mismatched; ok && !since.IsZero() {
		return now.Sub(since)
	}
	return 0
}

// tag has EC2 tag something, unless that was refused shortly before. A pass waits a moment for it.
func (r *attempts) tag(ctx context.Context, s *pass, key attempt, finish func(context.Context, *pass, error) error, request func(context.Context) error) {
	if s.result.answered[key] {
		return
	}
	if p := s.cache.requests.refusal(key, r.Clock.Now()); p != nil {
		s.result.problems = append(s.result.problems, p)
		return
	}
	err := r.detachCall(ctx, s, key, &call{finish: finish}, request)
	switch {
	case err == nil:
		s.cache.requests.succeed(key)
	case !errors.Is(err, errUnderWay):
		s.result.problems = append(s.result.problems, r.upkeepFailed(s, key, err))
	}
}

// upkeep asks EC2 for something on which no database depends, unless that was refused shortly before: a pass a second must not be
// as many calls.
func (r *attempts) upkeep(s *pass, key attempt, ask func() error) error {
	if p := s.cache.requests.refusal(key, r.Clock.Now()); p != nil {
		return p
	}
	if err := ask(); err != nil {
		p := cloudError(err)
		s.cache.requests.doubtAfter(err, r.Clock.Now())
		p.pauseFrom, p.pause = firstPause, upkeepPause
		s.cache.requests.fail(key, p, r.Clock.Now())
		return p
	}
	s.cache.requests.succeed(key)
	return nil
}

// upkeepFailed notes that something failed on which nothing depends.
func (r *attempts) upkeepFailed(s *pass, key attempt, err error) *problem {
	p := cloudError(err)
	p.pause, p.aside = versionPause, true
	s.cache.requests.fail(key, p, r.Clock.Now())
	return p
}

// settle notes that an action succeeded, and tells of it.
func (r *attempts) settle(s *pass, a topology.Action) {
	s.cache.requests.succeed(topology.Identity(a))
	r.announcer.announce(s, a)
	if _, upkeep := a.(topology.EnsureSecurityGroup); !upkeep {
		s.result.acted++
	}
}

// refuse notes that an action failed, and tells of it.
func (r *attempts) refuse(s *pass, a topology.Action, p *problem) {
	r.logFailure(s, a, p, s.cache.requests.fail(topology.Identity(a), p, r.Clock.Now()))
	s.suffer(a, p)
}

// logFailure logs an action that failed, once for the same failure: the next passes may well meet it again.
func (r *attempts) logFailure(s *pass, a topology.Action, p *problem, news bool) {
	level := 0
	if !news {
		level = 1
	}
	s.log.V(level).Info("an action failed and is tried again", "action", a.String(), "reason", p.reason, "problem", p.message)
}

package engine

import (
	"context"
	"errors"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// callWait is how long a pass waits for EC2's answer to a request on a member's instance or volume: most come within it, and
	// the cluster is observed again soon enough when a member fails meanwhile. Failing clusters, the fence and tags wait for
	// shortWait.
	callWait  = 4 * time.Second
	shortWait = 300 * time.Millisecond
	// callLimit is how long such a request may take in all. EC2 may need 20 seconds for a launch, and a look-up precedes it.
	callLimit = 25 * time.Second
	// promotionSettles is how long after a promotion its voters are still being pointed at the new primary.
	promotionSettles = 10 * time.Second
)

// ErrUnderWay says that a request to EC2 goes on by itself, and a later pass takes its outcome; or that EC2 took it so recently that its
// lists need not show that yet.
var ErrUnderWay = errors.New("EC2 has not answered yet")

// asItIs is the finish of a request whose outcome changes nothing that is remembered.
func asItIs(_ context.Context, _ *Execution, err error) error { return err }

// onMember makes a call to EC2 for a member's instance or volume. While the cluster has no primary, and just after it got one, the
// voters wait to be pointed at it: then no pass waits for EC2 for long.
func (x *Execution) onMember(ctx context.Context, c *call, request func(context.Context) error) error {
	promoted := time.Unix(x.Plan.Records.PromotedAt, 0)
	if x.Plan.Failing || x.Clock.Since(promoted) <= promotionSettles {
		return x.detach(ctx, shortWait, c, request)
	}
	return x.detach(ctx, callWait, c, request)
}

// detach makes a call to EC2, and not twice at a time. One that takes longer than the pass waits for it goes on by itself, which
// ErrUnderWay says; the cluster is looked at again as soon as it ends.
func (x *Execution) detach(ctx context.Context, wait time.Duration, c *call, request func(context.Context) error) error {
	if c.action != nil {
		c.key = topology.Identity(c.action)
	}
	if !x.Requests.begin(c) {
		return ErrUnderWay
	}
	requests, clock, wake := x.Requests, x.Clock, x.Wake
	_, makes := orderOf(c.action)
	x.Threads.Start(ctx, callLimit, func(ctx context.Context) {
		err := request(ctx)
		if makes {
			requests.DoubtAfter(err, clock.Now()) // no pass may be left to take the outcome
		}
		if c.answered(err) {
			wake()
		}
	}).Await(ctx, wait)
	if !c.leave() {
		if makes {
			requests.doubt(clock.Now()) // what it makes may be shown by nothing until it ends
		}
		return ErrUnderWay
	}
	x.Requests.end(c)
	return c.finish(ctx, x, c.err)
}

// TakeAnswers takes the outcome of the requests that had outlasted their passes. Only now are they reported.
func (x *Execution) TakeAnswers(ctx context.Context) {
	x.answered = map[Attempt]bool{}
	for _, c := range x.Requests.answers() {
		x.answered[c.key] = true
		err := c.finish(ctx, x, c.err)
		switch {
		case err == nil && c.action != nil:
			x.succeeded(c.action)
		case err == nil:
			x.Requests.Succeed(c.key)
		case c.action != nil:
			x.failed(c.action, x.cloudFailure(c.action, err))
		default:
			x.tagFailed(c.key, err)
		}
	}
}

// cloudFailure turns what EC2 answered to an action into a problem, unless it is one. EC2 is not asked again for a while for what it has
// just refused: briefly for what may pass by itself, and the fence is tried more often than the rest; longer for what a person has to
// change.
func (x *Execution) cloudFailure(action topology.Action, err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	x.Requests.DoubtAfter(err, x.Clock.Now())
	p := CloudError(err)
	_, stops := action.(topology.StopInstance)
	switch class := awsapi.Classify(err); {
	case class == awsapi.Denied || class == awsapi.Quota || class == awsapi.Invalid || awsapi.Refused(err):
		p.Pause, p.PauseFrom = max(p.Pause, refusedPause), firstPause
	case stops:
		p.Pause = fencePause
	default:
		p.Pause = max(p.Pause, longestPause)
	}
	if _, starts := action.(topology.StartInstance); starts && refusesStart(err) {
		p.Message += startAdvice
	}
	if x.Requests.mismatchedFor(action, x.Clock.Now()) >= tokenTold {
		p.Reason = v1alpha1.ReasonWaitingForDependency
	}
	return p
}

// startAdvice is for an instance that EC2 may never start again, because its root volume is gone or its type was withdrawn.
const startAdvice = ". If this lasts, switch off the instance's termination protection and terminate it: the data volume stays, and the member gets another instance on it"

// refusesStart says whether EC2 refuses to start an instance for what it is, not for what is lacking at the moment.
func refusesStart(err error) bool {
	return awsapi.Classify(err) == awsapi.Invalid || awsapi.Refused(err) || awsapi.Code(err) == "IncorrectInstanceState"
}

// tag has EC2 tag something, unless that was refused shortly before. A pass waits a moment for it.
func (x *Execution) tag(ctx context.Context, key Errand, finish func(context.Context, *Execution, error) error, request func(context.Context) error) {
	if x.answered[key] {
		return
	}
	if p := x.Requests.Refusal(key, x.Clock.Now()); p != nil {
		x.problem(p)
		return
	}
	err := x.detach(ctx, shortWait, &call{key: key, finish: finish}, request)
	switch {
	case err == nil:
		x.Requests.Succeed(key)
	case !errors.Is(err, ErrUnderWay):
		x.tagFailed(key, err)
	}
}

// tagFailed records that something failed on which nothing depends.
func (x *Execution) tagFailed(key Attempt, err error) {
	p := CloudError(err)
	p.Pause, p.Aside = tagPause, true
	x.Requests.Fail(key, p, x.Clock.Now())
	x.problem(p)
}

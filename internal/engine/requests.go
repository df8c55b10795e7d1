package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Attempt identifies what is tried: an action by topology.Identity, anything else as an errand. It is comparable.
type Attempt any

// Errand is what a pass tries that is no action of its plan.
type Errand struct {
	What   ErrandKind
	Object string // what it is about: an ID of EC2, a purpose, an object with a hash of its content; empty for the cluster
}

// ErrandKind is one of the errands.
type ErrandKind int

// The errands: what is asked of EC2 or written in Kubernetes.
const (
	PreflightErrand ErrandKind = iota
	StatusErrand
	WriteErrand
	TagsErrand
	VersionErrand
	TakeSnapshotErrand
	DeleteSnapshotErrand
	DeleteSnapshotsErrand
	FindErrand // looks for what EC2's lists do not show
)

// Requests is the outcome of requests to EC2. Actions of several members use it in parallel.
type Requests struct {
	mu sync.Mutex
	// calls go on by themselves, or no pass has taken their outcome yet; in the order in which they were begun.
	calls []*call
	// failed are the attempts that failed when they were made last.
	failed map[Attempt]failure
	// taken is when EC2 took what its lists need not show yet.
	taken map[Attempt]time.Time
	// starts are the last start of each stopped instance, and how many failed in a row.
	starts map[string]starts
	// stops are the last stops of the instances that are stopping, or are about to be.
	stops map[string]stopped
	// tokens is what EC2's answers say about the client tokens of orders that were not carried out yet.
	tokens map[order]token
	capacity
	// beforeRefused is the hash of the previous template if EC2 rejected a launch with it, and beforeRefusedAt is when.
	beforeRefused   string
	beforeRefusedAt time.Time
	// doubtAt is when the outcome of a request was last unknown: EC2 may have carried it out.
	doubtAt time.Time
}

// NewRequests remembers nothing yet.
func NewRequests() *Requests {
	return &Requests{failed: map[Attempt]failure{}, taken: map[Attempt]time.Time{}, starts: map[string]starts{}, stops: map[string]stopped{}, tokens: map[order]token{}, capacity: newCapacity()}
}

// failure is an attempt that failed when it was made last.
type failure struct {
	problem *Problem
	// at is when it failed last, since when it has failed each time.
	at, since time.Time
	pause     time.Duration
}

// call is a request to EC2 that may outlast the pass that made it. It works on values of its own.
type call struct {
	key Attempt
	// action is what the request is for, nil for upkeep.
	action topology.Action
	// finish takes its outcome within a pass, that which made it or a later one, and returns what is left of the error.
	finish func(context.Context, *Execution, error) error

	mu sync.Mutex
	// late is true once no pass waits for it any more, over once there is an answer, which err is.
	late, over bool
	err        error
}

// answered records the answer, and says whether no pass waits for it any more.
func (c *call) answered(err error) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.over = err, true
	return c.late
}

// leave no longer waits for the answer, and says whether it is there.
func (c *call) leave() (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = true
	return c.over
}

func (c *call) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// begin records a request that goes out, unless one for the same is under way or has not been taken yet. Several members
// are served at the same time.
func (q *Requests) begin(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.ContainsFunc(q.calls, func(other *call) bool { return other.key == c.key }) {
		return false
	}
	q.calls = append(q.calls, c)
	return true
}

// end records that a request's outcome is taken.
func (q *Requests) end(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = slices.DeleteFunc(q.calls, func(other *call) bool { return other == c })
}

// answers takes the requests that have ended.
func (q *Requests) answers() []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ended, open []*call
	for _, c := range q.calls {
		if c.ended() {
			ended = append(ended, c)
		} else {
			open = append(open, c)
		}
	}
	q.calls = open
	return ended
}

// ErrNoImage: there is no such image.
var ErrNoImage = errors.New("resolve the image")

// order is one for an instance or a volume of a member: all its tries bear one client token.
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
func (q *Requests) tokenSpent(o order, err error, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.tokens[o]
	delete(q.tokens, o)
	switch {
	case err == nil:
		return false
	case awsapi.Code(err) != awsapi.CodeTokenMismatch:
		known.mismatched = time.Time{}
		if known.refused = awsapi.RefusesOrder(err) || known.refused && !mayHaveMade(err); !known.refused {
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
	class := awsapi.Classify(err)
	return class == awsapi.Unreachable || class == awsapi.Transient
}

// mismatchedFor is for how long EC2 has shown nothing of an order that it says it took.
func (q *Requests) mismatchedFor(action topology.Action, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	o, ok := orderOf(action)
	if since := q.tokens[o].mismatched; ok && !since.IsZero() {
		return now.Sub(since)
	}
	return 0
}

// tokenPatience is how long the instance or volume of a token that EC2 knows from another request is waited for. What is made
// shows within seconds, at the worst within minutes; after an hour EC2 shows none that ended. tokenTold is after how long that is
// told.
const (
	tokenPatience = 10 * time.Minute
	tokenTold     = time.Minute
)

const (
	// startSettles is how soon after EC2 took a start an instance that is stopped again is one that EC2 could not start.
	startSettles = 2 * time.Minute
	// startPause is for how long such an instance is left alone the first time, startPauseMax the longest time; each is twice the
	// one before.
	startPause    = 15 * time.Second
	startPauseMax = 5 * time.Minute
)

// codeTokenEnded is EC2's code for a client token whose instance ended.
const codeTokenEnded = "IdempotentInstanceTerminated"

// refusedBefore is how long EC2 is not asked again for an instance as before of which it took no order.
const refusedBefore = 10 * time.Minute

// codeImageGone is said of an image that was deregistered, and of one that is not ready yet.
const codeImageGone = "InvalidAMIID.Unavailable"

// RecordPreviousTemplate records the outcome of a launch with the previous template. If its image or type no longer exists, launches use the
// present spec for a while.
func (q *Requests) RecordPreviousTemplate(hash string, err error, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil && q.beforeRefused == hash:
		q.beforeRefused = ""
	case awsapi.RefusesInstance(err), awsapi.Code(err) == codeImageGone, errors.Is(err, ErrNoImage) && awsapi.Classify(err) == awsapi.Invalid:
		q.beforeRefused, q.beforeRefusedAt = hash, now
	}
}

// TakesBefore says whether EC2 may take the order of an instance as before.
func (q *Requests) TakesBefore(hash string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.beforeRefused != hash || now.Sub(q.beforeRefusedAt) >= refusedBefore
}

// starts is what came of the starts of one instance.
type starts struct {
	// taken is when EC2 took the last one; zero once it is known what came of it.
	taken time.Time
	// failed is how many failed, one after the other, after EC2 had taken them.
	failed int
}

// startTaken notes that EC2 took a start, and returns how many failed before it, one after the other.
func (q *Requests) startTaken(instance string, now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.starts, func(other string, s starts) bool {
		return other != instance && !s.taken.IsZero() && now.Sub(s.taken) > startSettles
	})
	failed := q.starts[instance].failed
	q.starts[instance] = starts{taken: now, failed: failed}
	return failed
}

// startFailed judges the last start of an instance that is stopped: how many have failed one after the other, when it is one
// that EC2 took and could not carry out; 0 when it is none, or was judged before. Why the instance stopped is EC2's to say, and
// an instance that a person or the operator stopped says so.
func (q *Requests) startFailed(instance, why string, now time.Time) int {
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

package controllers

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
)

const (
	// firstPause is how long after its first failure an action on EC2 is not tried again; each further failure doubles it,
	// up to longestPause. Between two passes that wait for something lies a second, so that the second try is in time.
	firstPause   = 500 * time.Millisecond
	longestPause = 5 * time.Second
	// fencePause is the same for what powers a machine off.
	fencePause = time.Second
	// failureAge is after which time without a failure one is forgotten: nothing makes the attempt any more.
	failureAge = 10 * time.Minute
)

// attempt identifies what is tried: an action by topology.Identity, anything else as an errand. It is comparable.
type attempt any

// errand is what a pass tries that is no action of its plan.
type errand struct {
	what   errandKind
	object string // what it is about: an ID of EC2, a purpose, an object with a hash of its content; empty for the cluster
}

type errandKind int

const (
	preflightErrand errandKind = iota
	statusErrand
	writeErrand
	tagsErrand
	versionErrand
	takeSnapshotErrand
	deleteSnapshotErrand
	deleteSnapshotsForErrand
)

// failure is an attempt that failed when it was made last.
type failure struct {
	problem *problem
	at      time.Time
	pause   time.Duration
}

// fail notes that an attempt failed, and says whether that is news. What only repeats an earlier refusal changes nothing.
func (q *requestCache) fail(key attempt, p *problem, now time.Time) (news bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, known := q.failed[key]
	if known && last.problem == p {
		return false
	}
	for other, f := range q.failed {
		if now.Sub(f.at) > failureAge {
			delete(q.failed, other)
		}
	}
	first := p.pauseFrom
	switch {
	case first > 0:
	case p.pause > longestPause:
		first = p.pause
	default:
		first = firstPause
	}
	q.failed[key] = failure{problem: p, at: now, pause: min(max(first, 2*last.pause), p.pause)}
	return !known || last.problem.message != p.message
}

// succeed forgets an attempt's failure.
func (q *requestCache) succeed(key attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failed, key)
}

// refusal is what an attempt met so shortly before that it is not to be made again yet; nil when it may be.
func (q *requestCache) refusal(key attempt, now time.Time) *problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f, failed := q.failed[key]; failed && now.Sub(f.at) < f.pause {
		return f.problem
	}
	return nil
}

// mayTry says whether an attempt may be made: it was not refused shortly before.
func (q *requestCache) mayTry(key attempt, now time.Time) bool {
	return q.refusal(key, now) == nil
}

// lastFailure is what an attempt met when it was last heard of; nil when it did not fail.
func (q *requestCache) lastFailure(key attempt) *problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed[key].problem
}

// recentFailure is lastFailure of an attempt that was made lately; nil when that is too long ago to say anything.
func (q *requestCache) recentFailure(key attempt, now time.Time) *problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.failed[key]; now.Sub(f.at) <= failureAge+f.pause {
		return f.problem
	}
	return nil
}

// doubtAfter notes that EC2 did not say what came of a request, when that is what its error means.
func (q *requestCache) doubtAfter(err error, now time.Time) {
	if class := ec2.Classify(err); err != nil && (class == ec2.Unreachable || class == ec2.Transient) {
		q.doubt(now)
	}
}

// doubted is when EC2 last did not say what came of a request. A call that no pass waits for may note it meanwhile.
func (q *requestCache) doubted() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.doubtAt
}

// doubt notes that EC2 did not say what came of a request.
func (q *requestCache) doubt(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubtAt = now
}

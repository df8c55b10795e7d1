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
	// failureAge is after which time without a failure one is forgotten: the action is no longer planned.
	failureAge = 10 * time.Minute
)

// failure is an action that failed when it was taken last.
type failure struct {
	problem *problem
	at      time.Time
	pause   time.Duration
}

// fail notes that an action failed, and says whether that is news. What only repeats an earlier refusal changes nothing.
func (m *memory) fail(n *notes, action string, p *problem, now time.Time) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := n.failed[action]
	if known && last.problem == p {
		return false
	}
	for other, f := range n.failed {
		if now.Sub(f.at) > failureAge {
			delete(n.failed, other)
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
	n.failed[action] = failure{problem: p, at: now, pause: min(max(first, 2*last.pause), p.pause)}
	return !known || last.problem.message != p.message
}

// succeed forgets an action's failure.
func (m *memory) succeed(n *notes, action string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(n.failed, action)
}

// refusal is what an action met so shortly before that it is not to be tried again yet; nil when it may be.
func (m *memory) refusal(n *notes, action string, now time.Time) *problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, failed := n.failed[action]; failed && now.Sub(f.at) < f.pause {
		return f.problem
	}
	return nil
}

// mayTry says whether an action may be tried: it was not refused shortly before.
func (m *memory) mayTry(n *notes, action string, now time.Time) bool {
	return m.refusal(n, action, now) == nil
}

// lastFailure is what an action met when it was last heard of; nil when it did not fail.
func (m *memory) lastFailure(n *notes, action string) *problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return n.failed[action].problem
}

// recentFailure is lastFailure of an action that has been planned lately; nil when that is too long ago to say anything.
func (m *memory) recentFailure(n *notes, action string, now time.Time) *problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := n.failed[action]; now.Sub(f.at) <= failureAge+f.pause {
		return f.problem
	}
	return nil
}

// doubtAfter notes that EC2 did not say what came of a request, when that is what its error means.
func (m *memory) doubtAfter(n *notes, err error, now time.Time) {
	if class := ec2.Classify(err); err != nil && (class == ec2.Unreachable || class == ec2.Transient) {
		m.doubt(n, now)
	}
}

// doubted is when EC2 last did not say what came of a request. A call that no pass waits for may note it meanwhile.
func (m *memory) doubted(n *notes) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return n.doubtAt
}

// doubt notes that EC2 did not say what came of a request.
func (m *memory) doubt(n *notes, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n.doubtAt = now
}

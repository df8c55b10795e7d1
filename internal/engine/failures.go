package engine

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// firstPause is how long after its first failure an action on EC2 is not tried again; each further failure doubles it,
	// up to longestPause. Between two passes that wait for something lies a second, so that the second try is in time.
	firstPause   = 500 * time.Millisecond
	longestPause = 5 * time.Second
	// fencePause is the same for what powers an instance off.
	fencePause = time.Second
	// refusedPause is the same for what a person has to change, such as a permission or a quota: one account and region has one allowance
	// of calls for all clusters.
	refusedPause = 30 * time.Second
	// failureAge is after which time without a failure one is forgotten: nothing makes the attempt any more.
	failureAge = 10 * time.Minute
	// failureLasts is for how long an attempt has to have failed each time before a person should know, whatever it failed of.
	failureLasts = time.Minute
	// upkeepPause is for how long at the most what upkeep asked for is not asked for again, tagPause the same for tags.
	upkeepPause = time.Minute
	tagPause    = 5 * time.Minute
)

// Fail notes that an attempt failed, and says whether that is news. What only repeats an earlier refusal changes nothing.
func (q *Requests) Fail(key Attempt, p *Problem, now time.Time) (news bool) {
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
	first := p.PauseFrom
	switch {
	case first > 0:
	case p.Pause > longestPause:
		first = p.Pause
	default:
		first = firstPause
	}
	since := now
	if known && now.Sub(last.at) < failureLasts {
		since = last.since
	}
	q.failed[key] = failure{problem: p, at: now, since: since, pause: min(max(first, 2*last.pause), p.Pause)}
	return !known || last.problem.Message != p.Message
}

// Succeed forgets an attempt's failure.
func (q *Requests) Succeed(key Attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failed, key)
}

// Refusal is what an attempt met so shortly before that it is not to be made again yet; nil when it may be.
func (q *Requests) Refusal(key Attempt, now time.Time) *Problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f, failed := q.failed[key]; failed && now.Sub(f.at) < f.pause {
		return f.problem
	}
	return nil
}

// MayTry says whether an attempt may be made: it was not refused shortly before.
func (q *Requests) MayTry(key Attempt, now time.Time) bool {
	return q.Refusal(key, now) == nil
}

// lastingSince is since when an attempt has failed each time; zero unless that is long enough that a person should know.
func (q *Requests) lastingSince(key Attempt, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if since := q.failed[key].since; now.Sub(since) >= failureLasts {
		return since
	}
	return time.Time{}
}

// lastFailure is what an attempt met when it was last heard of; nil when it did not fail.
func (q *Requests) lastFailure(key Attempt) *Problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed[key].problem
}

// recentFailure is lastFailure of an attempt that was made lately; nil when that is too long ago to say anything.
func (q *Requests) recentFailure(key Attempt, now time.Time) *Problem {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.failed[key]; now.Sub(f.at) <= failureAge+f.pause {
		return f.problem
	}
	return nil
}

// Upkeep asks EC2 for something on which no database depends, unless that was refused shortly before: a pass a second must not be
// as many calls.
func (q *Requests) Upkeep(key Attempt, clock clock.PassiveClock, ask func() error) error {
	return q.paced(key, clock, upkeepPause, func() error {
		err := ask()
		q.DoubtAfter(err, clock.Now())
		return err
	})
}

// Look asks EC2 for something that a pass has to know, unless EC2 failed to answer that shortly before; then its error is that of the
// last attempt.
func (q *Requests) Look(key Attempt, clock clock.PassiveClock, ask func() error) error {
	return q.paced(key, clock, longestPause, ask)
}

// paced makes an attempt, unless it failed so shortly before that it is not to be made again yet. longest is what the pause after a
// failure grows to.
func (q *Requests) paced(key Attempt, clock clock.PassiveClock, longest time.Duration, ask func() error) error {
	if p := q.Refusal(key, clock.Now()); p != nil {
		return p
	}
	if err := ask(); err != nil {
		p := CloudError(err)
		p.PauseFrom, p.Pause = firstPause, longest
		q.Fail(key, p, clock.Now())
		return p
	}
	q.Succeed(key)
	return nil
}

// DoubtAfter notes that EC2 did not say what came of a request, when that is what its error means.
func (q *Requests) DoubtAfter(err error, now time.Time) {
	if class := awsapi.Classify(err); err != nil && (class == awsapi.Unreachable || class == awsapi.Transient) {
		q.doubt(now)
	}
}

// Doubted is when EC2 last did not say what came of a request. A call that no pass waits for may note it meanwhile.
func (q *Requests) Doubted() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.doubtAt
}

// doubt notes that EC2 did not say what came of a request.
func (q *Requests) doubt(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubtAt = now
}

// Show shows the planner what EC2 refused a member, and which stops of its instances got stuck.
func (q *Requests) Show(m *topology.Member, now time.Time) {
	for i := range m.Instances {
		q.showStop(&m.Instances[i], now)
	}
	m.CapacityRefused, m.CapacityRefusedAt = q.CapacityRefused(m.Name, now)
	if m.RecordedVolume == "" {
		return
	}
	if last := q.recentFailure(topology.Identity(topology.ModifyVolume{Member: m.Name, VolumeID: m.RecordedVolume}), now); last != nil {
		m.ModificationRefused = last.Message
	}
}

package topology

import (
	"slices"
	"time"
)

// FailureDetector tells from one observation to the next since when something has been wrong with a member, and remembers what the
// members had committed and how often they crashed. The zero value has observed nothing. It is not safe for concurrent use.
type FailureDetector struct {
	since map[symptom]map[string]time.Time
	// transitions are what EC2 was last seen doing with each member.
	transitions map[string]string
	// answered is how many commits of a member had got their acknowledgements.
	answered map[string]int
	commits  CommitHistory
	appliers ApplyHistory
	crashes  CrashHistory
}

// symptom is something that is wrong with a member.
type symptom int

const (
	silence              symptom = iota // its port does not answer, or mysqld refuses the operator
	absence                             // it is not reached, whether its instance runs or not
	breakage                            // its replication was stopped by an error
	stall                               // commits wait on it, and none was answered meanwhile
	volumeGone                          // EC2 does not know the volume with its data
	pendingVolumeMissing                // EC2 does not know the volume that it was making for it
	transition                          // EC2 is doing something with it that usually takes seconds
)

// record keeps since when a member has a symptom, and returns it; the zero time when it has none.
func (d *FailureDetector) record(s symptom, member string, is bool, now time.Time) time.Time {
	known := d.since[s]
	switch {
	case !is:
		delete(known, member)
	case known == nil:
		if d.since == nil {
			d.since = map[symptom]map[string]time.Time{}
		}
		d.since[s] = map[string]time.Time{member: now}
	case known[member].IsZero():
		known[member] = now
	}
	return d.since[s][member]
}

// RecordVolumes takes what EC2 shows of a member, and sets its Delays. made is the volume that EC2 was
// making for it, empty for none. An EC2 that is not reached denies nothing.
func (d *FailureDetector) RecordVolumes(m *Member, made string, reachable bool, now time.Time) {
	missing := func(id string) bool {
		return id != "" && reachable && !slices.ContainsFunc(m.Volumes, func(v Volume) bool {
			return v.ID == id && v.State != volumeDeleting && v.State != volumeDeleted
		})
	}
	m.VolumeMissingSince = d.record(volumeGone, m.Name, missing(m.RecordedVolume), now)
	m.PendingVolumeMissingSince = d.record(pendingVolumeMissing, m.Name, missing(made), now)
	d.recordTransition(m, now)
}

// recordTransition sets what EC2 is doing with a member, and since when just that.
func (d *FailureDetector) recordTransition(m *Member, now time.Time) {
	m.Transition = m.transition()
	if d.transitions[m.Name] != m.Transition {
		delete(d.since[transition], m.Name)
		if d.transitions == nil {
			d.transitions = map[string]string{}
		}
		d.transitions[m.Name] = m.Transition
	}
	m.TransitionSince = d.record(transition, m.Name, m.Transition != "", now)
}

// RecordAnswer takes what a member's mysqld answered, or that it did not, and sets SilentSince, DownSince, StalledSince and BrokenSince.
// asked is when it was asked: it has been silent since then.
func (d *FailureDetector) RecordAnswer(m *Member, asked, now time.Time) {
	m.SilentSince = d.record(silence, m.Name, m.SQL.Access == AccessSilent || m.SQL.Access == AccessRefused, asked)
	m.DownSince = d.record(absence, m.Name, !m.verified(), now)
	if m.SQL.Answered != d.answered[m.Name] {
		delete(d.since[stall], m.Name)
		if d.answered == nil {
			d.answered = map[string]int{}
		}
		d.answered[m.Name] = m.SQL.Answered
	}
	m.StalledSince = d.record(stall, m.Name, m.SQL.PendingCommits > 0, now)
	m.BrokenSince = d.record(breakage, m.Name, m.SQL.Replication.Broken(), now)
}

// Record takes an observation of all members that is whole, and sets what the histories of commits, appliers and crashes say of it.
func (d *FailureDetector) Record(o *Observed) {
	d.commits.Record(o)
	d.appliers.Record(o)
	d.crashes.Record(o)
}

// Expect takes what is about to be done: a mysqld that is restarted by it has not crashed. Without a primary nobody starts replication
// again that an error stopped, so that nothing shows yet whether that helps.
func (d *FailureDetector) Expect(plan Plan) {
	d.crashes.Expect(plan)
	if plan.Primary == "" {
		clear(d.since[breakage])
	}
}

// SilentSince returns since when a member has been silent; the zero time when it is not.
func (d *FailureDetector) SilentSince(member string) time.Time { return d.since[silence][member] }

// DownSince returns since when a member has not been reached, whether its instance runs or not; the zero time when it is.
func (d *FailureDetector) DownSince(member string) time.Time { return d.since[absence][member] }

// SomeSilent says whether a member is silent.
func (d *FailureDetector) SomeSilent() bool { return len(d.since[silence]) > 0 }

// SomeDownFor says whether a member has been down for less than a time.
func (d *FailureDetector) SomeDownFor(less time.Duration, now time.Time) bool {
	for _, since := range d.since[absence] {
		if now.Sub(since) < less {
			return true
		}
	}
	return false
}

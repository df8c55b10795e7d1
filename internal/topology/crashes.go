package topology

import (
	"slices"
	"time"
)

const (
	// crashLimit unplanned restarts within crashWindow make a member unstable. A single one may be a power failure or the kernel's
	// OOM killer; a mysqld that cannot read its data is restarted by systemd every few seconds.
	crashLimit  = 3
	crashWindow = 10 * time.Minute
	// crashQuiet is how long after its last crash a member is stable again. It is longer than crashWindow, so that a member that
	// crashes every few minutes does not lose and regain its vote in turns.
	crashQuiet = crashWindow + time.Minute
	// startJitter is by how much the time of a start differs at most from what it was, by the operator's clock: MySQL reports its
	// uptime in whole seconds, and a slow answer adds to it.
	startJitter = 3 * time.Second
	// plannedRestart is how long after the operator planned a restart mysqld may need to answer again: a shutdown, and recovery.
	plannedRestart = 5 * time.Minute
)

// CrashHistory tells restarts of mysqld that nobody planned, which are crashes, from those that the operator or EC2 caused. It
// knows what it saw since the operator started. The zero value knows of no crash. It is not safe for concurrent use.
type CrashHistory struct {
	now     time.Time
	members map[string]*memberStarts
}

// memberStarts are the starts of one member's mysqld.
type memberStarts struct {
	instance string
	launched time.Time
	// run is the run of mysqld that was read last; 0 while that is unknown.
	run int64
	// planned is when the operator last planned a restart that was not seen yet; zero for none.
	planned time.Time
	// clone identifies the last completed CLONE, see Clone.Began. It is known once mysqld answered.
	clone    string
	answered bool
	// crashes are when mysqld started after a crash, the oldest first.
	crashes []time.Time
	// unstableSince is when the first of the crashes happened that made the member unstable; zero while it is stable.
	unstableSince time.Time
}

// Record sets UnstableSince of every member in an observation, and remembers when each mysqld started.
func (h *CrashHistory) Record(o *Observed) {
	h.now = o.Now
	if h.members == nil {
		h.members = map[string]*memberStarts{}
	}
	for name := range h.members {
		if o.Members[name] == nil {
			delete(h.members, name)
		}
	}
	for name, m := range o.Members {
		s := h.members[name]
		if s == nil {
			s = &memberStarts{}
			h.members[name] = s
		}
		s.follow(m, o.Now)
		m.UnstableSince = s.unstableSince
	}
}

// Expect remembers which members' mysqld a plan restarts. The plan is that of the observation passed to Note last.
func (h *CrashHistory) Expect(plan Plan) {
	for _, a := range plan.Actions {
		switch a.(type) {
		case Restart, CloneFrom, StopInstance, StartInstance, Adopt, Recover:
			if s := h.members[a.Target()]; s != nil {
				s.planned = h.now
			}
		}
	}
}

// follow takes over what was observed of a member.
func (s *memberStarts) follow(m *Member, now time.Time) {
	in := m.CurrentInstance()
	switch {
	case in == nil || in.State != stateRunning:
		s.run = 0 // mysqld starts with the instance next
	case in.ID != s.instance:
		*s = memberStarts{instance: in.ID, launched: in.LaunchTime, clone: s.clone, answered: s.answered}
	case !in.LaunchTime.Equal(s.launched):
		s.launched, s.run = in.LaunchTime, 0
		// EC2 may show late that it stopped and started the instance.
		if i := slices.IndexFunc(s.crashes, func(at time.Time) bool { return !at.Before(in.LaunchTime) }); i >= 0 {
			s.crashes = slices.Delete(s.crashes, i, i+1)
		}
	}
	if m.cloning() {
		s.planned = now // it ends with a restart
	}
	if m.verified() && m.SQL.Run != 0 && in != nil && in.State == stateRunning {
		s.compareRun(m.SQL.Run, m.SQL.StartedAt, now)
		s.compareClone(m.SQL.Clone)
	}
	s.judge(now)
}

// compareRun adds a crash when mysqld started again and nobody planned it.
func (s *memberStarts) compareRun(run int64, started, now time.Time) {
	again := s.run != 0 && run != s.run
	s.run = run
	switch {
	case !again:
	case !s.planned.IsZero() && started.Sub(s.planned) >= -startJitter && now.Sub(s.planned) <= plannedRestart:
		s.planned = time.Time{}
	default:
		s.crashes = append(s.crashes, started)
	}
}

// compareClone forgets the crashes of a member that was rebuilt: its data is another's.
func (s *memberStarts) compareClone(c *Clone) {
	completed := s.clone
	if c != nil && c.State == cloneCompleted {
		completed = c.Began
	}
	if s.answered && completed != s.clone {
		s.crashes, s.unstableSince = nil, time.Time{}
	}
	s.clone, s.answered = completed, true
}

// judge decides whether the member is unstable.
func (s *memberStarts) judge(now time.Time) {
	keep := crashWindow
	if !s.unstableSince.IsZero() {
		keep = crashQuiet
	}
	s.crashes = slices.DeleteFunc(s.crashes, func(at time.Time) bool { return now.Sub(at) >= keep })
	switch {
	case len(s.crashes) == 0:
		s.unstableSince = time.Time{}
	case s.unstableSince.IsZero() && len(s.crashes) >= crashLimit:
		s.unstableSince = s.crashes[0]
	}
}

// unstable says whether mysqld of a member crashed repeatedly.
func (m *Member) unstable() bool { return !m.UnstableSince.IsZero() }

// noVoteUnstable is what an unstable member waits for.
const noVoteUnstable = "no voter while its mysqld crashes repeatedly"

// unstableTurn returns an unstable replica that is to be replaced next, although it is not well: another instance, or another version
// of MySQL, may be what it needs. Nil for none, and while anybody else is not well.
func (p *rollout) unstableTurn(primary *Member) *Member {
	if primary == nil || p.unconfirmed || !p.CloudReachable || !p.Launchable || p.turns.votesChange() || p.provisioning.mayCreate().Waits() {
		return nil
	}
	var found *Member
	for ordinal := range p.Replicas {
		m := p.Members[p.MemberName(ordinal)]
		switch {
		case m == nil:
			return nil
		case found == nil && m != primary && p.curedByItsTurn(m):
			found = m
		case !p.turns.isWell(m):
			return nil
		}
	}
	if found == nil || p.holdsBack().Waits() {
		return nil
	}
	return found
}

// curedByItsTurn says whether an unstable member answers and is to get another instance.
func (p *rollout) curedByItsTurn(m *Member) bool {
	return m.unstable() && m.verified() && p.turns.outdated(m) && !p.turns.tooNew(m)
}

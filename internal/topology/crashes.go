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
	// crashMargin is how much longer a member must run than between its crashes to be stable again, so that one that crashes every
	// few minutes does not lose and regain its vote in turns. crashQuiet is more than any time between crashes that count.
	crashMargin = time.Minute
	crashQuiet  = crashWindow + crashMargin
	// startJitter is by how much the time of a start differs at most from what it was, by the operator's clock: MySQL reports its
	// uptime in whole seconds, and a slow answer adds to it.
	startJitter = 3 * time.Second
	// plannedRestart is how long after the operator planned a restart mysqld may need to answer again: a shutdown, and recovery.
	plannedRestart = 5 * time.Minute
)

// CrashHistory tells restarts of members that nobody planned, which are crashes, from those that the operator or EC2 caused, and from
// complete shutdowns. It knows what it saw since the operator started. The zero value knows of no crash. It is not safe for concurrent use.
type CrashHistory struct {
	now     time.Time
	members map[string]*memberStarts
}

// Instability is since when a member has crashed repeatedly. The zero value is that of a stable member.
type Instability struct {
	// Since is when mysqld started after the first of the crashes; zero while the member is stable.
	Since time.Time
	// MySQLD is true when mysqld crashed, Instance when the whole instance restarted.
	MySQLD, Instance bool
}

// String says what happens to the member repeatedly.
func (i Instability) String() string {
	switch {
	case !i.Instance:
		return "its mysqld crashes repeatedly"
	case !i.MySQLD:
		return "its instance restarts repeatedly"
	}
	return "its mysqld crashes and its instance restarts repeatedly"
}

// crash is a restart that nobody planned.
type crash struct {
	// started is when mysqld started after it.
	started time.Time
	// instance is true when the whole instance restarted.
	instance bool
}

// memberStarts are the starts of one member's mysqld.
type memberStarts struct {
	instance string
	launched time.Time
	// last is the start of mysqld that was read last; zero while that is unknown.
	last Start
	// planned is when the operator last planned a restart that was not seen yet; zero for none.
	planned time.Time
	// clone identifies the last completed CLONE, see Clone.Began. It is known once mysqld answered.
	clone    string
	answered bool
	// crashes are the oldest first.
	crashes  []crash
	unstable Instability
}

// Record sets Unstable of every member in an observation, and remembers when each mysqld started.
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
		m.Unstable = s.unstable
	}
}

// Expect remembers which members' mysqld a plan restarts. The plan is that of the observation passed to Record last.
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
		s.last = Start{} // mysqld starts with the instance next
	case in.ID != s.instance:
		*s = memberStarts{instance: in.ID, launched: in.LaunchTime, clone: s.clone, answered: s.answered}
	case !in.LaunchTime.Equal(s.launched):
		s.launched, s.last = in.LaunchTime, Start{}
		// EC2 may show late that it stopped and started the instance.
		if i := slices.IndexFunc(s.crashes, func(c crash) bool { return !c.started.Before(in.LaunchTime) }); i >= 0 {
			s.crashes = slices.Delete(s.crashes, i, i+1)
		}
	}
	if m.cloning() {
		s.planned = now // it ends with a restart
	}
	if m.verified() && m.SQL.Run != 0 && in != nil && in.State == stateRunning {
		s.compareRun(m.SQL.Start, now)
		s.compareClone(m.SQL.Clone)
	}
	s.judge(now)
}

// compareRun adds a crash when mysqld started again and nobody planned it. An instance that does not report its boots counts as running
// on.
func (s *memberStarts) compareRun(start Start, now time.Time) {
	last := s.last
	s.last = start
	booted := last.Boot != "" && start.Boot != "" && start.Boot != last.Boot
	switch {
	case last.Run == 0 || start.Run == last.Run:
	case !s.planned.IsZero() && start.StartedAt.Sub(s.planned) >= -startJitter && now.Sub(s.planned) <= plannedRestart:
		s.planned = time.Time{}
	case booted || !start.ShutDown:
		s.crashes = append(s.crashes, crash{start.StartedAt, booted})
	}
}

// compareClone forgets the crashes of a member that was rebuilt: its data is another's.
func (s *memberStarts) compareClone(c *Clone) {
	completed := s.clone
	if c != nil && c.State == cloneCompleted {
		completed = c.Began
	}
	if s.answered && completed != s.clone {
		s.crashes, s.unstable = nil, Instability{}
	}
	s.clone, s.answered = completed, true
}

// judge decides whether the member is unstable. While it is, the crashes are kept by which it is decided when it is stable again.
func (s *memberStarts) judge(now time.Time) {
	quiet := s.quiet(now)
	if quiet {
		s.unstable = Instability{}
	}
	keep := crashWindow
	if !s.unstable.Since.IsZero() {
		keep += crashQuiet
	}
	s.crashes = slices.DeleteFunc(s.crashes, func(c crash) bool { return now.Sub(c.started) >= keep })
	if s.unstable.Since.IsZero() && (quiet || len(s.crashes) < crashLimit) {
		return
	}
	if s.unstable.Since.IsZero() {
		s.unstable.Since = s.crashes[0].started
	}
	s.unstable.MySQLD = slices.ContainsFunc(s.crashes, func(c crash) bool { return !c.instance })
	s.unstable.Instance = slices.ContainsFunc(s.crashes, func(c crash) bool { return c.instance })
}

// quiet says whether the last crash was so long ago that another is not to be expected. What ends mysqld may lie in its data and show only
// when that is read, so that takes crashQuiet. An instance is expected to run on once it has run for longer than between its restarts.
func (s *memberStarts) quiet(now time.Time) bool {
	if len(s.crashes) == 0 {
		return true
	}
	last, longest := s.crashes[0], time.Duration(0)
	for _, c := range s.crashes {
		if !c.instance {
			longest = crashWindow
		}
		longest, last = max(longest, c.started.Sub(last.started)), c
	}
	return now.Sub(last.started) >= min(longest, crashWindow)+crashMargin
}

// unstable says whether a member crashed repeatedly.
func (m *Member) unstable() bool { return !m.Unstable.Since.IsZero() }

// noVoteUnstable begins what an unstable member waits for.
const noVoteUnstable = "no voter while "

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
	if found == nil || p.holdsBack(found).Waits() {
		return nil
	}
	return found
}

// curedByItsTurn says whether an unstable member answers and is to get another instance.
func (p *rollout) curedByItsTurn(m *Member) bool {
	return m.unstable() && m.verified() && p.turns.outdated(m) && !p.turns.tooNew(m)
}

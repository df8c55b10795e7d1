package topology

import (
	"strings"
	"testing"
	"time"
)

// TestReplicasAreUpToDate: a replica is judged by what the primary had executed a moment before, not in the same moment and not long ago.
func TestReplicasAreUpToDate(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	type look struct {
		after     time.Duration
		committed int // by the primary
		received  int // by the replica
		prompt    bool
	}
	for name, looks := range map[string][]look{
		"nothing is known at first":            {{0, 10, 10, false}},
		"it holds what there was":              {{0, 10, 10, false}, {time.Second, 500, 10, true}},
		"it lacks some of it":                  {{0, 10, 5, false}, {time.Second, 500, 9, false}},
		"looks one after the other":            {{0, 10, 0, false}, {50 * time.Millisecond, 20, 10, false}, {250 * time.Millisecond, 30, 10, true}},
		"by the newest that is old enough":     {{0, 10, 0, false}, {time.Second, 20, 0, false}, {2 * time.Second, 30, 15, false}, {3 * time.Second, 40, 30, true}},
		"the newest is too young, not the old": {{0, 10, 0, false}, {time.Second, 20, 0, false}, {1100 * time.Millisecond, 30, 10, true}},
		"long ago":                             {{0, 10, 10, false}, {time.Minute, 500, 10, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var u CommitHistory
			for i, l := range looks {
				s := newScene()
				s.observed.Now = began.Add(l.after)
				s.member(0).SQL.Executed = trx(0, l.committed)
				r := s.member(1).SQL.Replication
				s.member(1).SQL.Executed, r.Retrieved, r.UpToDate = trx(0, max(l.received-3, 0)), trx(0, l.received), false
				u.Record(&s.observed)
				if r.UpToDate != l.prompt {
					t.Errorf("look %d: prompt is %t", i, r.UpToDate)
				}
			}
		})
	}
}

// TestReplicasOfAnotherPrimary: what one primary had executed says nothing of those who follow another, or none.
func TestReplicasOfAnotherPrimary(t *testing.T) {
	for name, changed := range map[string]func(*scene){
		"another server": func(s *scene) { s.member(0).SQL.ServerUUID = uuidOf(7) },
		"none":           func(s *scene) { s.member(0).SQL.Writable = false },
		"two":            func(s *scene) { s.member(2).SQL.Writable = true },
	} {
		t.Run(name, func(t *testing.T) {
			var u CommitHistory
			look := func(after time.Duration, change func(*scene)) bool {
				s := newScene()
				s.observed.Now = s.observed.Now.Add(after)
				s.member(1).SQL.Replication.UpToDate = false
				change(s)
				u.Record(&s.observed)
				return s.member(1).SQL.Replication.UpToDate
			}
			nothing := func(*scene) {}
			if look(0, nothing) || !look(time.Second, nothing) || look(2*time.Second, changed) || look(3*time.Second, nothing) || !look(4*time.Second, nothing) {
				t.Error("it was judged by what it does not follow, or not judged at all")
			}
		})
	}
}

// TestNobodyIsTakenAwayWhileTheOtherIsLate: writes would wait until that one has received what was committed long ago.
func TestNobodyIsTakenAwayWhileTheOtherIsLate(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		goesOn   bool
	}{
		"both receive at once":       {func(*scene) {}, true},
		"the other is late":          {func(s *scene) { s.member(2).SQL.Replication.UpToDate = false }, false},
		"it is late itself":          {func(s *scene) { s.member(1).SQL.Replication.UpToDate = false }, true},
		"nobody waits for either":    {func(s *scene) { s.desired.Lossless = false; s.member(2).SQL.Replication.UpToDate = false }, true},
		"the other does not receive": {func(s *scene) { s.io(ioConnecting, 2); s.member(2).SQL.Replication.UpToDate = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p := newPlanner(s.desired, s.observed)
			p.plan.Membership = s.member(0).SQL.Membership
			if got := p.acks.holdsUp(s.member(1), s.member(0)); got == row.goesOn {
				t.Errorf("it is waited for: %t", got)
			}
		})
	}
	s := newScene()
	s.member(1).SQL.RestartPending = true
	s.member(2).SQL.Replication.UpToDate = false
	p, actions := s.plan()
	if strings.Contains(actions, "restart") || !strings.Contains(p.Rolling.Message, awaitsOthers) || p.RequeueAfter > waitMySQL {
		t.Errorf("planned %q, told %q, again after %s", actions, p.Rolling.Message, p.RequeueAfter)
	}
	s.member(2).SQL.Replication.UpToDate = true
	if _, actions := s.plan(); !strings.Contains(actions, "restart mysqld of orders-1") {
		t.Errorf("planned %q", actions)
	}
}

// TestWritesAreNotHandedOverWhileTheThirdIsLate: until the former primary follows, only that one acknowledges to the new one.
func TestWritesAreNotHandedOverWhileTheThirdIsLate(t *testing.T) {
	for name, due := range map[string]func(*scene){
		"to be restarted": func(s *scene) { s.member(0).SQL.RestartPending = true },
		"to get a new instance": func(s *scene) {
			s.member(0).Instances[0].TemplateHash = "old"
			s.observed.Records.Rolling = "orders-0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			due(s)
			s.member(2).SQL.Replication.UpToDate = false
			p, actions := s.plan()
			if strings.Contains(actions, "switch over") || !strings.Contains(p.Rolling.Message, awaitsOthers) || p.RequeueAfter > waitMySQL {
				t.Errorf("planned %q, told %q, again after %s", actions, p.Rolling.Message, p.RequeueAfter)
			}
			s.member(2).SQL.Replication.UpToDate = true
			s.observed.ShownAt = s.observed.Now.Add(-time.Second)
			p, actions = s.plan()
			if strings.Contains(actions, "switch over") || !strings.Contains(p.Rolling.Message, "shown the last change") || p.RequeueAfter > proxyPause-time.Second {
				t.Errorf("planned %q, told %q, again after %s, a second after clients were shown something else", actions, p.Rolling.Message, p.RequeueAfter)
			}
			s.observed.ShownAt = s.observed.Now.Add(-proxyPause)
			if p, actions := s.plan(); !strings.Contains(actions, "switch over") {
				t.Errorf("planned %q, told %q", actions, p.Rolling.Message)
			}
		})
	}
}

// TestWhoStaysBehindLosesItsVote: a voter that has lacked for a minute what the primary commits acknowledges nothing. Its vote goes while
// others acknowledge, before one of those is lost too.
func TestWhoStaysBehindLosesItsVote(t *testing.T) {
	const silence = "switch the acknowledgements of orders-2 off"
	for name, row := range map[string]struct {
		late    time.Duration
		changed func(*scene)
		expels  bool
	}{
		"for a minute":                        {votePatience, func(*scene) {}, true},
		"for less":                            {votePatience - time.Second, func(*scene) {}, false},
		"cut off from the primary":            {votePatience, func(s *scene) { s.io(ioConnecting, 2); s.member(2).SQL.SemiSync.ReplicaActive = false }, true},
		"the other is late, too":              {votePatience, func(s *scene) { s.member(1).SQL.Executed = trx(0, 9) }, false},
		"the other is gone":                   {votePatience, func(s *scene) { s.lose(1) }, false},
		"nobody's acknowledgement is awaited": {votePatience, func(s *scene) { s.desired.Lossless = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h CommitHistory
			look := func(after time.Duration) string {
				s := newScene()
				s.observed.Now = s.observed.Now.Add(after)
				s.member(0).SQL.Executed = trx(0, 10+int(after.Seconds()))
				s.member(1).SQL.Executed = s.member(0).SQL.Executed
				s.member(2).SQL.Executed = trx(0, 9)
				row.changed(s)
				h.Record(&s.observed)
				_, actions := s.plan()
				return actions
			}
			look(0)
			look(time.Second)
			if actions := look(time.Second + row.late); strings.Contains(actions, silence) != row.expels {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestNoMachineIsMadeWhileClientsFollow: a former primary's next one is not asked for in the moment in which its successor is shown.
func TestNoMachineIsMadeWhileClientsFollow(t *testing.T) {
	s := newScene()
	s.member(1).Instances[0].TemplateHash = "old"
	s.member(1).Volumes[0].Zone = "b"
	s.observed.Records.Rolling = "orders-1"
	for name, row := range map[string]struct {
		shown    string
		before   time.Duration
		launched bool
	}{
		"a moment ago":                {"orders-0", time.Second, false},
		"long ago":                    {"orders-0", proxyPause, true},
		"another is shown until now":  {"orders-1", time.Hour, false},
		"since nobody knows when":     {"orders-1", 0, false},
		"nobody knows what was shown": {"", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s.observed.Shown, s.observed.ShownAt = row.shown, time.Time{}
			if row.before != 0 {
				s.observed.ShownAt = s.observed.Now.Add(-row.before)
			}
			p, actions := s.plan()
			if launched := strings.Contains(actions, "launch instance"); launched != row.launched || !launched && p.RequeueAfter > proxyPause {
				t.Errorf("planned %q, again after %s, told %q", actions, p.RequeueAfter, p.Rolling.Message)
			}
		})
	}
}

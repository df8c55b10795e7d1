package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// life is one member as it is observed again and again, with the history of its crashes.
type life struct {
	s       *scene
	history CrashHistory
	began   time.Time
}

func newLife() *life {
	l := &life{s: newScene()}
	l.began = l.s.observed.Now
	for i := range 3 {
		l.s.member(i).startedAt(l.began.Add(-time.Hour))
		l.s.member(i).SQL.Boot = "the first"
	}
	l.history.Record(&l.s.observed)
	return l
}

func (l *life) member() *Member { return l.s.member(1) }

// startedAt has mysqld of a member start at a time.
func (m *Member) startedAt(at time.Time) { m.SQL.StartedAt, m.SQL.Run = at, at.Unix() }

// at looks at the cluster at a time.
func (l *life) at(after time.Duration) {
	l.s.observed.Now = l.began.Add(after)
	l.history.Record(&l.s.observed)
}

// startsAt has mysqld of the member start at a time, and looks at it a second later.
func (l *life) startsAt(after time.Duration) {
	l.member().startedAt(l.began.Add(after))
	l.at(after + time.Second)
}

// crashesAt has mysqld of the member start at several times.
func (l *life) crashesAt(times ...time.Duration) {
	for _, after := range times {
		l.startsAt(after)
	}
}

// restartsAt has the instance of the member restart, and mysqld start at several times.
func (l *life) restartsAt(times ...time.Duration) {
	for _, after := range times {
		l.member().SQL.Boot = "boot at " + after.String()
		l.startsAt(after)
	}
}

func (l *life) wantUnstable(t *testing.T) {
	t.Helper()
	if !l.member().unstable() {
		t.Errorf("stable at %s", l.s.observed.Now.Sub(l.began))
	}
}

func (l *life) wantMySQLD(t *testing.T) {
	t.Helper()
	if u := l.member().Unstable; !u.MySQLD || u.Instance {
		t.Errorf("is %s", u)
	}
}

func (l *life) plans(actions ...Action) { l.history.Expect(Plan{Actions: actions}) }

func TestCrashHistory(t *testing.T) {
	const m = time.Minute
	for name, row := range map[string]struct {
		happened func(*life)
		unstable bool
	}{
		"nothing":                   {func(*life) {}, false},
		"two crashes":               {func(l *life) { l.crashesAt(m, 2*m) }, false},
		"three within ten minutes":  {func(l *life) { l.crashesAt(m, 2*m, 3*m); l.wantMySQLD(t) }, true},
		"three within eleven":       {func(l *life) { l.crashesAt(m, 6*m, 12*m) }, false},
		"the last three within ten": {func(l *life) { l.crashesAt(m, 10*m, 14*m, 18*m) }, true},
		"three in six seconds":      {func(l *life) { l.crashesAt(m, m+2*time.Second, m+4*time.Second) }, true},
		"clocks that drift apart": {func(l *life) {
			for _, after := range []time.Duration{m, 2 * m, 3 * m} {
				l.member().SQL.StartedAt = l.began.Add(after - time.Hour)
				l.at(after)
			}
		}, false},
		"while it does not answer":              {func(l *life) { l.crashesAt(m, 2*m, 3*m); l.member().SQL = SQL{Access: AccessRefused}; l.at(4 * m) }, true},
		"ten minutes after the last":            {func(l *life) { l.crashesAt(m, 2*m, 3*m); l.at(13 * m) }, true},
		"eleven minutes after the last":         {func(l *life) { l.crashesAt(m, 2*m, 3*m); l.at(14 * m) }, false},
		"one more meanwhile":                    {func(l *life) { l.crashesAt(m, 2*m, 3*m, 13*m); l.at(23 * m) }, true},
		"one after it was stable again":         {func(l *life) { l.crashesAt(m, 2*m, 3*m); l.at(14 * m); l.crashesAt(15 * m) }, false},
		"before the operator looked":            {func(l *life) { l.history = CrashHistory{}; l.crashesAt(m, 2*m, 3*m) }, false},
		"restarts that were planned":            {func(l *life) { l.planned(Restart{"orders-1"}) }, false},
		"CLONE":                                 {func(l *life) { l.planned(CloneFrom{Member: "orders-1"}) }, false},
		"restarts that were planned of another": {func(l *life) { l.planned(Restart{"orders-2"}) }, true},
		"one plan explains one restart":         {func(l *life) { l.plans(Restart{"orders-1"}); l.crashesAt(10*time.Second, m, 2*m, 3*m) }, true},
		"a plan of long before":                 {func(l *life) { l.plans(Restart{"orders-1"}); l.at(5 * m); l.crashesAt(6*m, 7*m, 8*m) }, true},
		"a crash before what was planned": {func(l *life) {
			l.crashesAt(m, 2*m)
			l.member().startedAt(l.began.Add(3 * m))
			l.s.observed.Now = l.began.Add(4 * m)
			l.history.now = l.s.observed.Now
			l.plans(Restart{"orders-1"})
			l.at(4*m + time.Second)
		}, true},
		"the instance was stopped and started": {func(l *life) {
			for _, after := range []time.Duration{0, m, 2 * m} {
				l.member().Instances[0].State = stateStopped
				l.at(after + 10*time.Second)
				l.member().Instances[0].State = stateRunning
				l.startsAt(after + 20*time.Second)
			}
		}, false},
		"EC2 shows late that it was started": {func(l *life) {
			l.crashesAt(m, 2*m)
			l.startsAt(3 * m)
			if !l.member().unstable() {
				t.Error("without EC2's word it is a crash")
			}
			l.history = CrashHistory{}
			l.member().startedAt(l.began)
			l.at(4 * m)
			for _, after := range []time.Duration{5 * m, 6 * m, 7 * m} {
				l.startsAt(after)
				l.member().Instances[0].LaunchTime = l.began.Add(after - 20*time.Second)
				l.at(after + 30*time.Second)
			}
		}, false},
		"its instance restarts three times":            {func(l *life) { l.restartsAt(m, 2*m, 3*m) }, true},
		"two minutes after the third":                  {func(l *life) { l.restartsAt(m, 2*m, 3*m); l.at(5*m - time.Second); l.wantUnstable(t); l.at(5 * m) }, false},
		"five minutes apart, six after the third":      {func(l *life) { l.restartsAt(m, 6*m, 10*m); l.at(16*m - time.Second); l.wantUnstable(t); l.at(16 * m) }, false},
		"once more after it was stable again":          {func(l *life) { l.restartsAt(m, 2*m, 3*m); l.at(5 * m); l.restartsAt(6 * m) }, true},
		"then it must run for longer":                  {func(l *life) { l.restartsAt(m, 2*m, 3*m); l.at(5 * m); l.restartsAt(6 * m); l.at(9 * m) }, true},
		"and then it is stable":                        {func(l *life) { l.restartsAt(m, 2*m, 3*m); l.at(5 * m); l.restartsAt(6 * m); l.at(10 * m) }, false},
		"its instance restarts and its mysqld crashes": {func(l *life) { l.restartsAt(m, 2*m); l.crashesAt(3 * m); l.at(13 * m); l.wantUnstable(t); l.at(14 * m) }, false},
		"restarts of the instance that were planned":   {func(l *life) { l.plans(Restart{"orders-1"}); l.restartsAt(m); l.restartsAt(2*m, 3*m) }, false},
		"an instance that does not report its boots": {func(l *life) {
			l.member().SQL.Boot = ""
			l.crashesAt(m, 2*m, 3*m)
			l.wantMySQLD(t)
		}, true},
		"it was shut down three times":             {func(l *life) { l.member().SQL.ShutDown = true; l.crashesAt(m, 2*m, 3*m) }, false},
		"it was shut down before its instance was": {func(l *life) { l.member().SQL.ShutDown = true; l.restartsAt(m, 2*m, 3*m) }, true},
		"it was rebuilt": {func(l *life) {
			l.crashesAt(m, 2*m, 3*m)
			l.member().SQL.Clone = &Clone{State: cloneInProgress, Began: "2"}
			l.at(4 * m)
			l.member().SQL.Clone = &Clone{State: cloneCompleted, Began: "2"}
			l.startsAt(5 * m)
		}, false},
		"it was rebuilt before": {func(l *life) {
			l.member().SQL.Clone = &Clone{State: cloneCompleted, Began: "2"}
			l.at(0)
			l.crashesAt(m, 2*m, 3*m)
		}, true},
		"its rebuild failed": {func(l *life) {
			l.crashesAt(m, 2*m, 3*m)
			l.member().SQL.Clone = &Clone{State: cloneFailed, Began: "2"}
			l.at(4 * m)
		}, true},
		"on another instance": {func(l *life) {
			l.crashesAt(m, 2*m, 3*m)
			l.member().Instances[0].ID, l.member().Volumes[0].AttachedTo = "i-9", "i-9"
			l.startsAt(4 * m)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife()
			row.happened(l)
			if got := l.member().unstable(); got != row.unstable {
				t.Errorf("unstable: %t, want %t; since %s", got, row.unstable, l.member().Unstable.Since)
			}
			if l.s.member(0).unstable() || l.s.member(2).unstable() {
				t.Error("so are others")
			}
		})
	}
}

// planned has mysqld start three times, each time after a plan with an action.
func (l *life) planned(a Action) {
	for _, after := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute} {
		l.plans(a)
		l.startsAt(after)
	}
}

// crashing makes members unstable.
func (s *scene) crashing(ordinals ...int) {
	for _, i := range ordinals {
		s.member(i).Unstable = Instability{Since: s.observed.Now.Add(-5 * time.Minute), MySQLD: true}
	}
}

// silenced has a replica give no acknowledgement.
func (s *scene) silenced(ordinal int) { s.member(ordinal).SQL.SemiSync = SemiSync{} }

func TestUnstableMembers(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		actions  string
		says     string // part of a finding
	}{
		"it is silenced first": {
			func(s *scene) { s.crashing(2) }, "switch the acknowledgements of orders-2 off", "mysqld of orders-2 has crashed repeatedly since 23:55:00. Rebuild it"},
		"then it loses its vote": {
			func(s *scene) {
				s.crashing(2)
				s.silenced(2)
				s.observed.Records.Leaving = "orders-2"
			}, "remove orders-2 from the voters", ""},
		"also while its replication stands still after a crash": {
			func(s *scene) {
				s.crashing(2)
				s.silenced(2)
				s.io(ioOff, 2)
				s.member(2).SQL.Replication.SQLRunning = false
			}, "remove orders-2 from the voters", ""},
		"the error of its log is reported": {
			func(s *scene) { s.crashing(2); s.member(2).CrashError = "MY-011906 Database page corruption" },
			"switch the acknowledgements of orders-2 off", "since 23:55:00: MY-011906 Database page corruption. Rebuild it"},
		"without a vote it gets none": {
			func(s *scene) { two(s); s.crashing(2) }, "", "mysqld of orders-2 has crashed"},
		"with two voters it keeps its vote": {
			func(s *scene) { two(s); s.crashing(1) }, "admit orders-2 as a voter", "mysqld of orders-1 has crashed"},
		"the other one is unstable, too": {
			func(s *scene) { s.crashing(1, 2) }, "", "mysqld of orders-1 has crashed"},
		"the other one does not answer": {
			func(s *scene) { s.crashing(2); s.lose(1) }, "", "mysqld of orders-2 has crashed"},
		"the other one does not acknowledge": {
			func(s *scene) { s.crashing(2); s.silenced(1) }, "switch the acknowledgements of orders-1 on", "mysqld of orders-2 has crashed"},
		"the other one receives late": {
			func(s *scene) { s.crashing(2); s.member(1).SQL.Replication.UpToDate = false }, "", "mysqld of orders-2 has crashed"},
		"its instance restarts": {
			func(s *scene) {
				s.crashing(2)
				s.member(2).Unstable.MySQLD, s.member(2).Unstable.Instance = false, true
			},
			"switch the acknowledgements of orders-2 off", "the instance of orders-2 has restarted repeatedly since 23:55:00. Check its console output; stop"},
		"the primary's instance restarts": {
			func(s *scene) {
				s.crashing(0)
				s.member(0).Unstable.MySQLD, s.member(0).Unstable.Instance = false, true
			},
			"", "the instance of orders-0 has restarted repeatedly since 23:55:00. Switch over to another member, then stop"},
		"mysqld crashes, too": {
			func(s *scene) { s.crashing(2); s.member(2).Unstable.Instance = true },
			"switch the acknowledgements of orders-2 off", "mysqld of orders-2 has crashed, and its instance has restarted, repeatedly since 23:55:00. Rebuild it"},
		"the primary": {
			func(s *scene) { s.crashing(0) }, "", "mysqld of orders-0 has crashed repeatedly since 23:55:00. Switch over to another member, then rebuild this one"},
		"a switchover passes it over": {
			func(s *scene) {
				s.crashing(1)
				s.silenced(1)
				s.observed.Records.Leaving = "orders-1"
				s.member(0).SQL.RestartPending = true
			},
			"remove orders-1 from the voters", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, actions := s.plan()
			if actions != row.actions {
				t.Errorf("planned %q, want %q", actions, row.actions)
			}
			reason := v1alpha1.ReasonMemberCrashing
			if strings.HasPrefix(row.says, "the instance of") {
				reason = v1alpha1.ReasonInstanceRestarting
			}
			if row.says != "" && !reports(p, reason, row.says) {
				t.Errorf("told %v, want %q", p.Degraded, row.says)
			}
		})
	}
}

// TestUnstableMemberIsTheLastChoice of promotions and switchovers, and only among those that may be chosen.
func TestUnstableMemberIsTheLastChoice(t *testing.T) {
	lost := func(s *scene) { s.lose(0); s.io(ioOff, 1, 2) }
	switched := func(s *scene) {
		s.member(0).Instances[0].Event, s.member(0).Instances[0].EventAt = "instance-retirement", s.observed.Now.Add(time.Hour)
		s.observed.Records.Leaving = "orders-9" // so that nobody's vote is taken in this pass
		delete(s.observed.Members, "orders-9")
	}
	for name, row := range map[string]struct {
		happened func(*scene)
		wants    string
		refused  string
	}{
		"a promotion":                          {func(s *scene) { lost(s); s.crashing(1) }, "promote orders-2", ""},
		"not of one that lacks something":      {func(s *scene) { lost(s); s.crashing(1); s.member(2).SQL.Executed = trx(0, 9) }, "promote orders-1", ""},
		"when both are":                        {func(s *scene) { lost(s); s.crashing(1, 2) }, "promote orders-1", ""},
		"a switchover that EC2 makes needed":   {func(s *scene) { switched(s); s.crashing(1) }, "switch over from orders-0 to orders-2", ""},
		"one to whoever is left":               {func(s *scene) { switched(s); s.crashing(1, 2) }, "switch over from orders-0 to orders-1", ""},
		"one that a person asked for":          {func(s *scene) { s.crashing(1); s.desired.SwitchoverTo = "orders-1" }, "", "orders-1: its mysqld crashes repeatedly; name another member, such as orders-2"},
		"to an unstable one when all are that": {func(s *scene) { s.crashing(1, 2); s.desired.SwitchoverTo = "orders-2" }, "switch over from orders-0 to orders-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			row.happened(s)
			p, actions := s.plan()
			if !strings.Contains(actions, row.wants) || p.Answers.Switchover.Refused != row.refused {
				t.Errorf("planned %q, refused %q; want %q, %q", actions, p.Answers.Switchover.Refused, row.wants, row.refused)
			}
		})
	}
}

// TestUnstableMemberIsNoDonor: a copy of damaged data is damaged, and reading it ends the donor's mysqld.
func TestUnstableMemberIsNoDonor(t *testing.T) {
	s := newScene()
	two(s)
	s.crashing(1)
	m := s.member(2)
	m.SQL.Executed, m.SQL.Clone = trx(0, 0), nil
	donor := func() *Member {
		p := newPlanner(s.desired, s.observed)
		p.plan.Membership = s.member(0).SQL.Membership
		p.plan.Actions = []Action{CloneFrom{Member: "orders-9", DonorAddress: "10.0.0.0:3306"}} // the primary serves another
		return p.replication.seeding.donorFor(m, s.member(0))
	}
	if d := donor(); d != nil {
		t.Errorf("%s is the donor", d.Name)
	}
	s.member(1).Unstable = Instability{}
	if d := donor(); d != s.member(1) {
		t.Errorf("%v is the donor", d)
	}
}

// TestUnstableMemberGetsANewInstance: a version or an instance that does not crash is what it needs, so its turn comes first.
func TestUnstableMemberGetsANewInstance(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		rolling  string
	}{
		"all are well": {func(*scene) {}, "orders-2"},
		"one is unstable": {func(s *scene) {
			two(s)
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1})
			s.swap()
		}, "orders-1"},
		"nobody is disturbed now":     {func(s *scene) { s.desired.Hold = "closed"; s.crashing(1); s.swap() }, ""},
		"another one is not well":     {func(s *scene) { s.swap(); s.lose(2) }, ""},
		"the unstable one is primary": {func(s *scene) { s.crashing(0) }, "orders-2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for i := range 3 {
				s.member(i).Instances[0].TemplateHash = "old"
			}
			row.happened(s)
			if p, _ := s.plan(); p.Records.Rolling != row.rolling {
				t.Errorf("it is the turn of %q, want %q; %v", p.Records.Rolling, row.rolling, p.Rolling)
			}
		})
	}
}

// swap leaves orders-0 and orders-2 as voters, and makes orders-1 unstable.
func (s *scene) swap() {
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1})
	s.observed.Records.Epoch = 6
	s.crashing(1)
	s.silenced(1)
	s.member(0).SQL.SemiSync.Clients = 1
	s.member(2).SQL.SemiSync = SemiSync{ReplicaEnabled: true, ReplicaActive: true}
}

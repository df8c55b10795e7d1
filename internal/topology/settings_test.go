package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// settingsScene is a cluster that is well and has all that the spec asks for.
func settingsScene(settings map[string]string) *scene {
	s := newScene()
	s.desired.Settings = settings
	for i := range s.desired.Replicas {
		m := s.member(i)
		m.SQL.Persisted = map[string]string{}
		for name, value := range settings {
			m.SQL.Persisted[name] = value
		}
	}
	return s
}

// next plans, and takes the records over.
func (s *scene) next() (Plan, string) {
	p, actions := s.plan()
	s.observed.Records = p.Records
	return p, actions
}

// TestSettingThatKeepsMysqldFromStarting is undone where mysqld did not start with it, and nobody else is restarted with it.
func TestSettingThatKeepsMysqldFromStarting(t *testing.T) {
	s := settingsScene(map[string]string{"back_log": "9", "max_connections": "200", "table_open_cache_instances": "4"})
	m := s.member(2)
	m.SQL.PersistedIgnored, m.StartError = true, "Cannot allocate memory"
	s.observed.Records.Members = map[string]MemberRecord{"orders-2": {RestartFor: "back_log,table_open_cache_instances"}}
	s.next()
	p, actions := s.next()
	want := "apply back_log, table_open_cache_instances to orders-0; apply back_log, table_open_cache_instances to orders-1; apply back_log, table_open_cache_instances to orders-2"
	if got := onlyWords(actions, "apply"); got != want {
		t.Errorf("planned %q, want %q", actions, want)
	}
	for _, a := range p.Actions {
		if set, ok := a.(ApplySettings); ok && (len(set.Want) > 0 || strings.Join(set.Drop, ",") != "back_log,table_open_cache_instances") {
			t.Errorf("%s: want %v, drop %v", set.Member, set.Want, set.Drop)
		}
	}
	told := ""
	for _, f := range p.Degraded {
		if f.Reason == v1alpha1.ReasonSettingRefused {
			told = f.Message
		}
	}
	if !strings.Contains(told, "mysqld of orders-2 did not start well with back_log=9, table_open_cache_instances=4") || !strings.Contains(told, "Cannot allocate memory") {
		t.Errorf("it is told %q", told)
	}

	for i := range s.desired.Replicas {
		s.member(i).SQL.Persisted = map[string]string{"max_connections": "200"}
	}
	m.SQL.PersistedIgnored = false
	if _, actions = s.next(); actions != "" {
		t.Errorf("planned %q once it is undone", actions)
	}
	s.desired.Settings["back_log"] = "80"
	s.next()
	if p, actions = s.next(); len(p.Degraded) > 0 || !strings.HasPrefix(onlyWords(actions, "apply"), "apply back_log, table_open_cache_instances to orders-0; ") || p.Records.Members["orders-2"].Undone != "" {
		t.Errorf("planned %q for what the spec says now; told %v, remembered %+v", actions, p.Degraded, p.Records.Members["orders-2"])
	}
}

// TestSettingThatWasRefusedHoldsNothingUp: it is not tried again yet, what else there is is applied, and it is no suspect of a start
// that fails.
func TestSettingThatWasRefusedHoldsNothingUp(t *testing.T) {
	s := settingsScene(map[string]string{"back_log": "9", "max_connections": "200"})
	m := s.member(1)
	m.SQL.Persisted = map[string]string{}
	m.SQL.Refused = map[string]RefusedSetting{"back_log": {Value: "9", Why: "it is 9, and must be even"}}
	p, actions := s.plan()
	if actions != "apply max_connections to orders-1" {
		t.Errorf("planned %q", actions)
	}
	told := Finding{v1alpha1.ReasonSettingRefused, "apply back_log to orders-1: it is 9, and must be even; change spec.mysqld.back_log"}
	if !slices.Contains(p.Degraded, told) {
		t.Errorf("reported %v", p.Degraded)
	}
	m.SQL.Refused["back_log"] = RefusedSetting{Value: "9", Why: "it is 9, and must be even", Awaited: true}
	if p, actions := s.plan(); actions != "apply max_connections to orders-1" || slices.Contains(p.Degraded, told) {
		t.Errorf("planned %q, and reported %v of what the next instance has room for", actions, p.Degraded)
	}
	m.SQL.Persisted["max_connections"] = "200"
	if p, actions := s.plan(); actions != "" || p.Phase != v1alpha1.PhaseReady {
		t.Errorf("planned %q, phase %s", actions, p.Phase)
	}
	m.SQL.PersistedIgnored = true
	s.observed.Records.Members = map[string]MemberRecord{"orders-1": {RestartFor: everySetting}}
	if p, _ := s.plan(); p.Records.Members["orders-1"].Undone != "max_connections=200" {
		t.Errorf("undone is %q", p.Records.Members["orders-1"].Undone)
	}
	m.SQL.PersistedIgnored, s.desired.Settings["back_log"] = false, "80"
	s.observed.Records.Members = nil
	if _, actions := s.plan(); onlyWords(actions, "apply back_log to orders-1") == "" {
		t.Errorf("another value is not tried: %q", actions)
	}
}

// TestDriftHoldsNoOtherSettingUp: what was changed on the running server is put back, and what else is wanted is applied beside it.
func TestDriftHoldsNoOtherSettingUp(t *testing.T) {
	s := settingsScene(map[string]string{"max_heap_table_size": "1048576", "max_connections": "200"})
	m := s.member(1)
	delete(m.SQL.Persisted, "max_connections")
	m.SQL.Drifted = map[string]string{"max_heap_table_size": "1048576"}
	if _, actions := s.plan(); actions != "put max_heap_table_size of orders-1 back; apply max_connections to orders-1" {
		t.Errorf("planned %q", actions)
	}
}

// TestSettingsThatMakeMysqldBlind: it starts, but performance_schema is off, and it is no voter then.
func TestSettingsThatMakeMysqldBlind(t *testing.T) {
	s := settingsScene(map[string]string{"performance_schema_digests_size": "1048576"})
	m := s.member(2)
	m.SQL.Misconfigured = map[string]string{"performance_schema": "OFF"}
	m.SQL.SemiSync = SemiSync{}
	rec := s.observed.Records.Members["orders-2"]
	rec.RestartFor = "performance_schema_digests_size"
	s.observed.Records.Members["orders-2"] = rec
	for i := range s.desired.Replicas {
		s.member(i).SQL.Membership = &Membership{Epoch: 9, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
	}
	s.next()
	p, actions := s.next()
	if !strings.Contains(onlyWords(actions, "apply"), "to orders-2") || !strings.Contains(p.Records.Members["orders-2"].UndoneWhy, "performance_schema") {
		t.Errorf("planned %q, remembered %+v", actions, p.Records.Members["orders-2"])
	}
	for i := range s.desired.Replicas {
		s.member(i).SQL.Persisted = map[string]string{}
	}
	m.SQL.RestartPending = true
	if _, actions = s.next(); !strings.Contains(actions, "restart mysqld of orders-2") {
		t.Errorf("planned %q once they are taken out", actions)
	}
}

// TestStartWithoutSettingsForNoKnownReason is tried once more with them, and then undoes them all.
func TestStartWithoutSettingsForNoKnownReason(t *testing.T) {
	s := settingsScene(map[string]string{"back_log": "9", "max_connections": "200"})
	m := s.member(2)
	m.SQL.PersistedIgnored = true
	p, _ := s.next()
	due := p.Records.Members["orders-2"].RestartDue
	if due != s.observed.Now.Unix() {
		t.Fatalf("a restart is due at %d, now is %d", due, s.observed.Now.Unix())
	}
	m.SQL.RestartPending = true
	if _, actions := s.next(); actions != "restart mysqld of orders-2" {
		t.Errorf("planned %q", actions)
	}
	m.SQL.RestartPending = false // it has started, once more without them
	p, _ = s.next()
	if got := p.Records.Members["orders-2"].Undone; got != "back_log=9\nmax_connections=200" {
		t.Errorf("undone is %q", got)
	}

	s = settingsScene(map[string]string{"back_log": "9"})
	s.observed.Records.Members = map[string]MemberRecord{"orders-1": {RestartFor: "back_log"}, "orders-2": {RestartFor: everySetting}}
	if p, actions := s.next(); actions != "" || p.Records.Members["orders-1"].RestartFor != "" || p.Records.Members["orders-2"].RestartFor != "" {
		t.Errorf("those that started with everything have proven it: planned %q, remembered %+v", actions, p.Records.Members)
	}
}

// TestRestartWaitsForNoMachineThatDoesNotCome: a restart may be what helps where no member gets a new one.
func TestRestartWaitsForNoMachineThatDoesNotCome(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(*scene)
		restart string
	}{
		"all get a new one":                {func(*scene) {}, ""},
		"none is launched":                 {func(s *scene) { s.observed.Launchable = false }, "restart mysqld of orders-1"},
		"EC2 is silent":                    {func(s *scene) { s.observed.CloudReachable = false }, "restart mysqld of orders-1"},
		"a permission is missing":          {func(s *scene) { s.observed.Rehearsal.Lacks = []string{"ec2:AttachVolume"} }, "restart mysqld of orders-1"},
		"EC2 does not answer the dry runs": {func(s *scene) { s.observed.Rehearsal = Rehearsal{Unanswered: "throttled"} }, "restart mysqld of orders-1"},
		"the dry runs are just being made": {func(s *scene) { s.observed.Rehearsal = Rehearsal{} }, ""},
		"upgraded in vain": {func(s *scene) {
			s.desired.Version = "9.7.5"
			s.observed.Records.Members["orders-2"] = MemberRecord{Instance: 1, Volume: 1, VolumeID: "vol-2", RebuiltFor: "9.7.5", RebuiltTimes: rebuildLimit}
		}, "restart mysqld of orders-1"},
		"EC2 has no capacity for the one whose turn it is": {func(s *scene) {
			s.observed.Records.Rolling, s.observed.Records.RollingAt = "orders-2", s.observed.Now.Unix()
			s.member(2).CapacityRefused = "c"
		}, "restart mysqld of orders-1"},
		"EC2 launches nothing for the one whose turn it is": {func(s *scene) {
			s.observed.Records.Rolling, s.observed.Records.RollingAt = "orders-2", s.observed.Now.Add(-turnPatience-time.Second).Unix()
		}, "restart mysqld of orders-1"},
		"a turn has just begun": {func(s *scene) {
			s.observed.Records.Rolling, s.observed.Records.RollingAt = "orders-2", s.observed.Now.Unix()
		}, ""},
		"one has no vote, because it is blind": {func(s *scene) {
			s.member(2).SQL.Misconfigured = map[string]string{"performance_schema": "OFF"}
			s.member(2).SQL.SemiSync = SemiSync{}
			for i := range s.desired.Replicas {
				s.member(i).SQL.Membership = &Membership{Epoch: 9, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
			}
		}, "restart mysqld of orders-2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for i := range s.desired.Replicas {
				s.member(i).Instances[0].TemplateHash, s.member(i).SQL.RestartPending = "earlier", true
			}
			row.change(s)
			p, actions := s.next()
			if got := onlyWords(actions, "restart"); got != row.restart {
				t.Errorf("planned %q, want %q", actions, row.restart)
			}
			if row.restart == "" && (p.Records.Rolling == "orders-2") != s.observed.Rehearsal.Completed {
				t.Errorf("it is the turn of %q", p.Records.Rolling)
			}
		})
	}
}

// onlyWords keeps the actions of one kind.
func onlyWords(actions, kind string) string {
	var kept []string
	for a := range strings.SplitSeq(actions, "; ") {
		if strings.HasPrefix(a, kind) {
			kept = append(kept, a)
		}
	}
	return strings.Join(kept, "; ")
}

// TestABrokenMemberIsRestartedForASetting: one without a vote that an error keeps from replicating waits for nobody to be well. A voter is
// restarted in its turn only, and one that follows as well.
func TestABrokenMemberIsRestartedForASetting(t *testing.T) {
	voteless := func(s *scene) {
		s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1})
		s.member(2).SQL.SemiSync = SemiSync{}
	}
	for name, row := range map[string]struct {
		change    func(*scene)
		restarted bool
	}{
		"it has no vote":      {func(*scene) {}, true},
		"it cannot be cloned": {func(s *scene) { s.member(2).SQL.Replication = nil; s.member(2).SQL.Clone = &Clone{State: cloneFailed} }, true},
		"it has a vote": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1})
		}, false},
		"its vote is not certainly taken": {func(s *scene) {
			s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1, Previous: []string{"orders-0", "orders-1", "orders-2"}})
		}, false},
		"changes are held back":   {func(s *scene) { s.desired.Hold = "the window is closed" }, false},
		"a template is untried":   {func(s *scene) { s.desired.Untried = nobodyAsked }, true},
		"no setting waits for it": {func(s *scene) { s.member(2).SQL.RestartPending = false }, false},
		"it catches up": {func(s *scene) {
			s.member(2).SQL.Replication.ApplierError = ""
			s.member(2).SQL.Replication.SQLRunning = true
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := settingsScene(nil)
			voteless(s)
			m := s.member(2)
			m.SQL.RestartPending, m.BrokenSince = true, s.observed.Now.Add(-time.Hour)
			m.SQL.Replication.SQLRunning, m.SQL.Replication.ApplierError = false, "InnoDB is in read only mode"
			m.SQL.Replication.LagKnown = false
			row.change(s)
			p, actions := s.plan()
			restarted := slices.ContainsFunc(p.Actions, func(a Action) bool { return a == Restart{m.Name} })
			if restarted != row.restarted {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

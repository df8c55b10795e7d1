package topology

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// remember has every member's row say that these members acknowledge from the memory in which they run.
func (s *scene) remember(ordinals ...int) {
	for _, m := range s.observed.Members {
		row := *m.SQL.Membership
		for _, i := range ordinals {
			row = row.from(s.desired.MemberName(i), "run-"+s.desired.MemberName(i))
		}
		m.SQL.Membership = &row
	}
}

// restarted has mysqld of members run in another memory.
func (s *scene) restarted(ordinals ...int) {
	for _, i := range ordinals {
		s.member(i).SQL.Memory = "another"
	}
}

// TestWhoseWordCounts: what a voter acknowledged from memory it may lack after a start. The member that led last has all on its disk, and
// all voters together have it.
func TestWhoseWordCounts(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(s *scene)
		promoted string
		says     string
	}{
		"two that have forgotten nothing": {func(s *scene) { s.lose(0) }, "orders-1", ""},
		"one of them was started since":   {func(s *scene) { s.lose(0); s.restarted(2) }, "", "started since, and not yet seen to hold it all: orders-2"},
		"the primary of the newest row is there, and led last": {func(s *scene) {
			s.restart()
			s.restarted(0, 1, 2)
			s.lose(2)
		}, "orders-0", ""},
		"but another may have led since": {func(s *scene) {
			s.restart()
			s.restarted(0, 1, 2)
			s.lose(2)
			s.observed.Records.LeaderDoubted = true
		}, "", "2 of the 3 voters must be reached that still have"},
		"or it has written no row since it was noted": {func(s *scene) {
			s.restart()
			s.restarted(0, 1, 2)
			s.lose(2)
			s.observed.Records.Leader, s.observed.Records.LeaderEpoch, s.observed.Records.LeaderServer = "orders-0", 6, uuidOf(0)
		}, "", "2 of the 3 voters must be reached that still have"},
		"all are there, and none has kept its memory": {func(s *scene) {
			s.restart()
			s.restarted(0, 1, 2)
			s.observed.Records.LeaderDoubted = true
		}, "orders-0", ""},
		"a voter that acknowledges from disk forgets nothing": {func(s *scene) {
			s.lose(0)
			s.restarted(2)
			for _, m := range s.observed.Members {
				if m.SQL.Membership != nil {
					row := m.SQL.Membership.from("orders-2", "")
					m.SQL.Membership = &row
				}
			}
		}, "orders-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.remember(0, 1, 2)
			row.happened(s)
			for i := 1; i < 3; i++ {
				if s.member(i).SQL.Replication != nil {
					s.io(ioOff, i)
				}
			}
			p, actions := s.plan()
			if row.promoted != "" && !strings.Contains(actions, "promote "+row.promoted) || row.promoted == "" && strings.Contains(actions, "promote") {
				t.Errorf("planned %q", actions)
			}
			if row.says != "" && !slices.ContainsFunc(p.Degraded, func(f Finding) bool { return strings.Contains(f.Message, row.says) }) {
				t.Errorf("says %v", p.Degraded)
			}
		})
	}
}

// TestNewPrimaryVouchesForItselfAlone: what it acknowledged it has executed. What others show now says nothing about what they had.
func TestNewPrimaryVouchesForItselfAlone(t *testing.T) {
	row := Membership{Voters: []string{"a", "b", "c"}, Memory: map[string]string{"a": "1", "b": "2", "c": "3"}}
	next := row.LedBy(&Member{Name: "b", SQL: SQL{Start: Start{Memory: "4"}}})
	if want := map[string]string{"a": "1", "b": "4", "c": "3"}; !maps.Equal(next.Memory, want) || row.Memory["b"] != "2" {
		t.Errorf("the row has %v after %v", next.Memory, row.Memory)
	}
	if next := row.LedBy(&Member{Name: "b"}); next.Memory["b"] != "2" {
		t.Errorf("a memory without a name is taken: %v", next.Memory)
	}
	row.Memory = map[string]string{"a": "1"}
	if next := row.LedBy(&Member{Name: "b", SQL: SQL{Start: Start{Memory: "4"}}}); next.Memory["b"] != "" {
		t.Errorf("one that acknowledges from disk does not any more: %v", next.Memory)
	}
}

// TestCertification: the row follows the memory of voters, one that was started again only once it has caught up.
func TestCertification(t *testing.T) {
	const recorded = "record in which memory the voters acknowledge"
	for name, row := range map[string]struct {
		happened func(s *scene)
		want     string
		not      string
	}{
		"voters that acknowledge from disk are to do so from memory": {func(*scene) {}, recorded, "sync_relay_log"},
		"one of them is not reached":                                 {func(s *scene) { s.lose(2) }, recorded, ""},
		"its row says so, so it need not sync":                       {func(s *scene) { s.remember(0, 1, 2) }, "set sync_relay_log of orders-1 to 10000", recorded},
		"only a newer row says so, which it has not executed": {func(s *scene) {
			row := s.member(1).SQL.Membership
			s.remember(0, 1, 2)
			s.member(1).SQL.Membership = row
		}, "set sync_relay_log of orders-2 to 10000", "orders-1 to 10000"},
		"one was started again and has caught up": {func(s *scene) { s.remember(0, 1, 2); s.restarted(1) }, "record that orders-1 holds all that it acknowledged", ""},
		"one was started again and has not": {func(s *scene) {
			s.remember(0, 1, 2)
			s.restarted(1)
			s.member(1).SQL.Replication.UpToDate = false
		}, "", "record that orders-1"},
		"another may have led since": {func(s *scene) {
			s.remember(0, 1, 2)
			s.restarted(1)
			s.observed.Records.LeaderDoubted = true
			s.lose(2)
		}, "", "record that orders-1"},
		"they are to acknowledge from disk again": {func(s *scene) {
			s.remember(0, 1, 2)
			s.desired.AckFromMemory = false
			s.member(1).SQL.RelaySync = relayUnsynced
		}, "set sync_relay_log of orders-1 to 1", "holds all that it acknowledged; record"},
		"nobody waits for acknowledgements": {func(s *scene) {
			s.desired.Lossless = false
			s.member(0).SQL.SemiSync = SemiSync{}
			s.member(1).SQL.SemiSync, s.member(2).SQL.SemiSync = SemiSync{}, SemiSync{}
		}, "set sync_relay_log of orders-1 to 10000", "record"},
		"nobody does any more, and the rows do not say so yet": {func(s *scene) {
			s.remember(0, 1, 2)
			s.desired.Lossless = false
			for i := range 3 {
				s.member(i).SQL.SemiSync = SemiSync{}
			}
			s.member(1).SQL.RelaySync = relayUnsynced
		}, "set sync_relay_log of orders-1 to 1", "orders-1 to 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.AckFromMemory = true
			row.happened(s)
			_, actions := s.plan()
			if !strings.Contains(actions, row.want) || row.not != "" && strings.Contains(actions, row.not) {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestFailedHandOver: a hand-over that ends in a promotion of another member has failed, which is recorded while a person asks for it.
func TestFailedHandOver(t *testing.T) {
	for name, row := range map[string]struct {
		to, asked, want string
	}{
		"another is promoted":                  {"orders-0", "orders-0", "orders-0"},
		"the one that it was to go to":         {"orders-1", "orders-1", ""},
		"nobody asked for it":                  {"orders-0", "", ""},
		"another was asked for meanwhile":      {"orders-0", "orders-2", ""},
		"there was none, and one is asked for": {"", "orders-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(0)
			s.io(ioOff, 1, 2)
			s.observed.Records.Promotion.To, s.desired.SwitchoverTo = row.to, row.asked
			if p, actions := s.plan(); !strings.Contains(actions, "promote orders-1") || p.Records.HandOverFailed != row.want {
				t.Errorf("planned %q; the hand-over to %q failed, want %q", actions, p.Records.HandOverFailed, row.want)
			}
		})
	}
}

// TestHandOverIsTakenBack: the one that leads goes on doing so when the member that it was to hand over to still replicates.
func TestHandOverIsTakenBack(t *testing.T) {
	s := newScene()
	r := &s.observed.Records
	r.recordHandOver(s.member(1), 6)
	if !r.ledLast("orders-1") {
		t.Fatalf("%+v", r.Term)
	}
	p, _ := s.plan()
	if !p.Records.ledLast("orders-0") || p.Primary != "orders-0" {
		t.Errorf("primary %q, %+v", p.Primary, p.Records.Term)
	}
	s.member(1).SQL.Replication = nil
	noted := r.Term
	if r.takeBack(s.observed.Members); r.Term != noted {
		t.Errorf("it may have been opened: %+v", r.Term)
	}
}

// TestSecondHandOverIsTakenBack: what it ends is the term of the one that was handed over to, not that of the one before it.
func TestSecondHandOverIsTakenBack(t *testing.T) {
	s := newScene()
	r := &s.observed.Records
	r.recordHandOver(s.member(1), 6)
	r.recordHandOver(s.member(2), 8)
	if r.takeBack(s.observed.Members); r.Leader != "orders-1" || r.LeaderEpoch != 6 || r.LeaderServer != uuidOf(1) {
		t.Errorf("%+v", r.Term)
	}
}

// TestHibernationLeavesMemory: a cluster ends its writes only when its voters acknowledge from disk, unless nobody could answer the row
// that says so.
func TestHibernationLeavesMemory(t *testing.T) {
	fromDisk := func(s *scene) {
		for i := range 3 {
			s.member(i).SQL.RelaySync = relaySynced
		}
	}
	for name, row := range map[string]struct {
		happened  func(s *scene)
		want, not string
	}{
		"all acknowledge from memory":               {func(*scene) {}, "set sync_relay_log of orders-2 to 1", "demote"},
		"all sync, and the row does not say so yet": {fromDisk, "record that orders-0 holds all that it acknowledged", "demote"},
		"the row says so":                           {func(s *scene) { fromDisk(s); s.forget(0, 1, 2) }, "demote orders-0", "record"},
		"one is not reached, the others do":         {func(s *scene) { fromDisk(s); s.forget(0, 1); s.lose(2) }, "demote orders-0", "record"},
		"nobody was looked at twice yet": {func(s *scene) {
			fromDisk(s)
			s.observed.Exposure.Since = s.observed.Now.Add(-time.Second)
			for i := 1; i < 3; i++ {
				s.member(i).SQL.Replication.UpToDate = false
			}
		}, "", "demote"},
		"nobody was looked at twice for long": {func(s *scene) {
			fromDisk(s)
			s.observed.Exposure.Since = s.observed.Now.Add(-bridgePatience)
			for i := 1; i < 3; i++ {
				s.member(i).SQL.Replication.UpToDate = false
			}
		}, "demote orders-0", "record"},
		"they are late for long": {func(s *scene) {
			fromDisk(s)
			s.observed.Exposure.Since = s.observed.Now.Add(-time.Second)
			for i := 1; i < 3; i++ {
				s.member(i).SQL.Replication.UpToDate, s.member(i).SQL.Replication.LateSince = false, s.observed.Now.Add(-time.Minute)
			}
		}, "demote orders-0", "record"},
		"too few acknowledge for the row to be answered": {func(s *scene) { s.lose(1); s.lose(2) }, "demote orders-0", "record"},
		"a change of the voters is not confirmed": {func(s *scene) {
			fromDisk(s)
			s.unsettle()
			s.member(2).SQL.SemiSync = SemiSync{}
		}, "confirm the voters", "demote"},
		"the one that leaves acknowledges": {func(s *scene) { fromDisk(s); s.unsettle() }, "switch the acknowledgements of orders-2 off", "demote"},
		"the one that leaves is away":      {func(s *scene) { fromDisk(s); s.unsettle(); s.lose(2) }, "demote orders-0", "confirm"},
		"nobody knows who led last": {func(s *scene) {
			fromDisk(s)
			s.observed.Records.LeaderDoubted = true
		}, "record orders-0 as the primary", "demote"},
		"a replica that has the newest row first": {func(s *scene) {
			row := *s.member(0).SQL.Membership
			row.Epoch++
			s.member(1).SQL.Membership = &row
		}, "", "demote"},
		"a row that waits in vain": {func(s *scene) {
			row := *s.member(0).SQL.Membership
			row.Epoch++
			s.member(1).SQL.Membership = &row
			s.member(0).SQL.PendingCommits, s.member(0).StalledSince = 1, s.observed.Now.Add(-time.Minute)
		}, "stop instance i-0 of orders-0", "record"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.AckFromMemory, s.desired.Hibernate = true, true
			s.remember(0, 1, 2)
			for i := range 3 {
				s.member(i).SQL.RelaySync = relayUnsynced
			}
			row.happened(s)
			_, actions := s.plan()
			if !strings.Contains(actions, row.want) || strings.Contains(actions, row.not) {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestHibernationEndsNoMemoryThatAloneProvesAPrimary: without a primary a member is promoted first.
func TestHibernationEndsNoMemoryThatAloneProvesAPrimary(t *testing.T) {
	const missing = "hibernates once a primary leads"
	volumeLost := func(s *scene) {
		s.lose(0)
		s.io(ioOff, 1, 2)
		s.member(0).Volumes, s.member(0).VolumeMissingSince = nil, s.observed.Now.Add(-volumePatience)
	}
	for name, row := range map[string]struct {
		happened                 func(s *scene)
		want, not, waiting, says string
	}{
		"the primary's volume is lost":      {volumeLost, "promote orders-1", "terminate", missing, ""},
		"it is lost, and a replica is away": {func(s *scene) { volumeLost(s); s.lose(2) }, "", "terminate", missing, v1alpha1.AnnotationAcceptLoss},
		"a person gives it up": {func(s *scene) {
			volumeLost(s)
			s.down(2*time.Minute, 0, 2)
			s.desired.AcceptLoss = 5
		}, "promote orders-1", "terminate", missing, ""},
		"the primary is lost, and EC2 still shows its volume": {func(s *scene) { s.lose(0); s.io(ioOff, 1, 2) }, "promote orders-1", "terminate", missing, ""},
		"its instance has ended, and its volume is there": {func(s *scene) {
			s.lose(0)
			s.member(0).Instances[0].State = stateShuttingDown
		}, "terminate instance i-1", "promote", "", ""},
		"nobody remembers anything":            {func(s *scene) { volumeLost(s); s.restarted(1); s.restarted(2) }, "terminate instance i-1", "promote", "", ""},
		"one that is not reached may remember": {func(s *scene) { volumeLost(s); s.restarted(1); s.lose(2) }, "", "terminate", missing, ""},
		"nobody is reached":                    {func(s *scene) { volumeLost(s); s.lose(1); s.lose(2) }, "", "terminate", "no member that knows the voters answers", ""},
		"its volume has failed": {func(s *scene) {
			s.lose(0)
			s.io(ioOff, 1, 2)
			s.member(0).Instances[0].State, s.member(0).Volumes[0].State = stateStopped, volumeError
		}, "promote orders-1", "terminate", missing, ""},
		"all acknowledge from disk": {func(s *scene) { volumeLost(s); s.forget(0, 1, 2) }, "terminate instance i-1", "promote", "", ""},
		"another leads since, and has written a row": {func(s *scene) {
			volumeLost(s)
			s.io(ioOn, 2)
			s.member(1).SQL.Replication, s.member(1).SQL.Writable = nil, true
			row := s.member(1).SQL.Membership.LedBy(s.member(1))
			row.Epoch++
			s.voters(row)
			s.observed.Records.recordLeader(s.member(1), row.Epoch)
		}, "demote orders-1", "terminate", "", ""},
		"a replica's volume is lost": {func(s *scene) {
			s.lose(2)
			s.member(2).Volumes = nil
		}, "record that orders-0 holds all that it acknowledged", "terminate", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.AckFromMemory, s.desired.Hibernate, s.observed.CloudReachable = true, true, true
			s.remember(0, 1, 2)
			row.happened(s)
			p, actions := s.plan()
			if !strings.Contains(actions, row.want) || strings.Contains(actions, row.not) {
				t.Errorf("planned %q", actions)
			}
			if p.Hibernating != (row.waiting == "") {
				t.Errorf("it says that the cluster hibernates: %t", p.Hibernating)
			}
			if !strings.Contains(p.Waiting.Message, row.waiting) || row.waiting == "" && strings.Contains(p.Waiting.Message, missing) {
				t.Errorf("waits for %q", p.Waiting.Message)
			}
			if row.says != "" && !slices.ContainsFunc(p.Degraded, func(f Finding) bool { return strings.Contains(f.Message, row.says) }) {
				t.Errorf("says %v", p.Degraded)
			}
		})
	}
}

// unsettle has the rows of all members take the vote of orders-2, which is not confirmed yet.
func (s *scene) unsettle() {
	row := *s.member(0).SQL.Membership
	row.Previous, row.Voters = row.Voters, row.Voters[:2]
	s.voters(row)
}

// TestHibernationWaitsForNoApplierThatCannotGetOn: one that lacks what nobody sends, and one that waits for acknowledgements.
func TestHibernationWaitsForNoApplierThatCannotGetOn(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(*scene)
		want     string
	}{
		"it has all":   {func(*scene) {}, "terminate instance i-2"},
		"it is behind": {func(s *scene) { s.member(2).SQL.Executed = trx(0, 9) }, ""},
		"it lacks what is purged": {func(s *scene) {
			s.member(0).SQL.Purged = trx(9, 5)
			s.member(0).SQL.Executed = trx(0, 10).Union(trx(9, 5))
		}, "terminate instance i-2"},
		"it waits for acknowledgements": {func(s *scene) { s.member(2).SQL.Executed = trx(0, 9); s.waitOn(1, uuidOf(0)+":10", 2) }, "let orders-2 wait for 0 acknowledgements"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.Hibernate = true
			s.member(0).SQL.Writable = false
			row.happened(s)
			if _, actions := s.plan(); !strings.Contains(actions, row.want) || row.want == "" && actions != "" {
				t.Errorf("planned %q, want %q", actions, row.want)
			}
		})
	}
}

// TestHibernationCutsOffWhatTooFewAcknowledge: a primary on which commits wait cannot be made read-only.
func TestHibernationCutsOffWhatTooFewAcknowledge(t *testing.T) {
	for since, want := range map[time.Duration]string{0: "demote orders-0", bridgePatience: "stop instance i-0 of orders-0"} {
		s := newScene()
		s.desired.Hibernate = true
		s.member(0).SQL.PendingCommits, s.member(0).StalledSince = 3, s.observed.Now.Add(-since)
		s.lose(1)
		s.member(2).SQL.SemiSync.ReplicaActive = false
		if _, actions := s.plan(); actions != want {
			t.Errorf("after %s: planned %q, want %q", since, actions, want)
		}
	}
}

// forget has the rows of all members say nothing of the memory of some.
func (s *scene) forget(ordinals ...int) {
	for _, m := range s.observed.Members {
		if m.SQL.Membership == nil {
			continue
		}
		row := *m.SQL.Membership
		for _, ordinal := range ordinals {
			row = row.from(s.member(ordinal).Name, "")
		}
		m.SQL.Membership = &row
	}
}

// TestForgetfulVoterIsCountedOnce: a transaction that only such a voter holds was acknowledged only if others held it that show that they
// do not.
func TestForgetfulVoterIsCountedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		happened func(s *scene)
		want     string
	}{
		"rows that somebody wrote on it":                  {func(*scene) {}, "promote orders-0"},
		"what two that forgot may have held is asked for": {func(s *scene) { s.restarted(2) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.restart()
			s.remember(0, 1, 2)
			s.restarted(1)
			s.observed.Records.LeaderDoubted, s.observed.Records.AloneUnknown = true, true
			s.member(0).SQL.Executed, s.member(2).SQL.Executed = trx(0, 12), trx(0, 12)
			s.member(1).SQL.Executed = trx(0, 10).Union(trx(1, 1))
			for i := 1; i < 3; i++ {
				s.io(ioOff, i)
			}
			row.happened(s)
			_, actions := s.plan()
			if row.want != "" && !strings.Contains(actions, row.want) || row.want == "" && strings.Contains(actions, "promote") {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

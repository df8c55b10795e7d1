package topology

import (
	"slices"
	"strings"
	"testing"
)

// TestANewcomerAcknowledgesWhatItIsNeededFor: the row that admits it asks for one acknowledgement more, and a voter is lost at that
// moment. Its own makes up for it, because as many of the voters before are always among those who answer.
func TestANewcomerAcknowledgesWhatItIsNeededFor(t *testing.T) {
	const on = "switch the acknowledgements of orders-3 on"
	for name, row := range map[string]struct {
		before   int // voters
		happened func(s *scene, admits *Membership)
		on       bool
	}{
		"the row waits on a primary that does not show it": {3, func(s *scene, admits *Membership) {
			s.member(1).SQL.Membership, s.member(3).SQL.Membership = admits, admits
		}, true},
		"nobody but itself has received it": {3, func(s *scene, admits *Membership) { s.member(3).SQL.Membership = admits }, true},
		"the primary leads on under it": {3, func(s *scene, admits *Membership) {
			for _, i := range []int{0, 1, 3} {
				s.member(i).SQL.Membership = admits
			}
		}, true},
		"a row that asks for no more": {2, func(s *scene, admits *Membership) {
			s.member(1).SQL.Membership, s.member(3).SQL.Membership = admits, admits
		}, false},
		"no row": {3, func(*scene, *Membership) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.Replicas = 4
			newcomer := *s.member(1)
			newcomer.Name, newcomer.Ordinal, newcomer.RecordedVolume = "orders-3", 3, "vol-3"
			newcomer.Instances = []Instance{{ID: "i-3", Incarnation: 1, State: stateRunning, Address: "10.0.0.3"}}
			newcomer.Volumes = []Volume{{ID: "vol-3", Incarnation: 1, State: volumeInUse, AttachedTo: "i-3", AttachState: attachAttached}}
			newcomer.SQL.ServerUUID, newcomer.SQL.SemiSync = uuidOf(3), SemiSync{}
			s.observed.Members["orders-3"] = &newcomer
			s.observed.Records.Members["orders-3"] = MemberRecord{Instance: 1, Volume: 1, VolumeID: "vol-3", SignedInstance: "i-3"}
			old := Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}[:row.before], W: 1}
			for i := range 4 {
				s.member(i).SQL.Membership = &old
			}
			admits := old.With("orders-3", "")
			admits.Epoch = 6
			s.observed.Records.Epoch = 6
			primary := s.member(0)
			primary.SQL.SemiSync.WaitCount, primary.SQL.PendingCommits = admits.WaitCount(), 1
			row.happened(s, &admits)
			s.lose(row.before - 1)
			if _, actions := s.plan(); strings.Contains(actions, on) != row.on {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestANewcomerIsNotRebuiltWhileItsRowWaits, whatever asks for that: what it has acknowledged nobody else but the primary may hold.
func TestANewcomerIsNotRebuiltWhileItsRowWaits(t *testing.T) {
	for name, happened := range map[string]func(s *scene){
		"a person asks for it": func(s *scene) { s.asked(1) },
		"it is errant":         func(s *scene) { s.member(1).SQL.Executed = trx(0, 10).Union(trx(7, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			one(s)
			s.member(0).SQL.SemiSync = SemiSync{SourceEnabled: true, SourceActive: true, WaitCount: 1, Clients: 1}
			s.member(0).SQL.PendingCommits = 1
			s.member(1).SQL.SemiSync = SemiSync{ReplicaEnabled: true, ReplicaActive: true}
			happened(s)
			if _, actions := s.plan(); !strings.Contains(actions, "snapshot") {
				t.Fatalf("without a row that waits, %q is planned", actions)
			}
			s.member(1).SQL.Membership = &Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, Previous: []string{"orders-0"}, W: 1}
			if _, actions := s.plan(); actions != "" {
				t.Errorf("planned %q", actions)
			}
		})
	}
}

// TestWhoMayAcknowledge under rows of all sizes that admit a member or take a vote: however many answer as a row asks for, as many of the
// voters before it are among them as those needed.
func TestWhoMayAcknowledge(t *testing.T) {
	for n := 1; n <= 9; n++ {
		var voters []string
		for i := range n {
			voters = append(voters, string(rune('a'+i)))
		}
		settled := Membership{Voters: voters, W: WaitFor(n)}
		for _, change := range []Membership{settled.With("z", ""), settled.Without(voters[n-1])} {
			fewest := change.WaitCount()
			for _, name := range change.Voters {
				if change.MayAcknowledge(name) && !slices.Contains(settled.Voters, name) {
					fewest--
				}
			}
			if fewest < settled.W {
				t.Errorf("of %d voters, %v: %d acknowledge, and %d have to", n, change, fewest, settled.W)
			}
		}
	}
}

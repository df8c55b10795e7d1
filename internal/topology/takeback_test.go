package topology

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// upgraded makes a cluster of 9.7.4 whose spec asks for 9.7.5.
func upgraded(t *testing.T, replicas int) *world {
	w := newWorld(t, replicas)
	w.desired.TemplateHash, w.desired.Version, w.desired.SizeGiB = "old", "9.7.4", 10
	w.settle(300)
	w.desired.TemplateHash, w.desired.Version = "new", "9.7.5"
	return w
}

func (w *world) callOff() {
	w.changes++
	w.desired.TemplateHash, w.desired.Version = "old", "9.7.4"
}

// versions are those of the members' servers, by ordinal.
func (w *world) versions() []string {
	var all []string
	for _, m := range w.observe().ordered() {
		all = append(all, m.SQL.Version)
	}
	return all
}

// TestUpgradeThatFailsIsToldAndCalledOff: the first member does not come up with the new version. The others go on, a person is
// told who, why and what to do; set back, that member is made anew from the others, and no older mysqld is ever started on
// what a newer one has opened.
func TestUpgradeThatFailsIsToldAndCalledOff(t *testing.T) {
	w := upgraded(t, 3)
	w.broken["9.7.5"] = true
	var plan Plan
	for range 400 {
		plan = w.pass(-1)
		if w.running() < 2 || plan.Primary == "" || len(plan.Membership.Voters) < 2 {
			t.Fatalf("%d members run, primary %q, voters %v", w.running(), plan.Primary, plan.Membership.Voters)
		}
	}
	if w.records.Rolling != "orders-2" || w.launches != 4 || plan.Rollout.PreviousVersion != "9.7.4" {
		t.Errorf("it is the turn of %s, %d launches, %+v", w.records.Rolling, w.launches, plan.Rollout)
	}
	lost := w.records.Members["orders-2"].VolumeID
	w.callOff()
	plan = w.roll(600)
	if got := w.versions(); !slices.Equal(got, []string{"9.7.4", "9.7.4", "9.7.4"}) || len(plan.Membership.Voters) != 3 || len(w.volumes) != 3 {
		t.Errorf("versions %v, voters %v, %d volumes", got, plan.Membership.Voters, len(w.volumes))
	}
	if w.volumes[lost] != nil || !slices.ContainsFunc(w.snapshots, func(s Snapshot) bool {
		return s.VolumeID == lost && strings.HasPrefix(s.Purpose, takenBackPrefix)
	}) {
		t.Errorf("volume %s is there still, or no snapshot of it is: %v", lost, w.snapshots)
	}
	if plan.Rollout.PreviousVersion != "" {
		t.Errorf("a way back is told of where there is none: %+v", plan.Rollout)
	}
}

// TestFailedUpgradeSaysWhatToDo once the member has been silent for long enough.
func TestFailedUpgradeSaysWhatToDo(t *testing.T) {
	w := upgraded(t, 3)
	w.broken["9.7.5"] = true
	for w.records.Members["orders-2"].Opened != "9.7.5" {
		w.pass(-1)
	}
	for range 20 {
		w.pass(-1)
	}
	o := w.observe()
	o.Members["orders-2"].SilentSince = o.Now.Add(-silenceAllowed)
	plan := Next(w.desired, o)
	i := slices.IndexFunc(plan.Degraded, func(f Finding) bool { return f.Reason == v1alpha1.ReasonRollingStopped })
	if i < 0 || !strings.Contains(plan.Degraded[i].Message, "orders-2 does not come up") || !strings.Contains(plan.Degraded[i].Message, "set spec.version back to 9.7.4") {
		t.Errorf("told: %v", plan.Degraded)
	}
	if !strings.Contains(plan.Rollout.Step, "waiting for mysqld") {
		t.Errorf("its step is %q", plan.Rollout.Step)
	}
}

// TestUpgradeIsCalledOffAtAnyTime: after any number of passes, with a version that starts and one that does not, by an operator
// that dies on the way. While the primary is of the old version all members get it again; afterwards nothing is touched.
func TestUpgradeIsCalledOffAtAnyTime(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 5))
		w := upgraded(t, 2+random.IntN(3))
		w.broken["9.7.5"] = random.IntN(2) == 0
		for range random.IntN(160) {
			w.pass(random.IntN(5) - 1)
		}
		primary := Next(w.desired, w.observe()).Primary
		tooLate := primary == "" || w.observe().Members[primary].SQL.Version != "9.7.4"
		if tooLate {
			continue
		}
		w.callOff()
		for range random.IntN(60) {
			w.pass(random.IntN(5) - 1)
		}
		w.roll(1200)
		for _, v := range w.versions() {
			if v != "9.7.4" {
				t.Fatalf("seed %d: versions %v", seed, w.versions())
			}
		}
	}
}

// TestTooLateToCallOff: with a primary that runs the newer version nothing is taken away, and a person is told.
func TestTooLateToCallOff(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		w := upgraded(t, replicas)
		w.roll(600)
		launches := w.launches
		w.callOff()
		var plan Plan
		for range 100 {
			plan = w.pass(-1)
		}
		if w.running() != replicas || w.launches != launches || len(w.volumes) != replicas || slices.Contains(w.versions(), "9.7.4") {
			t.Errorf("%d members: %d run, versions %v, %d launches more", replicas, w.running(), w.versions(), w.launches-launches)
		}
		if !slices.ContainsFunc(plan.Degraded, func(f Finding) bool {
			return f.Reason == v1alpha1.ReasonInvalidSpec && strings.Contains(f.Message, "set spec.version to 9.7.5 again")
		}) {
			t.Errorf("told: %v", plan.Degraded)
		}
		w.desired.TemplateHash, w.desired.Version = "new", "9.7.5"
		w.roll(600)
	}
}

// TestImageWithANewerVersionIsNotTakenBack: the machines were made from the present spec; made anew they would be the same.
func TestImageWithANewerVersionIsNotTakenBack(t *testing.T) {
	w := upgraded(t, 3)
	w.roll(600)
	for _, m := range w.machines {
		m.TemplateHash = "old"
	}
	for name, rec := range w.records.Members {
		rec.Opened = ""
		w.records.Members[name] = rec
	}
	w.desired.TemplateHash, w.desired.Version = "old", "9.7.4"
	launches := w.launches
	for range 60 {
		w.pass(-1)
	}
	if w.launches != launches || len(w.snapshots) > 3 {
		t.Errorf("%d launches, %d snapshots", w.launches-launches, len(w.snapshots))
	}
}

// TestMemberLostAmidAnUpgradeOfTheSeries: it comes back with the newer series, and is cloned from the member that has it already,
// because CLONE does not go from one series to another. With nobody who has it a person is told how it can be rebuilt.
func TestMemberLostAmidAnUpgradeOfTheSeries(t *testing.T) {
	for _, upgradedFirst := range []bool{true, false} {
		w := newWorld(t, 3)
		w.desired.TemplateHash, w.desired.Version, w.desired.SizeGiB = "old", "8.4.9", 10
		primary := w.settle(300).Primary
		w.desired.TemplateHash, w.desired.Version = "new", "9.7.5"
		for upgradedFirst && w.versions()[2] != "9.7.5" {
			w.pass(-1)
		}
		w.loseVolume("orders-1")
		if upgradedFirst {
			w.roll(900)
			if got := w.versions(); !slices.Equal(got, []string{"9.7.5", "9.7.5", "9.7.5"}) {
				t.Errorf("versions %v", got)
			}
			continue
		}
		var plan Plan
		for range 600 {
			plan = w.pass(-1)
		}
		if plan.Primary != primary || plan.Rollout.PreviousVersion != "8.4.9" || !slices.ContainsFunc(plan.Degraded, func(f Finding) bool {
			return f.Reason == v1alpha1.ReasonMemberMissing && strings.Contains(f.Message, "set spec.version back to 8.4.9")
		}) {
			t.Errorf("primary %s, told: %v, %+v", plan.Primary, plan.Degraded, plan.Rollout)
		}
		w.changes++
		w.desired.TemplateHash, w.desired.Version = "old", "8.4.9"
		w.roll(900)
		if got := w.versions(); !slices.Equal(got, []string{"8.4.9", "8.4.9", "8.4.9"}) {
			t.Errorf("set back, versions %v", got)
		}
	}
}

// loseVolume takes a member's volume away for good, and its machine.
func (w *world) loseVolume(member string) {
	m := w.machineOf(member)
	vol := w.records.Members[member].VolumeID
	delete(w.volumes, vol)
	m.State, m.server = stateTerminated, nil
	w.missing[vol] = w.now
}

// TestAllReplicasFailWithAVersionThatIsSetBack: nobody is left to acknowledge. They are powered off, the primary goes on alone, and
// they are made anew from it.
func TestAllReplicasFailWithAVersionThatIsSetBack(t *testing.T) {
	w := upgraded(t, 3)
	for range 400 {
		plan := w.pass(-1)
		if v := w.versions(); v[1] == "9.7.5" && v[2] == "9.7.5" && len(plan.Membership.Voters) == 3 {
			break
		}
	}
	if v := w.versions(); v[0] != "9.7.4" || v[1] != "9.7.5" {
		t.Fatalf("versions %v", v)
	}
	w.broken["9.7.5"] = true
	w.callOff()
	alone := false
	for range 900 {
		plan := w.pass(-1)
		alone = alone || len(plan.Membership.Voters) == 1
	}
	plan := w.roll(300)
	if got := w.versions(); !alone || !slices.Equal(got, []string{"9.7.4", "9.7.4", "9.7.4"}) || len(plan.Membership.Voters) != 3 {
		t.Errorf("versions %v, voters %v, alone %t", got, plan.Membership.Voters, alone)
	}
}

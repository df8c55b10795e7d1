package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
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
// told who, why and what to do; set back, that member is rebuilt from the others, and no older mysqld is ever started on
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
		return s.VolumeID == lost && strings.HasPrefix(s.Purpose, downgradePrefix)
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
	silent := o.Members["orders-2"]
	silent.SilentSince = o.Now.Add(-silenceAllowed)
	silent.CurrentInstance().LaunchTime = silent.SilentSince
	plan := pureNext(w.desired, o)
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
		primary := pureNext(w.desired, w.observe()).Primary
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

// TestTheOnlyVoterIsTooNew: nobody who answers knows the voters, and a person has to know what reads the data of the one who does.
func TestTheOnlyVoterIsTooNew(t *testing.T) {
	s := newScene()
	s.desired.Version = "9.7.4"
	s.lose(0)
	s.member(0).DownSince = s.observed.Now.Add(-time.Hour)
	rec := s.observed.Records.Members["orders-0"]
	rec.Opened = "9.7.5"
	s.observed.Records.Members["orders-0"] = rec
	for n := 1; n < 3; n++ {
		s.member(n).SQL.Membership, s.member(n).SQL.Version = nil, "9.7.4"
	}
	p, _ := s.plan()
	if !slices.ContainsFunc(p.Degraded, func(f Finding) bool {
		return f.Reason == v1alpha1.ReasonInvalidSpec && strings.Contains(f.Message, "set spec.version to 9.7.5 again")
	}) {
		t.Errorf("reported: %v", p.Degraded)
	}
}

// TestImageWithANewerVersionIsNotTakenBack: the instances were made from the present spec; rebuilt they would be the same.
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

// TestMemberLostAmidAnUpgradeOfTheSeries: it comes back with the version of those that it can be cloned from, because CLONE does not
// go from one series to another, and gets the newer one in its turn. Where the records do not know what was asked for before, a
// person is told how it can be rebuilt.
func TestMemberLostAmidAnUpgradeOfTheSeries(t *testing.T) {
	for _, upgradedFirst := range []bool{true, false} {
		w := ofTheSeriesBefore(t, false)
		for upgradedFirst && w.versions()[2] != "9.7.5" {
			w.pass(-1)
		}
		w.loseVolume("orders-1")
		was := ""
		for range 300 {
			if plan := w.pass(-1); was == "" && plan.Membership != nil && len(plan.Membership.Voters) == 3 {
				was = w.versions()[1]
			}
		}
		w.roll(900)
		if got, want := was, map[bool]string{true: "9.7.5", false: "8.4.9"}[upgradedFirst]; got != want {
			t.Errorf("another upgraded before: %t; it is rebuilt with %s", upgradedFirst, got)
		}
		if got := w.versions(); !slices.Equal(got, []string{"9.7.5", "9.7.5", "9.7.5"}) {
			t.Errorf("versions %v", got)
		}
	}
	w := ofTheSeriesBefore(t, true)
	primary := w.pass(-1).Primary
	w.loseVolume("orders-1")
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

// ofTheSeriesBefore makes a cluster of 8.4.9 whose spec asks for 9.7.5.
func ofTheSeriesBefore(t *testing.T, forgetful bool) *world {
	w := newWorld(t, 3)
	w.desired.TemplateHash, w.desired.Version, w.desired.SizeGiB, w.forgetful = "old", "8.4.9", 10, forgetful
	w.settle(300)
	w.desired.TemplateHash, w.desired.Version = "new", "9.7.5"
	return w
}

// TestCalledOffWithTheNextMachineLaunched: the upgrade failed, another version was asked for, and the instance for that runs already when
// a person gives up. As long as it ran, the member passed for one that may acknowledge, and kept its vote for ever.
func TestCalledOffWithTheNextMachineLaunched(t *testing.T) {
	w := upgraded(t, 3)
	for w.versions()[2] != "9.7.5" || len(w.dataOf(w.machineOf("orders-0")).membership.Voters) < 3 {
		w.pass(-1)
	}
	w.broken["9.7.5"] = true // it votes, and its turn is not over
	w.pass(-1)
	if w.records.Rolling != "orders-2" {
		t.Fatalf("it is the turn of %q", w.records.Rolling)
	}
	w.desired.TemplateHash, w.desired.Version = "newer", "9.7.6"
	for launches := w.launches; w.launches == launches; {
		w.pass(-1)
	}
	w.callOff()
	w.roll(900)
	if got := w.versions(); !slices.Equal(got, []string{"9.7.4", "9.7.4", "9.7.4"}) {
		t.Errorf("versions %v", got)
	}
}

// TestMemberThatWentAheadHasToBeCloned: nobody else has its series yet, so it is rebuilt with the previous one.
func TestMemberThatWentAheadHasToBeCloned(t *testing.T) {
	w := ofTheSeriesBefore(t, false)
	for w.versions()[2] != "9.7.5" || len(w.pass(-1).Membership.Voters) < 3 {
		w.pass(-1)
	}
	w.desired.Hold = "the upgrade is paused"
	old := w.records.Members["orders-2"].VolumeID
	w.changes++ // the turn that has begun meanwhile ends
	d := w.dataOf(w.machineOf("orders-2"))
	d.executed = d.executed.Union(gtid.MustParse("99999999-9999-9999-9999-999999999999:1")) // what a person wrote on it
	for range 600 {
		w.pass(-1)
	}
	if got := w.versions(); got[2] != "8.4.9" || w.records.Members["orders-2"].VolumeID == old || w.records.Members["orders-2"].Rebuilding {
		t.Errorf("versions %v, %+v", got, w.records.Members["orders-2"])
	}
	w.desired.Hold = ""
	w.roll(900)
	if got := w.versions(); !slices.Equal(got, []string{"9.7.5", "9.7.5", "9.7.5"}) {
		t.Errorf("versions %v", got)
	}
}

// TestThirdSeriesWhileTheSecondIsOnItsWay: a member that is new then is seeded by those of the first, which are still there: nobody
// has the third yet, and who has the second gives nothing to either.
func TestThirdSeriesWhileTheSecondIsOnItsWay(t *testing.T) {
	w := ofTheSeriesBefore(t, false)
	for w.versions()[2] != "9.7.5" || len(w.pass(-1).Membership.Voters) < 3 {
		w.pass(-1)
	}
	w.desired.TemplateHash, w.desired.Version, w.desired.Replicas = "newest", "9.9.1", 4
	seeded := ""
	for range 300 {
		if plan := w.pass(-1); seeded == "" && plan.Membership != nil && plan.Membership.Has("orders-3") {
			seeded = w.versions()[3]
		}
	}
	if seeded != "8.4.9" {
		t.Errorf("the new member became a voter with %q", seeded)
	}
	w.roll(900)
	if got := w.versions(); !slices.Equal(got, []string{"9.9.1", "9.9.1", "9.9.1", "9.9.1"}) {
		t.Errorf("versions %v", got)
	}
}

// TestMemberThatGoesAheadInVain is rebuilt a few times and then left, and status says so.
func TestMemberThatGoesAheadInVain(t *testing.T) {
	w := ofTheSeriesBefore(t, false)
	w.changes = 1
	var plan Plan
	for n := range 3000 {
		plan = w.pass(-1)
		for _, m := range w.machines {
			if d := w.dataOf(m); m.member == "orders-2" && m.version == "9.7.5" && d != nil && !d.executed.IsEmpty() {
				d.executed = d.executed.Union(gtid.MustParse(fmt.Sprintf("99999999-9999-9999-9999-999999999999:%d", n+1)))
			}
		}
	}
	rec := w.records.Members["orders-2"]
	if got := w.versions(); rec.RebuiltTimes != 3 || !slices.Equal(got, []string{"8.4.9", "8.4.9", "8.4.9"}) || plan.Primary == "" || len(plan.Membership.Voters) != 3 {
		t.Errorf("%+v, versions %v, voters %v", rec, got, plan.Membership)
	}
	if !slices.ContainsFunc(plan.Degraded, func(f Finding) bool {
		return f.Reason == v1alpha1.ReasonRollingStopped && strings.Contains(f.Message, "orders-2 was rebuilt 3 times after its upgrade")
	}) {
		t.Errorf("told: %v", plan.Degraded)
	}
	w.changes++
	w.desired.TemplateHash, w.desired.Version = "old", "8.4.9"
	w.roll(300)
}

// TestLaunchOrderedForEitherVersion: one order of an instance is refused, and under the same number one with the previous MySQL version is
// made, because the upgrade was paused meanwhile. What it opens was opened by that version.
func TestLaunchOrderedForEitherVersion(t *testing.T) {
	w := upgraded(t, 3)
	w.desired.Hold = "not yet"
	w.pass(-1)
	w.endInstance("orders-1")
	w.desired.Hold, w.changes = "", 1
	w.noRoom["b"] = true
	for w.records.Members["orders-1"].Launched != "9.7.5" {
		w.pass(-1)
	}
	w.desired.Hold, w.noRoom["b"] = "the upgrade is paused", false
	for range 200 {
		w.pass(-1)
	}
	if got := w.versions(); got[1] != "9.7.4" || w.records.Members["orders-1"].Opened != "9.7.4" {
		t.Errorf("versions %v, %+v", got, w.records.Members["orders-1"])
	}
}

// TestPausedUpgradeWaitsForMachinesOfBefore however long mysqld takes to start on them.
func TestPausedUpgradeWaitsForMachinesOfBefore(t *testing.T) {
	w := upgraded(t, 3)
	w.desired.Hold = "the upgrade is paused"
	w.pass(-1)
	w.endInstance("orders-1")
	for launches := w.launches; w.launches == launches; {
		w.pass(-1)
	}
	w.pass(-1)
	o := w.observe()
	m := o.Members["orders-1"]
	m.DownSince, m.SQL = o.Now.Add(-2*silenceAllowed), SQL{Access: AccessRefused}
	for i := range m.Instances {
		m.Instances[i].LaunchTime = m.DownSince
	}
	plan := pureNext(w.wish(), o)
	if plan.Records.Rolling != "" || !slices.ContainsFunc(plan.Degraded, func(f Finding) bool {
		return f.Reason == v1alpha1.ReasonRollingStopped && strings.Contains(f.Message, "orders-1 does not come up with MySQL 9.7.4")
	}) {
		t.Errorf("it is the turn of %q, told %v", plan.Records.Rolling, plan.Degraded)
	}
	// A person corrects something else that it is made from: another one, still with the previous MySQL version, takes its place.
	d := w.wish()
	d.PreviousTemplate.Hash = "old, corrected"
	id := m.CurrentInstance().ID
	plan = pureNext(d, o)
	if !slices.ContainsFunc(plan.Actions, func(a Action) bool { return a == TerminateInstance{"orders-1", id} }) || plan.Records.Rolling != "" {
		t.Errorf("it does %v, and it is the turn of %q", plan.Actions, plan.Records.Rolling)
	}
}

// endInstance ends a member's instance; its volume stays.
func (w *world) endInstance(member string) {
	m := w.machineOf(member)
	m.State, m.server = stateTerminated, nil
	for _, v := range w.volumes {
		if v.AttachedTo == m.ID {
			v.State, v.AttachedTo, v.AttachState = volumeAvailable, "", ""
		}
	}
}

// TestPausedUpgradeOpensNoData: a member whose instance ends meanwhile gets one with the version that its data has.
func TestPausedUpgradeOpensNoData(t *testing.T) {
	w := upgraded(t, 3)
	w.desired.Hold = "the upgrade is paused"
	w.pass(-1)
	w.endInstance("orders-1")
	w.changes++
	for range 200 {
		w.pass(-1)
	}
	if got := w.versions(); !slices.Equal(got, []string{"9.7.4", "9.7.4", "9.7.4"}) || len(w.snapshots) > 0 {
		t.Errorf("versions %v, snapshots %v", got, w.snapshots)
	}
	w.desired.Hold = ""
	w.roll(900)
	if got := w.versions(); !slices.Equal(got, []string{"9.7.5", "9.7.5", "9.7.5"}) {
		t.Errorf("versions %v", got)
	}
}

// loseVolume takes a member's volume away for good, and its instance.
func (w *world) loseVolume(member string) {
	m := w.machineOf(member)
	vol := w.records.Members[member].VolumeID
	delete(w.volumes, vol)
	m.State, m.server = stateTerminated, nil
	w.missing[vol] = w.now
}

// TestAllReplicasFailWithAVersionThatIsSetBack: nobody is left to acknowledge. They are powered off, the primary goes on alone, and
// they are rebuilt from it.
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

// TestTheOneThatTriesANewerVersionIsLost: all instances are gone and one member is to open its data with a newer version first. When
// its volume is lost the next one tries.
func TestTheOneThatTriesANewerVersionIsLost(t *testing.T) {
	w := newWorld(t, 3)
	w.desired.TemplateHash, w.desired.Version, w.desired.SizeGiB = "old", "9.7.4", 10
	w.settle(300)
	w.desired.Hibernate = true
	for w.pass(-1).Phase != v1alpha1.PhaseHibernated {
	}
	w.desired.Hibernate, w.desired.TemplateHash, w.desired.Version = false, "new", "9.7.5"
	trying := ""
	for trying == "" {
		for _, v := range w.pass(-1).Members {
			if why, waits := strings.CutPrefix(v.Step.Message, "waiting until "); waits {
				trying, _, _ = strings.Cut(why, " is up")
			}
		}
	}
	m := w.machineOf(trying)
	w.loseVolume(trying)
	m.State = stateRunning // it looks for its volume, in vain
	w.settle(900)
	if got := w.versions(); !slices.Equal(got, []string{"9.7.5", "9.7.5", "9.7.5"}) {
		t.Errorf("versions %v", got)
	}
}

// TestMemberWithTwoMachinesIsPoweredOff: in the middle of its turn a silent member has an instance besides the one that was to have
// its volume, and it is known to acknowledge nothing only when both are off.
func TestMemberWithTwoMachinesIsPoweredOff(t *testing.T) {
	s := newScene()
	s.lose(2)
	m := s.member(2)
	m.Instances[0].State, m.Instances[0].TemplateHash = stateRunning, s.desired.TemplateHash
	m.Instances = append(m.Instances, Instance{ID: "i-next", Incarnation: 2, State: stateStopped, TemplateHash: "newer"})
	m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
	s.desired.Version = "9.7.4"
	rec := s.observed.Records.Members[m.Name]
	rec.Opened, rec.Instance = "9.7.5", 2
	s.observed.Records.Members[m.Name], s.observed.Records.Rolling = rec, m.Name
	if p, actions := s.plan(); !slices.ContainsFunc(p.Actions, func(a Action) bool {
		stop, ok := a.(StopInstance)
		return ok && stop.InstanceID == "i-2"
	}) {
		t.Errorf("plan: %s; waits for %v", actions, p.Waiting)
	}
}

// TestTakingBackWaitsForTheRehearsal: a member that works with the newer version keeps its instance as long as it is not known whether
// another one would get its volume.
func TestTakingBackWaitsForTheRehearsal(t *testing.T) {
	w := upgraded(t, 3)
	for w.records.Rolling == "" || slices.Contains(w.versions(), "") || !slices.Contains(w.versions(), "9.7.5") {
		w.pass(-1)
	}
	w.callOff()
	w.rehearsal = Rehearsal{}
	for range 100 {
		plan := w.pass(-1)
		if w.running() != 3 || w.launches > 4 || w.records.Rolling == "" && !strings.Contains(plan.Rolling.Message, "EC2's answers to dry runs") {
			t.Fatalf("%d members run, %d launches, it is the turn of %q, and it says %q", w.running(), w.launches, w.records.Rolling, plan.Rolling.Message)
		}
	}
	w.rehearsal.Completed = true
	w.roll(1200)
}

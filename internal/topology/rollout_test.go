package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// withTemplate makes a cluster of a size whose instances are all made from one spec.
func withTemplate(t *testing.T, replicas int) *world {
	w := newWorld(t, replicas)
	w.desired.TemplateHash, w.desired.SizeGiB = "old", 10
	w.settle(300)
	return w
}

// running counts the members whose mysqld runs.
func (w *world) running() int {
	n := 0
	for _, m := range w.machines {
		if w.dataOf(m) != nil {
			n++
		}
	}
	return n
}

// roll settles, and fails the test when more than one of the members was away at once, or when an instance is left that was
// not made from the present spec.
func (w *world) roll(passes int) Plan {
	w.t.Helper()
	var plan Plan
	for range passes {
		plan = w.pass(-1)
		if n := w.running(); n < w.desired.Replicas-1 {
			w.t.Fatalf("%d of %d members run\n%s", n, w.desired.Replicas, strings.Join(w.trace, "\n"))
		}
		if plan.Phase == v1alpha1.PhaseReady && plan.Rolling.Message == "" && len(significant(plan.Actions)) == 0 && w.records.Rolling == "" && plan.RequeueAfter == waitReady {
			w.allFrom(w.desired.TemplateHash)
			return plan
		}
	}
	w.t.Fatalf("not done within %d passes: %s, rolling %q, %q, waiting for %q\n%s", passes, plan.Phase, w.records.Rolling, plan.Rolling.Message, plan.Waiting.Message, strings.Join(w.trace, "\n"))
	return plan
}

func (w *world) allFrom(hash string) {
	w.t.Helper()
	live := 0
	for _, m := range w.machines {
		if m.gone() {
			continue
		}
		live++
		if m.TemplateHash != hash {
			w.t.Errorf("instance %s of %s was made from %q, the spec is %q", m.ID, m.member, m.TemplateHash, hash)
		}
	}
	if live != w.desired.Replicas {
		w.t.Errorf("%d instances for %d members", live, w.desired.Replicas)
	}
}

func (w *world) volumeIDs() []string {
	var ids []string
	for id := range w.volumes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func TestChangedSpecReplacesEveryMachineReplicasFirst(t *testing.T) {
	for replicas := 1; replicas <= 5; replicas++ {
		w := withTemplate(t, replicas)
		volumes, epoch := w.volumeIDs(), w.records.Epoch
		primary := pureNext(w.desired, w.observe()).Primary
		w.trace = nil
		w.desired.TemplateHash = "new"
		plan := w.roll(600)
		if now := w.volumeIDs(); !slices.Equal(now, volumes) {
			t.Errorf("%d members: volumes %v became %v", replicas, volumes, now)
		}
		if w.launches != 2*replicas {
			t.Errorf("%d members: %d launches", replicas, w.launches)
		}
		if len(plan.Membership.Voters) != replicas {
			t.Errorf("%d members: voters %v", replicas, plan.Membership.Voters)
		}
		if replicas > 1 && (plan.Primary == primary || plan.Membership.Epoch == epoch) {
			t.Errorf("%d members: %s is still the primary, epoch %d", replicas, plan.Primary, plan.Membership.Epoch)
		}
		var order []string
		for _, line := range w.trace {
			if strings.HasPrefix(line, "launch ") {
				order = append(order, line[len(line)-len(primary):])
			}
		}
		if len(order) != replicas || order[replicas-1] != primary {
			t.Errorf("%d members: replaced in the order %v, the primary was %s", replicas, order, primary)
		}
	}
}

// TestCorrectedImageIsTaken: instances on which mysqld never comes up are replaced once what they were made from is corrected, at
// the very beginning, for a member that was lost meanwhile, and for one that the primary is elected with. Their volumes stay.
func TestCorrectedImageIsTaken(t *testing.T) {
	lose := func(names ...string) func(*world) {
		return func(w *world) {
			for _, name := range names {
				in := w.machineOf(name)
				in.State = stateTerminated
				for _, v := range w.volumes {
					if v.AttachedTo == in.ID {
						v.AttachedTo, v.AttachState, v.State = "", "", volumeAvailable
					}
				}
			}
		}
	}
	for name, c := range map[string]struct {
		made   bool
		happen func(*world)
	}{
		"at the beginning":      {false, func(*world) {}},
		"a replica that is new": {true, lose("orders-2")},
		"the primary":           {true, lose("orders-0")},
		"two of three":          {true, lose("orders-0", "orders-2")},
		"all":                   {true, lose("orders-0", "orders-1", "orders-2")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.desired.SizeGiB = 10
			if c.made {
				w.desired.TemplateHash = "old"
				w.settle(300)
			}
			w.desired.TemplateHash, w.lame = "wrong", "wrong"
			c.happen(w)
			told := false
			for since := w.now; w.now.Sub(since) < 5*time.Minute; {
				told = slices.ContainsFunc(w.pass(-1).Degraded, func(f Finding) bool { return f.Reason == v1alpha1.ReasonBootFailed })
			}
			if !told {
				t.Fatal("it is not told that mysqld does not come up")
			}
			volumes := w.volumeIDs()
			w.desired.TemplateHash = "right"
			w.settle(600)
			for range 300 {
				w.pass(-1)
			}
			w.allFrom("right")
			if after := w.volumeIDs(); !slices.Equal(volumes, after) {
				t.Errorf("volumes %v, before %v", after, volumes)
			}
		})
	}
}

func TestOperatorThatDiesInARollingChangeNeverDuplicates(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		w := withTemplate(t, 1+random.IntN(5))
		w.desired.TemplateHash = "new"
		for range 150 {
			w.pass(random.IntN(4))
		}
		w.roll(900)
		if w.launches != 2*w.desired.Replicas {
			t.Fatalf("seed %d: %d launches for %d members", seed, w.launches, w.desired.Replicas)
		}
	}
}

func TestSpecThatIsSetBackLeadsBackToTheOldMachines(t *testing.T) {
	for passes := range 120 {
		w := withTemplate(t, 3)
		w.desired.TemplateHash = "new"
		for range passes {
			w.pass(-1)
		}
		w.desired.TemplateHash, w.changes = "old", 1
		w.roll(900)
	}
}

func TestCapacityThatIsRefusedCostsNothing(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash = "new"
	w.noRoom["a"], w.noRoom["b"], w.noRoom["c"] = true, true, true
	for range 400 {
		plan := w.pass(-1)
		if w.running() != 3 || plan.Phase != v1alpha1.PhaseReady {
			t.Fatalf("%d members run, the cluster is %s", w.running(), plan.Phase)
		}
	}
	if w.records.Rolling != "orders-2" {
		t.Errorf("it is the turn of %q", w.records.Rolling)
	}
	clear(w.noRoom)
	w.roll(600)
}

func TestMembersLeaveByTheDeletionPolicy(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		for from := 2; from <= 5; from++ {
			for to := 1; to < from; to++ {
				name := fmt.Sprintf("%s, %d to %d", policy, from, to)
				w := withTemplate(t, from)
				w.desired.Replicas, w.desired.DeletionPolicy = to, policy
				plan := w.roll(600)
				if len(plan.Membership.Voters) != to || plan.Membership.W != to/2 || len(plan.Members) != to || len(w.volumes) != to {
					t.Errorf("%s: voters %v, W %d, %d members, %d volumes", name, plan.Membership.Voters, plan.Membership.W, len(plan.Members), len(w.volumes))
				}
				snapshots, retired := 0, 0
				switch policy {
				case v1alpha1.DeletionPolicySnapshot:
					snapshots = from - to
				case v1alpha1.DeletionPolicyRetain:
					retired = from - to
				case v1alpha1.DeletionPolicyDelete:
				}
				if len(w.snapshots) != snapshots || len(w.retired) != retired {
					t.Errorf("%s: %d snapshots, %d volumes retired", name, len(w.snapshots), len(w.retired))
				}
				w.desired.Replicas = from
				if plan = w.settle(300); len(plan.Membership.Voters) != from {
					t.Errorf("%s and back: voters %v", name, plan.Membership.Voters)
				}
			}
		}
	}
}

// What the operator did not make is not deleted with a member, and what was kept of an earlier turn, perhaps years ago, does
// not stand for what the member holds now.
func TestLeavingMemberKeepsWhatIsNotItsOwn(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyDelete} {
		w := withTemplate(t, 3)
		own := w.records.Members["orders-2"].VolumeID
		w.volumes["vol-copy"] = &disk{Volume: Volume{ID: "vol-copy", Incarnation: 7, State: volumeAvailable, Zone: "a", SizeGiB: 10}, member: "orders-2", foreign: true}
		old := Snapshot{ID: "snap-old", Member: "orders-2", VolumeID: own, State: snapshotCompleted, Purpose: fmt.Sprintf("%s%s-%d", scaleInPrefix, own, w.now.Add(-time.Hour).Unix())}
		w.snapshots = append(w.snapshots, old)
		w.desired.Replicas, w.desired.DeletionPolicy = 2, policy
		w.roll(600)
		if !slices.Equal(w.retired, []string{"vol-copy"}) || w.volumes[own] != nil {
			t.Errorf("%s: retired %v, the member's own volume is %v", policy, w.retired, w.volumes[own])
		}
		if taken := len(w.snapshots) - 1; policy == v1alpha1.DeletionPolicySnapshot && taken != 1 {
			t.Errorf("%d snapshots were taken of the member", taken)
		}
	}
}

func TestPrimaryHandsOverBeforeItLeaves(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.SwitchoverTo = "orders-2"
	for range 50 {
		if plan := w.pass(-1); plan.Primary == "orders-2" {
			break
		}
	}
	w.desired.SwitchoverTo = ""
	w.settle(100)
	w.desired.Replicas = 2
	if plan := w.roll(600); plan.Primary == "orders-2" || plan.Primary == "" {
		t.Errorf("the primary is %q", plan.Primary)
	}
}

func TestSnapshotIsTakenBeforeAnUpgrade(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash, w.desired.Version = "new", "9.8.0" // the model's servers say 9.7.4
	for range 100 {
		w.pass(-1)
		for _, m := range w.machines {
			if m.State == stateStopped && !slices.ContainsFunc(w.snapshots, func(s Snapshot) bool { return strings.HasPrefix(s.Purpose, "upgrade-9.7.4-9.8.0-") }) {
				t.Fatalf("%s was stopped before there was a snapshot of it", m.ID)
			}
		}
	}
	if len(w.snapshots) == 0 {
		t.Error("no snapshot was taken")
	}
}

func TestChangeIsHeldBack(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash, w.desired.Hold = "new", "not on a Friday"
	for range 50 {
		if plan := w.pass(-1); w.launches != 3 || !strings.Contains(plan.Rolling.Message, "orders-2 is to be replaced next: not on a Friday") {
			t.Fatalf("%d launches, %q", w.launches, plan.Rolling.Message)
		}
	}
	w.desired.Hold = ""
	for w.launches == 3 {
		w.pass(-1)
	}
	w.desired.Hold = "the window closed"
	for range 100 {
		plan := w.pass(-1)
		if w.launches != 4 || w.records.Rolling != "orders-2" || w.running() != 3 || !plan.Membership.Has("orders-2") {
			t.Fatalf("%d launches, %d members run, voters %v, it is the turn of %q: what was begun is to disturb nobody", w.launches, w.running(), plan.Membership.Voters, w.records.Rolling)
		}
	}
	if plan := w.pass(-1); !strings.Contains(plan.Rolling.Message, "next: the window closed") {
		t.Errorf("it says %q", plan.Rolling.Message)
	}
	w.desired.Hold = ""
	for w.running() == 3 {
		w.pass(-1)
	}
	w.desired.Hold = "the window closed"
	for range 100 {
		w.pass(-1)
	}
	if w.launches != 4 || w.records.Rolling != "" || w.running() != 3 {
		t.Fatalf("%d launches, %d members run, it is the turn of %q: who was off is to come back, and no more is to be done", w.launches, w.running(), w.records.Rolling)
	}
	w.desired.Hold = ""
	w.roll(600)
}

// TestReplacementWaitsForPermissions: what could not be completed is not begun.
func TestReplacementWaitsForPermissions(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash = "new"
	w.rehearsal.Lacks = []string{"ec2:CreateTags", "ec2:AttachVolume"}
	for range 50 {
		if plan := w.pass(-1); w.launches != 3 || !strings.Contains(plan.Rolling.Message, "orders-2 is to be replaced next: the permission ec2:AttachVolume is missing") {
			t.Fatalf("%d launches, %q", w.launches, plan.Rolling.Message)
		}
	}
	w.rehearsal.Lacks = w.rehearsal.Lacks[:1]
	w.roll(600)
}

// TestReplacementWaitsForTheRehearsal: what is not known to be permitted is not begun, and a member that works is not stopped for it either
// when its next instance runs already and the operator was started again.
func TestReplacementWaitsForTheRehearsal(t *testing.T) {
	for name, begin := range map[string]func(w *world){
		"nothing is begun": func(*world) {},
		"its next instance runs": func(w *world) {
			for next := false; !next; {
				w.pass(-1)
				for _, in := range w.machines {
					next = next || in.TemplateHash == "new" && in.State == stateRunning
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := withTemplate(t, 3)
			w.desired.TemplateHash = "new"
			begin(w)
			launches, rolling := w.launches, w.records.Rolling
			for _, why := range []string{"", "no answer from AWS to ec2:StopInstances"} {
				w.rehearsal = Rehearsal{Unanswered: why}
				for range 50 {
					plan := w.pass(-1)
					if w.launches != launches || w.records.Rolling != rolling || w.running() != 3 || len(plan.Membership.Voters) != 3 {
						t.Fatalf("%d launches, %d members run, voters %v, it is the turn of %q", w.launches, w.running(), plan.Membership.Voters, w.records.Rolling)
					}
					if said := plan.Rolling.Message; !strings.Contains(said, " next: waiting for EC2's answers to dry runs") || !strings.Contains(said, why) {
						t.Fatalf("it says %q", said)
					}
				}
			}
			w.rehearsal = Rehearsal{Completed: true}
			w.roll(600)
		})
	}
}

// TestPrimaryHandsOverInTheWindow closes the window when only the primary is left to be replaced, or to leave.
func TestPrimaryHandsOverInTheWindow(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"replaced": func(w *world) { w.desired.TemplateHash = "new" },
		"leaves":   func(w *world) { w.desired.Replicas = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			w := withTemplate(t, 3)
			w.desired.SwitchoverTo = "orders-2"
			w.settle(100)
			w.desired.SwitchoverTo = ""
			change(w)
			for w.records.Rolling != "orders-2" {
				w.pass(-1)
			}
			w.desired.Hold = "not at noon"
			for range 50 {
				if plan := w.pass(-1); plan.Primary != "orders-2" || !strings.Contains(plan.Rolling.Message, "not at noon") {
					t.Fatalf("the primary is %s, rolling %q", plan.Primary, plan.Rolling.Message)
				}
			}
			w.desired.Hold = ""
			w.roll(600)
		})
	}
}

// TestNobodyLeavesOutsideTheWindow: a member that works is taken away when members may be disturbed.
func TestNobodyLeavesOutsideTheWindow(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.Replicas, w.desired.Hold = 2, "not at noon"
	for range 50 {
		if plan := w.pass(-1); w.running() != 3 || len(plan.Membership.Voters) != 3 || !strings.Contains(plan.Rolling.Message, "orders-2 is to leave next: not at noon") {
			t.Fatalf("%d run, voters %v, rolling %q", w.running(), plan.Membership.Voters, plan.Rolling.Message)
		}
	}
	w.desired.Hold = ""
	w.roll(600)
}

// TestRefusedModificationHoldsNothingUp: EC2 does not take the change of one volume. The others grow, and instances are replaced.
func TestRefusedModificationHoldsNothingUp(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.SizeGiB, w.desired.TemplateHash = 20, "new"
	w.unmodifiable = "orders-0"
	asked, plan := 0, Plan{}
	for range 600 {
		plan = w.pass(-1)
		for _, a := range plan.Actions {
			if m, ok := a.(ModifyVolume); ok && m.Member == w.unmodifiable {
				asked++
			}
		}
	}
	w.allFrom("new")
	for _, v := range w.volumes {
		if want := map[bool]int32{true: 10, false: 20}[v.member == w.unmodifiable]; v.SizeGiB != want {
			t.Errorf("the volume of %s has %d GiB, want %d", v.member, v.SizeGiB, want)
		}
	}
	if asked < 2 {
		t.Errorf("it was asked for %d times", asked)
	}
	if plan.Phase != v1alpha1.PhaseReady || !strings.HasPrefix(plan.Waiting.Message, "orders-0: volume vol-") || !strings.HasSuffix(plan.Waiting.Message, "is not modified yet: one is under way") {
		t.Errorf("all are %s, and what is waited for is %q", plan.Phase, plan.Waiting.Message)
	}
	w.desired.SizeGiB = 10
	if plan = w.pass(-1); plan.Waiting.Message != "" {
		t.Errorf("nothing is asked for any more, and what is waited for is %q", plan.Waiting.Message)
	}
}

// TestModificationThatIsNotAskedForYetIsTold: EC2 does not answer, or another volume's turn is first.
func TestModificationThatIsNotAskedForYetIsTold(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.SizeGiB, w.reach = 20, false
	plan := w.pass(-1)
	for _, v := range plan.Members {
		if !strings.HasSuffix(v.Step.Message, " is to be modified once EC2 answers") {
			t.Errorf("EC2 is silent: %s: %q", v.Name, v.Step.Message)
		}
	}
	w.reach = true
	var told []string
	for _, v := range w.pass(-1).Members {
		_, what, _ := strings.Cut(v.Step.Message, " is ")
		told = append(told, what)
	}
	if want := []string{"being modified", "to be modified", "to be modified"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if plan := w.roll(200); plan.Waiting.Message != "" {
		t.Errorf("at the end what is waited for is %q", plan.Waiting.Message)
	}
}

// TestNewMachineMakesARestartUnnecessary: both are asked for, and each member is disturbed once.
func TestNewMachineMakesARestartUnnecessary(t *testing.T) {
	for _, members := range []int{1, 3} {
		w := withTemplate(t, members)
		w.desired.TemplateHash, w.desired.RestartedAt = "new", w.now
		began := len(w.trace)
		w.roll(600)
		for _, m := range w.machines {
			if m.State == stateRunning && m.booted.Before(w.desired.RestartedAt) {
				t.Errorf("mysqld of %s runs since %s, and a restart was asked for at %s", m.member, m.booted, w.desired.RestartedAt)
			}
		}
		if trace := strings.Join(w.trace[began:], "; "); strings.Contains(trace, "restart mysqld") {
			t.Errorf("of %d members: %s", members, trace)
		}
	}
}

// TestLagIsToldWhileAMemberCatchesUp after it was changed, beside whose turn it is.
func TestLagIsToldWhileAMemberCatchesUp(t *testing.T) {
	for lag, want := range map[time.Duration]string{
		500 * time.Millisecond: "catching up with orders-0", 45*time.Second + 900*time.Millisecond: "catching up with orders-0, 45 s behind",
		90 * time.Second: "catching up with orders-0, 1 min behind", 50 * time.Hour: "catching up with orders-0, 50 h behind",
	} {
		s := newScene()
		m := s.member(2)
		s.desired.MaxLag = 100 * time.Millisecond
		s.observed.Records.Rolling = "orders-2"
		m.Instances[0].TemplateHash, m.SQL.Replication.Lag = "t", lag
		for i := range s.desired.Replicas {
			s.member(i).SQL.Membership = &Membership{Epoch: 9, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
		}
		m.SQL.SemiSync = SemiSync{}
		p, _ := s.plan()
		if got := p.Rolling.Message; got != "member 1 of 1, orders-2: on instance i-2: "+want {
			t.Errorf("%s behind: %q, want %q", lag, got, want)
		}
	}
}

// TestMemberThatNeverCatchesUpIsTold: it answers, so that nothing seems to be wrong, and nobody else is changed meanwhile.
func TestMemberThatNeverCatchesUpIsTold(t *testing.T) {
	const told = "orders-2 answers on instance i-2 and has made no progress since "
	for name, row := range map[string]struct {
		lag  func(minute int) time.Duration // negative: not known
		does func(minute int, m *Member)
		want int // minutes after which it is told, -1 for never
	}{
		"it stays where it is":            {lag: func(int) time.Duration { return time.Hour }, want: 10},
		"it falls behind":                 {lag: func(i int) time.Duration { return time.Duration(i) * time.Minute }, want: 10},
		"it comes nearer":                 {lag: func(i int) time.Duration { return time.Hour - time.Duration(i)*time.Second }, want: -1},
		"it comes nearer, and then stops": {lag: func(i int) time.Duration { return time.Hour - time.Duration(min(i, 5))*time.Minute }, want: 15},
		"it receives nothing":             {lag: func(int) time.Duration { return -1 }, want: 10},
		"it is away in between": {lag: func(int) time.Duration { return time.Hour }, does: func(i int, m *Member) {
			if i == 7 {
				m.SQL.Access = AccessRefused
			}
		}, want: 18},
		"it is being copied": {lag: func(int) time.Duration { return -1 }, does: func(_ int, m *Member) { m.SQL.Clone = &Clone{State: cloneInProgress} }, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for i := range s.desired.Replicas {
				s.member(i).SQL.Membership = &Membership{Epoch: 9, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
			}
			m := s.member(2)
			s.observed.Records.Rolling = "orders-2"
			m.Instances[0].TemplateHash, m.SQL.SemiSync = "t", SemiSync{}
			first := -1
			for i := range 25 {
				lag := row.lag(i)
				m.SQL.Access, m.SQL.Replication.Lag, m.SQL.Replication.LagKnown = AccessVerified, max(lag, 0), lag >= 0
				if row.does != nil {
					row.does(i, m)
				}
				p, _ := s.plan()
				if first < 0 && strings.Contains(fmt.Sprint(p.Degraded), told) {
					first = i
				}
				s.observed.Records = p.Records
				s.observed.Now = s.observed.Now.Add(time.Minute)
			}
			if first != row.want {
				t.Errorf("told after %d minutes, want %d", first, row.want)
			}
		})
	}
}

// TestReplicaOutOfServiceTellsItsLag: it is a voter, and too far behind to serve reads.
func TestReplicaOutOfServiceTellsItsLag(t *testing.T) {
	s := newScene()
	s.member(1).SQL.Replication.Lag = 75 * time.Second
	if p, _ := s.plan(); p.Waiting.Message != "orders-1: catching up, 1 min behind" {
		t.Errorf("what is waited for is %q", p.Waiting.Message)
	}
	s.member(1).SQL.Replication.LagKnown = false
	if p, _ := s.plan(); p.Waiting.Message != "orders-1: catching up" {
		t.Errorf("what is waited for is %q", p.Waiting.Message)
	}
}

// TestRestartInTheMiddleOfAChange comes to those that have their new instance already.
func TestRestartInTheMiddleOfAChange(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash = "new"
	for len(w.records.RollingDone) == 0 {
		w.pass(-1)
	}
	w.desired.RestartedAt = w.now
	began := len(w.trace)
	w.roll(600)
	if got := onlyWords(strings.Join(w.trace[began:], "; "), "restart"); got != "restart mysqld of orders-2" {
		t.Errorf("restarted: %q", got)
	}
}

// TestVolumeLostInTheMiddleOfATurn: its member has two instances then, and both have to be off before its vote is taken.
func TestVolumeLostInTheMiddleOfATurn(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash = "new"
	for w.launches < 4 {
		w.pass(-1)
	}
	for id, v := range w.volumes {
		if v.member == "orders-2" {
			delete(w.volumes, id)
		}
	}
	w.roll(900)
}

func TestSoakLiesBetweenTwoReplacements(t *testing.T) {
	w := withTemplate(t, 3)
	w.now = w.now.Add(time.Hour)
	w.desired.TemplateHash, w.desired.Soak = "new", 10*time.Minute
	w.roll(2000)
	var launched []time.Time
	for _, m := range w.machines {
		if m.TemplateHash == "new" {
			launched = append(launched, m.LaunchTime)
		}
	}
	slices.SortFunc(launched, time.Time.Compare)
	for i := 1; i < len(launched); i++ {
		if pause := launched[i].Sub(launched[i-1]); pause < 10*time.Minute {
			t.Errorf("the next was launched %s after the one before", pause)
		}
	}
}

func TestVolumesGrow(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.SizeGiB = 20
	w.settle(100)
	for _, v := range w.volumes {
		if v.SizeGiB != 20 {
			t.Errorf("volume %s has %d GiB", v.ID, v.SizeGiB)
		}
	}
}

// TestProgressOfAChangeIsTold follows what a person reads while every instance is replaced.
func TestProgressOfAChangeIsTold(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash = "new"
	var told []string
	done := 0
	for range 600 {
		plan := w.pass(-1)
		r := plan.Rollout
		if r.Total() == 0 {
			if done == 2 { // of three: the pass in which the last one is done has nothing left to tell
				break
			}
			continue
		}
		if r.Total() != 3 || len(r.Done) < done || r.Step == "" {
			t.Fatalf("%d of %d are done, they were %d: %+v", len(r.Done), r.Total(), done, r)
		}
		done = len(r.Done)
		line, _, _ := strings.Cut(plan.Rolling.Message, ":")
		_, next, _ := strings.Cut(plan.Rolling.Message, "; then ")
		if line += " then " + next; r.Current != "" && !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	want := []string{"member 1 of 3, orders-2 then orders-1, orders-0", "member 2 of 3, orders-1 then orders-0", "member 3 of 3, orders-0 then "}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	w.settle(100)
	if w.records.RollingDone != nil || w.records.RollingSince != 0 {
		t.Errorf("what was done is still remembered: %+v", w.records)
	}
}

// TestMemberOfAChangedChangeIsNotCalledDone: the spec is changed once more when one member has followed the first change.
func TestMemberOfAChangedChangeIsNotCalledDone(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.TemplateHash = "new"
	for len(w.records.RollingDone) == 0 {
		w.pass(-1)
	}
	w.desired.TemplateHash = "newer"
	w.changes++
	if plan := w.pass(-1); len(plan.Rollout.Done) != 0 || plan.Rollout.Total() != 3 {
		t.Errorf("%+v", plan.Rollout)
	}
}

package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestProgressOfRestartsIsTold follows what a person reads while every mysqld is restarted, by what is seen of the members.
func TestProgressOfRestartsIsTold(t *testing.T) {
	s := newScene()
	wanted := s.startedBut(0, 1, 2)
	next := func() Rollout {
		t.Helper()
		plan, _ := s.plan()
		s.observed.Records = plan.Records
		if plan.Rollout.Total() > 0 && plan.Rolling.Message != plan.Rollout.String() {
			t.Errorf("Rolling says %q of %+v", plan.Rolling.Message, plan.Rollout)
		}
		return plan.Rollout
	}
	says := func(when, want string) Rollout {
		t.Helper()
		got := next()
		if got.String() != want || got.Kind != v1alpha1.RolloutRestarts {
			t.Errorf("%s: %s: %q, want %q", when, got.Kind, got.String(), want)
		}
		return got
	}
	restarted := func(i int) { s.member(i).SQL.StartedAt = s.observed.Now }

	s.desired.RestartedAt, s.desired.Hold = wanted, "the maintenance window opens at noon"
	if got := says("before the window", "0 of 3 members done: orders-1 is to be restarted next: the maintenance window opens at noon; then orders-1, orders-2, orders-0"); got.Since != 0 {
		t.Errorf("it is said to have begun at %d", got.Since)
	}
	s.desired.Hold = ""
	began := s.observed.Now.Unix()
	got := says("at first", "member 1 of 3, orders-1: restarting mysqld; then orders-2, orders-0")
	if want := []string{"orders-1: mysqld is restarted", "orders-2: mysqld is restarted", "orders-0: hands over; mysqld is restarted"}; !slices.Equal(got.Plan, want) || got.Since != began {
		t.Errorf("the plan is %q since %d", got.Plan, got.Since)
	}
	verified := s.member(1).SQL
	s.observed.Now = s.observed.Now.Add(10 * time.Second)
	s.member(1).SQL = SQL{Access: AccessRefused}
	if got = next(); got.Current != "orders-1" || got.Total() != 3 || got.Since != began {
		t.Errorf("while it is down: %+v", got)
	}
	s.member(1).SQL = verified
	restarted(1)
	got = says("then", "member 2 of 3, orders-2: restarting mysqld; then orders-0")
	if !slices.Equal(got.Done, []string{"orders-1"}) {
		t.Errorf("done are %q", got.Done)
	}
	restarted(2)
	for _, i := range []int{1, 2} {
		s.member(i).SQL.Replication.Lag = 5 * time.Second
	}
	says("without a successor", "2 of 3 members done: orders-0 is to be restarted last, and waits for a member that can take over; then orders-0")
	restarted(0)
	if got = next(); got.Total() != 0 || !s.observed.Records.Restarts.IsZero() {
		t.Errorf("in the end %+v, remembered is %+v", got, s.observed.Records.Restarts)
	}
}

// TestMemberThatIsDownIsNotSaidToBeRestarted: nobody asked for it.
func TestMemberThatIsDownIsNotSaidToBeRestarted(t *testing.T) {
	s := newScene()
	s.member(2).SQL = SQL{Access: AccessRefused}
	if plan, _ := s.plan(); plan.Rollout.Total() != 0 {
		t.Errorf("%+v", plan.Rollout)
	}
}

// TestProgressOfVolumesIsTold follows what a person reads while every volume is modified, one of which EC2 refuses for a while.
func TestProgressOfVolumesIsTold(t *testing.T) {
	w := withTemplate(t, 3)
	for _, v := range w.volumes {
		v.Type, v.IOPS = "gp3", 3000
	}
	w.desired.SizeGiB, w.desired.VolumeType, w.desired.IOPS, w.unmodifiable = 20, "io2", 4000, "orders-1"
	var told []string
	for range 100 {
		plan := w.pass(-1)
		r := plan.Rollout
		if r.Total() == 0 {
			continue
		}
		if r.Kind != v1alpha1.RolloutVolumes || r.Total() != 3 || r.Step == "" || r.Since == 0 || plan.Records.Volumes.Since != r.Since {
			t.Fatalf("%+v, remembered is %+v", r, plan.Records.Volumes)
		}
		if len(told) == 0 && (len(r.Plan) != 3 || !strings.HasSuffix(r.Plan[0], " gets 20 GiB instead of 10, io2 instead of gp3, 4000 IOPS instead of 3000")) {
			t.Errorf("the plan is %q", r.Plan)
		}
		line, _, _ := strings.Cut(r.String(), ":")
		if !slices.Contains(told, line) {
			told = append(told, line)
		}
		if len(r.Done) == 2 {
			w.unmodifiable = ""
		}
	}
	for _, want := range []string{"member 1 of 3, orders-0", "member 3 of 3, orders-1"} {
		if !slices.Contains(told, want) {
			t.Errorf("told %q, and not %q", told, want)
		}
	}
	if plan := w.settle(100); plan.Rollout.Total() != 0 || !w.records.Volumes.IsZero() {
		t.Errorf("in the end %+v, remembered is %+v", plan.Rollout, w.records.Volumes)
	}
}

// TestPlanSaysWhatIsDoneToWhom before the first member is touched.
func TestPlanSaysWhatIsDoneToWhom(t *testing.T) {
	w := withTemplate(t, 4)
	w.desired.Replicas, w.desired.TemplateHash, w.desired.Hold = 3, "new", "paused"
	w.pass(-1)
	plan := w.pass(-1)
	want := []string{
		"orders-3: leaves the cluster", "orders-2: a new instance with the same volume", "orders-1: a new instance with the same volume",
		"orders-0: hands over; a new instance with the same volume",
	}
	if !slices.Equal(plan.Rollout.Plan, want) || plan.Rollout.Since != 0 {
		t.Errorf("the plan is %q since %d, want %q", plan.Rollout.Plan, plan.Rollout.Since, want)
	}
}

// TestRestartsAreToldAfterMachines: a change of instances is told first, and the restarts that it leaves due after it.
func TestRestartsAreToldAfterMachines(t *testing.T) {
	s := newScene()
	for i := range 3 {
		s.member(i).Instances[0].TemplateHash = "old"
	}
	s.desired.RestartedAt = s.startedBut(0, 1, 2)
	plan, _ := s.plan()
	var kinds []v1alpha1.RolloutKind
	for _, r := range plan.Rollouts {
		kinds = append(kinds, r.Kind)
	}
	if !slices.Equal(kinds, []v1alpha1.RolloutKind{v1alpha1.RolloutMachines, v1alpha1.RolloutRestarts}) || plan.Rollout.Kind != kinds[0] {
		t.Errorf("told are %v, first %s", kinds, plan.Rollout.Kind)
	}
}

// TestWhatHasBegunIsToldFirst: restarts that are under way, and not the instances that are held back.
func TestWhatHasBegunIsToldFirst(t *testing.T) {
	s := newScene()
	wanted := s.startedBut(0, 1, 2)
	s.desired.RestartedAt = wanted
	plan, _ := s.plan()
	s.observed.Records = plan.Records
	for i := range 3 {
		s.member(i).Instances[0].TemplateHash = "old"
	}
	s.desired.Hold = "spec.upgrade.paused holds it back"
	if plan, _ = s.plan(); plan.Rollout.Kind != v1alpha1.RolloutRestarts || len(plan.Rollouts) != 2 {
		t.Errorf("told is %s of %d", plan.Rollout.Kind, len(plan.Rollouts))
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// journey is what a viewer of a one-member cluster sees, a second apart.
func journey() []*v1alpha1.MySQLCluster {
	seen := func(phase v1alpha1.Phase, ready, message string) *v1alpha1.MySQLCluster {
		cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Generation: 1}}
		if phase == "" {
			return cluster
		}
		cluster.Status.Phase, cluster.Status.ReadyMembers = phase, ready
		cluster.Status.Members = []v1alpha1.MemberStatus{{Name: "orders-0", Phase: phase, Message: message}}
		if phase == v1alpha1.PhaseReady {
			cluster.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1,
			}}
		}
		return cluster
	}
	return []*v1alpha1.MySQLCluster{
		seen("", "", ""),
		seen(v1alpha1.PhaseProvisioning, "0/1", "waiting for the instance"),
		seen(v1alpha1.PhaseProvisioning, "0/1", "waiting for the instance"),
		seen(v1alpha1.PhaseEC2Ready, "0/1", "initialise"),
		seen(v1alpha1.PhaseReady, "1/1", ""),
	}
}

// play shows the journey on a view of the given width (0: not a terminal) and returns what was written.
func play(t *testing.T, columns int) string {
	t.Helper()
	var out strings.Builder
	now := time.Unix(0, 0)
	v := newView(&out, func() time.Time { return now })
	v.columns = columns
	for _, cluster := range journey() {
		now = now.Add(time.Second)
		if err := v.show(cluster); err != nil {
			t.Fatal(err)
		}
	}
	v.finish()
	return out.String()
}

func TestLinesOnlyWhenSomethingChanged(t *testing.T) {
	got := play(t, 0)
	want := []string{
		"   1.0s  orders: -, - members ready, primary -",
		"   2.0s  orders: Provisioning, 0/1 members ready, primary -",
		"   2.0s  orders-0: Provisioning   waiting for the instance",
		"   4.0s  orders: EC2Ready, 0/1 members ready, primary -",
		"   4.0s  orders-0: EC2Ready   initialise",
		"   5.0s  orders: Ready, 1/1 members ready, primary -",
		"   5.0s  orders-0: Ready",
		"time in phases: Provisioning 2.0s, EC2Ready 1.0s, in all 5.0s",
		"",
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestPictureIsRedrawnInPlaceAndFitsTheTerminal(t *testing.T) {
	const columns = 60
	got := play(t, columns)
	if n := strings.Count(got, "\x1b["); n != 2*(len(journey())-1) {
		t.Errorf("%d control sequences, want a cursor move and an erase for each picture after the first", n)
	}
	for _, line := range strings.Split(got, "\n") {
		if visible := line[strings.LastIndex(line, "\x1b[J")+1:]; len(visible) > columns+len("[J") {
			t.Errorf("line of %d columns in a terminal of %d: %q", len(visible), columns, visible)
		}
	}
	if !strings.Contains(got, "[Provisioning 1.0s] > EC2Ready > Replicating > Ready") {
		t.Errorf("the trail does not mark the present phase:\n%s", got)
	}
	if !strings.Contains(got, "Provisioning 2.0s > EC2Ready 1.0s > Replicating > [Ready]") {
		t.Errorf("the trail does not end at Ready:\n%s", got)
	}
}

package controllers

import (
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestReplicaIsRebuiltOnRequest: once, with a snapshot taken before, also by an operator that starts in the middle; and nobody is
// rebuilt who must not be.
func TestReplicaIsRebuiltOnRequest(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	ask := func(member string) {
		w.world.change(func(c *v1alpha1.MySQLCluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationRebuild, member)
		})
	}
	answered := func() bool {
		c, _ := w.get()
		return c.Annotations[v1alpha1.AnnotationRebuild] == ""
	}
	c, _ := w.get()
	primary, replica := c.Status.Primary, "orders-1"
	if primary == replica {
		replica = "orders-2"
	}
	var clones atomic.Int32
	count := func(op, phase string) error {
		if op == "clone/clone" && phase == "before" {
			clones.Add(1)
		}
		return nil
	}
	o := w.newSQLOperator(&operator{}, count)
	for member, why := range map[string]string{primary: "is the primary; switch over to another member first", "payments-1": "is no member of this cluster"} {
		ask(member)
		w.drive(o, sqlPatience, answered)
		if said := eventsOf(o); !strings.Contains(said, "RebuildRefused") || !strings.Contains(said, why) {
			t.Errorf("of %s events tell: %s", member, said)
		}
	}
	if clones.Load() > 0 {
		t.Error("something was cloned all the same")
	}
	ask(replica)
	w.drive(o, sqlPatience, func() bool { return clones.Load() > 0 })
	o.kill()
	next := w.newSQLOperator(&operator{}, count)
	w.drive(next, sqlPatience, func() bool { return answered() && w.unsettled() == "" })
	if said := eventsOf(next); !strings.Contains(said, "MemberRebuilt") || !strings.Contains(said, "Rebuilt "+replica) {
		t.Errorf("events tell: %s", said)
	}
	before := clones.Load()
	if w.passes(next, 3); clones.Load() != before {
		t.Errorf("it was cloned again, %d times in all", clones.Load())
	}
	c, _ = w.get()
	if c.Status.QuarantineSnapshots != 1 || c.Status.Primary != primary {
		t.Errorf("%d snapshots are kept, the primary is %s", c.Status.QuarantineSnapshots, c.Status.Primary)
	}
}

// eventsOf is what an operator told in events since it was asked last.
func eventsOf(o *operator) string {
	var said []string
	recorder, _ := o.Events.(*events.FakeRecorder)
	for len(recorder.Events) > 0 {
		said = append(said, <-recorder.Events)
	}
	return strings.Join(said, "\n")
}

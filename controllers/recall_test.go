package controllers

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestANewLeaderReplacesAPrimaryWhileEC2IsAway: it has never heard a word of EC2, and finds the members by what Kubernetes keeps.
func TestANewLeaderReplacesAPrimaryWhileEC2IsAway(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	away, err := w.proxy.Add(proxy.Rule{Kind: proxy.Refuse, Service: "*"})
	must(t, err)
	before, calls := w.left(), w.total()

	o := w.newSQLOperator(&operator{}, nil)
	w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False"))
	w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionAvailable, "True"))
	c, _ := w.get()
	if c.Status.Phase != v1alpha1.PhaseReady || c.Status.Primary == "" || !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("all members are well; status:\n%s", w.describe())
	}

	former := c.Status.Primary
	for _, s := range w.running() {
		if s.Name == former {
			s.Kill()
			defer func() {
				must(t, bootAgain(t.Context(), s, s.Boot(t.Context())))
				w.proxy.Remove(away)
				w.settle(o)
				w.end()
			}()
		}
	}
	w.drive(o, sqlPatience, func() bool {
		now, _ := w.get()
		return now.Status.Primary != former && now.Status.Primary != "" && w.conditionHas(v1alpha1.ConditionAvailable, "True")()
	})
	now, _ := w.get()
	if p := now.Status.LastPromotion; p == nil || p.From != former {
		t.Errorf("status tells of the promotion %+v", p)
	}
	if w.total() == calls {
		t.Error("EC2 was not even asked")
	}
	if after := w.left(); len(after.instances) != len(before.instances) || len(after.volumes) != len(before.volumes) {
		t.Errorf("in EC2 there was %v, and is %v", before, after)
	}
}

package controllers

import (
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestClientsAreShownAPrimaryBeforeTheFormerOneFollows: pointing that one at it takes MySQL a second, for which nobody has to wait.
func TestClientsAreShownAPrimaryBeforeTheFormerOneFollows(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	shown := func() string {
		var slice discoveryv1.EndpointSlice
		if !w.exists("orders-primary", &slice) || len(slice.Endpoints) != 1 {
			return ""
		}
		return slice.Endpoints[0].Addresses[0]
	}
	c, _ := w.get()
	former, to := c.Status.Primary, "orders-0"
	if former == to {
		to = "orders-1"
	}
	address := shown()
	var followed, late atomic.Bool
	o := w.newSQLOperator(&operator{}, func(op, phase string) error {
		if op != "replicate/change-source" || phase != "before" || followed.Swap(true) {
			return nil
		}
		for until := time.Now().Add(20 * time.Second); shown() == address; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				late.Store(true)
				return nil
			}
		}
		return nil
	})
	// Nothing waits for a setting that MySQL does not know.
	w.world.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"max_conections": "500"}
	})
	refused := w.conditionHas(v1alpha1.ConditionDegraded, "SettingRefused", "orders-0", "orders-1", "orders-2", "max_conections", "change spec.mysqld.max_conections")
	w.drive(o, sqlPatience, refused)
	w.passes(o, 3)
	if !refused() || !w.conditionHas(v1alpha1.ConditionProgressing, "False/")() {
		t.Errorf("after it was refused Degraded is %s, Progressing is %s", w.condition(v1alpha1.ConditionDegraded), w.condition(v1alpha1.ConditionProgressing))
	}
	w.world.change(func(c *v1alpha1.MySQLCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationSwitchover, to)
	})
	w.drive(o, sqlPatience, func() bool {
		now, _ := w.get()
		return now.Status.Primary == to && w.unsettled() == ""
	})
	if !refused() {
		t.Errorf("it is not told of any more: %s", w.condition(v1alpha1.ConditionDegraded))
	}
	w.world.change(func(c *v1alpha1.MySQLCluster) { c.Spec.MySQLD = nil })
	w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionDegraded, "False/"))
	if !followed.Load() || late.Load() {
		t.Errorf("%s followed: %t; clients were shown it only after that: %t", former, followed.Load(), late.Load())
	}
	now, _ := w.get()
	if p := now.Status.LastPromotion; p == nil || p.Kind != pass.PromotionPlanned || p.From != former || p.To != to || p.Publish == "" {
		t.Errorf("status tells of %+v", p)
	}
	var seen topology.Observed
	o.Caches.Of(client.ObjectKeyFromObject(now), pass.KeyOf(now.UID)).Published.Clients.Observe(&seen)
	if seen.ShownAt.Before(c.CreationTimestamp.Time) {
		t.Errorf("it is remembered that clients were shown another at %s", seen.ShownAt)
	}
	w.settle(o)
	w.end()
}

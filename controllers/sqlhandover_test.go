package controllers

import (
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
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
	before := c.DeepCopy()
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationSwitchover, to)
	must(t, w.client.Patch(t.Context(), c, client.MergeFrom(before)))
	w.drive(o, sqlPatience, func() bool {
		now, _ := w.get()
		return now.Status.Primary == to && w.unsettled() == ""
	})
	if !followed.Load() || late.Load() {
		t.Errorf("%s followed: %t; clients were shown it only after that: %t", former, followed.Load(), late.Load())
	}
	now, _ := w.get()
	if p := now.Status.LastPromotion; p == nil || p.Kind != promotionPlanned || p.From != former || p.To != to || p.Publish == "" {
		t.Errorf("status tells of %+v", p)
	}
	if at := o.memory.of(client.ObjectKeyFromObject(now), keyOf(now.UID)).shownAt; at.Before(c.CreationTimestamp.Time) {
		t.Errorf("it is remembered that clients were shown another at %s", at)
	}
	w.settle(o)
	w.end()
}

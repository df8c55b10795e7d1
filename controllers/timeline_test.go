package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestAPromotionIsToldOnceStatusHoldsIt: the write of status may fail, and the next pass must report the same once more.
func TestAPromotionIsToldOnceStatusHoldsIt(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	recorder := events.NewFakeRecorder(9)
	now := clocktesting.NewFakePassiveClock(at(5))
	r := &MySQLClusterReconciler{Clock: now, Events: recorder, Metrics: NewMetrics(prometheus.NewRegistry())}
	lost := &notes{timeline: timeline{kind: promotionUnplanned, from: "orders-0", lastWrite: at(0), noticed: at(1), fenced: at(2), opened: at(4)}}
	pass := func() *scope {
		s := &scope{cluster: &v1alpha1.MySQLCluster{}, notes: lost, planned: true, published: true}
		s.plan.Primary = "orders-1"
		r.trackPromotion(s)
		return s
	}
	first := pass() // whose status could not be written
	now.SetTime(at(60))
	second := pass()
	if first.promotion == nil || second.promotion == nil || *first.promotion != *second.promotion || second.promotion.Total != "5.000s" {
		t.Fatalf("the promotion was reported as %+v, then as %+v", first.promotion, second.promotion)
	}
	r.tellOfPromotion(second)
	if third := pass(); third.promotion != nil {
		t.Errorf("the promotion is reported again: %+v", third.promotion)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events tell of it", len(recorder.Events))
	}
	if note := <-recorder.Events; !strings.Contains(note, "Failed over from orders-0 to orders-1 in 5.000s") || !strings.Contains(note, "no acknowledged transaction was lost") {
		t.Errorf("the event says %q", note)
	}
}

// TestAnAsynchronousFailoverPromisesNothing: commits are acknowledged before another member holds them.
func TestAnAsynchronousFailoverPromisesNothing(t *testing.T) {
	for kind, promises := range map[string]bool{promotionUnplanned: false, promotionPlanned: true} {
		recorder := events.NewFakeRecorder(9)
		r := &MySQLClusterReconciler{Events: recorder, Metrics: NewMetrics(prometheus.NewRegistry())}
		s := &scope{cluster: &v1alpha1.MySQLCluster{}, notes: &notes{timeline: timeline{kind: kind}}, plan: topology.Plan{Primary: "orders-1"},
			promotion: &v1alpha1.PromotionStatus{Kind: kind, To: "orders-1"}}
		s.cluster.Spec.Replication.Durability = v1alpha1.DurabilityAsync
		r.tellOfPromotion(s)
		if note := <-recorder.Events; strings.Contains(note, "no acknowledged transaction was lost") != promises {
			t.Errorf("%s: the event says %q", kind, note)
		}
	}
}

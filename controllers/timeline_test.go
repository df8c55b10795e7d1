package controllers

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestAPromotionIsToldOnceStatusHoldsIt: the write of status may fail, and the next pass must report the same once more.
func TestAPromotionIsToldOnceStatusHoldsIt(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	recorder := events.NewFakeRecorder(9)
	now := clocktesting.NewFakePassiveClock(at(5))
	r := NewMySQLClusterReconciler(Ports{Clock: now, Events: recorder, Metrics: NewMetrics(prometheus.NewRegistry())})
	lost := &clusterCache{told: toldCache{timeline: timeline{kind: promotionUnplanned, from: "orders-0", lastWrite: at(0), noticed: at(1), fenced: at(2), opened: at(4)}}}
	pass := func() *pass {
		s := &pass{cluster: &v1alpha1.MySQLCluster{}, cache: lost, planned: true, result: passResult{published: true}}
		s.plan.Primary = "orders-1"
		r.reporter.trackPromotion(s)
		return s
	}
	first := pass() // whose status could not be written
	now.SetTime(at(60))
	second := pass()
	if first.result.promotion == nil || second.result.promotion == nil || !reflect.DeepEqual(first.result.promotion, second.result.promotion) || second.result.promotion.Total != "5.000s" {
		t.Fatalf("the promotion was reported as %+v, then as %+v", first.result.promotion, second.result.promotion)
	}
	r.reporter.tellOfPromotion(second)
	if third := pass(); third.result.promotion != nil {
		t.Errorf("the promotion is reported again: %+v", third.result.promotion)
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
		r := NewMySQLClusterReconciler(Ports{Events: recorder, Metrics: NewMetrics(prometheus.NewRegistry())})
		s := &pass{cluster: &v1alpha1.MySQLCluster{}, cache: &clusterCache{told: toldCache{timeline: timeline{kind: kind}}}, plan: topology.Plan{Primary: "orders-1"}, result: passResult{promotion: &v1alpha1.PromotionStatus{Kind: kind, To: "orders-1"}}}
		s.cluster.Spec.Replication.Durability = v1alpha1.DurabilityAsync
		r.reporter.tellOfPromotion(s)
		if note := <-recorder.Events; strings.Contains(note, "no acknowledged transaction was lost") != promises {
			t.Errorf("%s: the event says %q", kind, note)
		}
	}
}

// TestThePrimaryOpenedAgain is no failover: status, event and metric have a word of their own for it.
func TestThePrimaryOpenedAgain(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	restarts := topology.Course{Members: []string{"orders-0"}, Since: began.Unix()}
	for name, row := range map[string]struct {
		to       string
		replicas int
		change   func(*pass)
		kind     string
		event    string
	}{
		"another member":                               {"orders-1", 3, func(*pass) {}, "Failover", "Warning Failover Failed over from orders-0 to orders-1 in"},
		"the same member":                              {"orders-0", 3, func(*pass) {}, "Reopened", "Warning Reopened Reopened orders-0 for writes in"},
		"after a restart that was asked for":           {"orders-0", 1, func(s *pass) { s.observed.Records.Restarts = restarts }, "Reopened", "Normal Reopened Reopened orders-0 for writes in"},
		"on another machine that was asked for":        {"orders-0", 1, func(s *pass) { s.plan.Records.Rolling = "orders-0" }, "Reopened", "Normal Reopened Reopened orders-0 for writes in"},
		"while the members are restarted in turn":      {"orders-0", 3, func(s *pass) { s.observed.Records.Restarts = restarts }, "Reopened", "Warning Reopened Reopened orders-0 for writes in"},
		"after hibernation":                            {"orders-0", 3, func(s *pass) { s.cache.told.writes.waking = true }, "Reopened", "Normal Reopened Reopened orders-0 for writes in"},
		"another member, after hibernation":            {"orders-1", 3, func(s *pass) { s.cache.told.writes.waking = true }, "Failover", "Warning Failover Failed over from orders-0 to orders-1 in"},
		"another member, of a primary that is unknown": {"orders-1", 3, func(s *pass) { s.plan.Membership = nil }, "Failover", "Warning Failover Failed over from - to orders-1 in"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder, registry := events.NewFakeRecorder(9), prometheus.NewRegistry()
			prober := mysql.NewProber(mysql.ProberOptions{})
			defer prober.Close()
			r := NewMySQLClusterReconciler(Ports{Clock: clocktesting.NewFakePassiveClock(began), Events: recorder, Metrics: NewMetrics(registry), Prober: prober})
			s := &pass{cluster: &v1alpha1.MySQLCluster{}, cache: &clusterCache{}, planned: true}
			s.desired.Replicas = row.replicas
			s.plan.Failing, s.plan.Membership = true, &topology.Membership{Primary: "orders-0"}
			row.change(s)
			r.reporter.trackPromotion(s)
			s.cache.told.timeline.fence(began)
			s.cache.told.timeline.open(began)
			s = &pass{cluster: s.cluster, cache: s.cache, planned: true, plan: topology.Plan{Primary: row.to}, result: passResult{published: true}}
			r.reporter.trackPromotion(s)
			if s.result.promotion == nil || s.result.promotion.Kind != row.kind || s.result.promotion.To != row.to {
				t.Fatalf("status says %+v", s.result.promotion)
			}
			r.reporter.tellOfPromotion(s)
			if note := <-recorder.Events; !strings.HasPrefix(note, row.event) {
				t.Errorf("the event says %q", note)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, m := range family.GetMetric() {
					for _, label := range m.GetLabel() {
						if family.GetName() == "mysqlcluster_promotion_duration_seconds" && label.GetName() == "kind" && label.GetValue() != row.kind {
							t.Errorf("the metric says %s", label.GetValue())
						}
					}
				}
			}
		})
	}
}

// TestWhatMayBeLostIsTold: an uncovered time of another member than the primary is told with the promotion, or after it; until status
// holds it the records keep it.
func TestWhatMayBeLostIsTold(t *testing.T) {
	open := topology.UncoveredTimes{{Primary: "orders-0", Since: 1, Cause: topology.Cause{Kind: topology.CauseSemiSyncOff, Why: "semi-sync was off"}}}
	volatile := topology.UncoveredTimes{{Primary: "orders-1", Since: 1, Cause: topology.Cause{Kind: topology.CauseNotDurable, Why: "nothing was synced"}, Volatile: true}}
	told := &v1alpha1.PromotionStatus{Kind: "Failover", From: "orders-0", To: "orders-1", Total: "3.000s", Uncovered: open.String(), UncoveredMembers: uncoveredMembers(open)}
	both := append(slices.Clone(open), topology.Uncovered{Primary: "orders-2", Since: 5, Cause: open[0].Cause})
	claimed := &v1alpha1.PromotionStatus{Kind: "Failover", From: "orders-0", To: "orders-1", Total: "3.000s", LostTransactions: ptr.To[int64](0)}
	older := &v1alpha1.PromotionStatus{Kind: "Failover", From: "orders-1", To: "orders-2", Total: "9.000s", LostTransactions: ptr.To[int64](0)}
	for name, row := range map[string]struct {
		last      *v1alpha1.PromotionStatus
		uncovered topology.UncoveredTimes
		change    func(*pass)
		owed      string // its total; empty for nothing
		text      string // open's, unless given
	}{
		"the promotion claimed that nothing was lost":    {claimed, open, func(*pass) {}, "3.000s", ""},
		"the promotion was not told":                     {older, open, func(*pass) {}, "0.000s", ""},
		"no promotion was told ever":                     {nil, open, func(*pass) {}, "0.000s", ""},
		"status reports it already":                      {told, open, func(*pass) {}, "", ""},
		"status reports another time of the member":      {told, topology.UncoveredTimes{{Primary: "orders-0", Since: 7, Cause: open[0].Cause}}, func(*pass) {}, "3.000s", open.String() + "; " + topology.Uncovered{Primary: "orders-0", Since: 7, Cause: open[0].Cause}.String()},
		"status reports one of two":                      {told, both, func(*pass) {}, "3.000s", both.String()},
		"status reports one, and only the other is left": {told, both[1:], func(*pass) {}, "3.000s", both.String()},
		"status reports both, and one is left": {func() *v1alpha1.PromotionStatus {
			p := told.DeepCopy()
			p.UncoveredMembers = uncoveredMembers(both)
			return p
		}(), both[1:], func(*pass) {}, "", ""},
		"an operator before told it, and named nobody": {&v1alpha1.PromotionStatus{To: "orders-1", Total: "3.000s", Uncovered: open.String()}, open, func(*pass) {}, "3.000s", ""},
		"nothing is uncovered":                         {claimed, nil, func(*pass) {}, "", ""},
		"the primary's own":                            {claimed, volatile, func(*pass) {}, "", ""},
		"there is no primary":                          {claimed, open, func(s *pass) { s.plan.Primary = "" }, "", ""},
		"with Async":                                   {claimed, open, func(s *pass) { s.cluster.Spec.Replication.Durability = v1alpha1.DurabilityAsync }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pass{cluster: &v1alpha1.MySQLCluster{}, cache: &clusterCache{}, planned: true, plan: topology.Plan{Primary: "orders-1"}, result: passResult{published: true}}
			s.plan.Records.Uncovered, s.cluster.Status.LastPromotion = row.uncovered, row.last
			s.observed.UncoveredReported = reportedUncovered(row.last)
			if row.text == "" {
				row.text = open.String()
			}
			row.change(s)
			recorder := events.NewFakeRecorder(9)
			r := NewMySQLClusterReconciler(Ports{Clock: clocktesting.NewFakePassiveClock(time.Unix(9, 0)), Events: recorder})
			r.reporter.trackPromotion(s)
			p := s.result.promotion
			if (p == nil) != (row.owed == "") || p != nil && (p.Total != row.owed || p.Uncovered != row.text || p.LostTransactions != nil || p.To != "orders-1") {
				t.Fatalf("status says %+v", p)
			}
			if r.reporter.tellOfPromotion(s); p != nil && !strings.Contains(<-recorder.Events, "CommitsUncovered") {
				t.Error("no event says so")
			}
		})
	}
	for name, row := range map[string]struct {
		to        string
		uncovered topology.UncoveredTimes
		lost      bool
	}{
		"another is promoted":                     {"orders-1", open, true},
		"the same one is opened again":            {"orders-0", open, false},
		"the same one, and may have lost its own": {"orders-1", volatile, true},
		"nothing is uncovered":                    {"orders-1", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			from := timeline{kind: "Failover", from: "orders-0"}
			if p := from.report(row.to, true, row.uncovered); (p.LostTransactions == nil) != row.lost || (p.Uncovered != "") != row.lost {
				t.Errorf("status says %+v", p)
			}
		})
	}
}

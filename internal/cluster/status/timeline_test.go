package status

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestAPromotionIsToldOnceStatusHoldsIt: the write of status may fail, and the next pass must report the same once more.
func TestAPromotionIsToldOnceStatusHoldsIt(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	recorder := events.NewFakeRecorder(9)
	now := clocktesting.NewFakePassiveClock(at(5))
	r := &Reporter{Ports: &pass.Ports{Clock: now, Events: recorder, Metrics: metrics.New(prometheus.NewRegistry())}}
	lost := &pass.Cache{Told: pass.ToldCache{Timeline: pass.Timeline{Kind: pass.PromotionUnplanned, From: "orders-0", LastWrite: at(0), Noticed: at(1), Fenced: at(2), Opened: at(4)}}}
	pass := func() *pass.Pass {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: lost, Planned: true, Result: pass.Result{Published: true}}
		s.Plan.Primary = "orders-1"
		r.trackPromotion(s)
		return s
	}
	first := pass() // whose status could not be written
	r.reportPromotion(first, false)
	now.SetTime(at(60))
	second := pass()
	if first.Result.Promotion == nil || second.Result.Promotion == nil || !reflect.DeepEqual(first.Result.Promotion, second.Result.Promotion) || second.Result.Promotion.Total != "5.000s" {
		t.Fatalf("the promotion was reported as %+v, then as %+v", first.Result.Promotion, second.Result.Promotion)
	}
	r.reportPromotion(second, true)
	if third := pass(); third.Result.Promotion != nil {
		t.Errorf("the promotion is reported again: %+v", third.Result.Promotion)
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
	for kind, promises := range map[string]bool{pass.PromotionUnplanned: false, pass.PromotionPlanned: true} {
		recorder := events.NewFakeRecorder(9)
		r := &Reporter{Ports: &pass.Ports{Events: recorder, Metrics: metrics.New(prometheus.NewRegistry())}}
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{Told: pass.ToldCache{Timeline: pass.Timeline{Kind: kind}}}, Plan: topology.Plan{Primary: "orders-1"}, Result: pass.Result{Promotion: &v1alpha1.PromotionStatus{Kind: kind, To: "orders-1"}}}
		s.Cluster.Spec.Replication.Durability = v1alpha1.DurabilityAsync
		r.reportPromotion(s, true)
		if note := <-recorder.Events; strings.Contains(note, "no acknowledged transaction was lost") != promises {
			t.Errorf("%s: the event says %q", kind, note)
		}
	}
}

// TestThePrimaryOpenedAgain is no failover: status, event and metric have a word of their own for it.
func TestThePrimaryOpenedAgain(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	restarts := topology.RolloutProgress{Members: []string{"orders-0"}, Since: began.Unix()}
	asleep := func(s *pass.Pass) {
		s.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHibernated}}
	}
	for name, row := range map[string]struct {
		to       string
		replicas int
		change   func(*pass.Pass)
		kind     string
		event    string
	}{
		"another member":                               {"orders-1", 3, func(*pass.Pass) {}, "Failover", "Warning Failover Failed over from orders-0 to orders-1 in"},
		"the same member":                              {"orders-0", 3, func(*pass.Pass) {}, "Reopened", "Warning Reopened Reopened orders-0 for writes in"},
		"after a restart that was asked for":           {"orders-0", 1, func(s *pass.Pass) { s.Observed.Records.Restarts = restarts }, "Reopened", "Normal Reopened Reopened orders-0 for writes in"},
		"on another instance that was asked for":       {"orders-0", 1, func(s *pass.Pass) { s.Plan.Records.Rolling = "orders-0" }, "Reopened", "Normal Reopened Reopened orders-0 for writes in"},
		"while the members are restarted in turn":      {"orders-0", 3, func(s *pass.Pass) { s.Observed.Records.Restarts = restarts }, "Reopened", "Warning Reopened Reopened orders-0 for writes in"},
		"after hibernation":                            {"orders-0", 3, asleep, "Reopened", "Normal Reopened Reopened orders-0 for writes in"},
		"another member, after hibernation":            {"orders-1", 3, asleep, "Failover", "Warning Failover Failed over from orders-0 to orders-1 in"},
		"another member, of a primary that is unknown": {"orders-1", 3, func(s *pass.Pass) { s.Plan.Membership = nil }, "Failover", "Warning Failover Failed over from - to orders-1 in"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder, registry := events.NewFakeRecorder(9), prometheus.NewRegistry()
			prober := probe.NewProber(probe.ProberOptions{})
			defer prober.Close()
			r := &Reporter{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(began), Events: recorder, Metrics: metrics.New(registry), Prober: prober}}
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}, Planned: true}
			s.Desired.Replicas = row.replicas
			s.Plan.Failing, s.Plan.Membership = true, &topology.Membership{Primary: "orders-0"}
			row.change(s)
			r.trackPromotion(s)
			s.Cache.Told.Timeline.Fence(began)
			s.Cache.Told.Timeline.Open(began)
			s = &pass.Pass{Cluster: s.Cluster, Cache: s.Cache, Planned: true, Plan: topology.Plan{Primary: row.to}, Result: pass.Result{Published: true}}
			r.trackPromotion(s)
			if s.Result.Promotion == nil || s.Result.Promotion.Kind != row.kind || s.Result.Promotion.To != row.to {
				t.Fatalf("status says %+v", s.Result.Promotion)
			}
			r.reportPromotion(s, true)
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
	told := &v1alpha1.PromotionStatus{Kind: "Failover", From: "orders-0", To: "orders-1", Total: "3.000s", Uncovered: open.String(), UncoveredMembers: pass.UncoveredMembers(open)}
	both := append(slices.Clone(open), topology.Uncovered{Primary: "orders-2", Since: 5, Cause: open[0].Cause})
	claimed := &v1alpha1.PromotionStatus{Kind: "Failover", From: "orders-0", To: "orders-1", Total: "3.000s", LostTransactions: ptr.To[int64](0)}
	older := &v1alpha1.PromotionStatus{Kind: "Failover", From: "orders-1", To: "orders-2", Total: "9.000s", LostTransactions: ptr.To[int64](0)}
	for name, row := range map[string]struct {
		last      *v1alpha1.PromotionStatus
		uncovered topology.UncoveredTimes
		change    func(*pass.Pass)
		owed      string // its total; empty for nothing
		text      string // open's, unless given
	}{
		"the promotion claimed that nothing was lost":    {claimed, open, func(*pass.Pass) {}, "3.000s", ""},
		"the promotion was not told":                     {older, open, func(*pass.Pass) {}, "0.000s", ""},
		"no promotion was told ever":                     {nil, open, func(*pass.Pass) {}, "0.000s", ""},
		"status reports it already":                      {told, open, func(*pass.Pass) {}, "", ""},
		"status reports another time of the member":      {told, topology.UncoveredTimes{{Primary: "orders-0", Since: 7, Cause: open[0].Cause}}, func(*pass.Pass) {}, "3.000s", open.String() + "; " + topology.Uncovered{Primary: "orders-0", Since: 7, Cause: open[0].Cause}.String()},
		"status reports one of two":                      {told, both, func(*pass.Pass) {}, "3.000s", both.String()},
		"status reports one, and only the other is left": {told, both[1:], func(*pass.Pass) {}, "3.000s", both.String()},
		"status reports both, and one is left": {func() *v1alpha1.PromotionStatus {
			p := told.DeepCopy()
			p.UncoveredMembers = pass.UncoveredMembers(both)
			return p
		}(), both[1:], func(*pass.Pass) {}, "", ""},
		"an operator before told it, and named nobody": {&v1alpha1.PromotionStatus{To: "orders-1", Total: "3.000s", Uncovered: open.String()}, open, func(*pass.Pass) {}, "3.000s", ""},
		"nothing is uncovered":                         {claimed, nil, func(*pass.Pass) {}, "", ""},
		"the primary's own":                            {claimed, volatile, func(*pass.Pass) {}, "", ""},
		"there is no primary":                          {claimed, open, func(s *pass.Pass) { s.Plan.Primary = "" }, "", ""},
		"with Async":                                   {claimed, open, func(s *pass.Pass) { s.Cluster.Spec.Replication.Durability = v1alpha1.DurabilityAsync }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}, Planned: true, Plan: topology.Plan{Primary: "orders-1"}, Result: pass.Result{Published: true}}
			s.Plan.Records.Uncovered, s.Cluster.Status.LastPromotion = row.uncovered, row.last
			s.Observed.UncoveredReported = pass.ReportedUncovered(row.last)
			if row.text == "" {
				row.text = open.String()
			}
			row.change(s)
			recorder := events.NewFakeRecorder(9)
			r := &Reporter{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Unix(9, 0)), Events: recorder}}
			r.trackPromotion(s)
			p := s.Result.Promotion
			if (p == nil) != (row.owed == "") || p != nil && (p.Total != row.owed || p.Uncovered != row.text || p.LostTransactions != nil || p.To != "orders-1") {
				t.Fatalf("status says %+v", p)
			}
			if r.reportPromotion(s, true); p != nil && !strings.Contains(<-recorder.Events, "CommitsUncovered") {
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
			from := pass.Timeline{Kind: "Failover", From: "orders-0"}
			if p := from.Report(row.to, true, row.uncovered); (p.LostTransactions == nil) != row.lost || (p.Uncovered != "") != row.lost {
				t.Errorf("status says %+v", p)
			}
		})
	}
}

// TestASecondFailureBeforeStatusHoldsTheFirstPromotion is measured by itself.
func TestASecondFailureBeforeStatusHoldsTheFirstPromotion(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	prober := probe.NewProber(probe.ProberOptions{})
	defer prober.Close()
	r := &Reporter{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now), Prober: prober}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Planned: true, Plan: topology.Plan{Failing: true}, Cache: &pass.Cache{Told: pass.ToldCache{Timeline: pass.Timeline{
		Kind: pass.PromotionUnplanned, From: "orders-0", Noticed: now.Add(-time.Minute), Fenced: now.Add(-time.Minute), Opened: now.Add(-time.Minute), Published: now.Add(-time.Minute), Announced: true,
	}}}}
	r.trackPromotion(s)
	if got := s.Cache.Told.Timeline; got.Announced || !got.Noticed.Equal(now) || !got.Opened.IsZero() || !got.Published.IsZero() {
		t.Errorf("the second failure is measured as %+v", got)
	}
}

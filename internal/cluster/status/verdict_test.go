package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

func TestCombineFindings(t *testing.T) {
	notPermitted := topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: "ec2:StopInstances is not permitted"}
	notProven := topology.Finding{Reason: v1alpha1.ReasonPromotionNotProven, Message: "no primary: 2 of the 3 voters must be reached"}
	silent := func(name string) topology.Finding {
		return topology.Finding{Reason: v1alpha1.ReasonMemberUnreachable, Message: name + " is silent"}
	}
	for name, row := range map[string]struct {
		findings        []topology.Finding
		reason, message string
	}{
		"one":                                  {[]topology.Finding{notPermitted}, "NotPermitted", notPermitted.Message},
		"what the data need comes first":       {[]topology.Finding{notPermitted, silent("orders-1"), notProven}, "PromotionNotProven", notProven.Message + "; orders-1 is silent; " + notPermitted.Message},
		"twice the same":                       {[]topology.Finding{notPermitted, notPermitted}, "NotPermitted", notPermitted.Message},
		"the first of equals, then by message": {[]topology.Finding{silent("orders-2"), silent("orders-1"), silent("orders-0")}, "MemberUnreachable", "orders-2 is silent; orders-0 is silent; orders-1 is silent"},
	} {
		if reason, message := combine(row.findings); reason != row.reason || message != row.message {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
}

// TestVerdicts: what is known of a cluster, and what Available and Degraded say of it.
func TestVerdicts(t *testing.T) {
	now := time.Date(2026, 11, 26, 14, 2, 30, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	succeeded := func(d time.Duration) probe.ProbeResult {
		return probe.ProbeResult{Probed: true, LastSuccess: ago(d)}
	}
	failed := func(d time.Duration) probe.ProbeResult {
		return probe.ProbeResult{Probed: true, LastSuccess: ago(d), Err: "i/o timeout"}
	}
	before := func(status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Status: status, Reason: reason, Message: "as before"}
	}
	unproven := topology.Finding{Reason: v1alpha1.ReasonPromotionNotProven, Message: "no primary: 2 of the 3 voters must be reached"}
	missing := topology.Finding{Reason: v1alpha1.ReasonAcknowledgementsMissing, Message: "writes wait"}
	denied := topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: "ec2:StopInstances is not permitted"}
	refused := topology.Finding{Reason: v1alpha1.ReasonObjectRefused, Message: "Service orders-primary does not exist"}
	unled := probe.ProbeResult{Probed: true, Err: refused.Message}
	const secs = time.Second
	for name, row := range map[string]struct {
		e                   evidence
		available, degraded string // the beginning of status/reason: message; of Degraded "" when it stays as it is
	}{
		"all is well": {evidence{planned: true, primary: "orders-0", probe: succeeded(secs), due: ago(secs)},
			"True/WriteSucceeded", "False/Healthy: nothing needs attention"},
		"all members are down": {evidence{planned: true, waiting: "no member that knows the voters answers", probe: failed(9 * secs), due: ago(9 * secs)},
			"False/NoPrimary: no member takes writes: no member", "True/NoPrimary: no member takes writes: no member that knows"},
		"a failover has just begun": {evidence{planned: true, waiting: "waiting a moment for it", probe: failed(3 * secs), due: ago(3 * secs)},
			"True/WriteSucceeded", "False/Healthy"},
		"the primary is there, and writes fail": {evidence{planned: true, primary: "orders-0", service: "orders-primary", probe: failed(6 * secs), due: ago(6 * secs)},
			"False/WriteFailed: the last write", "True/WriteFailed: writes through Service orders-primary fail: i/o timeout."},
		"writes fail, and the pass came to no plan": {evidence{probe: failed(time.Minute), due: ago(time.Minute)},
			"False/WriteFailed", "True/WriteFailed"},
		"writes succeed, and the pass came to no plan": {evidence{probe: succeeded(secs), due: ago(secs)},
			"True/WriteSucceeded", ""},
		"the cause is known: it says so itself": {evidence{planned: true, probe: failed(time.Minute), due: ago(time.Minute), problems: []topology.Finding{denied, unproven}},
			"False/NoPrimary: no primary: 2 of the 3", "True/PromotionNotProven: no primary: 2 of the 3 voters must be reached; ec2:StopInstances is not permitted"},
		"acknowledgements are missing": {evidence{planned: true, primary: "orders-0", probe: failed(time.Minute), due: ago(time.Minute), problems: []topology.Finding{missing}},
			"False/WriteFailed", "True/AcknowledgementsMissing: writes wait"},
		"a hint does not hide that writes fail": {evidence{planned: true, waiting: "waiting for mysqld", probe: failed(time.Minute), due: ago(time.Minute), problems: []topology.Finding{denied}},
			"False/NoPrimary", "True/NoPrimary: no member takes writes: waiting for mysqld; ec2:StopInstances"},
		"the cluster starts for the first time": {evidence{planned: true, waiting: "orders-0: instance i-0 is pending"},
			"False/NoPrimary: there is no primary yet: orders-0: instance", "False/Healthy"},
		"it has just got its first primary": {evidence{planned: true, primary: "orders-0", due: ago(secs), since: ago(time.Hour), before: before(metav1.ConditionFalse, "NoPrimary")},
			"False/NoPrimary: as before", "False/Healthy"},
		"the Service is missing": {evidence{planned: true, primary: "orders-0", probe: unled, unled: &refused, due: ago(time.Minute)},
			"False/ObjectRefused: Service orders-primary does not exist", "True/ObjectRefused: Service orders-primary does not exist"},
		"the Service is missing, and the pass came to no plan": {evidence{probe: unled, unled: &refused, due: ago(time.Minute), before: before(metav1.ConditionTrue, "WriteSucceeded")},
			"False/ObjectRefused", "True/ObjectRefused"},
		"the Service is missing, and there is no primary either": {evidence{planned: true, waiting: "nobody answers", probe: unled, unled: &refused, due: ago(time.Minute)},
			"False/NoPrimary", "True/NoPrimary"},
		"the Service is missing while the cluster wakes": {evidence{planned: true, waiting: "nobody answers", waking: true, probe: unled, unled: &refused},
			"False/Waking", "False/Healthy"},
		"it has woken, and writes fail": {evidence{planned: true, primary: "orders-0", service: "orders-primary", waking: true, probe: failed(time.Hour), due: ago(time.Minute), before: before(metav1.ConditionFalse, "Waking")},
			"False/WriteFailed: the last write", "True/WriteFailed"},
		"it wakes, and no primary can be proven": {evidence{planned: true, waking: true, problems: []topology.Finding{unproven}},
			"False/Waking: the cluster wakes from hibernation: no primary: 2 of the 3", "True/PromotionNotProven"},
		"hibernates": {evidence{planned: true, hibernates: true, asleep: true, probe: failed(time.Hour)}, "False/Hibernated: the cluster hibernates", "False/Healthy"},
		"is going to hibernate, and instances are being ended": {evidence{planned: true, hibernates: true, probe: succeeded(secs), unled: &refused},
			"False/Hibernated: the cluster goes into hibernation", "False/Healthy"},
		"is to hibernate, and a primary has to lead first": {evidence{planned: true, waiting: "the cluster hibernates once a primary leads", probe: failed(time.Minute), due: ago(time.Minute)},
			"False/NoPrimary: no member takes writes: the cluster hibernates once", "True/NoPrimary"},
		"wakes": {evidence{planned: true, waking: true, waiting: "orders-0: instance i-0 is pending", before: before(metav1.ConditionFalse, "Hibernated")},
			"False/Waking: the cluster wakes", "False/Healthy"},
		"wakes, and the operator has not looked yet": {evidence{waking: true, before: before(metav1.ConditionFalse, "Waking")}, "False/Waking", ""},
		"has woken": {evidence{planned: true, primary: "orders-0", waking: true, probe: succeeded(secs), due: ago(secs), before: before(metav1.ConditionFalse, "Waking")},
			"True/WriteSucceeded", "False/Healthy"},
		"is deleted, and still has clients": {evidence{planned: true, deleting: true, probe: succeeded(secs)}, "False/Deleting: the cluster is being deleted", "False/Healthy"},
		"a new leader believes the last one for a moment": {evidence{planned: true, primary: "orders-0", since: ago(secs), due: ago(secs), before: before(metav1.ConditionTrue, "WriteSucceeded")},
			"True/WriteSucceeded: as before", "False/Healthy"},
		"and not for longer than its first probe takes": {evidence{planned: true, primary: "orders-0", since: ago(time.Minute), due: ago(time.Minute), before: before(metav1.ConditionTrue, "WriteSucceeded")},
			"Unknown/NotProbed", "False/Healthy"},
		"a new leader takes over an outage": {evidence{planned: true, primary: "orders-0", since: ago(0), due: ago(time.Hour), before: before(metav1.ConditionFalse, "WriteFailed")},
			"False/WriteFailed: as before", "True/WriteFailed"},
		"nobody could look since the operator started": {evidence{before: before(metav1.ConditionTrue, "WriteSucceeded")}, "Unknown/NotProbed", ""},
		"a new object": {evidence{}, "False/NotProbed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			row.e.now = now
			v := row.e.judge()
			text := func(c metav1.Condition) string { return string(c.Status) + "/" + c.Reason + ": " + c.Message }
			if !strings.HasPrefix(text(v.available), row.available) {
				t.Errorf("Available is %s", text(v.available))
			}
			switch {
			case v.degraded == nil && row.degraded != "", v.degraded != nil && row.degraded == "", v.degraded != nil && !strings.HasPrefix(text(*v.degraded), row.degraded):
				t.Errorf("Degraded is %+v, want %q", v.degraded, row.degraded)
			}
		})
	}
}

// TestStatusNeverSaysWellWhileWritesFail tries everything that a pass can know: whenever writes are due and none has succeeded for
// longer than ProbeFresh, Available is not True and Degraded is, or Available is Unknown because nobody could look.
func TestStatusNeverSaysWellWhileWritesFail(t *testing.T) {
	now := time.Date(2026, 11, 26, 14, 2, 30, 0, time.UTC)
	all := []evidence{{now: now}}
	vary := func(values int, set func(e *evidence, value int)) {
		var more []evidence
		for _, e := range all {
			for value := range values {
				set(&e, value)
				more = append(more, e)
			}
		}
		all = more
	}
	befores := []metav1.ConditionStatus{"", metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
	reasons := []string{"", v1alpha1.ReasonPromotionNotProven, v1alpha1.ReasonAcknowledgementsMissing, v1alpha1.ReasonMemberMissing, v1alpha1.ReasonNotPermitted}
	ages := []time.Duration{probe.ProbeFresh + time.Millisecond, firstProbe + time.Second, time.Hour}
	vary(2, func(e *evidence, i int) { e.planned = i == 1 })
	vary(2, func(e *evidence, i int) { e.primary = []string{"", "orders-0"}[i] })
	vary(len(befores), func(e *evidence, i int) {
		if e.before = nil; befores[i] != "" {
			e.before = &metav1.Condition{Status: befores[i], Reason: "Before"}
		}
	})
	vary(len(reasons), func(e *evidence, i int) {
		if e.problems = nil; reasons[i] != "" {
			e.problems = []topology.Finding{{Reason: reasons[i], Message: reasons[i]}}
		}
	})
	vary(len(ages), func(e *evidence, i int) { e.since, e.due = now.Add(-ages[i]), now.Add(-ages[i]) })
	vary(2, func(e *evidence, i int) {
		if e.probe = (probe.ProbeResult{}); i == 1 {
			e.probe = probe.ProbeResult{Probed: true, LastSuccess: e.due}
		}
	})
	for _, e := range all {
		v := e.judge()
		believed := !e.probe.Probed && e.before != nil && e.planned && e.primary != "" && now.Sub(e.since) <= firstProbe // the last leader
		if v.available.Status == metav1.ConditionTrue && !believed {
			t.Errorf("Available is True of %+v", e)
		}
		if v.available.Status == metav1.ConditionFalse && (v.degraded == nil || v.degraded.Status != metav1.ConditionTrue) {
			t.Errorf("Degraded is %+v of %+v", v.degraded, e)
		}
		if e.counts(v) != 0 {
			t.Errorf("Degraded still waits %s of %+v", e.counts(v), e)
		}
	}
}

// TestWritesAreDue: from when on a cluster must take writes.
func TestWritesAreDue(t *testing.T) {
	now := time.Date(2026, 11, 26, 14, 2, 30, 0, time.UTC)
	long := now.Add(-time.Hour)
	unavailable := func(reason string) func(*pass.Pass) {
		return func(s *pass.Pass) {
			s.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(long)}}
		}
	}
	unled := func(s *pass.Pass) {
		s.Cache.Published.Write.Missing = &topology.Finding{Reason: v1alpha1.ReasonObjectRefused}
	}
	established := topology.ClusterRecord{Established: true}
	for name, row := range map[string]struct {
		writes pass.Writes
		change func(*pass.Pass)
		due    time.Time
	}{
		"never had a primary":               {pass.Writes{}, func(s *pass.Pass) { s.SetRecords(topology.ClusterRecord{}) }, time.Time{}},
		"lost its primary":                  {pass.Writes{Since: long}, func(*pass.Pass) {}, now},
		"its Service is missing":            {pass.Writes{Since: long, Due: long}, unled, long},
		"still has none":                    {pass.Writes{Since: long, Due: long}, func(*pass.Pass) {}, long},
		"a new leader finds it unavailable": {pass.Writes{}, unavailable("NoPrimary"), long},
		"is to be deleted": {pass.Writes{Since: long, Due: long}, func(s *pass.Pass) {
			s.Cluster.DeletionTimestamp, s.Cluster.Spec.DeletionProtection = &metav1.Time{Time: now}, ptr.To(false)
		}, time.Time{}},
		"hibernates":                        {pass.Writes{Since: long, Due: long}, func(s *pass.Pass) { s.Cluster.Spec.Hibernate, s.Plan.Hibernating = true, true }, time.Time{}},
		"is to hibernate, and does not yet": {pass.Writes{Since: long, Due: long}, func(s *pass.Pass) { s.Cluster.Spec.Hibernate = true }, long},
		"hibernates, and the pass came to no plan": {pass.Writes{Since: long, Due: long}, func(s *pass.Pass) {
			unavailable(v1alpha1.ReasonHibernated)(s)
			s.Planned, s.Cluster.Spec.Hibernate = false, true
		}, time.Time{}},
		"begins to wake":                 {pass.Writes{Since: long}, unavailable(v1alpha1.ReasonHibernated), time.Time{}},
		"wakes":                          {pass.Writes{Since: long}, unavailable(v1alpha1.ReasonWaking), time.Time{}},
		"wakes, and the operator is new": {pass.Writes{}, unavailable(v1alpha1.ReasonWaking), time.Time{}},
		"wakes, and a member takes writes": {pass.Writes{}, func(s *pass.Pass) {
			unavailable(v1alpha1.ReasonWaking)(s)
			s.Plan.Primary = "orders-0"
		}, now},
		"the pass came to no plan: what was known holds": {pass.Writes{Since: long, Due: long}, func(s *pass.Pass) {
			s.Planned = false
			s.SetRecords(topology.ClusterRecord{})
		}, long},
	} {
		prober := probe.NewProber(probe.ProberOptions{})
		r := &Reporter{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now), Prober: prober}}
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{Told: pass.ToldCache{Writes: row.writes}}, Planned: true}
		s.SetRecords(established)
		row.change(s)
		r.trackWrites(s)
		if w := s.Cache.Told.Writes; !w.Due.Equal(row.due) {
			t.Errorf("%s: due %s", name, w.Due)
		}
		prober.Close()
	}
}

// TestFiguresNameEveryProblem: a metric has each reason, not only the one that Degraded shows, and none of a state that is wanted.
func TestFiguresNameEveryProblem(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	prober := probe.NewProber(probe.ProberOptions{})
	defer prober.Close()
	r := &Reporter{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now), Prober: prober}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}, Planned: true}
	s.Plan.Degraded = []topology.Finding{{Reason: "MemberMissing"}, {Reason: "ClockSkew"}, {Reason: "MemberMissing"}}
	s.Unmet = []topology.Finding{{Reason: "InvalidSpec"}}
	set := func(kind string, status metav1.ConditionStatus, reason string) {
		meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason})
	}
	set(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "NoPrimary")
	set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Stable")
	set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, "BackupOverdue")
	set(v1alpha1.ConditionArchiveHealthy, metav1.ConditionUnknown, "ArchiveStarting")
	if got, want := r.figures(s, nil), "[BackupOverdue ClockSkew InvalidSpec MemberMissing]"; fmt.Sprint(got.Problems) != want || got.Due || got.Available {
		t.Errorf("before a write is due: %+v, want %s", got, want)
	}
	s.Cache.Told.Writes.Due = time.Unix(1, 0)
	failure := &engine.Problem{Reason: "CloudSilent", Message: "no answer"}
	if got, want := r.figures(s, failure), "[BackupOverdue ClockSkew CloudSilent InvalidSpec MemberMissing NoPrimary]"; fmt.Sprint(got.Problems) != want || !got.Due || got.Available {
		t.Errorf("writes fail: %+v, want %s", got, want)
	}
	s.Cache.Told.Writes.Due = now.Add(-firstProbe)
	if got := r.figures(s, failure); got.Due {
		t.Errorf("a write counts as failed although no probe has had the time for one: %+v", got)
	}
	set(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "WriteSucceeded")
	if got := r.figures(s, nil); !got.Available {
		t.Errorf("writes succeed: %+v", got)
	}
}

// TestFiguresSayWhetherSomebodyLooksAfterACluster: a pass that ends early is a fault of a cluster with instances.
func TestFiguresSayWhetherSomebodyLooksAfterACluster(t *testing.T) {
	prober := probe.NewProber(probe.ProberOptions{})
	defer prober.Close()
	r := &Reporter{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), Prober: prober}}
	lost := &engine.Problem{Reason: v1alpha1.ReasonCALost, Message: "the Secret is gone"}
	for name, row := range map[string]struct {
		planned, deleting              bool
		instances                      int32
		failure                        *engine.Problem
		managed, reconciled, undecided bool
	}{
		"a pass that came to a plan":             {true, false, 3, nil, true, true, false},
		"one that ended early":                   {false, false, 3, lost, true, false, false},
		"one that met a conflict":                {false, false, 3, &engine.Problem{Message: "a conflict"}, true, false, true},
		"nothing has been made yet":              {false, false, 0, lost, false, false, false},
		"the cluster hibernates":                 {true, false, 0, nil, false, true, false},
		"a deletion that gets no further":        {false, true, 3, lost, false, false, false},
		"a plan with nothing wrong is a verdict": {true, false, 1, nil, true, true, false},
	} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}, Planned: row.planned}
		s.Cluster.Status.Replicas = row.instances
		if row.deleting {
			s.Cluster.DeletionTimestamp, s.Cluster.Spec.DeletionProtection = &metav1.Time{Time: time.Unix(1, 0)}, ptr.To(false)
		}
		if got := r.figures(s, row.failure); got.Managed != row.managed || got.Reconciled != row.reconciled || got.Undecided != row.undecided {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

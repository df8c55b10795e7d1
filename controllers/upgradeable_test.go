package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/olm"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// told notes what OLM would be told.
type told map[types.NamespacedName]*olm.Unfinished

func (t told) Set(cluster types.NamespacedName, work *olm.Unfinished) { t[cluster] = work }

func TestWhatAHandOverMustNotInterrupt(t *testing.T) {
	restarting := &topology.Member{}
	restarting.SQL.RestartPending = true
	for name, c := range map[string]struct {
		scope *pass
		want  string
	}{
		"nothing":                      {&pass{planned: true}, ""},
		"no primary any more":          {&pass{planned: true, plan: topology.Plan{Failing: true}}, unfinishedFailover},
		"a promotion":                  {&pass{planned: true, plan: topology.Plan{Actions: []topology.Action{topology.Promote{}}}}, unfinishedFailover},
		"a promotion without its row":  {&pass{planned: true, plan: topology.Plan{Actions: []topology.Action{topology.RecordPrimary{}}}}, unfinishedFailover},
		"a switchover":                 {&pass{planned: true, plan: topology.Plan{Actions: []topology.Action{topology.Switchover{}}}}, unfinishedSwitchover},
		"a restart":                    {&pass{planned: true, plan: topology.Plan{Actions: []topology.Action{topology.Restart{}}}}, unfinishedRollout},
		"one that waits to be":         {&pass{planned: true, observed: topology.Observed{Members: map[string]*topology.Member{"orders-0": restarting}}}, unfinishedRollout},
		"one that waits for a person":  {&pass{planned: true, desired: topology.Desired{Hold: "upgrades are paused"}, observed: topology.Observed{Members: map[string]*topology.Member{"orders-0": restarting}}}, ""},
		"a member that is replaced":    {&pass{planned: true, plan: topology.Plan{Rollout: topology.Rollout{Current: "orders-2"}}}, unfinishedRollout},
		"one that is to be":            {&pass{planned: true, plan: topology.Plan{Rollout: topology.Rollout{Next: []string{"orders-2"}}}}, ""},
		"a setting that needs none":    {&pass{planned: true, plan: topology.Plan{Actions: []topology.Action{topology.ApplySettings{}}}}, ""},
		"a member that is being added": {&pass{planned: true, plan: topology.Plan{Actions: []topology.Action{topology.CloneFrom{}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.scope.cluster = &v1alpha1.MySQLCluster{}
			work := unfinished(c.scope)
			if got := ptr.Deref(work, olm.Unfinished{}).Reason; got != c.want {
				t.Errorf("OLM is told %q, want %q", got, c.want)
			}
			if work != nil && work.Message == "" {
				t.Error("OLM is not told why")
			}
		})
	}
}

func TestARestoreIsUnfinishedUntilItIsDoneOrGivenUp(t *testing.T) {
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{BackupName: "nightly"}}
	for name, row := range map[string]struct {
		change func(*pass)
		want   string
	}{
		"it runs":                    {func(*pass) {}, unfinishedRestore},
		"it is done":                 {func(s *pass) { amend(s, func(records *topology.Records) { records.Recovered = true }) }, ""},
		"the cluster has begun":      {func(s *pass) { amend(s, func(records *topology.Records) { records.Established = true }) }, ""},
		"its pod gave up":            {func(s *pass) { s.backup.recovery = map[string]string{task.ReportState: restoreFailed} }, ""},
		"a copy that cannot be used": {func(s *pass) { s.backup.unadoptable = "it is another's" }, ""},
		"a source that cannot be":    {func(s *pass) { s.observed.Source.Final = true }, ""},
	} {
		s := &pass{planned: true, cluster: cluster}
		row.change(s)
		if got := ptr.Deref(unfinished(s), olm.Unfinished{}).Reason; got != row.want {
			t.Errorf("%s: OLM is told %q, want %q", name, got, row.want)
		}
	}
}

func TestARequestedSwitchoverIsUnfinishedUntilItIsDone(t *testing.T) {
	s := &pass{cluster: &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationSwitchover: "orders-1"}}}}
	s.plan.Primary = "orders-0"
	if work := unfinished(s); work != nil {
		t.Errorf("OLM is told %+v of a wish for a member that there is not", work)
	}
	s.plan.Members = []topology.View{{Name: "orders-1", Phase: v1alpha1.PhaseReady}}
	if work := unfinished(s); work == nil || work.Reason != unfinishedSwitchover {
		t.Errorf("OLM is told %+v", work)
	}
	s.plan.Primary = "orders-1"
	if work := unfinished(s); work != nil {
		t.Errorf("OLM is told %+v", work)
	}
}

func TestAClusterThatGoesHoldsNothingUp(t *testing.T) {
	now := metav1.Now()
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
	cluster.Spec.DeletionProtection = ptr.To(false)
	s := &pass{cluster: cluster, plan: topology.Plan{Failing: true}}
	if work := unfinished(s); work != nil {
		t.Errorf("OLM is told %+v", work)
	}
}

func TestOLMIsToldOfPlansAndEnds(t *testing.T) {
	heard := told{}
	r := NewMySQLClusterReconciler(Ports{Upgradeable: heard})
	key := types.NamespacedName{Namespace: "shop", Name: "orders"}
	req := ctrl.Request{NamespacedName: key}
	failing := &pass{planned: true, cluster: &v1alpha1.MySQLCluster{}, plan: topology.Plan{Failing: true}}
	r.reporter.tellUnfinished(req, failing)
	if heard[key] == nil {
		t.Fatal("OLM is not told of a failover")
	}
	r.reporter.tellUnfinished(req, &pass{cluster: &v1alpha1.MySQLCluster{}})
	if heard[key] == nil {
		t.Error("a pass that came to no plan ended the failover")
	}
	r.reporter.tellUnfinished(req, nil)
	if heard[key] != nil {
		t.Error("a cluster that is gone holds OLM up")
	}
	NewMySQLClusterReconciler(Ports{}).reporter.tellUnfinished(req, failing)
}

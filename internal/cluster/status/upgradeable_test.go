package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
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
		scope *pass.Pass
		want  string
	}{
		"nothing":                      {&pass.Pass{Planned: true}, ""},
		"no primary any more":          {&pass.Pass{Planned: true, Plan: topology.Plan{Failing: true}}, unfinishedFailover},
		"a promotion":                  {&pass.Pass{Planned: true, Plan: topology.Plan{Actions: []topology.Action{topology.Promote{}}}}, unfinishedFailover},
		"a promotion without its row":  {&pass.Pass{Planned: true, Plan: topology.Plan{Actions: []topology.Action{topology.RecordPrimary{}}}}, unfinishedFailover},
		"a switchover":                 {&pass.Pass{Planned: true, Plan: topology.Plan{Actions: []topology.Action{topology.Switchover{}}}}, unfinishedSwitchover},
		"a restart":                    {&pass.Pass{Planned: true, Plan: topology.Plan{Actions: []topology.Action{topology.Restart{}}}}, unfinishedRollout},
		"one that waits to be":         {&pass.Pass{Planned: true, Observed: topology.Observed{Members: map[string]*topology.Member{"orders-0": restarting}}}, unfinishedRollout},
		"one that waits for a person":  {&pass.Pass{Planned: true, Desired: topology.Desired{Holds: topology.Holds{Hold: "upgrades are paused"}}, Observed: topology.Observed{Members: map[string]*topology.Member{"orders-0": restarting}}}, ""},
		"a member that is replaced":    {&pass.Pass{Planned: true, Plan: topology.Plan{Rollout: topology.Rollout{Current: "orders-2"}}}, unfinishedRollout},
		"one that is to be":            {&pass.Pass{Planned: true, Plan: topology.Plan{Rollout: topology.Rollout{Next: []string{"orders-2"}}}}, ""},
		"a setting that needs none":    {&pass.Pass{Planned: true, Plan: topology.Plan{Actions: []topology.Action{topology.ApplySettings{}}}}, ""},
		"a member that is being added": {&pass.Pass{Planned: true, Plan: topology.Plan{Actions: []topology.Action{topology.CloneFrom{}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.scope.Cluster = &v1alpha1.MySQLCluster{}
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
		change func(*pass.Pass)
		want   string
	}{
		"it runs":                    {func(*pass.Pass) {}, unfinishedRestore},
		"it is done":                 {func(s *pass.Pass) { amend(s, func(records *topology.ClusterRecord) { records.Recovered = true }) }, ""},
		"the cluster has begun":      {func(s *pass.Pass) { amend(s, func(records *topology.ClusterRecord) { records.Established = true }) }, ""},
		"its pod gave up":            {func(s *pass.Pass) { s.Backup.Recovery = map[string]string{task.ReportState: pass.RestoreFailed} }, ""},
		"a copy that cannot be used": {func(s *pass.Pass) { s.Backup.Unadoptable = "it is another's" }, ""},
		"a source that cannot be":    {func(s *pass.Pass) { s.Observed.Source.Final = true }, ""},
	} {
		s := &pass.Pass{Planned: true, Cluster: cluster}
		row.change(s)
		if got := ptr.Deref(unfinished(s), olm.Unfinished{}).Reason; got != row.want {
			t.Errorf("%s: OLM is told %q, want %q", name, got, row.want)
		}
	}
}

func TestARequestedSwitchoverIsUnfinishedUntilItIsDone(t *testing.T) {
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationSwitchover: "orders-1"}}}}
	s.Plan.Primary = "orders-0"
	if work := unfinished(s); work != nil {
		t.Errorf("OLM is told %+v of a wish for a member that there is not", work)
	}
	s.Plan.Members = []topology.View{{Name: "orders-1", Phase: v1alpha1.PhaseReady}}
	if work := unfinished(s); work == nil || work.Reason != unfinishedSwitchover {
		t.Errorf("OLM is told %+v", work)
	}
	s.Plan.Primary = "orders-1"
	if work := unfinished(s); work != nil {
		t.Errorf("OLM is told %+v", work)
	}
}

func TestAClusterThatGoesHoldsNothingUp(t *testing.T) {
	now := metav1.Now()
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
	cluster.Spec.DeletionProtection = ptr.To(false)
	s := &pass.Pass{Cluster: cluster, Plan: topology.Plan{Failing: true}}
	if work := unfinished(s); work != nil {
		t.Errorf("OLM is told %+v", work)
	}
}

func TestOLMIsToldOfPlansAndEnds(t *testing.T) {
	heard := told{}
	r := &Reporter{Ports: &pass.Ports{Upgradeable: heard}}
	key := types.NamespacedName{Namespace: "shop", Name: "orders"}
	req := ctrl.Request{NamespacedName: key}
	failing := &pass.Pass{Planned: true, Cluster: &v1alpha1.MySQLCluster{}, Plan: topology.Plan{Failing: true}}
	r.ReportUnfinished(req, failing)
	if heard[key] == nil {
		t.Fatal("OLM is not told of a failover")
	}
	r.ReportUnfinished(req, &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}})
	if heard[key] == nil {
		t.Error("a pass that came to no plan ended the failover")
	}
	r.ReportUnfinished(req, nil)
	if heard[key] != nil {
		t.Error("a cluster that is gone holds OLM up")
	}
	(&Reporter{Ports: &pass.Ports{}}).ReportUnfinished(req, failing)
}

// TestProgressIsThatOfTheWork: the epoch, the member whose turn it is, what a restore reports; not what the operator tries meanwhile.
func TestProgressIsThatOfTheWork(t *testing.T) {
	heard := told{}
	r := &Reporter{Ports: &pass.Ports{Upgradeable: heard}}
	key := types.NamespacedName{Namespace: "shop", Name: "orders"}
	after := func(change func(*pass.Pass)) string {
		s := &pass.Pass{Planned: true, Cluster: &v1alpha1.MySQLCluster{}, Plan: topology.Plan{Failing: true, Membership: &topology.Membership{Epoch: 7}}}
		change(s)
		r.ReportUnfinished(ctrl.Request{NamespacedName: key}, s)
		return heard[key].Progress
	}
	began := after(func(*pass.Pass) {})
	if again := after(func(s *pass.Pass) {
		s.Plan.Actions = []topology.Action{topology.Promote{Member: "orders-1"}}
		s.Plan.Waiting = topology.Finding{Reason: v1alpha1.ReasonPromotionNotProven, Message: "orders-2 is not reached"}
	}); again != began {
		t.Errorf("what is tried counts as progress: %q, then %q", began, again)
	}
	for name, change := range map[string]func(*pass.Pass){
		"a promotion":      func(s *pass.Pass) { s.Plan.Membership.Epoch = 8 },
		"the next member":  func(s *pass.Pass) { s.Plan.Rollout = topology.Rollout{Current: "orders-1"} },
		"a restore's news": func(s *pass.Pass) { s.Backup.Recovery = map[string]string{task.ReportState: "Loading"} },
	} {
		if after(change) == began {
			t.Errorf("%s is no progress", name)
		}
	}
}

// amend changes what a pass knows of the records.
func amend(s *pass.Pass, change func(*topology.ClusterRecord)) {
	records := s.Records().Clone()
	change(&records)
	s.SetRecords(records)
}

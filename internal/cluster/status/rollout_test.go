package status

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestProgressOfARolloutIsTold follows a change from its first member's turn to its end, as a person and a dashboard see it.
func TestProgressOfARolloutIsTold(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	registry, recorder := prometheus.NewRegistry(), events.NewFakeRecorder(10)
	r := &announce.Announcer{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now), Events: recorder, Metrics: metrics.New(registry)}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}, Planned: true}
	pass := func(rollout topology.Rollout, waiting string) string {
		t.Helper()
		before := s.Cluster.DeepCopy()
		s.Plan = topology.Plan{Phase: v1alpha1.PhaseReady, Rollout: rollout, Waiting: topology.Finding{Reason: v1alpha1.ReasonReconciling, Message: waiting}}
		if rollout.Total() > 0 {
			s.Plan.Rollouts = []topology.Rollout{rollout}
			s.Plan.Rolling = topology.Finding{Reason: v1alpha1.ReasonRolling, Message: rollout.String()}
		}
		projectMembers(s, &s.Cluster.Status)
		setProgressing(pass.Conditions{Cluster: s.Cluster}, s, nil, nil)
		r.Rollout(s, before.Status)
		select {
		case told := <-recorder.Events:
			return told
		default:
			return ""
		}
	}
	progressing := func() string {
		return meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionProgressing).Message
	}

	if told := pass(topology.Rollout{Kind: v1alpha1.RolloutMachines, Next: []string{"orders-1", "orders-0"}, Step: "waiting for the window"}, ""); told != "" {
		t.Errorf("before anybody's turn: %q", told)
	}
	if says := progressing(); says != "0 of 2 members done: waiting for the window; then orders-1, orders-0" {
		t.Errorf("Progressing says %q", says)
	}
	begun := topology.Rollout{Kind: v1alpha1.RolloutMachines, Current: "orders-1", Next: []string{"orders-0"}, Step: "launching its next instance", Since: now.Add(-90 * time.Second).Unix()}
	if told := pass(begun, "orders-1: launching its next instance"); !strings.Contains(told, "Changing one member after the other: orders-1, orders-0") {
		t.Errorf("at the first turn: %q", told)
	}
	if says := progressing(); says != "member 1 of 2, orders-1: launching its next instance; then orders-0" {
		t.Errorf("Progressing says %q", says)
	}
	if st := s.Cluster.Status.Rollout; st.Done != 0 || st.Total != 2 || st.Current != "orders-1" || len(st.Next) != 1 || !st.Since.Equal(ptrTime(now.Add(-90*time.Second))) {
		t.Errorf("status says %+v", st)
	}
	if told := pass(begun, ""); told != "" {
		t.Errorf("told again: %q", told)
	}
	if told := pass(topology.Rollout{}, ""); !strings.Contains(told, "The instances of all members are as the spec wants them, after 1m30s") {
		t.Errorf("at the end: %q", told)
	}
	if s.Cluster.Status.Rollout != nil {
		t.Errorf("status still says %+v", s.Cluster.Status.Rollout)
	}
	// Volumes are modified, and in the middle of that a setting asks for restarts, which are told first.
	volumes := topology.Rollout{Kind: v1alpha1.RolloutVolumes, Current: "orders-0", Next: []string{"orders-1"}, Plan: []string{"orders-0: larger", "orders-1: larger"}, Step: "volume vol-1 is being modified", Since: now.Unix()}
	if told := pass(volumes, ""); !strings.Contains(told, "Modifying one volume after the other, of orders-0, orders-1") {
		t.Errorf("of volumes: %q", told)
	}
	if st := s.Cluster.Status.Rollout; st.Kind != v1alpha1.RolloutVolumes || len(st.Plan) != 2 {
		t.Errorf("status says %+v", st)
	}
	restarts := topology.Rollout{Kind: v1alpha1.RolloutRestarts, Current: "orders-1", Step: "restarting mysqld", Since: now.Add(-20 * time.Second).Unix()}
	before := s.Cluster.DeepCopy()
	s.Plan = topology.Plan{Rollout: restarts, Rollouts: []topology.Rollout{restarts, volumes}}
	projectMembers(s, &s.Cluster.Status)
	r.Rollout(s, before.Status)
	if told := <-recorder.Events; !strings.Contains(told, "Restarting one mysqld after the other, of orders-1") || len(recorder.Events) != 0 {
		t.Errorf("told %q, and %d more", told, len(recorder.Events))
	}
	if told := pass(topology.Rollout{}, ""); !strings.Contains(told, "No mysqld is left to be restarted, after 20s") {
		t.Errorf("at the end of the restarts: %q", told)
	}
	if n := testutil.CollectAndCount(registry, "mysqlcluster_rollout_duration_seconds"); n != 2 {
		t.Errorf("%d histograms", n)
	}
}

// TestNobodyIsToldOfTheEndOfARolloutThatSleeps: a cluster that goes to sleep in the middle is not as the spec wants it.
func TestNobodyIsToldOfTheEndOfARolloutThatSleeps(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	r := &announce.Announcer{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Now()), Events: recorder, Metrics: metrics.New(prometheus.NewRegistry())}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}, Planned: true}
	s.Desired.Hibernate = true
	since := ptrTime(time.Now())
	r.Rollout(s, v1alpha1.MySQLClusterStatus{Rollout: &v1alpha1.RolloutStatus{Total: 2, Since: since}})
	if len(recorder.Events) != 0 {
		t.Errorf("told %q", <-recorder.Events)
	}
}

func ptrTime(at time.Time) *metav1.Time { return &metav1.Time{Time: at} }

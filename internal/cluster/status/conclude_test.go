package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestAPassIsInTheMetrics: what alerts are made of is there once a pass has ended, whether it came to a plan or not.
func TestAPassIsInTheMetrics(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	registry, prober := prometheus.NewRegistry(), probe.NewProber(probe.ProberOptions{})
	defer prober.Close()
	ports := &pass.Ports{
		Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)),
		Prober: prober, Events: events.NewFakeRecorder(9), Metrics: metrics.New(registry),
	}
	r := &Reporter{Ports: ports, Announcer: &announce.Announcer{Ports: ports}, Backups: &backups.Backups{Ports: ports, Archive: &backups.Archive{Ports: ports}}}
	for _, planned := range []bool{true, false} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache(""), Planned: planned}
		s.Cluster.Namespace, s.Cluster.Name = "shop", "orders"
		s.SetRecords(topology.ClusterRecord{Established: true})
		s.Cache.Told.Writes.Due = time.Unix(1, 0)
		s.Plan.Degraded = []topology.Finding{{Reason: v1alpha1.ReasonClockSkew, Message: "orders-1: its clock differs"}}
		s.Plan.Phase = v1alpha1.PhaseReady
		s.Plan.Members = []topology.View{{Name: "orders-0", Phase: v1alpha1.PhaseReady}}
		if _, err := r.Conclude(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP mysqlcluster_available 1 while a write through the primary Service succeeded in the last 5 seconds, 0 while none did. Absent while none is due: before the first primary, in hibernation and during deletion.
# TYPE mysqlcluster_available gauge
mysqlcluster_available{cluster="orders",namespace="shop"} 0
# HELP mysqlcluster_problem 1 for each reason why a cluster, its backups or its archive need attention now. Absent for the others.
# TYPE mysqlcluster_problem gauge
mysqlcluster_problem{cluster="orders",namespace="shop",reason="ClockSkew"} 1
mysqlcluster_problem{cluster="orders",namespace="shop",reason="No`+map[bool]string{true: "Primary", false: "tProbed"}[planned]+`"} 1
`), "mysqlcluster_available", "mysqlcluster_problem"); err != nil {
			t.Errorf("planned %v: %v", planned, err)
		}
	}
	if n, err := testutil.GatherAndCount(registry, "mysqlcluster_members"); err != nil || n == 0 {
		t.Errorf("%d figures of members are left of the plan, %v", n, err)
	}
}

// TestForeignConditionsAreRemoved: a status holds 64 conditions, and the API server refuses one with more.
func TestForeignConditionsAreRemoved(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = "shop", "orders"
	for i := range 64 {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: fmt.Sprint("Foreign", i), Status: metav1.ConditionTrue, Reason: "Test"})
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(cluster).WithObjects(cluster).Build()
	prober := probe.NewProber(probe.ProberOptions{})
	defer prober.Close()
	ports := &pass.Ports{
		Client: kube, Clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)),
		Prober: prober, Events: events.NewFakeRecorder(9), Metrics: metrics.New(prometheus.NewRegistry()),
	}
	r := &Reporter{Ports: ports, Announcer: &announce.Announcer{Ports: ports}, Backups: &backups.Backups{Ports: ports, Archive: &backups.Archive{Ports: ports}}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache("")}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(cluster), s.Cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Conclude(t.Context(), s, nil); err != nil {
		t.Fatal(err)
	}
	var now v1alpha1.MySQLCluster
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(cluster), &now); err != nil {
		t.Fatal(err)
	}
	if len(now.Status.Conditions) == 0 {
		t.Error("there are no conditions")
	}
	for _, c := range now.Status.Conditions {
		if !slices.Contains(v1alpha1.ClusterConditions, c.Type) {
			t.Errorf("%s stays", c.Type)
		}
	}
}

// TestStaleStatusIsNotWritten: a pass that has read the status from before the last one writes no mixture of both.
func TestStaleStatusIsNotWritten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MySQLCluster{}).Build()
	ports := &pass.Ports{Client: kube, Clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), Events: events.NewFakeRecorder(9)}
	r := &Reporter{Ports: ports, Announcer: &announce.Announcer{Ports: ports}}
	read := &v1alpha1.MySQLCluster{}
	read.Namespace, read.Name = "shop", "orders"
	if err := kube.Create(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	write := func(read *v1alpha1.MySQLCluster, phase v1alpha1.Phase, ready metav1.ConditionStatus) bool {
		s := &pass.Pass{Cluster: read.DeepCopy(), Cache: pass.NewCache("")}
		s.Cluster.Status.Phase = phase
		s.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "Test"}}
		told, err := r.writeStatus(t.Context(), s, read)
		if err != nil {
			t.Fatal(err)
		}
		if after := r.retryStatus(s); after != engine.AfterProgress {
			t.Errorf("tried again after %s", after)
		}
		return told
	}
	var now v1alpha1.MySQLCluster
	get := func() string {
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(read), &now); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(now.Status.Phase, " ", now.Status.Conditions[0].Status)
	}
	write(read, v1alpha1.PhaseReady, metav1.ConditionTrue)
	get()
	stale := now.DeepCopy()
	if told := write(&now, v1alpha1.PhaseUpdating, metav1.ConditionFalse); !told || get() != "Updating False" {
		t.Fatalf("told %v, and it is %s", told, get())
	}
	stale.Status.Conditions[0].Message = "of another pass"
	if told := write(stale, v1alpha1.PhaseReady, metav1.ConditionTrue); told || get() != "Updating False" {
		t.Errorf("told %v, and it is %s", told, get())
	}
	if told := write(now.DeepCopy(), v1alpha1.PhaseReady, metav1.ConditionTrue); !told || get() != "Ready True" {
		t.Errorf("told %v, and it is %s", told, get())
	}
}

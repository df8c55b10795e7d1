package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestGaugesAreOfNow: what is read is what the last pass saw of a cluster, and nothing of a member or a cluster that is gone.
func TestGaugesAreOfNow(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry)
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name, c.Status.Phase = "shop", "orders", v1alpha1.PhaseReplicating
	plan := topology.Plan{Members: []topology.View{
		{Name: "orders-0", Phase: v1alpha1.PhaseReady, Disk: &topology.Disk{SizeBytes: 100, FreeBytes: 40}},
		{Name: "orders-1", Phase: v1alpha1.PhaseReplicating, LagKnown: true, Lag: 1500 * time.Millisecond},
	}}
	names := []string{"mysqlcluster_phase", "mysqlcluster_members", "mysqlcluster_replication_lag_seconds", "mysqlcluster_data_volume_bytes"}
	shows := func(when, want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names[2:]...); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	of := func(name, phase string) float64 {
		t.Helper()
		families, err := registry.Gather()
		if err := err; err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if family.GetName() == name && label.GetName() == "phase" && label.GetValue() == phase {
						return metric.GetGauge().GetValue()
					}
				}
			}
		}
		return -1
	}
	m.Observe(c, plan)
	shows("two members", `
# HELP mysqlcluster_data_volume_bytes The file system of a member's data volume, as its instance reports it: its size, and what is free.
# TYPE mysqlcluster_data_volume_bytes gauge
mysqlcluster_data_volume_bytes{cluster="orders",kind="free",member="orders-0",namespace="shop"} 40
mysqlcluster_data_volume_bytes{cluster="orders",kind="size",member="orders-0",namespace="shop"} 100
# HELP mysqlcluster_replication_lag_seconds How far a replica's applier is behind its source.
# TYPE mysqlcluster_replication_lag_seconds gauge
mysqlcluster_replication_lag_seconds{cluster="orders",member="orders-1",namespace="shop"} 1.5
`)
	for phase, want := range map[v1alpha1.Phase][2]float64{v1alpha1.PhaseReplicating: {1, 1}, v1alpha1.PhaseReady: {0, 1}, v1alpha1.PhaseDeleting: {0, 0}} {
		if is, members := of(names[0], string(phase)), of(names[1], string(phase)); is != want[0] || members != want[1] {
			t.Errorf("%s: phase %v, members %v, want %v", phase, is, members, want)
		}
	}

	c.Status.Phase, plan.Members = v1alpha1.PhaseReady, plan.Members[:1]
	plan.Members[0].Disk = nil
	m.Observe(c, plan)
	shows("one that no longer reports its disk", "")
	if is, was := of(names[0], string(v1alpha1.PhaseReady)), of(names[0], string(v1alpha1.PhaseReplicating)); is != 1 || was != 0 {
		t.Errorf("Ready is %v, Replicating %v", is, was)
	}

	m.Forget(types.NamespacedName{Namespace: "shop", Name: "orders"})
	for _, name := range names {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != 0 {
			t.Errorf("%d of %s are left of a cluster that is gone (%v)", n, name, err)
		}
	}
}

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
	m.Observe(c, plan, topology.Observed{})
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
	m.Observe(c, plan, topology.Observed{})
	shows("one that no longer reports its disk", "")
	if is, was := of(names[0], string(v1alpha1.PhaseReady)), of(names[0], string(v1alpha1.PhaseReplicating)); is != 1 || was != 0 {
		t.Errorf("Ready is %v, Replicating %v", is, was)
	}

	c.Status.Phase = v1alpha1.PhaseRepairing
	m.Observe(c, plan, topology.Observed{})
	if is := of(names[0], string(v1alpha1.PhaseRepairing)); is != 1 {
		t.Errorf("Repairing is %v", is)
	}

	m.Forget(types.NamespacedName{Namespace: "shop", Name: "orders"})
	for _, name := range names {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != 0 {
			t.Errorf("%d of %s are left of a cluster that is gone (%v)", n, name, err)
		}
	}
}

// TestVerdictsAreKept: what an alert needs is there as soon as a pass has judged, changes with the next verdict, and outlives a look at the members.
func TestVerdictsAreKept(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry)
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name = "shop", "orders"
	name := types.NamespacedName{Namespace: "shop", Name: "orders"}
	shows := func(when, want string, names ...string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	const available, problem, promotions = "mysqlcluster_available", "mysqlcluster_problem", "mysqlcluster_promotions_total"

	m.Judge(c, Verdict{Problems: []string{"NotPermitted", "WaitingForDependency"}})
	shows("a new cluster", `
# HELP mysqlcluster_problem 1 for each reason why a cluster, its backups or its archive need attention now. Absent for the others.
# TYPE mysqlcluster_problem gauge
mysqlcluster_problem{cluster="orders",namespace="shop",reason="NotPermitted"} 1
mysqlcluster_problem{cluster="orders",namespace="shop",reason="WaitingForDependency"} 1
`, available, problem, "mysqlcluster_members")

	m.Judge(c, Verdict{Due: true, Problems: []string{"NoPrimary"}})
	m.Promoted(c, v1alpha1.EventReopened, true, nil)
	m.Promoted(c, v1alpha1.EventFailover, false, map[string]time.Duration{"total": time.Second})
	signed := time.Unix(1_800_000_000, 0)
	row := &topology.Membership{Primary: "orders-0", Voters: []string{"orders-0"}}
	primary := &topology.Member{Name: "orders-0", SQL: topology.SQL{Access: topology.AccessVerified, CertificateIssuedAt: signed}}
	m.Observe(c, topology.Plan{Primary: "orders-0", Membership: row, Members: []topology.View{{Name: "orders-0"}}}, topology.Observed{Members: map[string]*topology.Member{"orders-0": primary}})
	want := `
# HELP mysqlcluster_available 1 while a write through the primary Service succeeded in the last 5 seconds, 0 while none did. Absent while none is due: before the first primary, in hibernation and during deletion.
# TYPE mysqlcluster_available gauge
mysqlcluster_available{cluster="orders",namespace="shop"} 0
# HELP mysqlcluster_certificate_expiry_timestamp_seconds When the certificate ends that the member's instance presented last, as a Unix time.
# TYPE mysqlcluster_certificate_expiry_timestamp_seconds gauge
mysqlcluster_certificate_expiry_timestamp_seconds{cluster="orders",member="orders-0",namespace="shop"} 1.807776e+09
# HELP mysqlcluster_problem 1 for each reason why a cluster, its backups or its archive need attention now. Absent for the others.
# TYPE mysqlcluster_problem gauge
mysqlcluster_problem{cluster="orders",namespace="shop",reason="NoPrimary"} 1
# HELP mysqlcluster_promotions_total Promotions of a cluster since the operator started: failovers, switchovers, and reopenings of the same primary.
# TYPE mysqlcluster_promotions_total counter
mysqlcluster_promotions_total{cluster="orders",kind="Failover",namespace="shop"} 1
mysqlcluster_promotions_total{cluster="orders",kind="Reopened",namespace="shop"} 0
mysqlcluster_promotions_total{cluster="orders",kind="Switchover",namespace="shop"} 0
# HELP mysqlcluster_quorum_headroom How many more voters may fail before commits wait; negative while they wait. Absent while there is no primary.
# TYPE mysqlcluster_quorum_headroom gauge
mysqlcluster_quorum_headroom{cluster="orders",namespace="shop"} 0
`
	all := []string{available, "mysqlcluster_certificate_expiry_timestamp_seconds", problem, promotions, "mysqlcluster_quorum_headroom"}
	shows("a failover", want, all...)

	m.Judge(c, Verdict{Due: true, Available: true})
	shows("all is well again", `
# HELP mysqlcluster_available 1 while a write through the primary Service succeeded in the last 5 seconds, 0 while none did. Absent while none is due: before the first primary, in hibernation and during deletion.
# TYPE mysqlcluster_available gauge
mysqlcluster_available{cluster="orders",namespace="shop"} 1
`, available, problem)

	m.Judge(c, Verdict{Managed: true, Reconciled: true, Problems: []string{"ClockSkew"}})
	kept := `
# HELP mysqlcluster_problem 1 for each reason why a cluster, its backups or its archive need attention now. Absent for the others.
# TYPE mysqlcluster_problem gauge
mysqlcluster_problem{cluster="orders",namespace="shop",reason="ClockSkew"} 1
`
	m.Judge(c, Verdict{Managed: true, Undecided: true})
	shows("a pass that found out nothing", kept, problem)
	shows("and ended early", `
# HELP mysqlcluster_last_reconcile_successful 1 when the last reconcile observed the members and came to a plan, 0 when something ended it earlier, so that there is no failover and no repair. Absent while the cluster has no instances, and during deletion.
# TYPE mysqlcluster_last_reconcile_successful gauge
mysqlcluster_last_reconcile_successful{cluster="orders",namespace="shop"} 0
`, "mysqlcluster_last_reconcile_successful")

	m.Forget(name)
	shows("the cluster is gone", "", append(all, "mysqlcluster_last_reconcile_successful")...)
}

func TestLeading(t *testing.T) {
	elected := make(chan struct{})
	leading := Leading(elected)
	if got := testutil.ToFloat64(leading); got != 0 {
		t.Errorf("a copy that waits for the lease reports %v", got)
	}
	close(elected)
	if got := testutil.ToFloat64(leading); got != 1 {
		t.Errorf("the leader reports %v", got)
	}
}

// TestAnExpiryOutlivesTheAnswer: the certificate of a member that does not answer, or whose certificate has ended, cannot be read, and is
// the one that nobody renews. Another instance has another one.
func TestAnExpiryOutlivesTheAnswer(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry)
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name = "shop", "orders"
	look := func(instance string, sql topology.SQL) (known int) {
		t.Helper()
		seen := topology.Observed{Members: map[string]*topology.Member{"orders-0": {Name: "orders-0", SQL: sql}}}
		m.Observe(c, topology.Plan{Members: []topology.View{{Name: "orders-0", InstanceID: instance}}}, seen)
		known, err := testutil.GatherAndCount(registry, "mysqlcluster_certificate_expiry_timestamp_seconds")
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	answers := topology.SQL{Access: topology.AccessVerified, CertificateIssuedAt: time.Unix(1_800_000_000, 0)}
	if n := look("i-1", answers); n != 1 {
		t.Fatalf("%d expiries of a member that answers", n)
	}
	for _, access := range []topology.Access{topology.AccessSilent, topology.AccessUnverified} {
		if n := look("i-1", topology.SQL{Access: access}); n != 1 {
			t.Errorf("%d expiries of one with access %v", n, access)
		}
	}
	if n := look("i-2", topology.SQL{Access: topology.AccessSilent}); n != 0 {
		t.Errorf("%d expiries of another instance, which nobody has seen yet", n)
	}
}

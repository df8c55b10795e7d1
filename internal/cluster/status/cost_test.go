package status

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
)

const somePrices = `asOf: "2026-02-03"
source: our contract
currency: EUR
regions: {eu-central-1: {instances: {m7g.large: 1}, volumes: {gp3: {giB: 0.1}}, snapshotGiB: 0.01}}
`

// TestCost: what runs costs by the hour, what is stored by the month, and what has no price is named.
func TestCost(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := &Reporter{Ports: &pass.Ports{Metrics: metrics.New(registry)}}
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name, c.Spec.AWS.Region = "shop", "orders", "eu-central-1"
	have := inventory.Inventory{
		Taken: time.Unix(1, 0),
		Instances: []inventory.Instance{
			{ID: "i-1", Type: "m7g.large", State: inventory.StateRunning}, {ID: "i-2", Type: "m7g.large", State: inventory.StateStopped},
			{ID: "i-3", Type: "m7g.large", State: inventory.StateTerminated}, {ID: "i-4", Type: "x99.large", State: inventory.StatePending},
		},
		Volumes: []inventory.Volume{{ID: "vol-1", Type: "gp3", SizeGiB: 100, State: inventory.VolumeInUse}, {ID: "vol-2", Type: "gp3", SizeGiB: 100, State: inventory.VolumeDeleted}},
		Snapshots: []inventory.Snapshot{
			{ID: "snap-1", VolumeID: "vol-1", SizeGiB: 50, State: inventory.SnapshotCompleted}, {ID: "snap-2", VolumeID: "vol-1", SizeGiB: 100, State: inventory.SnapshotPending},
			{ID: "snap-3", VolumeID: "vol-3", SizeGiB: 900, State: inventory.SnapshotError},
		},
	}
	priced := func(t *testing.T, list string) policy.Policy {
		t.Helper()
		p, err := policy.Parse(map[string]string{policy.Key: "namespaces: {}", policy.PricesKey: list})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	see := func(t *testing.T, have inventory.Inventory, list string) *v1alpha1.CostStatus {
		t.Helper()
		s := &pass.Pass{Cluster: c, Seen: pass.Sight{Inventory: have}, Access: pass.Access{Policy: priced(t, list)}}
		r.projectCost(s)
		return c.Status.Cost
	}

	if got := see(t, inventory.Inventory{}, somePrices); got != nil {
		t.Errorf("EC2 has shown nothing yet: %+v", got)
	}
	// 730 for the one that runs; 3 roots of 20 GiB and 100 GiB of data; the larger of two snapshots.
	want := &v1alpha1.CostStatus{
		Monthly: "747.00", Instances: "730.00", Volumes: "16.00", Snapshots: "1.00", Currency: "EUR", PricesAsOf: "2026-02-03", Source: "our contract", Unknown: []string{"x99.large"},
	}
	if got := see(t, have, somePrices); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP mysqlcluster_cost_per_month What a cluster costs for a month by list prices, by kind, without what has no price in the list.
# TYPE mysqlcluster_cost_per_month gauge
mysqlcluster_cost_per_month{cluster="orders",currency="EUR",kind="instances",namespace="shop"} 730
mysqlcluster_cost_per_month{cluster="orders",currency="EUR",kind="snapshots",namespace="shop"} 1
mysqlcluster_cost_per_month{cluster="orders",currency="EUR",kind="volumes",namespace="shop"} 16
# HELP mysqlcluster_cost_unknown How many kinds of what a cluster has in EC2 the list of prices does not name.
# TYPE mysqlcluster_cost_unknown gauge
mysqlcluster_cost_unknown{cluster="orders",namespace="shop"} 1
`), "mysqlcluster_cost_per_month", "mysqlcluster_cost_unknown"); err != nil {
		t.Error(err)
	}
	if got := see(t, inventory.Inventory{}, somePrices); !reflect.DeepEqual(got, want) {
		t.Errorf("EC2 does not answer: %+v", got)
	}

	for list, says := range map[string]string{
		strings.Replace(somePrices, "eu-central-1", "eu-west-1", 1): "eu-central-1",
		"asOf: yesterday": "nairobi-mysql-policy: prices.yaml: invalid list of prices",
	} {
		got := see(t, have, list)
		if got.Monthly != "" || len(got.Unknown) != 1 || !strings.Contains(got.Unknown[0], says) {
			t.Errorf("%+v, want no amount and %q", got, says)
		}
		if n, err := testutil.GatherAndCount(registry, "mysqlcluster_cost_per_month"); err != nil || n != 0 {
			t.Errorf("%d metrics, %v", n, err)
		}
	}
}

package status

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/prices"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// mostUnknown is how many names status takes.
const mostUnknown = 64

// projectCost says what the cluster costs by the list of prices. Of what EC2 has not shown, the last word stands.
func (r *Reporter) projectCost(s *pass.Pass) {
	if s.Seen.Inventory.Taken.IsZero() {
		return
	}
	st := &v1alpha1.CostStatus{}
	s.Cluster.Status.Cost = st
	list, err := s.Access.Policy.Prices()
	if err != nil {
		st.Unknown = []string{text.Shorten(fmt.Sprintf("the prices of ConfigMap %s: %v", v1alpha1.PolicyConfigMap, err), longestStatusText)}
		r.Metrics.Charge(s.Cluster, metrics.Bill{})
		return
	}
	cost, known := list.Monthly(holdings(s.Cluster.Spec.AWS.Region, s.Seen.Inventory))
	st.Currency, st.PricesAsOf, st.Source = list.Currency, list.AsOf, list.Source
	if !known {
		st.Unknown = []string{"prices of region " + s.Cluster.Spec.AWS.Region}
		r.Metrics.Charge(s.Cluster, metrics.Bill{})
		return
	}
	amount := func(sum float64) string { return fmt.Sprintf("%.2f", sum) }
	st.Monthly, st.Instances, st.Volumes, st.Snapshots = amount(cost.Total()), amount(cost.Instances), amount(cost.Volumes), amount(cost.Snapshots)
	st.Unknown = cost.Unknown[:min(mostUnknown, len(cost.Unknown))]
	r.Metrics.Charge(s.Cluster, metrics.Bill{Cost: cost, Currency: list.Currency})
}

// holdings lists what costs money. Of snapshots of one volume the largest counts.
func holdings(region string, have inventory.Inventory) prices.Holdings {
	h := prices.Holdings{Region: region}
	for _, i := range have.Instances {
		switch i.State {
		case inventory.StatePending, inventory.StateRunning:
			h.Instances = append(h.Instances, i.Type)
		case inventory.StateShuttingDown, inventory.StateTerminated:
			continue
		}
		h.Volumes = append(h.Volumes, prices.Disk{Type: string(v1alpha1.VolumeTypeGP3), GiB: ec2.RootGiB})
	}
	for _, v := range have.Volumes {
		if v.State != inventory.VolumeDeleting && v.State != inventory.VolumeDeleted {
			h.Volumes = append(h.Volumes, prices.Disk{Type: v.Type, GiB: v.SizeGiB, IOPS: v.IOPS, Throughput: v.Throughput})
		}
	}
	sizes := map[string]int32{}
	for _, snap := range have.Snapshots {
		if snap.State == inventory.SnapshotError {
			continue
		}
		sizes[snap.VolumeID] = max(sizes[snap.VolumeID], snap.SizeGiB)
	}
	for _, size := range sizes {
		h.SnapshotGiB += int64(size)
	}
	return h
}

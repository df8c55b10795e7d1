package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// The kinds of mysqlcluster_data_volume_bytes.
const (
	diskSize = "size"
	diskFree = "free"
)

// family is a metric of clusters.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// show emits what the metric is for one cluster: nothing where it is absent.
	show func(clusterFigures, emit)
}

// emit takes a value of a family, with those of its labels beyond namespace and cluster.
type emit func(value float64, labels ...string)

// when emits a value that is known.
func (e emit) when(known bool, value float64, labels ...string) {
	if known {
		e(value, labels...)
	}
}

// newFamily returns a family. labels are those beyond namespace and cluster.
func newFamily(kind prometheus.ValueType, name, help string, show func(clusterFigures, emit), labels ...string) family {
	return family{prometheus.NewDesc(name, help, append([]string{"namespace", "cluster"}, labels...), nil), kind, show}
}

// families are the metrics of clusters.
var families = []family{
	newFamily(prometheus.GaugeValue, "mysqlcluster_phase", "1 for the phase that a cluster is in, 0 for the others.", showPhases, "phase"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_members", "Members of a cluster, by phase.", showMembers, "phase"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_replication_lag_seconds", "How far a replica's applier is behind its source.",
		ofMembers(func(m memberFigures, emit emit) { emit.when(m.lagKnown, m.lag.Seconds(), m.name) }), "member"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_data_volume_bytes",
		"The file system of a member's data volume, as its instance reports it: its size, and what is free.",
		ofMembers(func(m memberFigures, emit emit) {
			emit.when(m.size > 0, float64(m.size), m.name, diskSize)
			emit.when(m.size > 0, float64(m.free), m.name, diskFree)
		}), "member", "kind"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_certificate_expiry_timestamp_seconds",
		"When the certificate ends that the member's instance presented last, as a Unix time.",
		ofMembers(func(m memberFigures, emit emit) { emit.when(m.expires > 0, float64(m.expires), m.name) }), "member"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_available",
		"1 while a write through the primary Service succeeded in the last 5 seconds, 0 while none did. Absent while none is due: before the first primary, in hibernation and during deletion.",
		func(f clusterFigures, emit emit) { emit.when(f.verdict.Due, number(f.verdict.Available)) }),
	newFamily(prometheus.GaugeValue, "mysqlcluster_last_reconcile_successful",
		"1 when the last reconcile observed the members and came to a plan, 0 when something ended it earlier, so that there is no failover and no repair. Absent while the cluster has no instances, and during deletion.",
		func(f clusterFigures, emit emit) { emit.when(f.verdict.Managed, number(f.verdict.Reconciled)) }),
	newFamily(prometheus.GaugeValue, "mysqlcluster_problem",
		"1 for each reason why a cluster, its backups or its archive need attention now. Absent for the others.",
		func(f clusterFigures, emit emit) {
			for _, reason := range f.verdict.Problems {
				emit(1, reason)
			}
		}, "reason"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_quorum_headroom",
		"How many more voters may fail before commits wait; negative while they wait. Absent while there is no primary.",
		func(f clusterFigures, emit emit) { emit.when(f.headroomKnown, float64(f.headroom)) }),
	newFamily(prometheus.CounterValue, "mysqlcluster_promotions_total",
		"Promotions of a cluster since the operator started: failovers, switchovers, and reopenings of the same primary.",
		func(f clusterFigures, emit emit) {
			for i, kind := range promotionKinds {
				emit(float64(f.promotions[i]), kind)
			}
		}, "kind"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_cost_per_month",
		"What a cluster costs for a month by list prices, by kind, without what has no price in the list.",
		func(f clusterFigures, emit emit) {
			known := f.bill.Currency != ""
			emit.when(known, f.bill.Instances, "instances", f.bill.Currency)
			emit.when(known, f.bill.Volumes, "volumes", f.bill.Currency)
			emit.when(known, f.bill.Snapshots, "snapshots", f.bill.Currency)
		}, "kind", "currency"),
	newFamily(prometheus.GaugeValue, "mysqlcluster_cost_unknown", "How many kinds of what a cluster has in EC2 the list of prices does not name.",
		func(f clusterFigures, emit emit) { emit.when(f.bill.Currency != "", float64(len(f.bill.Unknown))) }),
}

// showPhases emits the phase of a cluster, as soon as a pass has come to a plan.
func showPhases(f clusterFigures, emit emit) {
	for _, phase := range slices.Concat(memberPhases[:], onlyClusters[:]) {
		emit.when(f.phase != "", number(f.phase == phase), string(phase))
	}
}

// showMembers emits how many members are in each phase, as soon as a pass has come to a plan.
func showMembers(f clusterFigures, emit emit) {
	for i, phase := range memberPhases {
		emit.when(f.phase != "", float64(f.count[i]), string(phase))
	}
}

// ofMembers emits a metric for each member.
func ofMembers(show func(memberFigures, emit)) func(clusterFigures, emit) {
	return func(f clusterFigures, emit emit) {
		for _, m := range f.members {
			show(m, emit)
		}
	}
}

// number is 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

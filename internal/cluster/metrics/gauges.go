package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/prices"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The phases of a member, and those that only a cluster has.
var (
	memberPhases = [...]v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady, v1alpha1.PhaseHibernated, v1alpha1.PhaseDeleting}
	onlyClusters = [...]v1alpha1.Phase{v1alpha1.PhaseRepairing, v1alpha1.PhaseUpdating}
)

// The kinds of mysqlcluster_data_volume_bytes.
const (
	diskSize = "size"
	diskFree = "free"
)

// gauges are the present figures of every cluster: its phase, and its members'. They are kept as numbers, and made into metrics for
// whoever reads them: with a gauge of the library's for each they took 17 KiB a cluster.
type gauges struct {
	phase, members, lag, disk, expiry        *prometheus.Desc
	available, problem, headroom, promotions *prometheus.Desc
	reconciled                               *prometheus.Desc
	cost, unpriced                           *prometheus.Desc

	mu       sync.Mutex
	clusters map[types.NamespacedName]clusterFigures
}

// promotionKinds are the values of the label kind of mysqlcluster_promotions_total.
var promotionKinds = [...]string{v1alpha1.EventFailover, v1alpha1.EventSwitchover, v1alpha1.EventReopened}

// clusterFigures are those of one cluster. Whoever holds them may read them without a lock.
type clusterFigures struct {
	phase      v1alpha1.Phase
	count      [len(memberPhases)]int // of members, by phase
	members    []memberFigures
	promotions [len(promotionKinds)]int // since the process started, by kind
	// headroom is how many more voters may fail; meaningless unless headroomKnown.
	headroom      int
	headroomKnown bool
	verdict       Verdict
	bill          Bill
}

// Bill is what a cluster costs for a month, by list prices in a currency. Without a currency it is not known.
type Bill struct {
	prices.Cost
	Currency string
}

// Verdict is what a pass says of a cluster.
type Verdict struct {
	// Due is true when the cluster should take writes, Available when it does.
	Due, Available bool
	// Managed is true when the cluster has instances to look after, Reconciled when the pass observed them and came to a plan.
	Managed, Reconciled bool
	// Problems are the reasons of what is wrong, each once, sorted. Undecided is true when the pass found out nothing about that, and what
	// an earlier one said stays.
	Problems  []string
	Undecided bool
}

type memberFigures struct {
	name     string
	instance string
	lag      time.Duration
	lagKnown bool
	// size and free are bytes; both are 0 while they are unknown.
	size, free uint64
	// expires is when the certificate of the member's instance ends, as a Unix time; 0 while it is unknown. It is kept while the member does
	// not answer: that is when nobody can renew it.
	expires int64
}

// keepExpiry takes over when the certificate of the same instance ends where it is unknown now.
func (m *memberFigures) keepExpiry(before []memberFigures) {
	for _, known := range before {
		if m.expires == 0 && m.instance != "" && known.name == m.name && known.instance == m.instance {
			m.expires = known.expires
		}
	}
}

func newGauges() *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "cluster"}, labels...), nil)
	}
	return &gauges{
		phase:   desc("mysqlcluster_phase", "1 for the phase that a cluster is in, 0 for the others.", "phase"),
		members: desc("mysqlcluster_members", "Members of a cluster, by phase.", "phase"),
		lag:     desc("mysqlcluster_replication_lag_seconds", "How far a replica's applier is behind its source.", "member"),
		disk: desc("mysqlcluster_data_volume_bytes",
			"The file system of a member's data volume, as its instance reports it: its size, and what is free.", "member", "kind"),
		expiry:    desc("mysqlcluster_certificate_expiry_timestamp_seconds", "When the certificate ends that the member's instance presented last, as a Unix time.", "member"),
		available: desc("mysqlcluster_available", "1 while a write through the primary Service succeeded in the last 5 seconds, 0 while none did. Absent while none is due: before the first primary, in hibernation and during deletion."),
		reconciled: desc("mysqlcluster_last_reconcile_successful",
			"1 when the last reconcile observed the members and came to a plan, 0 when something ended it earlier, so that there is no failover and no repair. Absent while the cluster has no instances, and during deletion."),
		problem:  desc("mysqlcluster_problem", "1 for each reason why a cluster, its backups or its archive need attention now. Absent for the others.", "reason"),
		headroom: desc("mysqlcluster_quorum_headroom", "How many more voters may fail before commits wait; negative while they wait. Absent while there is no primary."),
		promotions: desc("mysqlcluster_promotions_total",
			"Promotions of a cluster since the operator started: failovers, switchovers, and reopenings of the same primary.", "kind"),
		cost:     desc("mysqlcluster_cost_per_month", "What a cluster costs for a month by list prices, by kind, without what has no price in the list.", "kind", "currency"),
		unpriced: desc("mysqlcluster_cost_unknown", "How many kinds of what a cluster has in EC2 the list of prices does not name."),
		clusters: map[types.NamespacedName]clusterFigures{},
	}
}

// Observe keeps what a pass saw of a cluster and its members, in place of what an earlier one did.
func (g *gauges) Observe(c *v1alpha1.MySQLCluster, plan topology.Plan, seen topology.Observed) {
	f := clusterFigures{phase: c.Status.Phase, members: make([]memberFigures, 0, len(plan.Members))}
	f.headroom, f.headroomKnown = plan.Headroom(seen)
	for _, v := range plan.Members {
		for i, phase := range memberPhases {
			if v.Phase == phase {
				f.count[i]++
			}
		}
		m := memberFigures{name: v.Name, instance: v.InstanceID, lag: v.Lag, lagKnown: v.LagKnown}
		if v.Disk != nil {
			m.size, m.free = v.Disk.SizeBytes, v.Disk.FreeBytes
		}
		if member := seen.Members[v.Name]; member != nil && !member.SQL.CertificateIssuedAt.IsZero() {
			m.expires = pki.MemberExpires(member.SQL.CertificateIssuedAt).Unix()
		}
		f.members = append(f.members, m)
	}
	g.change(c, func(kept *clusterFigures) {
		f.promotions, f.verdict, f.bill = kept.promotions, kept.verdict, kept.bill
		for i := range f.members {
			f.members[i].keepExpiry(kept.members)
		}
		*kept = f
	})
}

// Judge keeps what a pass says of a cluster, in place of what an earlier one said.
func (g *gauges) Judge(c *v1alpha1.MySQLCluster, v Verdict) {
	g.change(c, func(f *clusterFigures) {
		if v.Undecided {
			v.Problems = f.verdict.Problems
		}
		f.verdict = v
	})
}

// Charge keeps what a cluster costs, in place of what it cost.
func (g *gauges) Charge(c *v1alpha1.MySQLCluster, b Bill) {
	g.change(c, func(f *clusterFigures) { f.bill = b })
}

// countPromotion counts a promotion of a cluster.
func (g *gauges) countPromotion(c *v1alpha1.MySQLCluster, kind string) {
	g.change(c, func(f *clusterFigures) {
		if i := slices.Index(promotionKinds[:], kind); i >= 0 {
			f.promotions[i]++
		}
	})
}

func (g *gauges) change(c *v1alpha1.MySQLCluster, how func(*clusterFigures)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	f := g.clusters[name]
	how(&f)
	g.clusters[name] = f
}

func (g *gauges) forgetFigures(name types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.clusters, name)
}

func (g *gauges) Describe(into chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.phase, g.members, g.lag, g.disk, g.expiry, g.available, g.reconciled, g.problem, g.headroom, g.promotions, g.cost, g.unpriced} {
		into <- desc
	}
}

func (g *gauges) Collect(into chan<- prometheus.Metric) {
	g.mu.Lock()
	all := maps.Clone(g.clusters)
	g.mu.Unlock()
	for name, f := range all {
		g.collect(f, func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			into <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{name.Namespace, name.Name}, labels...)...)
		})
	}
}

// collect makes one cluster's metrics.
func (g *gauges) collect(f clusterFigures, emit func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		emit(desc, prometheus.GaugeValue, value, labels...)
	}
	if f.phase != "" { // a pass has come to a plan
		for i, phase := range memberPhases {
			gauge(g.phase, number(f.phase == phase), string(phase))
			gauge(g.members, float64(f.count[i]), string(phase))
		}
		for _, phase := range onlyClusters {
			gauge(g.phase, number(f.phase == phase), string(phase))
		}
	}
	if f.verdict.Due {
		gauge(g.available, number(f.verdict.Available))
	}
	if f.verdict.Managed {
		gauge(g.reconciled, number(f.verdict.Reconciled))
	}
	for _, reason := range f.verdict.Problems {
		gauge(g.problem, 1, reason)
	}
	if f.headroomKnown {
		gauge(g.headroom, float64(f.headroom))
	}
	if b := f.bill; b.Currency != "" {
		gauge(g.cost, b.Instances, "instances", b.Currency)
		gauge(g.cost, b.Volumes, "volumes", b.Currency)
		gauge(g.cost, b.Snapshots, "snapshots", b.Currency)
		gauge(g.unpriced, float64(len(b.Unknown)))
	}
	for i, kind := range promotionKinds {
		emit(g.promotions, prometheus.CounterValue, float64(f.promotions[i]), kind)
	}
	for _, m := range f.members {
		g.collectMember(m, gauge)
	}
}

func (g *gauges) collectMember(m memberFigures, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	if m.lagKnown {
		gauge(g.lag, m.lag.Seconds(), m.name)
	}
	if m.size > 0 {
		gauge(g.disk, float64(m.size), m.name, diskSize)
		gauge(g.disk, float64(m.free), m.name, diskFree)
	}
	if m.expires > 0 {
		gauge(g.expiry, float64(m.expires), m.name)
	}
}

// number is 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

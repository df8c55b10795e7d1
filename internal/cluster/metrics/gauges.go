package metrics

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

var clusterPhases = [...]v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady, v1alpha1.PhaseHibernated, v1alpha1.PhaseDeleting}

// The kinds of mysqlcluster_data_volume_bytes.
const (
	diskSize = "size"
	diskFree = "free"
)

// gauges are the present figures of every cluster: its phase, and its members'. They are kept as numbers, and made into metrics for
// whoever reads them: with a gauge of the library's for each they took 17 KiB a cluster.
type gauges struct {
	phase, members, lag, disk *prometheus.Desc

	mu       sync.Mutex
	clusters map[types.NamespacedName]clusterFigures
}

// clusterFigures are those of one cluster. Whoever holds them may read them without a lock.
type clusterFigures struct {
	phase   v1alpha1.Phase
	count   [len(clusterPhases)]int // of members, by phase
	members []memberFigures
}

type memberFigures struct {
	name     string
	lag      time.Duration
	lagKnown bool
	// size and free are bytes; both are 0 while they are unknown.
	size, free uint64
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
		clusters: map[types.NamespacedName]clusterFigures{},
	}
}

// Observe keeps a cluster's figures in place of those of before.
func (g *gauges) Observe(c *v1alpha1.MySQLCluster, plan topology.Plan) {
	f := clusterFigures{phase: c.Status.Phase, members: make([]memberFigures, 0, len(plan.Members))}
	for _, v := range plan.Members {
		for i, phase := range clusterPhases {
			if v.Phase == phase {
				f.count[i]++
			}
		}
		m := memberFigures{name: v.Name, lag: v.Lag, lagKnown: v.LagKnown}
		if v.Disk != nil {
			m.size, m.free = v.Disk.SizeBytes, v.Disk.FreeBytes
		}
		f.members = append(f.members, m)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clusters[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = f
}

func (g *gauges) forgetFigures(name types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.clusters, name)
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(into chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.phase, g.members, g.lag, g.disk} {
		into <- desc
	}
}

// Collect implements prometheus.Collector. Whoever reads slowly holds nobody up.
func (g *gauges) Collect(into chan<- prometheus.Metric) {
	g.mu.Lock()
	all := maps.Clone(g.clusters)
	g.mu.Unlock()
	for name, f := range all {
		tell := func(desc *prometheus.Desc, value float64, labels ...string) {
			into <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{name.Namespace, name.Name}, labels...)...)
		}
		for i, phase := range clusterPhases {
			is := 0.0
			if f.phase == phase {
				is = 1
			}
			tell(g.phase, is, string(phase))
			tell(g.members, float64(f.count[i]), string(phase))
		}
		for _, m := range f.members {
			if m.lagKnown {
				tell(g.lag, m.lag.Seconds(), m.name)
			}
			if m.size > 0 {
				tell(g.disk, float64(m.size), m.name, diskSize)
				tell(g.disk, float64(m.free), m.name, diskFree)
			}
		}
	}
}

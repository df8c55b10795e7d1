package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// gauges are the present figures of every cluster: its phase, and its members'. They are kept as numbers, and made into metrics for
// whoever reads them: with a gauge of the library's for each they took 17 KiB a cluster.
type gauges struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]clusterFigures
}

func newGauges() *gauges {
	return &gauges{clusters: map[types.NamespacedName]clusterFigures{}}
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
	for _, f := range families {
		into <- f.desc
	}
}

func (g *gauges) Collect(into chan<- prometheus.Metric) {
	g.mu.Lock()
	all := maps.Clone(g.clusters)
	g.mu.Unlock()
	for name, figures := range all {
		for _, f := range families {
			f.show(figures, func(value float64, labels ...string) {
				into <- prometheus.MustNewConstMetric(f.desc, f.kind, value, append([]string{name.Namespace, name.Name}, labels...)...)
			})
		}
	}
}

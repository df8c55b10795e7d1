// Package metrics has the Prometheus metrics of clusters and their backups.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Metrics are the reconciler's own figures.
type Metrics struct {
	backupMetrics
	*gauges
	reconciles *prometheus.CounterVec
	duration   prometheus.Histogram
	promotion  *prometheus.HistogramVec
	rollout    *prometheus.HistogramVec
}

// New makes and registers them.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		gauges: newGauges(),
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mysqlcluster_reconciles_total", Help: "Reconciles, by whether they ended with an error.",
		}, []string{"error"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mysqlcluster_reconciles_duration_seconds", Help: "How long a reconcile took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		backupMetrics: newBackupMetrics(registry),
	}
	m.promotion = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mysqlcluster_promotion_duration_seconds", Help: "How long the steps of a failover, a switchover or a reopening of the same primary took, from the last write of the probe that succeeded.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
	}, []string{"kind", "step"})
	m.rollout = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mysqlcluster_rollout_duration_seconds", Help: "How long a change of the spec took that goes from member to member, from the first member's turn to the end of the last one's.",
		Buckets: []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400},
	}, []string{"kind"})
	registry.MustRegister(m.gauges, m.reconciles, m.duration, m.promotion, m.rollout)
	return m
}

// Reconciled counts a reconcile.
func (m *Metrics) Reconciled(took time.Duration, err error) {
	m.reconciles.WithLabelValues(strconv.FormatBool(err != nil)).Inc()
	m.duration.Observe(took.Seconds())
}

// Promoted counts a promotion of a cluster, and takes how long each of its steps took. One that was asked for without a switchover, as by a
// restart of the only member, is not counted: the primary did not fail.
func (m *Metrics) Promoted(c *v1alpha1.MySQLCluster, kind string, asked bool, steps map[string]time.Duration) {
	if !asked {
		m.countPromotion(c, kind)
	}
	for step, took := range steps {
		m.promotion.WithLabelValues(kind, step).Observe(max(took, 0).Seconds())
	}
}

// Leading returns the metric that says whether this process is the leader. The channel is closed once it is.
func Leading(elected <-chan struct{}) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mysqlcluster_operator_leading", Help: "1 for the copy of the operator that works, 0 for one that waits for the lease.",
	}, func() float64 {
		select {
		case <-elected:
			return 1
		default:
			return 0
		}
	})
}

// OtherInstallationLeads returns the metric that says whether an operator in another namespace leads.
func OtherInstallationLeads(leads func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mysqlcluster_operator_other_installation_leads", Help: "1 while an operator in another namespace leads, so that this one does nothing, 0 otherwise.",
	}, func() float64 {
		if leads() {
			return 1
		}
		return 0
	})
}

// Rolled takes how long a change took that went from member to member.
func (m *Metrics) Rolled(kind v1alpha1.RolloutKind, took time.Duration) {
	m.rollout.WithLabelValues(string(kind)).Observe(max(took, 0).Seconds())
}

// Forget drops the figures of a cluster that no longer exists.
func (m *Metrics) Forget(name types.NamespacedName) {
	m.ForgetBackups(prometheus.Labels{"namespace": name.Namespace, "cluster": name.Name})
	m.forgetFigures(name)
}

package controllers

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Metrics are the reconciler's own figures.
type Metrics struct {
	backupMetrics
	reconciles *prometheus.CounterVec
	duration   prometheus.Histogram
	phase      *prometheus.GaugeVec
	members    *prometheus.GaugeVec
	lag        *prometheus.GaugeVec
	promotion  *prometheus.HistogramVec
	rollout    *prometheus.HistogramVec
	disk       *prometheus.GaugeVec

	mu sync.Mutex
	// known are the members of each cluster that have gauges.
	known map[types.NamespacedName][]string
}

var (
	clusterPhases = []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady, v1alpha1.PhaseHibernated, v1alpha1.PhaseDeleting}
)

// The kinds of mysqlcluster_data_volume_bytes.
const (
	diskSize = "size"
	diskFree = "free"
)

// NewMetrics makes and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		known: map[types.NamespacedName][]string{},
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mysqlcluster_reconciles_total", Help: "Reconciles, by whether they ended with an error.",
		}, []string{"error"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mysqlcluster_reconciles_duration_seconds", Help: "How long a reconcile took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		phase: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mysqlcluster_phase", Help: "1 for the phase that a cluster is in, 0 for the others.",
		}, []string{"namespace", "cluster", "phase"}),
		backupMetrics: newBackupMetrics(registry),
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mysqlcluster_members", Help: "Members of a cluster, by phase.",
		}, []string{"namespace", "cluster", "phase"}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mysqlcluster_replication_lag_seconds", Help: "How far a replica's applier is behind its source.",
		}, []string{"namespace", "cluster", "member"}),
	}
	m.promotion = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mysqlcluster_promotion_duration_seconds", Help: "How long the steps of a failover or switchover took, from the last write of the probe that succeeded.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
	}, []string{"kind", "step"})
	m.rollout = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mysqlcluster_rollout_duration_seconds", Help: "How long a change of the spec took that goes from member to member, from the first member's turn to the end of the last one's.",
		Buckets: []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400},
	}, []string{"kind"})
	m.disk = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mysqlcluster_data_volume_bytes", Help: "The file system of a member's data volume, as its machine reports it: its size, and what is free.",
	}, []string{"namespace", "cluster", "member", "kind"})
	registry.MustRegister(m.reconciles, m.duration, m.phase, m.members, m.lag, m.promotion, m.rollout, m.disk)
	return m
}

func (m *Metrics) reconciled(took time.Duration, err error) {
	m.reconciles.WithLabelValues(strconv.FormatBool(err != nil)).Inc()
	m.duration.Observe(took.Seconds())
}

func (m *Metrics) promoted(kind, step string, took time.Duration) {
	m.promotion.WithLabelValues(kind, step).Observe(max(took, 0).Seconds())
}

func (m *Metrics) rolled(kind v1alpha1.RolloutKind, took time.Duration) {
	m.rollout.WithLabelValues(string(kind)).Observe(max(took, 0).Seconds())
}

// observe sets a cluster's gauges.
func (m *Metrics) observe(c *v1alpha1.MySQLCluster, plan topology.Plan) {
	m.forgetMembers(c, plan)
	count := map[v1alpha1.Phase]float64{}
	for _, v := range plan.Members {
		count[v.Phase]++
		if v.LagKnown {
			m.lag.WithLabelValues(c.Namespace, c.Name, v.Name).Set(v.Lag.Seconds())
		} else {
			m.lag.DeleteLabelValues(c.Namespace, c.Name, v.Name)
		}
		if v.Disk != nil {
			m.disk.WithLabelValues(c.Namespace, c.Name, v.Name, diskSize).Set(float64(v.Disk.SizeBytes))
			m.disk.WithLabelValues(c.Namespace, c.Name, v.Name, diskFree).Set(float64(v.Disk.FreeBytes))
		} else {
			m.forgetDisk(c.Namespace, c.Name, v.Name)
		}
	}
	for _, phase := range clusterPhases {
		is := 0.0
		if c.Status.Phase == phase {
			is = 1
		}
		m.phase.WithLabelValues(c.Namespace, c.Name, string(phase)).Set(is)
		m.members.WithLabelValues(c.Namespace, c.Name, string(phase)).Set(count[phase])
	}
}

// forgetMembers drops the gauges of members that were there the last time and no longer are.
func (m *Metrics) forgetMembers(c *v1alpha1.MySQLCluster, plan topology.Plan) {
	var names []string
	for _, v := range plan.Members {
		names = append(names, v.Name)
	}
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	m.mu.Lock()
	before := m.known[key]
	m.known[key] = names
	m.mu.Unlock()
	for _, name := range before {
		if !slices.Contains(names, name) {
			m.lag.DeleteLabelValues(c.Namespace, c.Name, name)
			m.forgetDisk(c.Namespace, c.Name, name)
		}
	}
}

func (m *Metrics) forgetDisk(namespace, cluster, member string) {
	for _, kind := range []string{diskSize, diskFree} {
		m.disk.DeleteLabelValues(namespace, cluster, member, kind)
	}
}

// forget drops the gauges of a cluster that no longer exists.
func (m *Metrics) forget(name types.NamespacedName) {
	labels := prometheus.Labels{"namespace": name.Namespace, "cluster": name.Name}
	m.forgetBackups(labels)
	m.phase.DeletePartialMatch(labels)
	m.members.DeletePartialMatch(labels)
	m.lag.DeletePartialMatch(labels)
	m.disk.DeletePartialMatch(labels)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, name)
}

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// backupMetrics are the figures of the clusters' backups. How old something is is for the query to say.
type backupMetrics struct {
	lastGood, lastFailed, lastVerified *prometheus.GaugeVec
	verificationFailed                 *prometheus.GaugeVec
	Archived, segments                 *prometheus.GaugeVec
}

func newBackupMetrics(registry prometheus.Registerer) backupMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace", "cluster"})
	}
	m := backupMetrics{
		lastGood:           gauge("mysqlcluster_backup_last_good_timestamp_seconds", "When the newest good backup was complete, as a Unix time; 0 for never."),
		lastFailed:         gauge("mysqlcluster_backup_last_failed_timestamp_seconds", "When a backup last failed, as a Unix time; 0 for never."),
		lastVerified:       gauge("mysqlcluster_backup_last_verified_timestamp_seconds", "When a backup was last restored to try it and found whole, as a Unix time; 0 for never."),
		verificationFailed: gauge("mysqlcluster_backup_verification_failed", "1 when the last verification of a backup failed, 0 otherwise."),
		Archived:           gauge("mysqlcluster_archive_covered_until_timestamp_seconds", "Until when everything that was committed is in the archive of binary logs, as a Unix time. Absent while nothing is."),
		segments:           gauge("mysqlcluster_archive_segments", "How many segments the archive of binary logs has had."),
	}
	registry.MustRegister(m.lastGood, m.lastFailed, m.lastVerified, m.verificationFailed, m.Archived, m.segments)
	return m
}

// Backups sets the gauges of a cluster.
func (m *backupMetrics) Backups(c *v1alpha1.MySQLCluster, summary *v1alpha1.BackupSummary, verificationFailed bool) {
	for gauge, at := range map[*prometheus.GaugeVec]*metav1.Time{
		m.lastGood: summary.LastGoodAt, m.lastFailed: summary.LastFailedAt, m.lastVerified: summary.LastVerifiedAt,
	} {
		value := 0.0
		if at != nil {
			value = float64(at.Unix())
		}
		gauge.WithLabelValues(c.Namespace, c.Name).Set(value)
	}
	failed := 0.0
	if verificationFailed {
		failed = 1
	}
	m.verificationFailed.WithLabelValues(c.Namespace, c.Name).Set(failed)
}

// PauseBackups drops the gauges of a cluster that sleeps: what cannot become younger is nothing to be alerted by.
func (m *backupMetrics) PauseBackups(c *v1alpha1.MySQLCluster) {
	for _, gauge := range []*prometheus.GaugeVec{m.lastGood, m.lastFailed, m.lastVerified, m.verificationFailed} {
		gauge.DeleteLabelValues(c.Namespace, c.Name)
	}
}

// Archive sets the gauges of a cluster's archive of binary logs. One that holds nothing yet has no time.
func (m *backupMetrics) Archive(c *v1alpha1.MySQLCluster, coveredUntil time.Time, segments uint64) {
	if coveredUntil.IsZero() {
		m.Archived.DeleteLabelValues(c.Namespace, c.Name)
	} else {
		m.Archived.WithLabelValues(c.Namespace, c.Name).Set(float64(coveredUntil.UnixMilli()) / 1000)
	}
	m.segments.WithLabelValues(c.Namespace, c.Name).Set(float64(segments))
}

// ForgetArchive drops the gauges of an archive that is no more.
func (m *backupMetrics) ForgetArchive(c *v1alpha1.MySQLCluster) {
	m.Archived.DeleteLabelValues(c.Namespace, c.Name)
	m.segments.DeleteLabelValues(c.Namespace, c.Name)
}

// ForgetBackups drops the gauges of a cluster that no longer exists, or is no longer backed up.
func (m *backupMetrics) ForgetBackups(labels prometheus.Labels) {
	for _, gauge := range []*prometheus.GaugeVec{m.lastGood, m.lastFailed, m.lastVerified, m.verificationFailed, m.Archived, m.segments} {
		gauge.DeletePartialMatch(labels)
	}
}

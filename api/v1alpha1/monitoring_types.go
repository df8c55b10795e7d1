package v1alpha1

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MonitoringSpec says how the metrics and logs of the members' MySQL servers are exported. The Deployment <name>-metrics, one small pod,
// reads them over mutual TLS as the account nairobi_metrics, which may read status and logs and no data. It serves the metrics at /metrics
// on port 9104 and prints the logs, for kubectl logs and whatever else collects the output of pods. Where the API server has the kinds PodMonitor and PrometheusRule (monitoring.coreos.com), the operator makes one of each
// for the cluster: what to scrape, and the alerts.
type MonitoringSpec struct {
	// Enabled, true unless set, runs the Deployment. With false it is removed, and so are its PodMonitor, its PrometheusRule and its certificate.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// Collectors are the groups of metrics that are exported beside those that always are: mysql_up, connections, statements by kind,
	// uptime, version and the expiry of the server's certificate. All but Errors unless set; docs/metrics.md lists the metrics of each.
	// +kubebuilder:default={"StatementLatency","InnoDB","Replication","BinaryLogs"}
	// +kubebuilder:validation:MaxItems=5
	// +listType=set
	// +optional
	Collectors []MetricsCollector `json:"collectors,omitzero"`

	// Logs are those that are printed, each entry as a line of JSON: the error log, the slow query log (see mysqld's slow_query_log and
	// long_query_time), the general query log (general_log). Error and Slow unless set.
	// +kubebuilder:default={"Error","Slow"}
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Logs []MemberLog `json:"logs,omitzero"`

	// Interval is how often Prometheus is asked to scrape the pod, from 10s to 4m in whole seconds; 30s unless set. It is written into the PodMonitor;
	// a Prometheus that finds the pod in another way has an interval of its own.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('4m') && duration(self).getMilliseconds() % 1000 == 0",message="must be a duration of whole seconds from 10s to 4m; for example 30s"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// MetricsCollector is a group of metrics.
// +kubebuilder:validation:Enum=StatementLatency;InnoDB;Replication;BinaryLogs;Errors
type MetricsCollector string

const (
	// CollectStatementLatency: a histogram of how long statements took, and how many failed.
	CollectStatementLatency MetricsCollector = "StatementLatency"
	// CollectInnoDB: buffer pool, redo log, row locks, history list.
	CollectInnoDB MetricsCollector = "InnoDB"
	// CollectReplication: the replica's threads and lag, and waits for semi-synchronous acknowledgements.
	CollectReplication MetricsCollector = "Replication"
	// CollectBinaryLogs: number and size of the binary logs.
	CollectBinaryLogs MetricsCollector = "BinaryLogs"
	// CollectErrors: how often each error of the server was raised. Each error that occurs is a series of its own.
	CollectErrors MetricsCollector = "Errors"
)

// MemberLog is a log of a MySQL server.
// +kubebuilder:validation:Enum=Error;Slow;General
type MemberLog string

const (
	// LogError is the error log.
	LogError MemberLog = "Error"
	// LogSlow is the slow query log.
	LogSlow MemberLog = "Slow"
	// LogGeneral is the general query log: every statement.
	LogGeneral MemberLog = "General"
)

// DefaultMemberLogs are those of a cluster whose spec names none.
var DefaultMemberLogs = []MemberLog{LogError, LogSlow}

// DefaultMetricsInterval is how often the metrics are scraped unless spec.monitoring.interval is set.
const DefaultMetricsInterval = 30 * time.Second

// MaxMetricsInterval is the longest spec.monitoring.interval that is accepted: less than the 5 minutes after which Prometheus takes a
// series for gone. A spec that was stored while more was accepted may hold more.
const MaxMetricsInterval = 4 * time.Minute

// DefaultMetricsCollectors are those of a cluster whose spec names none.
var DefaultMetricsCollectors = []MetricsCollector{CollectStatementLatency, CollectInnoDB, CollectReplication, CollectBinaryLogs}

// EffectiveMonitoring is how the cluster is monitored, with the defaults filled in and the interval at most MaxMetricsInterval; nil for
// not at all.
func (c *MySQLCluster) EffectiveMonitoring() *MonitoringSpec {
	if c == nil || c.Spec.Monitoring == nil || c.Spec.Monitoring.Enabled != nil && !*c.Spec.Monitoring.Enabled {
		return nil
	}
	m := c.Spec.Monitoring.DeepCopy()
	if m.Collectors == nil {
		m.Collectors = slices.Clone(DefaultMetricsCollectors)
	}
	if m.Logs == nil {
		m.Logs = slices.Clone(DefaultMemberLogs)
	}
	if m.Interval == nil {
		m.Interval = &metav1.Duration{Duration: DefaultMetricsInterval}
	}
	m.Interval.Duration = min(m.Interval.Duration, MaxMetricsInterval)
	return m
}

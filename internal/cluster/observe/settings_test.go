package observe

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestVariableWithTwoNamesIsPersistedOnce: MySQL persists a variable under its deprecated name too, and that is nothing to drop.
func TestVariableWithTwoNamesIsPersistedOnce(t *testing.T) {
	const name = "replica_parallel_workers"
	for what, persisted := range map[string]map[string]string{
		"both names":          {name: "32", "slave_parallel_workers": "32"},
		"the deprecated name": {"slave_parallel_workers": "32"},
	} {
		t.Run(what, func(t *testing.T) {
			s := &pass.Pass{Cache: pass.NewCache("")}
			s.Desired.Settings = map[string]string{name: "32"}
			m := &topology.Member{Name: "orders-0", SQL: topology.SQL{Access: topology.AccessVerified}}
			r := &Database{Ports: &pass.Ports{Clock: clocktesting.NewFakeClock(time.Now())}}
			r.judgeSettings(s, m, mysql.Observation{Settings: map[string]string{name: "16"}, Persisted: persisted})
			if !maps.Equal(m.SQL.Persisted, s.Desired.Settings) {
				t.Errorf("persisted: %v", m.SQL.Persisted)
			}
			if m.SQL.Drifted[name] != "32" {
				t.Errorf("drifted: %v", m.SQL.Drifted)
			}
		})
	}
}

// TestAnIntervalThatIsNotAcceptedIsReported: a spec that is stored may hold one that was.
func TestAnIntervalThatIsNotAcceptedIsReported(t *testing.T) {
	const message = "spec.monitoring.interval of 10m0s is longer than Prometheus keeps a series without a sample: the PodMonitor has 4m0s instead. Set at most 4m0s"
	for interval, want := range map[time.Duration]string{10 * time.Minute: message, v1alpha1.MaxMetricsInterval: ""} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}}
		readMonitoring(s) // one that is not monitored
		s.Cluster.Spec.Monitoring = &v1alpha1.MonitoringSpec{Interval: &metav1.Duration{Duration: interval}}
		readMonitoring(s)
		got := ""
		for _, f := range s.Unmet {
			got += f.Reason + " " + f.Message
		}
		if want != "" {
			want = v1alpha1.ReasonInvalidSpec + " " + want
		}
		if got != want {
			t.Errorf("%s: %q is reported", interval, got)
		}
	}
}

// TestSettingsThatAreIgnoredAreReported names each once, with why, and a cluster that is to go is not bothered.
func TestSettingsThatAreIgnoredAreReported(t *testing.T) {
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}}
	s.Cluster.Spec.MySQLD = map[string]string{"back_log": "100", "binlog_error_action": "IGNORE_ERROR", "port": "3307", "sync_binlog": "1"}
	readSettings(s)
	if len(s.Unmet) != 1 || s.Unmet[0].Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(s.Unmet[0].Message, "spec.mysqld.binlog_error_action, spec.mysqld.port") {
		t.Fatalf("%v", s.Unmet)
	}
	if got := desiredOf(s.Cluster, false, time.Now()).Settings; !slices.Equal(slices.Collect(maps.Keys(got)), []string{"back_log"}) {
		t.Errorf("members get %v", got)
	}
}

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func monitoringRows() []row {
	monitoring := func(field string, value any) change { return set("monitoring", map[string]any{field: value}) }
	return []row{
		fine("monitoring by its defaults", set("monitoring", map[string]any{})),
		fine("no monitoring", monitoring("enabled", false)),
		fine("every collector", monitoring("collectors", []any{"StatementLatency", "InnoDB", "Replication", "BinaryLogs", "Errors"})),
		fine("no collector", monitoring("collectors", []any{})),
		wrong("an unknown collector", `Unsupported value: "Tables"`, monitoring("collectors", []any{"Tables"})),
		wrong("a collector twice", "Duplicate value", monitoring("collectors", []any{"InnoDB", "InnoDB"})),
		fine("every log", monitoring("logs", []any{"Error", "Slow", "General"})),
		fine("no log", monitoring("logs", []any{})),
		wrong("an unknown log", `Unsupported value: "Audit"`, monitoring("logs", []any{"Audit"})),
		wrong("a log twice", "Duplicate value", monitoring("logs", []any{"Slow", "Slow"})),
		fine("the shortest interval", monitoring("interval", "10s")),
		fine("the longest interval", monitoring("interval", "4m")),
		wrong("a shorter interval", "must be a duration of whole seconds from 10s to 4m", monitoring("interval", "9s")),
		fine("an interval in another unit", monitoring("interval", "0.5m")),
		wrong("a fraction of a second", "must be a duration of whole seconds from 10s to 4m", monitoring("interval", "10.5s")),
		wrong("a longer interval", "must be a duration of whole seconds from 10s to 4m", monitoring("interval", "241s")),
	}
}

// TestMonitoringDefaults: nothing is exported unless the spec says so, and what is left out is as Go has it.
func TestMonitoringDefaults(t *testing.T) {
	var none *v1alpha1.MySQLCluster
	if none.EffectiveMonitoring() != nil || (&v1alpha1.MySQLCluster{}).EffectiveMonitoring() != nil {
		t.Error("a cluster that asks for nothing is monitored")
	}
	object := cluster(t, "monitored", set("monitoring", map[string]any{}))
	if err := api(t).Create(t.Context(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	var filled v1alpha1.MySQLCluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &filled); err != nil {
		t.Fatal(err)
	}
	m := filled.Spec.Monitoring
	if m == nil || m.Enabled == nil || m.Interval == nil {
		t.Fatalf("not filled in: %+v", m)
	}
	empty := (&v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Monitoring: &v1alpha1.MonitoringSpec{}}}).EffectiveMonitoring()
	if got, want := fmt.Sprint(*m.Enabled, m.Collectors, m.Logs, m.Interval.Duration), fmt.Sprint(true, empty.Collectors, empty.Logs, empty.Interval.Duration); got != want {
		t.Errorf("the API server fills in %s, Go says %s", got, want)
	}
}

// TestNoneIsNotTheDefault: a program that asks for no log and no collector sends that.
func TestNoneIsNotTheDefault(t *testing.T) {
	sent, err := json.Marshal(v1alpha1.MonitoringSpec{Collectors: []v1alpha1.MetricsCollector{}, Logs: []v1alpha1.MemberLog{}})
	if err != nil || string(sent) != `{"collectors":[],"logs":[]}` {
		t.Errorf("%s, %v", sent, err)
	}
	none := (&v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Monitoring: &v1alpha1.MonitoringSpec{Collectors: []v1alpha1.MetricsCollector{}, Logs: []v1alpha1.MemberLog{}}}}).EffectiveMonitoring()
	if len(none.Collectors)+len(none.Logs) != 0 {
		t.Errorf("%v, %v", none.Collectors, none.Logs)
	}
	if sent, err = json.Marshal(v1alpha1.MonitoringSpec{}); err != nil || string(sent) != "{}" {
		t.Errorf("%s, %v", sent, err)
	}
}

package v1alpha1_test

import (
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
		fine("the shortest interval", monitoring("interval", "10s")),
		fine("the longest interval", monitoring("interval", "10m")),
		wrong("a shorter interval", "must be a duration from 10s to 10m", monitoring("interval", "9s")),
		wrong("a longer interval", "must be a duration from 10s to 10m", monitoring("interval", "601s")),
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
	if got, want := fmt.Sprint(*m.Enabled, m.Collectors, m.Interval.Duration), fmt.Sprint(true, empty.Collectors, empty.Interval.Duration); got != want {
		t.Errorf("the API server fills in %s, Go says %s", got, want)
	}
}

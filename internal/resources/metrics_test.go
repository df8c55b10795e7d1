package resources

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func TestGoldenMetrics(t *testing.T) {
	c := testCluster()
	c.Spec.Monitoring = &v1alpha1.MonitoringSpec{}
	golden[any](t, "metrics.yaml", Metrics(c, c.EffectiveMonitoring(), "registry.example.com/operator:1"), MetricsTLSSecret(c, []byte("CERT"), []byte("KEY"), []byte("CA")),
		PodMonitor(c, c.EffectiveMonitoring()).Object)
}

// TestPodMonitorScrapesWithinTheLookback: the API server keeps a longer interval that was stored while it was accepted.
func TestPodMonitorScrapesWithinTheLookback(t *testing.T) {
	for stored, want := range map[time.Duration]string{10 * time.Minute: "240s", 4 * time.Minute: "240s", time.Minute: "60s"} {
		c := testCluster()
		c.Spec.Monitoring = &v1alpha1.MonitoringSpec{Interval: &metav1.Duration{Duration: stored}}
		endpoints, _, err := unstructured.NestedSlice(PodMonitor(c, c.EffectiveMonitoring()).Object, "spec", "podMetricsEndpoints")
		if err != nil {
			t.Fatal(err)
		}
		if got := endpoints[0].(map[string]any)["interval"]; got != want {
			t.Errorf("with %s stored, Prometheus is asked to scrape every %v, want %s", stored, got, want)
		}
		if c.Spec.Monitoring.Interval.Duration != stored {
			t.Error("the spec in the cache is changed")
		}
	}
}

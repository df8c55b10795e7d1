package resources

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func TestGoldenMetrics(t *testing.T) {
	c := testCluster()
	c.Spec.Monitoring = &v1alpha1.MonitoringSpec{}
	golden[any](t, "metrics.yaml", Metrics(c, c.EffectiveMonitoring(), "registry.example.com/operator:1"), MetricsTLSSecret(c, []byte("CERT"), []byte("KEY"), []byte("CA")),
		PodMonitor(c, c.EffectiveMonitoring()).Object)
}

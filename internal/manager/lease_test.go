package manager

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
)

// TestAPodThatWaitsForAnotherInstallationSaysSo by a metric and by an event; it does not lead. A lease that is no installation's it
// ignores, and says so by an event.
func TestAPodThatWaitsForAnotherInstallationSaysSo(t *testing.T) {
	for name, leads := range map[string]float64{"an installation": 1, "anybody": 0} {
		t.Run(name, func(t *testing.T) { waitsFor(t, leads) })
	}
}

func waitsFor(t *testing.T, leads float64) {
	t.Helper()
	op, s := operator(t, func(o *Options) { o.LeaderElection = true })
	s.allowed = leads == 1
	s.leases = []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: leader.LeaseName, ResourceVersion: "1"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("olm-0"), LeaseDurationSeconds: ptr.To[int32](3600)}}}
	run(t, op)
	const events = "/apis/events.k8s.io/v1/namespaces/" + v1alpha1.SystemNamespace + "/events"
	for deadline := time.Now().Add(patience); len(s.listed(events)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no event")
		}
	}
	if figures := gauges(t, s); figures["mysqlcluster_operator_other_installation_leads"] != leads || leads == 1 && figures["mysqlcluster_operator_leading"] != 0 {
		t.Errorf("the metrics are %v", figures)
	}
}

func gauges(t *testing.T, s *apiServer) map[string]float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, family := range families {
		figures[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	return figures
}

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

// TestAPodThatWaitsForAnotherInstallationSaysSo by a metric and by an event; it does not lead.
func TestAPodThatWaitsForAnotherInstallationSaysSo(t *testing.T) {
	op, s := operator(t, func(o *Options) { o.LeaderElection = true })
	s.leases = []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: leader.LeaseName, ResourceVersion: "1"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("olm-0"), LeaseDurationSeconds: ptr.To[int32](3600)}}}
	run(t, op)
	const events = "/apis/events.k8s.io/v1/namespaces/" + v1alpha1.SystemNamespace + "/events"
	for deadline := time.Now().Add(patience); len(s.listed(events)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no event")
		}
	}
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, family := range families {
		figures[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	if figures["mysqlcluster_operator_other_installation_leads"] != 1 || figures["mysqlcluster_operator_leading"] != 0 {
		t.Errorf("the metrics are %v", figures)
	}
}

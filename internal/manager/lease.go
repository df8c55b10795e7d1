package manager

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
)

// reportLeadership says by metrics whether this process leads, and in the log and by an event on the lease when it waits for an
// operator in another namespace. Such a pod is ready, as every follower is.
func reportLeadership(mgr ctrl.Manager, lock *leader.Lock, events announce.Recorder, o Options, registry prometheus.Registerer) error {
	log := o.Logger.WithName("lease")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: leader.LeaseName}}
	lock.OnOtherInstallation(func(other leader.Installation) {
		if other == (leader.Installation{}) {
			log.Info("no operator in another namespace leads any more")
			return
		}
		log.Info("an operator in another namespace leads; this one does nothing. Remove one of the two installations", "namespace", other.Namespace, "holder", other.Holder)
		events.Eventf(lease, nil, corev1.EventTypeWarning, v1alpha1.EventOtherInstallationLeads, announce.Act,
			"the operator in namespace %s leads (%s); this one does nothing. Remove one of the two installations", other.Namespace, other.Holder)
	})
	lock.OnIgnored(func(other leader.Installation) {
		log.Info("a lease in another namespace has the name of the operator's, and its ServiceAccount may not change the status of MySQLClusters: it is ignored. Find out who created it", "namespace", other.Namespace, "holder", other.Holder)
		events.Eventf(lease, nil, corev1.EventTypeWarning, v1alpha1.EventLeaseIgnored, announce.Act,
			"Lease %s in namespace %s belongs to no operator and is ignored: its ServiceAccount may not change the status of MySQLClusters. Find out who created it", leader.LeaseName, other.Namespace)
	})
	lock.OnDenied(func(err error) {
		log.Error(err, "the operator may not list the leases of other installations; it leads without that. Install the ClusterRole of this version, and see that there is no second installation")
	})
	waits := func() bool { return lock.OtherInstallation() != leader.Installation{} }
	for _, own := range []prometheus.Collector{o.Build.info(), metrics.Leading(mgr.Elected()), metrics.OtherInstallationLeads(waits)} {
		if err := registry.Register(own); err != nil {
			return fmt.Errorf("register the metrics of the operator itself: %w", err)
		}
	}
	return nil
}

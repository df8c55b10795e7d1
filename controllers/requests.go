package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// answer takes the switchover annotation off once the member that it names is primary, or never can be.
func (r *MySQLClusterReconciler) answer(ctx context.Context, s *scope) error {
	wanted := s.desired.SwitchoverTo
	if wanted == "" || s.deleting() {
		return nil
	}
	refused := s.plan.SwitchoverRefused
	if s.plan.Primary != wanted && refused == "" {
		return nil
	}
	before := s.cluster.DeepCopy()
	delete(s.cluster.Annotations, v1alpha1.AnnotationSwitchover)
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove the switchover annotation: %w", err)
	}
	if refused != "" {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonSwitchoverRefused, actionAct, "No switchover: %s", shorten(refused))
	}
	return nil
}

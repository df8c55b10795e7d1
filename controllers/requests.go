package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// restartAsked says whether a person asked for a restart of every mysqld that started before a time, and this one did. A
// time in the future asks for nothing yet.
func (r *MySQLClusterReconciler) restartAsked(s *scope, started time.Time) bool {
	at, err := time.Parse(time.RFC3339, s.cluster.Annotations[v1alpha1.AnnotationRestartedAt])
	return err == nil && !at.After(r.Clock.Now()) && !started.IsZero() && started.Before(at.Truncate(time.Second))
}

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

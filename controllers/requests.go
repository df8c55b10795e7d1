package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// readRequests reads since when a person wants every mysqld to have been restarted, and every certificate to be signed.
func (s *scope) readRequests() {
	s.desired.RestartedAt = s.requestedAt(v1alpha1.AnnotationRestartedAt)
	s.desired.CertificatesRenewedAt = s.requestedAt(v1alpha1.AnnotationCertificatesRenewedAt)
}

// requestedAt reads an annotation that names a time; zero when there is none, or none that can be read.
func (s *scope) requestedAt(annotation string) time.Time {
	text := s.cluster.Annotations[annotation]
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.unmet = append(s.unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec,
			Message: fmt.Sprintf("the annotation %s is %q, which is no time as in RFC 3339: write it like 2006-01-02T15:04:05Z", annotation, shorten(text))})
	}
	return at
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
	before, answered := s.cluster, s.cluster.DeepCopy()
	delete(answered.Annotations, v1alpha1.AnnotationSwitchover)
	s.cluster = answered
	if err := r.Client.Patch(ctx, answered, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove the switchover annotation: %w", err)
	}
	if refused != "" {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonSwitchoverRefused, actionAct, "No switchover: %s", shorten(refused))
	}
	return nil
}

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
func readRequests(s *pass) {
	s.desired.RestartedAt = requestedAt(s, v1alpha1.AnnotationRestartedAt)
	s.desired.CertificatesRenewedAt = requestedAt(s, v1alpha1.AnnotationCertificatesRenewedAt)
}

// requestedAt reads an annotation that names a time; zero when there is none, or none that can be read.
func requestedAt(s *pass, annotation string) time.Time {
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

// answer removes the annotations of requests that are done or refused.
func (r *announcer) answer(ctx context.Context, s *pass) error {
	if s.deleting() {
		return nil
	}
	if to, refused := s.desired.SwitchoverTo, s.plan.SwitchoverRefused; to != "" && (s.plan.Primary == to || refused != "") {
		if err := r.removeRequest(ctx, s, v1alpha1.AnnotationSwitchover); err != nil {
			return err
		}
		if refused != "" {
			r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonSwitchoverRefused, actionAct, "No switchover: %s", shorten(refused))
		}
	}
	if member, refused := s.desired.RebuildMember, s.plan.RebuildRefused; member != "" && (s.plan.RebuildDone || refused != "") {
		if err := r.removeRequest(ctx, s, v1alpha1.AnnotationRebuild); err != nil {
			return err
		}
		r.announceRebuild(s, member, refused)
	}
	return nil
}

// removeRequest removes an annotation, unless the cluster was changed since it was read: a person may have asked for something else.
func (r *announcer) removeRequest(ctx context.Context, s *pass, annotation string) error {
	before, answered := s.cluster, s.cluster.DeepCopy()
	delete(answered.Annotations, annotation)
	s.cluster = answered
	if err := r.Client.Patch(ctx, answered, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove the annotation %s: %w", annotation, err)
	}
	return nil
}

package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// Answer removes the annotations of requests that are done or refused.
func (r *Reporter) Answer(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() {
		return nil
	}
	if to, refused := s.Desired.SwitchoverTo, s.Plan.SwitchoverRefused; to != "" && (s.Plan.Primary == to || refused != "") {
		if err := r.removeRequest(ctx, s, v1alpha1.AnnotationSwitchover); err != nil {
			return err
		}
		if refused != "" {
			r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonSwitchoverRefused, announce.Act, "No switchover: %s", announce.Shorten(refused))
		}
	}
	if member, refused := s.Desired.RebuildMember, s.Plan.RebuildRefused; member != "" && (s.Plan.RebuildDone || refused != "") {
		if err := r.removeRequest(ctx, s, v1alpha1.AnnotationRebuild); err != nil {
			return err
		}
		r.Announcer.Rebuild(s, member, refused)
	}
	if accepted, refused := s.Plan.LossAccepted, s.Plan.LossRefused; s.Desired.AcceptLoss != 0 && (accepted != "" || refused != "") {
		if err := r.removeRequest(ctx, s, v1alpha1.AnnotationAcceptLoss); err != nil {
			return err
		}
		r.Announcer.Loss(s, accepted, refused)
	}
	return nil
}

// removeRequest removes an annotation, unless the cluster was changed since it was read: a person may have asked for something else.
func (r *Reporter) removeRequest(ctx context.Context, s *pass.Pass, annotation string) error {
	before, answered := s.Cluster, s.Cluster.DeepCopy()
	delete(answered.Annotations, annotation)
	s.Cluster = answered
	if err := r.Client.Patch(ctx, answered, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove the annotation %s: %w", annotation, err)
	}
	return nil
}

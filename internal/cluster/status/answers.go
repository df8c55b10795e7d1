package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Answer removes the annotations of requests that are done or refused, and reports it. A switchover that is done has an event already.
func (r *Reporter) Answer(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() {
		return nil
	}
	for _, request := range []struct {
		annotation string
		topology.Answer
		done, doneType, doneWords string
		refused, refusedWords     string
	}{
		{v1alpha1.AnnotationSwitchover, s.Plan.Answers.Switchover, "", "", "", v1alpha1.ReasonSwitchoverRefused, "No switchover: "},
		{v1alpha1.AnnotationRebuild, s.Plan.Answers.Rebuild, v1alpha1.ReasonMemberRebuilt, corev1.EventTypeNormal, "Rebuilt ",
			v1alpha1.ReasonRebuildRefused, "No rebuild: "},
		{v1alpha1.AnnotationAcceptLoss, s.Plan.Answers.AcceptLoss, v1alpha1.ReasonLossAccepted, corev1.EventTypeWarning, "Accepted as asked for: ",
			v1alpha1.ReasonLossRefused, "No loss is accepted: "},
	} {
		if !request.Given() {
			continue
		}
		if err := r.removeRequest(ctx, s, request.annotation); err != nil {
			return err
		}
		switch {
		case request.Refused != "":
			r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, request.refused, announce.Act, "%s", request.refusedWords+request.Refused)
		case request.done != "":
			r.Events.Eventf(s.Cluster, nil, request.doneType, request.done, announce.Act, "%s", request.doneWords+request.Done)
		}
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

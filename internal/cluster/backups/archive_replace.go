package backups

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// replaceArchive makes room for a StatefulSet that this one cannot be changed into, because its templates of claims and its
// podManagementPolicy are immutable. A claim that fits or can grow is kept, with its pod; otherwise both go: what waits on it is read
// from the servers again.
func (r *Archive) replaceArchive(ctx context.Context, s *pass.Pass, set *appsv1.StatefulSet, want *v1alpha1.BinlogArchiveSpec, failure error) error {
	if !apierrors.IsInvalid(failure) || set.UID == "" || !set.DeletionTimestamp.IsZero() {
		return failure
	}
	how := metav1.DeletePropagationBackground
	kept, err := r.keepClaim(ctx, s, set, want)
	if err != nil {
		return err
	}
	if kept {
		how = metav1.DeletePropagationOrphan
	}
	if err := r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID}, client.PropagationPolicy(how)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replace StatefulSet %s: %w", set.Name, err)
	}
	s.Log.Info("replacing the archive's StatefulSet, which cannot be changed", "because", failure.Error(), "claim kept", kept)
	return nil
}

// keepClaim expands the claim of the archive's pod where the spec wants it larger. false says that another is needed: its class does not
// let it grow, or the spec wants another class or a smaller one.
func (r *Archive) keepClaim(ctx context.Context, s *pass.Pass, set *appsv1.StatefulSet, want *v1alpha1.BinlogArchiveSpec) (bool, error) {
	if len(set.Spec.VolumeClaimTemplates) != 1 {
		return false, nil
	}
	storage := *want.Storage
	was, class := set.Spec.VolumeClaimTemplates[0].Spec, ""
	if was.StorageClassName != nil {
		class = *was.StorageClassName
	}
	if before := was.Resources.Requests[corev1.ResourceStorage]; storage.Cmp(before) < 0 || class != want.StorageClassName {
		return false, nil
	}
	claim, err := r.archiveClaim(ctx, s)
	if err != nil || claim == nil || !claim.DeletionTimestamp.IsZero() {
		return false, err
	}
	if !isArchiveClaim(claim, s.Cluster) {
		return false, &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson,
			Message: fmt.Sprintf("PersistentVolumeClaim %s exists and does not belong to this cluster; rename or delete it", claim.Name)}
	}
	if has := claim.Spec.Resources.Requests[corev1.ResourceStorage]; has.Cmp(storage) >= 0 {
		return true, nil
	}
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = storage
	err = r.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "must support resize"), apierrors.IsInvalid(err): // not a quota's refusal
		s.Log.Info("the archive's claim cannot grow and is made anew", "claim", claim.Name, "because", err.Error())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("grow PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	return true, nil
}

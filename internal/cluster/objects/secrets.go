package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// ApplySecret writes a Secret of the cluster's own, whoever else has changed it.
func (r *Objects) ApplySecret(ctx context.Context, ac *corev1ac.SecretApplyConfiguration) error {
	if err := r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write Secret %s: %w", *ac.Name, err)
	}
	return nil
}

// OwnedSecret reads one of the cluster's own Secrets, or returns nil when there is none. The cache is not believed
// about its absence, and a Secret of somebody else is never used.
func (r *Objects) OwnedSecret(ctx context.Context, s *pass.Pass, name string) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}
	var secret corev1.Secret
	err := r.Client.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &secret)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	case !pass.OwnedBy(&secret, s.Cluster) && !handedOver(&secret, s.Cluster):
		return nil, r.Foreign(ctx, s, "Secret", &secret)
	case metav1.GetControllerOf(&secret) == nil && secret.DeletionTimestamp.IsZero() && !s.Deleting():
		before := secret.DeepCopy()
		if err := controllerutil.SetControllerReference(s.Cluster, &secret, r.Client.Scheme()); err != nil {
			return nil, fmt.Errorf("take Secret %s back: %w", name, err)
		}
		if err := r.Client.Patch(ctx, &secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("take Secret %s back: %w", name, err)
		}
	}
	return &secret, nil
}

// CreateSecret makes a Secret and never replaces one.
func (r *Objects) CreateSecret(ctx context.Context, ac *corev1ac.SecretApplyConfiguration) error {
	var secret corev1.Secret
	if err := pass.Convert(ac, &secret); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &secret, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("create Secret %s: %w", secret.Name, err)
	}
	return nil
}

// KeptName names the copy that bridges the moment between a deleted Secret and its return.
func KeptName(name string) string { return name + "-kept" }

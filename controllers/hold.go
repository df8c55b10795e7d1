package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// willHold adds the Secret with the cluster's credentials to the records. It is written down before the Secret gets the
// finalizer: the operator may not list the Secrets of others, and would not find it again by itself.
func willHold(s *pass, records *topology.Records) {
	if name := credentialsSecret(s.cluster); name != "" && s.access.cloud != nil && !slices.Contains(records.Held, name) {
		records.Held = append(slices.Clone(records.Held), name)
	}
}

// hold puts our finalizer on the Secret with the cluster's credentials: without it the EC2 resources of a deleted
// namespace could never be removed. A Secret that the spec named before is let go once its successor works.
func (r *identities) hold(ctx context.Context, s *pass) error {
	if s.access.cloud == nil || s.stored.Lost || s.neverBegun() {
		return nil
	}
	if s.access.unheld != nil {
		if err := r.holdNow(ctx, s); err != nil {
			return err
		}
	}
	current := credentialsSecret(s.cluster)
	earlier := func(name string) bool { return name != current }
	if !s.observed.CloudReachable || !slices.ContainsFunc(s.records().Held, earlier) {
		return nil
	}
	for _, name := range s.records().Held {
		if earlier(name) {
			if err := r.letGo(ctx, s, name); err != nil {
				return err
			}
		}
	}
	return s.stored.Save(ctx, func(records *topology.Records) { records.Held = slices.DeleteFunc(records.Held, earlier) })
}

// holdNow puts the finalizer on. Once there are machines to look after, nothing waits for it.
func (r *identities) holdNow(ctx context.Context, s *pass) error {
	name := s.access.unheld.Name
	write := func() error {
		before := s.access.unheld.DeepCopy()
		controllerutil.AddFinalizer(s.access.unheld, v1alpha1.Finalizer)
		if err := r.Client.Patch(ctx, s.access.unheld, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("hold Secret %s: %w", name, err)
		}
		return nil
	}
	if !s.shown() {
		return write()
	}
	_, err := r.objects.aside(s, "Secret "+name, "held", write)
	return err
}

// letGo takes our finalizer off a user's Secret, unless another cluster of the namespace needs it. One without our finalizer needs
// nothing any more, and the cache may show one that is gone.
func (r *identities) letGo(ctx context.Context, s *pass, name string) error {
	var list v1alpha1.MySQLClusterList
	if err := r.Reader.List(ctx, &list, client.InNamespace(s.cluster.Namespace)); err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		needs := other.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(other, v1alpha1.Finalizer)
		if other.UID != s.cluster.UID && needs && credentialsSecret(other) == name {
			return nil
		}
	}
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if by := metav1.GetControllerOf(&secret); by != nil && by.Kind == "MySQLCluster" || secret.Annotations[v1alpha1.AnnotationClusterUID] != "" {
		return nil // a cluster's own, and no user's: somebody else has written it into the records
	}
	return r.objects.dropFinalizer(ctx, &secret)
}

// releaseCredentials lets every Secret go that was held for a cluster.
func (r *identities) releaseCredentials(ctx context.Context, s *pass) error {
	names := slices.Clone(s.records().Held)
	if name := credentialsSecret(s.cluster); name != "" && !slices.Contains(names, name) {
		names = append(names, name)
	}
	for _, name := range names {
		if err := r.letGo(ctx, s, name); err != nil {
			return err
		}
	}
	return nil
}

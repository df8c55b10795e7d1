package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// A cluster whose finalizer somebody took off by hand leaves objects behind that are held by ours, and would be for ever.

// releaseLeftovers lets go what was held for a cluster that is not there any more.
func (r *objects) releaseLeftovers(ctx context.Context, name types.NamespacedName) error {
	names := resources.NamesOf(name.Name)
	ca, operatorTLS, members := names.CA, names.OperatorTLS, names.Members
	var left []client.Object
	for key, obj := range map[string]client.Object{ca: &corev1.Secret{}, keptName(ca): &corev1.Secret{}, operatorTLS: &corev1.Secret{}, members: &corev1.ConfigMap{}} {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: key}, obj)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s, left behind by a cluster: %w", key, err)
		}
		if err == nil && heldForUID(obj, name.Name) != "" {
			left = append(left, obj)
		}
	}
	if len(left) == 0 {
		return nil
	}
	// The cache may not show a cluster yet that was made just now.
	err := r.Reader.Get(ctx, name, &v1alpha1.MySQLCluster{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	for _, obj := range left {
		if err := r.dropFinalizer(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// foreign is the problem of an object in the way that does not belong to the cluster. What an older cluster of this name
// held is let go: that one is gone, for no two have the same name.
func (r *objects) foreign(ctx context.Context, s *pass, kind string, obj client.Object) error {
	if uid := heldForUID(obj, s.cluster.Name); uid != "" && uid != s.cluster.UID {
		if err := r.dropFinalizer(ctx, obj); err != nil {
			return err
		}
		return &engine.Problem{Message: fmt.Sprintf("%s %s of an older cluster goes", kind, obj.GetName()), After: engine.AfterRepair}
	}
	return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson,
		Message: fmt.Sprintf("%s %s exists and does not belong to this cluster; rename or delete it", kind, obj.GetName())}
}

// heldForUID returns the UID of the cluster of a name for which our finalizer alone keeps a deleted object, empty when that is
// not so.
func heldForUID(obj client.Object, cluster string) types.UID {
	finalizers := obj.GetFinalizers()
	if obj.GetDeletionTimestamp().IsZero() || len(finalizers) != 1 || finalizers[0] != v1alpha1.Finalizer {
		return ""
	}
	by := metav1.GetControllerOf(obj)
	if by != nil && (by.APIVersion != v1alpha1.GroupVersion.String() || by.Kind != "MySQLCluster" || by.Name != cluster) {
		return ""
	}
	return ownerOf(obj)
}

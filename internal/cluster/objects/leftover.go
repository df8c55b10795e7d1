package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// A cluster whose finalizer somebody took off by hand leaves objects behind that are held by ours, and would be for ever.

// ReleaseLeftovers lets go what was held for a cluster that is not there any more.
func (r *Objects) ReleaseLeftovers(ctx context.Context, name types.NamespacedName) error {
	names := resources.NamesOf(name.Name)
	ca, operatorTLS, members := names.CA, names.OperatorTLS, names.Members
	var left []client.Object
	for key, obj := range map[string]client.Object{ca: &corev1.Secret{}, KeptName(ca): &corev1.Secret{}, operatorTLS: &corev1.Secret{}, members: &corev1.ConfigMap{}} {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: key}, obj)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s, left behind by a cluster: %w", key, err)
		}
		if err == nil && HeldForUID(obj, name.Name) != "" {
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
		if err := r.DropFinalizer(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

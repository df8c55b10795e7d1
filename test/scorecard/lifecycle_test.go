package main

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestATestThatIsToldToEndLeavesNoCluster ends the test while the cluster is on its way to Ready, as operator-sdk does when
// its wait is over.
func TestATestThatIsToldToEndLeavesNoCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	manifest := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "scorecard", Name: settings},
		Data:       map[string]string{settingsKey: "metadata: {name: walker}\nspec: {deletionProtection: true}\n"},
	}
	s := &scene{namespace: manifest.Namespace, scheme: scheme}
	// Like a real one, this client makes no call for a context that has ended.
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(manifest).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isCluster := o.(*v1alpha1.MySQLCluster); isCluster {
				end()
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()

	wrong, err := clusterLivesAndLeaves(ctx, s)
	if len(wrong) == 0 && err == nil {
		t.Error("a test that was told to end passed")
	}
	var left v1alpha1.MySQLClusterList
	if err := s.client.List(t.Context(), &left); err != nil || len(left.Items) != 0 {
		t.Errorf("%d clusters are left behind, %v", len(left.Items), err)
	}
}

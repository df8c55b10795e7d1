package v1alpha1_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestDeletionIsRefusedWithoutAnOperator: config/admission refuses to delete the CRDs and protected clusters, and nothing else.
//
//nolint:paralleltest // the policies hold for the API server of all tests
func TestDeletionIsRefusedWithoutAnOperator(t *testing.T) {
	api(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(server.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	const where = "deletion"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: where, Labels: map[string]string{"test": where}}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, object := range kustomize(t, "admission") {
		if object.GetName() == "nairobi-mysql-cluster-deletion" && object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			// Other tests delete their clusters.
			selector := map[string]any{"matchLabels": map[string]any{"test": where}}
			if err := unstructured.SetNestedMap(object.Object, selector, "spec", "matchResources", "namespaceSelector"); err != nil {
				t.Fatal(err)
			}
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := admin.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
	guarded := cluster(t, "guarded")
	free := cluster(t, "free", set("deletionProtection", false))
	for _, object := range []client.Object{guarded, free} {
		object.SetNamespace(where)
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	definition := func(name string) client.Object {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for _, object := range []client.Object{definition("mysqlclusters.mysql.alx.ke"), definition("mysqlbackups.mysql.alx.ke"), guarded} {
		eventually(t, object.GetName()+" cannot be deleted", func() error {
			if err := admin.Delete(t.Context(), object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'nairobi-mysql-") {
				return fmt.Errorf("a deletion: %w", err)
			}
			return nil
		})
	}
	if err := admin.Delete(t.Context(), free); err != nil {
		t.Errorf("a cluster without protection: %v", err)
	}
	apply(t, guarded, set("deletionProtection", false))
	if err := admin.Update(t.Context(), guarded); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), guarded); err != nil {
		t.Errorf("a cluster whose protection was lifted: %v", err)
	}
}

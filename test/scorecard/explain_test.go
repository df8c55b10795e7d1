package main

import (
	"context"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestWhatIsMissingIsSaid: each test that the API server denies something, or that finds no operator, says what to install.
func TestWhatIsMissingIsSaid(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, operatorsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Annotations = map[string]string{"alm-examples": `[{"apiVersion":"mysql.alx.ke/v1alpha1","kind":"MySQLCluster","metadata":{"name":"orders"},"spec":{}}]`}
	for what, row := range map[string]struct {
		answer error
		want   string
	}{
		"no permission": {apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "", nil), "config/scorecard/access"},
		"no operator":   {&meta.NoKindMatchError{}, "install the operator of this bundle"},
	} {
		refuse := interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return row.answer
			},
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return row.answer
			},
		}
		for _, name := range []string{"samples-are-accepted", "permissions-suffice", "protection-refuses-deletion"} {
			s := &scene{bundle: &manifests.Bundle{CSV: csv}, namespace: "scorecard", scheme: scheme, client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(refuse).Build()}
			if _, err := tests[name](t.Context(), s); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

package backups

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestForeignConditionsOfABackupAreRemoved: a status holds 8 conditions, and the API server refuses one with more.
func TestForeignConditionsOfABackupAreRemoved(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly"}}
	b.Status.Phase = v1alpha1.BackupCompleted
	for i := range 8 {
		b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: fmt.Sprint("Foreign", i), Status: metav1.ConditionTrue, Reason: "Test"})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithStatusSubresource(b).Build()
	r := &Supervisor{Client: c, Reader: c, Clock: clock.RealClock{}}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)}); err != nil {
		t.Fatal(err)
	}
	var now v1alpha1.MySQLBackup
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &now); err != nil {
		t.Fatal(err)
	}
	if len(now.Status.Conditions) != 1 || now.Status.Conditions[0].Type != v1alpha1.ConditionReady {
		t.Errorf("the conditions are %+v", now.Status.Conditions)
	}
}

// TestConflictIsNoFailure: a pod reports while its backup is looked at. The look is repeated, and nothing counts as an error.
func TestConflictIsNoFailure(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders"}}
	refused := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("mysqlbackups").GroupResource(), b.Name, nil)
	for _, answer := range []error{refused, apierrors.NewInternalError(context.Canceled)} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b.DeepCopy()).WithStatusSubresource(b).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return answer
			},
		}).Build()
		r := &Supervisor{Client: c, Reader: c, Clock: clock.RealClock{}}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		if apierrors.IsConflict(answer) != (err == nil) || (result.RequeueAfter == 0) != (err != nil) {
			t.Errorf("%v: %+v, %v", answer, result, err)
		}
	}
}

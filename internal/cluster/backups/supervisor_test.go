package backups

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// TestForeignConditionsOfABackupAreRemoved: a status holds 8 conditions, and the API server refuses one with more.
func TestForeignConditionsOfABackupAreRemoved(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
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

// TestPrunesWhatItsScheduleMade, and for the first schedule of dumps the archive's bases that no schedule owns.
func TestPrunesWhatItsScheduleMade(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	cluster.Spec.Backup = &v1alpha1.BackupSpec{Schedules: []v1alpha1.BackupSchedule{
		{Name: "often", Method: v1alpha1.BackupMethodSnapshot}, {Name: "hourly", Method: v1alpha1.BackupMethodDump}, {Name: "daily", Method: v1alpha1.BackupMethodDump},
	}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build()
	r := &Supervisor{Client: c, Reader: c, Clock: clock.RealClock{}}
	made := func(name, schedule string, method v1alpha1.BackupMethod, base bool) *v1alpha1.MySQLBackup {
		b := completed(name, schedule, method)
		b.Namespace, b.Spec.ClusterName = "shop", "orders"
		if base {
			b.Labels = map[string]string{v1alpha1.LabelComponent: resources.ComponentArchive}
		}
		return &b
	}
	for name, row := range map[string]struct {
		by   string
		old  *v1alpha1.MySQLBackup
		want bool
	}{
		"its own":                             {"hourly", made("old", "hourly", v1alpha1.BackupMethodDump, false), true},
		"its own base":                        {"hourly", made("old", "hourly", v1alpha1.BackupMethodDump, true), true},
		"itself":                              {"hourly", made("new", "hourly", v1alpha1.BackupMethodDump, false), false},
		"a snapshot, which it took before":    {"hourly", made("old", "hourly", v1alpha1.BackupMethodSnapshot, false), false},
		"another schedule's":                  {"hourly", made("old", "daily", v1alpha1.BackupMethodDump, false), false},
		"a former schedule's":                 {"hourly", made("old", "monthly", v1alpha1.BackupMethodDump, false), false},
		"a former schedule's base":            {"hourly", made("old", "monthly", v1alpha1.BackupMethodDump, true), false},
		"a dump of one that snapshots by now": {"hourly", made("old", "often", v1alpha1.BackupMethodDump, false), false},
		"a person's":                          {"hourly", made("old", "", v1alpha1.BackupMethodDump, false), false},
		"a base of no schedule":               {"hourly", made("old", "", v1alpha1.BackupMethodDump, true), true},
		"a base of no schedule, for another":  {"daily", made("old", "", v1alpha1.BackupMethodDump, true), false},
	} {
		if got, err := r.prunes(t.Context(), made("new", row.by, v1alpha1.BackupMethodDump, false), row.old); err != nil || got != row.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestConflictIsNoFailure: a pod reports while its backup is looked at. The look is repeated, and nothing counts as an error.
func TestConflictIsNoFailure(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
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

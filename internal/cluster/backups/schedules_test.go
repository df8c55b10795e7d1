package backups

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// TestWhatCannotBeWrittenIsDueAllTheSame: the API server refuses a CronJob and the report of verifications as they are to be. Since when the
// schedule is there, and what was reported, is known, so that an overdue or damaged backup stays one. What is somebody else's says nothing.
func TestWhatCannotBeWrittenIsDueAllTheSame(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for owner, known := range map[string]bool{"mine": true, "another": false} {
		cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "mine"}}
		cluster.Spec.Backup = &v1alpha1.BackupSpec{Verification: &v1alpha1.VerificationSpec{}}
		of := metav1.ObjectMeta{Namespace: "shop", CreationTimestamp: metav1.NewTime(made), Annotations: map[string]string{v1alpha1.AnnotationClusterUID: owner}}
		cron, report := &batchv1.CronJob{ObjectMeta: of}, &corev1.ConfigMap{ObjectMeta: of, Data: map[string]string{"state": "Failed"}}
		cron.Name, report.Name = "orders-daily", *resources.VerificationReport(cluster).Name
		refused := errors.New("admission webhook denied the request")
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cron, report).WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return refused
			},
		}).Build()
		ports := &pass.Ports{Client: c, Reader: c, Clock: clocktesting.NewFakePassiveClock(made.Add(time.Hour))}
		r := &Backups{Ports: ports, Objects: &objects.Objects{Ports: ports}}
		s := &pass.Pass{Cluster: cluster, Cache: pass.NewCache(""), Backup: pass.Backups{Schedules: map[string]time.Time{}}}
		wanted, err := resources.Schedule(cluster, v1alpha1.BackupSchedule{Name: "daily"}, task.Task{}, false, resources.Images{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.applySchedule(t.Context(), s, wanted); err == nil {
			t.Error("nothing is wrong")
		}
		if since := s.Backup.Schedules["orders-daily"]; since.Equal(made) != known {
			t.Errorf("%s: there since %s", owner, since)
		}
		if err := r.ensureVerification(t.Context(), s, resources.Images{}); err == nil {
			t.Error("nothing is wrong")
		}
		if state := s.Backup.Verification["state"]; (state == "Failed") != known {
			t.Errorf("%s: reported is %q", owner, state)
		}
	}
}

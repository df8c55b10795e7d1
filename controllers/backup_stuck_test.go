package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestAJobThatNeverBeganHoldsNobodyUp: a schedule's Job whose pod does not get to run goes after half an hour. One that
// runs, ran, or has made its MySQLBackup stays, and so does what is not the schedule's.
func TestAJobThatNeverBeganHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, backedUp)
	o := w.newOperator(nil)
	o.Images = &Images{Own: "operator:1", Client: DefaultClientImage}
	key := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}
	}
	w.drive(o, patience, func() bool {
		return kube.Get(t.Context(), key("orders-verify"), &batchv1.CronJob{}) == nil
	})
	there := func(name string) bool {
		var job batchv1.Job
		err := kube.Get(t.Context(), key(name), &job)
		must(t, client.IgnoreNotFound(err))
		return !apierrors.IsNotFound(err) && job.DeletionTimestamp.IsZero()
	}
	start := func(name, cron string, status batchv1.JobStatus) {
		t.Helper()
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelCluster: "orders"}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "backup", Image: "no-such-image"}}}}},
		}
		if cron != "" {
			var by batchv1.CronJob
			must(t, kube.Get(t.Context(), key(cron), &by))
			job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&by, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
		}
		must(t, kube.Create(t.Context(), job))
		job.Status = status
		job.Status.StartTime = ptr.To(metav1.Now())
		must(t, kube.Status().Update(t.Context(), job))
	}
	pending := batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(0))}
	start("stuck", "orders-daily", pending)
	start("stuck-verify", "orders-verify", pending)
	start("runs", "orders-daily", batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(1))})
	start("again", "orders-daily", batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(0)), Failed: 1})
	start("by-hand", "", pending)
	start("began", "orders-daily", pending)
	must(t, kube.Create(t.Context(), &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "began"},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Schedule: "daily"}}))
	w.clock.SetTime(time.Now().Add(startPatience - time.Minute))
	w.passes(o, 3)
	if !there("stuck") || !there("stuck-verify") {
		t.Error("a Job was deleted that may yet begin")
	}
	w.wait(2 * time.Minute)
	w.drive(o, patience, func() bool { return !there("stuck") && !there("stuck-verify") })
	w.passes(o, 3)
	for _, name := range []string{"runs", "again", "by-hand", "began"} {
		if !there(name) {
			t.Errorf("%s was deleted", name)
		}
	}
}

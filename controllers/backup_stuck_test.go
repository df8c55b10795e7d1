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
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// newScheduled is a world whose cluster has its CronJobs, and names the objects in its namespace.
func newScheduled(t *testing.T) (*world, *operator, func(name string) client.ObjectKey) {
	t.Helper()
	w := newWorld(t, backedUp)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	key := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}
	}
	w.drive(o, patience, func() bool {
		return kube.Get(t.Context(), key("orders-verify"), &batchv1.CronJob{}) == nil
	})
	return w, o, key
}

// TestAJobThatNeverBeganHoldsNobodyUp: a schedule's Job whose pod does not get to run goes after half an hour. One that
// runs, ran, has made its MySQLBackup or has reported stays, and so does what is not the schedule's.
func TestAJobThatNeverBeganHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w, o, key := newScheduled(t)
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
	start("reported-verify", "orders-verify", pending) // its node does not answer
	var reported batchv1.Job
	must(t, kube.Get(t.Context(), key("reported-verify"), &reported))
	report := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-verify"}}
	told := report.DeepCopy()
	told.Data = map[string]string{task.ReportJob: string(reported.UID)}
	must(t, kube.Patch(t.Context(), told, client.MergeFrom(report)))
	start("began", "orders-daily", pending)
	must(t, kube.Create(t.Context(), &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "began"},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Schedule: "daily"}}))
	w.clock.SetTime(time.Now().Add(jobs.StartPatience - time.Minute))
	w.passes(o, 3)
	if !there("stuck") || !there("stuck-verify") {
		t.Error("a Job was deleted that may yet begin")
	}
	w.wait(2 * time.Minute)
	w.drive(o, patience, func() bool { return !there("stuck") && !there("stuck-verify") })
	w.passes(o, 3)
	for _, name := range []string{"runs", "again", "by-hand", "began", "reported-verify"} {
		if !there(name) {
			t.Errorf("%s was deleted", name)
		}
	}
}

// TestAJobThatDoesNotEndHoldsNobodyUp: one that was deleted in the foreground and whose pod stays, as on a node that is cut off;
// one that verifies and whose only pod fades for ever; one whose backup has long had its outcome.
func TestAJobThatDoesNotEndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w, o, key := newScheduled(t)
	there := func(name string) bool {
		err := kube.Get(t.Context(), key(name), &batchv1.Job{})
		must(t, client.IgnoreNotFound(err))
		return err == nil
	}
	start := func(name, cron string, status batchv1.JobStatus) *batchv1.Job {
		t.Helper()
		var by batchv1.CronJob
		must(t, kube.Get(t.Context(), key(cron), &by))
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelCluster: "orders"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&by, batchv1.SchemeGroupVersion.WithKind("CronJob"))}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "backup", Image: "i"}}}}},
		}
		must(t, kube.Create(t.Context(), job))
		job.Status = status
		job.Status.StartTime = ptr.To(metav1.Now())
		must(t, kube.Status().Update(t.Context(), job))
		return job
	}
	backup := func(name string, phase v1alpha1.BackupPhase, ended time.Duration) {
		b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Schedule: "daily"}}
		must(t, kube.Create(t.Context(), b))
		b.Status.Phase = phase
		if ended > 0 {
			b.Status.CompletedAt = ptr.To(metav1.NewTime(time.Now().Add(-ended)))
		}
		must(t, kube.Status().Update(t.Context(), b))
	}
	runs := batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(1))}
	fades := batchv1.JobStatus{Failed: 1, Terminating: ptr.To(int32(1))}
	for _, name := range []string{"deleted", "deleted-running"} {
		job := start(name, "orders-daily", runs)
		must(t, kube.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	backup("deleted-running", v1alpha1.BackupRunning, 0)
	start("fades-verify", "orders-verify", fades)
	start("runs-verify", "orders-verify", runs)
	start("fades", "orders-daily", fades) // its MySQLBackup is supervised
	backup("fades", v1alpha1.BackupRunning, 0)
	start("done", "orders-daily", runs)
	backup("done", v1alpha1.BackupCompleted, jobs.LeavePatience-5*time.Minute)
	start("prunes", "orders-daily", runs)
	backup("prunes", v1alpha1.BackupCompleted, time.Minute)

	w.clock.SetTime(time.Now())
	w.passes(o, 3)
	w.wait(jobs.EndPatience - time.Minute)
	w.passes(o, 1)
	for _, name := range []string{"deleted", "deleted-running", "fades-verify"} {
		if !there(name) {
			t.Errorf("%s is gone before its time", name)
		}
	}
	w.wait(2 * time.Minute)
	w.drive(o, patience, func() bool {
		return !there("deleted") && !there("deleted-running") && !there("fades-verify") && !there("done")
	})
	w.passes(o, 2)
	for _, name := range []string{"runs-verify", "fades", "prunes"} {
		if !there(name) {
			t.Errorf("%s was deleted", name)
		}
	}
}

package backups

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pod"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

const (
	// Removing marks the name of the Job that removes a backup's data.
	Removing = "-rm"
	// JobNameLimit is how long a Job's name may be: its pods carry it in a label.
	JobNameLimit = 63
	// uidPart is how much of a UID a Job's name carries.
	uidPart = 8
	// requiredLimit is how long a GTID set in a task may be: the kernel takes 128 KiB for a variable of the environment.
	requiredLimit = 64 << 10
)

// JobName names a Job of a backup: by its UID, so that no other backup's Job can have that name.
func JobName(b *v1alpha1.MySQLBackup, what string) string {
	end := what + "-" + string(b.UID)[:min(uidPart, len(b.UID))]
	return strings.TrimRight(b.Name[:min(len(b.Name), JobNameLimit-len(end))], ".-") + end
}

// scheduled says whether the pod of a schedule made the backup for itself.
func scheduled(b *v1alpha1.MySQLBackup) bool { return b.Annotations[v1alpha1.AnnotationRunner] != "" }

// RunnerOf names the Job that works on a backup.
func RunnerOf(b *v1alpha1.MySQLBackup) string {
	if scheduled(b) {
		return b.Annotations[v1alpha1.AnnotationRunner]
	}
	return JobName(b, "")
}

// belongs says whether a Job is a backup's: its own, or that of its cluster's schedule which made it. A name alone, and
// what an annotation says, prove nothing.
func belongs(job *batchv1.Job, b *v1alpha1.MySQLBackup) bool {
	if metav1.IsControlledBy(job, b) {
		return true
	}
	by := metav1.GetControllerOf(job)
	return by != nil && by.Kind == "CronJob" && scheduled(b) && job.Name == b.Name && by.Name == resources.ScheduleName(b.Spec.ClusterName, b.Spec.Schedule)
}

// BackupOfJob names the MySQLBackup that a Job works on: its owner, or, for the Job of a schedule, the one of its name.
func BackupOfJob(_ context.Context, job client.Object) []reconcile.Request {
	by := metav1.GetControllerOf(job)
	if by == nil {
		return nil
	}
	name := job.GetName()
	if by.Kind == "MySQLBackup" {
		name = by.Name
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: job.GetNamespace(), Name: name}}}
}

// ClusterOfBackup names the cluster that a MySQLBackup is of.
func ClusterOfBackup(_ context.Context, obj client.Object) []reconcile.Request {
	b, ok := obj.(*v1alpha1.MySQLBackup)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ClusterName}}}
}

// BackupsOf names the MySQLBackups that are of a cluster.
func (r *Supervisor) BackupsOf(ctx context.Context, cluster client.Object) (all []reconcile.Request) {
	var list v1alpha1.MySQLBackupList
	if err := r.Client.List(ctx, &list, client.InNamespace(cluster.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the backups of a cluster", "cluster", cluster.GetName())
	}
	for i := range list.Items {
		if b := &list.Items[i]; b.Spec.ClusterName == cluster.GetName() {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return all
}

// job reads a Job of a backup, nil when there is none of that name that is the backup's. The cache is not believed about
// that.
func (r *Supervisor) job(ctx context.Context, b *v1alpha1.MySQLBackup, name string) (*batchv1.Job, error) {
	var job batchv1.Job
	key := client.ObjectKey{Namespace: b.Namespace, Name: name}
	err := r.Client.Get(ctx, key, &job)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &job)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Job %s: %w", name, err)
	case !belongs(&job, b):
		return nil, nil
	}
	return &job, nil
}

// start makes the Job of a backup.
func (r *Supervisor) start(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) error {
	t := backupTask(cluster)
	t.Backup, t.Method, t.Base = b.Name, b.Spec.Method, isBase(b)
	if t.Base {
		report, err := readReport(ctx, r.Client, cluster)
		if err != nil {
			return err
		}
		if report != nil && len(report.Required) <= requiredLimit {
			t.Required = report.Required
		}
	}
	return r.makeJob(ctx, b, cluster, RunnerOf(b), pod.CommandBackup, t)
}

// makeJob makes a Job of a backup, after none was found.
func (r *Supervisor) makeJob(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster, name, command string, t task.Task) error {
	own, err := r.Images.Operator()
	if err != nil {
		return err
	}
	images := resources.Images{Operator: own, MySQL: own, Proxy: r.Images.Proxy}
	if command != pod.CommandRemove { // which needs no program of MySQL's
		image := ""
		if cluster.Spec.Backup != nil {
			image = cluster.Spec.Backup.Image
		}
		images.MySQL = r.Images.MySQL(cluster, image)
	}
	ac, err := resources.BackupJob(cluster, b, name, command, t, images)
	if err != nil {
		return err
	}
	if err := objects.OwnsForPod(ctx, r.Client, r.Reader, cluster, ac.Spec.Template); err != nil {
		return err
	}
	var job batchv1.Job
	if err := pass.Convert(ac, &job); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &job, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("make Job %s: %w", name, err)
	}
	return nil
}

// endJob deletes a Job that goes on. It is gone when its pods are.
func (r *Supervisor) endJob(ctx context.Context, job *batchv1.Job) error {
	return jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationForeground)
}

// dropJob deletes a Job whose pods do not end. It is gone at once, and what waits for it goes on.
func (r *Supervisor) dropJob(ctx context.Context, job *batchv1.Job) error {
	return jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationBackground)
}

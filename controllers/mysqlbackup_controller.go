package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pod"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

const (
	// superviseEvery is how often a running backup is looked at.
	superviseEvery = 15 * time.Second
	// reportGrace is how much longer than the pod's own watch the operator waits before it calls a backup stalled: a pod
	// that lives ends itself first, and says more.
	reportGrace = 2 * time.Minute
	// runnerGrace is how long the Job of a backup may not be seen.
	runnerGrace = time.Minute
	// clusterGrace is how long a MySQLBackup waits for its cluster, so that both can be applied at once.
	clusterGrace = 5 * time.Minute
	// removeSuffix ends the name of the Job that removes a backup's data.
	removeSuffix = "-rm"
	// jobNameLimit is how long a Job's name may be: its pods carry it in a label.
	jobNameLimit = 63
)

// MySQLBackupReconciler has MySQLBackups worked on, supervises who does, and takes their data away where that is wanted.
// Snapshots are the work of the MySQLClusterReconciler, which has the cluster's way to EC2.
type MySQLBackupReconciler struct {
	Client client.Client
	Reader client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Images *Images
	// Workers is how many backups are looked at side by side.
	Workers int
}

// SetupWithManager registers the reconciler and its watches.
func (r *MySQLBackupReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("mysqlbackup").
		For(&v1alpha1.MySQLBackup{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(backupOfJob)).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(r.Workers, 1), ReconciliationTimeout: passTimeout}).
		Complete(r)
}

// backupOfJob names the MySQLBackup that a Job works on: a backup and its runner share their name.
func backupOfJob(_ context.Context, job client.Object) []reconcile.Request {
	return []reconcile.Request{
		{NamespacedName: client.ObjectKeyFromObject(job)},
		{NamespacedName: client.ObjectKey{Namespace: job.GetNamespace(), Name: strings.TrimSuffix(job.GetName(), removeSuffix)}},
	}
}

// Reconcile looks at one MySQLBackup.
func (r *MySQLBackupReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b v1alpha1.MySQLBackup
	if err := r.Client.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !b.DeletionTimestamp.IsZero():
		return r.release(ctx, &b)
	case r.finalizerWrong(&b):
		return ctrl.Result{}, r.setFinalizer(ctx, &b)
	case b.Done():
		return ctrl.Result{}, r.tidy(ctx, &b)
	}
	cluster, err := r.cluster(ctx, &b)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case cluster == nil && b.Status.Phase != v1alpha1.BackupRunning:
		if r.Clock.Since(b.CreationTimestamp.Time) < clusterGrace {
			return ctrl.Result{RequeueAfter: superviseEvery}, r.wait(ctx, &b, "waiting for MySQLCluster "+b.Spec.ClusterName)
		}
		return ctrl.Result{}, r.fail(ctx, &b, v1alpha1.BackupReasonNoCluster, "there is no MySQLCluster "+b.Spec.ClusterName+" in this namespace")
	case b.Spec.Method == v1alpha1.BackupMethodSnapshot:
		return ctrl.Result{RequeueAfter: superviseEvery}, r.wait(ctx, &b, "waiting for the operator's next look at the cluster")
	case b.Status.Phase != v1alpha1.BackupRunning && (cluster.Spec.Backup == nil || cluster.Spec.Backup.Destination == nil):
		return ctrl.Result{}, r.fail(ctx, &b, v1alpha1.BackupReasonNoDestination, "MySQLCluster "+cluster.Name+" has no spec.backup.destination")
	}
	return r.supervise(ctx, &b, cluster)
}

// cluster reads the backup's cluster, nil when there is none.
func (r *MySQLBackupReconciler) cluster(ctx context.Context, b *v1alpha1.MySQLBackup) (*v1alpha1.MySQLCluster, error) {
	var c v1alpha1.MySQLCluster
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ClusterName}, &c)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	return &c, nil
}

// wait says what a backup waits for.
func (r *MySQLBackupReconciler) wait(ctx context.Context, b *v1alpha1.MySQLBackup, message string) error {
	if b.Status.Phase != "" {
		return nil
	}
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.Message = v1alpha1.BackupPending, message })
}

func (r *MySQLBackupReconciler) patch(ctx context.Context, b *v1alpha1.MySQLBackup, change func(*v1alpha1.MySQLBackupStatus)) error {
	before := b.DeepCopy()
	change(&b.Status)
	// With a lock: what the pod reported meanwhile is newer than what was decided here.
	if err := r.Client.Status().Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

func (r *MySQLBackupReconciler) fail(ctx context.Context, b *v1alpha1.MySQLBackup, reason, message string) error {
	at := metav1.NewTime(r.Clock.Now())
	if err := r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Phase, s.Reason, s.Message, s.Progress, s.CompletedAt = v1alpha1.BackupFailed, reason, message, nil, &at
	}); err != nil {
		return err
	}
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, "BackupFailed", actionObserve, "%s: %s", reason, message)
	return nil
}

// supervise makes the Job of a backup that a person asked for, and watches over the Job of any.
func (r *MySQLBackupReconciler) supervise(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	job, err := r.job(ctx, b.Namespace, b.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	scheduled := b.Annotations[v1alpha1.AnnotationRunner] != ""
	switch {
	case job == nil && !scheduled && b.Status.Phase != v1alpha1.BackupRunning:
		if err := r.start(ctx, b, cluster); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: superviseEvery}, r.wait(ctx, b, "its pod is being started")
	case job == nil && r.Clock.Since(lastSign(b)) > runnerGrace:
		return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonRunnerLost, "the Job that worked on it is gone")
	case job != nil && jobEnded(job) != "":
		// What the pod said last may not be in the cache yet.
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil || b.Done() {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonRunnerLost, "its pods ended without a result: "+jobEnded(job))
	}
	limit := stallOf(cluster) + reportGrace
	if silent := r.Clock.Since(lastSign(b)); silent > limit && b.Status.Phase == v1alpha1.BackupRunning {
		// The Job goes first: a backup that is called failed must not complete after all.
		if job != nil {
			if err := r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, fmt.Errorf("end the Job of a stalled backup: %w", err)
			}
		}
		return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonStalled, fmt.Sprintf("nothing was heard of it for %s", silent.Round(time.Second)))
	}
	return ctrl.Result{RequeueAfter: superviseEvery}, nil
}

// lastSign is when something was last heard of a backup.
func lastSign(b *v1alpha1.MySQLBackup) time.Time {
	last := b.CreationTimestamp.Time
	if b.Status.StartedAt != nil && b.Status.StartedAt.After(last) {
		last = b.Status.StartedAt.Time
	}
	if b.Status.Progress != nil && b.Status.Progress.At.After(last) {
		last = b.Status.Progress.At.Time
	}
	return last
}

// start makes the Job of a backup.
func (r *MySQLBackupReconciler) start(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) error {
	t := backupTask(cluster)
	t.Backup, t.Method = b.Name, b.Spec.Method
	return r.makeJob(ctx, b, cluster, b.Name, pod.CommandBackup, t)
}

func (r *MySQLBackupReconciler) makeJob(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster, name, command string, t task.Task) error {
	own, err := r.Images.Operator(ctx)
	if err != nil {
		return err
	}
	image := ""
	if cluster.Spec.Backup != nil {
		image = cluster.Spec.Backup.Image
	}
	ac, err := resources.BackupJob(cluster, b, name, command, t, resources.Images{Operator: own, MySQL: r.Images.MySQL(cluster, image)})
	if err != nil {
		return err
	}
	var job batchv1.Job
	if err := convert(ac, &job); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &job, client.FieldOwner(v1alpha1.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make Job %s: %w", name, err)
	}
	return nil
}

// job reads a Job, nil when there is none. The cache is not believed about that.
func (r *MySQLBackupReconciler) job(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	var job batchv1.Job
	key := client.ObjectKey{Namespace: namespace, Name: name}
	err := r.Client.Get(ctx, key, &job)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &job)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Job %s: %w", name, err)
	}
	return &job, nil
}

// jobEnded says how a Job ended, "" while it goes on.
func jobEnded(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return strings.TrimSpace(string(c.Type) + " " + c.Reason + " " + c.Message)
		}
	}
	return ""
}

func jobSucceeded(job *batchv1.Job) bool {
	return strings.HasPrefix(jobEnded(job), string(batchv1.JobComplete))
}

// tidy removes what a pod that was lost may have left in the store, and the objects of backups whose data are gone.
func (r *MySQLBackupReconciler) tidy(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	if b.Status.Phase == v1alpha1.BackupFailed && b.Spec.Method == v1alpha1.BackupMethodDump && b.Status.Path != "" &&
		(b.Status.Reason == v1alpha1.BackupReasonRunnerLost || b.Status.Reason == v1alpha1.BackupReasonStalled) {
		if _, err := r.remove(ctx, b); err != nil {
			return err
		}
	}
	for _, name := range b.Status.Pruned {
		var old v1alpha1.MySQLBackup
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, &old)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read MySQLBackup %s: %w", name, err)
		}
		// Only what the same schedule of the same cluster made, whatever a status says.
		if old.Spec.ClusterName != b.Spec.ClusterName || old.Spec.Schedule != b.Spec.Schedule || b.Spec.Schedule == "" || old.Name == b.Name {
			continue
		}
		if err := r.Client.Delete(ctx, &old); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete MySQLBackup %s, whose data are gone: %w", name, err)
		}
	}
	return nil
}

// finalizerWrong says whether the finalizer is not as the deletion policy wants it.
func (r *MySQLBackupReconciler) finalizerWrong(b *v1alpha1.MySQLBackup) bool {
	return controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) != (b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete)
}

func (r *MySQLBackupReconciler) setFinalizer(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	before := b.DeepCopy()
	if b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete {
		controllerutil.AddFinalizer(b, v1alpha1.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(b, v1alpha1.Finalizer)
	}
	if err := r.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("set the finalizer: %w", err)
	}
	return nil
}

// release deletes the data of a deleted MySQLBackup, where its policy says so, and then lets it go.
func (r *MySQLBackupReconciler) release(ctx context.Context, b *v1alpha1.MySQLBackup) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete && b.Spec.Method == v1alpha1.BackupMethodSnapshot && b.Status.SnapshotID != "" {
		cluster, err := r.cluster(ctx, b)
		if err != nil || cluster != nil {
			return ctrl.Result{RequeueAfter: superviseEvery}, err // the cluster's reconciler deletes it and lets the object go
		}
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, "SnapshotLeft", actionAct,
			"the cluster is gone, and with it the way to its AWS account: snapshot %s is left", b.Status.SnapshotID)
	}
	if b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete && b.Spec.Method != v1alpha1.BackupMethodSnapshot && b.Status.Path != "" {
		if done, err := r.remove(ctx, b); err != nil || !done {
			return ctrl.Result{RequeueAfter: superviseEvery}, err
		}
	}
	before := b.DeepCopy()
	controllerutil.RemoveFinalizer(b, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove the finalizer: %w", err)
	}
	return ctrl.Result{}, nil
}

// remove runs a Job that removes a backup's folder, and says whether that is done.
func (r *MySQLBackupReconciler) remove(ctx context.Context, b *v1alpha1.MySQLBackup) (bool, error) {
	name := b.Name + removeSuffix
	if len(name) > jobNameLimit {
		name = b.Name[:jobNameLimit-len(removeSuffix)] + removeSuffix
	}
	// Whoever still writes there must have ended.
	if runner, err := r.job(ctx, b.Namespace, b.Name); err != nil || runner != nil && jobEnded(runner) == "" {
		if err == nil {
			err = client.IgnoreNotFound(r.Client.Delete(ctx, runner, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		}
		return false, err
	}
	job, err := r.job(ctx, b.Namespace, name)
	if err != nil {
		return false, err
	}
	switch {
	case job != nil && jobSucceeded(job):
		return true, nil
	case job != nil && jobEnded(job) != "":
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, "RemovalFailed", actionAct, "the data at %s could not be removed; it is tried again: %s", b.Status.Location, jobEnded(job))
		return false, client.IgnoreNotFound(r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	case job != nil:
		return false, nil
	}
	cluster, err := r.cluster(ctx, b)
	if err != nil {
		return false, err
	}
	if cluster == nil {
		cluster = &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Spec.ClusterName}}
		cluster.Spec.Version = b.Status.Version
	}
	t := task.Task{
		Namespace: b.Namespace, Cluster: b.Spec.ClusterName, ClusterUID: b.Status.ClusterUID, Region: cluster.Spec.AWS.Region,
		Destination: b.Status.Destination, Path: b.Status.Path,
	}
	return false, r.makeJob(ctx, b, cluster, name, pod.CommandRemove, t)
}

// stallOf is how long backups of a cluster may make no progress; the cluster may be gone by now.
func stallOf(c *v1alpha1.MySQLCluster) time.Duration {
	if c == nil {
		return v1alpha1.DefaultStallTimeout
	}
	return c.Spec.Backup.EffectiveStallTimeout()
}

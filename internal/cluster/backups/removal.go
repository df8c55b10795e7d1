package backups

import (
	"context"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pod"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// RemovalPause is the pause before a removal that failed is tried again: what refused it is for a person to mend.
const RemovalPause = 10 * time.Minute

// HeldGrace is how long a deleted snapshot waits for its cluster's next pass before its status says so.
const HeldGrace = 2 * SuperviseEvery

// removalShare of a failed backup's age is the pause before what it left is tried again: a bucket that is out of reach for days
// leaves many of them, and each attempt is a pod.
const removalShare = 4

// PauseOf is the pause before a removal that failed is tried again. What a person deleted does not wait for longer with time.
func (r *Supervisor) PauseOf(b *v1alpha1.MySQLBackup) time.Duration {
	if !b.DeletionTimestamp.IsZero() || b.Status.CompletedAt == nil {
		return RemovalPause
	}
	return max(RemovalPause, (r.Clock.Since(b.Status.CompletedAt.Time) / removalShare).Round(time.Minute))
}

// tidy removes what a pod that was lost may have left in the store, and the objects of backups whose data are gone.
func (r *Supervisor) tidy(ctx context.Context, b *v1alpha1.MySQLBackup) (ctrl.Result, error) {
	var result ctrl.Result
	if b.Status.Phase == v1alpha1.BackupFailed && LeavesData(b) {
		again, left, err := r.remove(ctx, b)
		if err != nil {
			return ctrl.Result{}, err
		}
		result.RequeueAfter = again
		if again == 0 {
			if err := r.recordRemoved(ctx, b, left); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return result, r.dropPruned(ctx, b)
}

// recordRemoved records that what a failed backup left is removed, but for what is left.
func (r *Supervisor) recordRemoved(ctx context.Context, b *v1alpha1.MySQLBackup, left string) error {
	if left != "" {
		r.reportLeft(ctx, b, left)
	}
	// The empty path says that this is done, and an empty location that nothing is there any more.
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		if s.Path = ""; left == "" {
			s.Location = ""
		}
	})
}

// dropPruned deletes the MySQLBackups whose data the pod of a schedule has removed.
func (r *Supervisor) dropPruned(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	for _, name := range b.Status.Pruned {
		var old v1alpha1.MySQLBackup
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, &old)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read MySQLBackup %s: %w", name, err)
		}
		mine, err := r.prunes(ctx, b, &old)
		if err != nil {
			return err
		}
		if !mine {
			continue
		}
		if err := r.Client.Delete(ctx, &old); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete MySQLBackup %s, whose data are gone: %w", name, err)
		}
	}
	return nil
}

// prunes says whether the retention of a dump's schedule may delete another backup, whatever a status says: dumps that the same schedule of
// the same cluster made, and for the first schedule of dumps the archive's bases that no schedule owns.
func (r *Supervisor) prunes(ctx context.Context, b, old *v1alpha1.MySQLBackup) (bool, error) {
	if old.Spec.ClusterName != b.Spec.ClusterName || b.Spec.Schedule == "" || old.Name == b.Name || old.Spec.Method != v1alpha1.BackupMethodDump {
		return false, nil
	}
	if old.Spec.Schedule == b.Spec.Schedule {
		return true, nil
	}
	cluster, err := r.cluster(ctx, b)
	if err != nil || cluster == nil || old.Spec.Schedule != "" || !isBase(old) {
		return false, err
	}
	return basesPruner(cluster) == b.Spec.Schedule, nil
}

// wantsFinalizer says whether a MySQLBackup is to have our finalizer. Off a snapshot only its cluster's reconciler takes it, which sees what EC2
// has of it. Once the cluster is gone nobody can remove anything: such objects outlive the operator, and wait for nobody.
func wantsFinalizer(b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) bool {
	deletes, has := b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete, controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer)
	switch {
	case cluster == nil:
		return has && !b.Done()
	case b.Spec.Method == v1alpha1.BackupMethodSnapshot:
		return has || deletes && b.Status.Phase == v1alpha1.BackupCompleted
	}
	return deletes
}

// setFinalizer puts our finalizer on a MySQLBackup, or takes it off. It reports what nobody can remove any more.
func (r *Supervisor) setFinalizer(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) error {
	if wantsFinalizer(b, cluster) {
		return addFinalizer(ctx, r.Client, b)
	}
	if cluster == nil && leavesRest(b) {
		r.reportLeft(ctx, b, clusterGone)
	}
	return removeFinalizer(ctx, r.Client, b)
}

// clusterGone is why what a MySQLBackup consists of cannot be removed.
const clusterGone = "the cluster is gone, and with it who may delete it"

// leavesRest says whether the data that a MySQLBackup still has are to be deleted with it.
func leavesRest(b *v1alpha1.MySQLBackup) bool {
	return b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete || b.Spec.Method == v1alpha1.BackupMethodSnapshot && b.Status.Phase != v1alpha1.BackupCompleted
}

// addFinalizer puts our finalizer on a MySQLBackup.
func addFinalizer(ctx context.Context, c client.Client, b *v1alpha1.MySQLBackup) error {
	before := b.DeepCopy()
	if !controllerutil.AddFinalizer(b, v1alpha1.Finalizer) {
		return nil
	}
	if err := c.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("set the finalizer: %w", err)
	}
	return nil
}

// removeFinalizer takes our finalizer off a MySQLBackup.
func removeFinalizer(ctx context.Context, c client.Client, b *v1alpha1.MySQLBackup) error {
	before := b.DeepCopy()
	if !controllerutil.RemoveFinalizer(b, v1alpha1.Finalizer) {
		return nil
	}
	if err := c.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// release deletes the data of a deleted MySQLBackup, where its policy says so, and then lets it go. It also goes when
// nobody is left who could delete them.
func (r *Supervisor) release(ctx context.Context, b *v1alpha1.MySQLBackup) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	again, left, err := r.removeData(ctx, b)
	if err != nil || again > 0 {
		return ctrl.Result{RequeueAfter: again}, err
	}
	if left != "" {
		r.reportLeft(ctx, b, left)
	}
	return ctrl.Result{}, removeFinalizer(ctx, r.Client, b)
}

// reportLeft tells of data that nobody can remove any more.
func (r *Supervisor) reportLeft(ctx context.Context, b *v1alpha1.MySQLBackup, why string) {
	what := whereabouts(b)
	if what == "" {
		return
	}
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventBackupDataLeft, announce.Act, "%s is left: %s", what, why)
	ctrl.LoggerFrom(ctx).Info("the data of a backup are left", "location", what, "why", why)
}

// whereabouts names what a backup consists of, as far as anything was made of it.
func whereabouts(b *v1alpha1.MySQLBackup) string {
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot && b.Status.Location == "" && b.Status.StartedAt != nil {
		return fmt.Sprintf("what EC2 has made of it (a snapshot with the tag %s=%s)", awsapi.TagPurpose, pass.PurposeOf(b))
	}
	return b.Status.Location
}

// removeData removes what of a backup is not to stay without it: see remove. The snapshot is deleted by the cluster's reconciler, which lets
// the object go.
func (r *Supervisor) removeData(ctx context.Context, b *v1alpha1.MySQLBackup) (again time.Duration, left string, err error) {
	if b.Spec.Method != v1alpha1.BackupMethodSnapshot {
		if !leavesRest(b) {
			return 0, "", nil
		}
		return r.remove(ctx, b)
	}
	cluster, err := r.cluster(ctx, b)
	switch {
	case err != nil:
		return 0, "", err
	case cluster != nil:
		return SuperviseEvery, "", r.reportHeld(ctx, b, cluster)
	case leavesRest(b):
		return 0, clusterGone, nil
	}
	return 0, "", nil
}

// reportHeld says what a deleted snapshot waits for, when that takes longer than a pass of its cluster.
func (r *Supervisor) reportHeld(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) error {
	if r.Clock.Since(b.DeletionTimestamp.Time) < HeldGrace {
		return nil
	}
	message := "deleted; waiting until the operator has looked after MySQLCluster " + cluster.Name + " in EC2, which deletes the snapshot"
	for _, kind := range []string{v1alpha1.ConditionCloudReachable, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(cluster.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			message += fmt.Sprintf("; its condition %s is %s: %s: %s", kind, c.Status, c.Reason, c.Message)
			break
		}
	}
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Message = message })
}

// remove runs a Job that removes a backup's folder. It returns when to look again, 0 when that is over; left says why
// data stay where they are.
func (r *Supervisor) remove(ctx context.Context, b *v1alpha1.MySQLBackup) (again time.Duration, left string, err error) {
	if b.Status.Path == "" {
		return 0, "", nil
	}
	// Whoever still writes there must have ended.
	if writes, err := r.endRunner(ctx, b); writes || err != nil {
		return SuperviseEvery, "", err
	}
	cluster, err := r.cluster(ctx, b)
	if err != nil {
		return 0, "", err
	}
	t, left := removalTask(b, cluster)
	if left != "" {
		return 0, left, nil
	}
	name := JobName(b, Removing)
	job, err := r.job(ctx, b, name)
	switch {
	case err != nil:
		return 0, "", err
	case job == nil:
		err := r.makeJob(ctx, b, cluster, name, pod.CommandRemove, t)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return 0, "the namespace is being deleted, so that no pod can delete it", nil
		}
		if p := pass.AsProblem(err); p != nil && p.InTheWay() {
			return RemovalPause, "", r.reportRefused(ctx, b, p)
		}
		return SuperviseEvery, "", err
	case jobs.Succeeded(job):
		return 0, "", nil
	case jobs.NeverRan(job, r.Clock.Now()):
		// Its Secret, its volume or its node may be gone. The next one is as the spec is by then.
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventRemovalFailed, announce.Act, "%s. It is to remove %s, and is made again", jobs.NotStarted(job.Name), b.Status.Location)
		return SuperviseEvery, "", jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationBackground)
	case jobs.Ending(job) == nil:
		return SuperviseEvery, "", nil
	}
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventRemovalFailed, announce.Act, "%s could not be removed; it is tried again after %s: %s", b.Status.Location, r.PauseOf(b), jobs.Ended(job))
	if rest := r.PauseOf(b) - r.Clock.Since(jobs.Ending(job).LastTransitionTime.Time); rest > 0 {
		return rest, "", nil
	}
	return SuperviseEvery, "", jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationBackground)
}

// reportRefused says why the Job that removes a backup's data cannot be made. The message of a backup that failed stays: it says why.
func (r *Supervisor) reportRefused(ctx context.Context, b *v1alpha1.MySQLBackup, p *engine.Problem) error {
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventRemovalFailed, announce.Act, "%s could not be removed; the operator retries after %s: %s", b.Status.Location, RemovalPause, p.Message)
	if b.DeletionTimestamp.IsZero() {
		return nil
	}
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Message = p.Message })
}

// endRunner ends whoever still works on a backup, and says whether there was somebody.
func (r *Supervisor) endRunner(ctx context.Context, b *v1alpha1.MySQLBackup) (works bool, err error) {
	runner, err := r.job(ctx, b, RunnerOf(b))
	switch {
	case err != nil || runner == nil:
		return false, err
	case jobs.EndsInVain(runner, r.Clock.Now()):
		return true, r.dropJob(ctx, runner)
	case jobs.Ending(runner) == nil:
		return true, r.endJob(ctx, runner)
	}
	return false, nil
}

// removalTask tells a pod which folder to remove, or says why none can. It goes by the cluster's spec: a status may be
// written by every backup pod of the namespace, and leads to nothing but a folder of this backup's own name, in the
// folder of its own cluster, at the cluster's destination.
func removalTask(b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (t task.Task, left string) {
	if cluster == nil {
		return t, clusterGone
	}
	t = backupTask(cluster)
	t.Members, t.Path = nil, b.Status.Path
	place := backup.Place{Root: backup.RootOf(cluster.Namespace, cluster.Name, string(cluster.UID))}
	if !t.Destination.SamePlace(b.Status.Destination) {
		return t, "it is not at the cluster's spec.backup.destination"
	}
	if _, found := place.FolderAt(b.Status.Path, b.Name); !found {
		return t, "its status.path is not where this backup's data would be"
	}
	return t, ""
}

package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

const (
	// ReportGrace is how much longer than the pod's own watch the operator waits before it calls a backup stalled: a pod
	// that lives ends itself first, and says more.
	ReportGrace = 2 * time.Minute
	// RunnerGrace is how long the Job of a backup may not be seen.
	RunnerGrace = time.Minute
	// ClusterGrace is how long a MySQLBackup waits for its cluster, so that both can be applied at once.
	ClusterGrace = 5 * time.Minute
	// SnapshotPatience is how long EC2 may show no progress of a snapshot, unless spec.backup.stallTimeout is longer: it tells
	// whole percents, of volumes up to 64 TiB, and stays at some of them for long.
	SnapshotPatience = 6 * time.Hour
	// QueuePatience is how long a snapshot may wait for its turn behind others of its cluster.
	QueuePatience = 24 * time.Hour
)

// Begin notes that this process leads.
func (h *hearing) Begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		h.since = now
	}
}

// record takes whether the API server answered.
func (h *hearing) record(answered bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered && h.away {
		h.since = now
	}
	h.away = !answered
}

// longEnough says whether a pod that works has had the time to report.
func (h *hearing) longEnough(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.away && now.Sub(h.since) > ReportGrace
}

// conflictPause is when a backup is looked at again that was changed during both looks at it, mostly by reports of its pod.
const conflictPause = time.Second

// Reconcile looks at one MySQLBackup, as the cache shows it. A write that is refused because the object is newer is no failure: the
// object is read from the API server, and all is decided again. A cache that stays behind for long therefore hides no silent pod.
func (r *Supervisor) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.Hearing.Begin(r.Clock.Now())
	result, err := r.look(ctx, r.Client, req.NamespacedName)
	if apierrors.IsConflict(err) {
		result, err = r.look(ctx, r.Reader, req.NamespacedName)
	}
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return result, nil
}

func (r *Supervisor) look(ctx context.Context, from client.Reader, key client.ObjectKey) (ctrl.Result, error) {
	var b v1alpha1.MySQLBackup
	if err := from.Get(ctx, key, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !b.DeletionTimestamp.IsZero() {
		return r.release(ctx, &b)
	}
	cluster, err := r.cluster(ctx, &b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if controllerutil.ContainsFinalizer(&b, v1alpha1.Finalizer) != wantsFinalizer(&b, cluster) {
		return ctrl.Result{}, r.setFinalizer(ctx, &b, cluster)
	}
	if err := r.patch(ctx, &b, func(*v1alpha1.MySQLBackupStatus) {}); err != nil { // a pod writes no conditions
		return ctrl.Result{}, err
	}
	result, err := r.advance(ctx, &b, cluster)
	return result, errors.Join(err, r.recordPlace(ctx, &b))
}

// advance does what a backup needs that nobody has deleted.
func (r *Supervisor) advance(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	switch {
	case b.Done():
		return r.tidy(ctx, b)
	case cluster == nil && (b.Status.Phase != v1alpha1.BackupRunning || b.Spec.Method == v1alpha1.BackupMethodSnapshot):
		if r.Clock.Since(b.CreationTimestamp.Time) < ClusterGrace {
			return ctrl.Result{RequeueAfter: SuperviseEvery}, r.wait(ctx, b, "waiting for MySQLCluster "+b.Spec.ClusterName)
		}
		return ctrl.Result{}, r.Fail(ctx, b, v1alpha1.BackupReasonNoCluster, "there is no MySQLCluster "+b.Spec.ClusterName+" in this namespace")
	case b.Spec.Method == v1alpha1.BackupMethodSnapshot:
		return r.superviseSnapshot(ctx, b, cluster)
	case b.Status.Phase != v1alpha1.BackupRunning && (cluster.Spec.Backup == nil || cluster.Spec.Backup.Destination == nil):
		return ctrl.Result{}, r.Fail(ctx, b, v1alpha1.BackupReasonNoDestination, "MySQLCluster "+cluster.Name+" has no spec.backup.destination")
	}
	return r.supervise(ctx, b, cluster)
}

// wait says what a backup waits for.
func (r *Supervisor) wait(ctx context.Context, b *v1alpha1.MySQLBackup, message string) error {
	if b.Status.Phase != "" {
		return nil
	}
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.Message = v1alpha1.BackupPending, message })
}

// Fail gives a backup the outcome that it failed, with an event.
func (r *Supervisor) Fail(ctx context.Context, b *v1alpha1.MySQLBackup, reason, message string) error {
	at := metav1.NewTime(r.Clock.Now())
	if err := r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Phase, s.Reason, s.Message, s.Progress, s.CompletedAt = v1alpha1.BackupFailed, reason, message, nil, &at
	}); err != nil {
		return err
	}
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventBackupFailed, announce.Observe, "%s: %s", reason, message)
	return nil
}

// superviseSnapshot fails a snapshot that does not get on. The MySQLClusterReconciler takes it, and deletes what is left.
func (r *Supervisor) superviseSnapshot(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	limit := stallOf(cluster) + ReportGrace
	if b.Status.SnapshotID != "" {
		limit = max(limit, SnapshotPatience)
	}
	if b.Status.Phase == v1alpha1.BackupPending && b.Status.Reason == v1alpha1.BackupReasonQueued {
		limit = QueuePatience
	}
	// After a start nobody has asked EC2 yet.
	if silent := r.Clock.Since(lastSign(b)); silent > limit && r.Hearing.longEnough(r.Clock.Now()) {
		// What EC2 makes of it in the end is deleted only when it was EC2 that showed no progress. While it is out of reach it may
		// have completed the snapshot long ago.
		if !meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ConditionCloudReachable) {
			if err := giveUpSnapshot(ctx, r.Client, b, v1alpha1.BackupReasonStalled); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, r.Fail(ctx, b, v1alpha1.BackupReasonStalled,
			fmt.Sprintf("the snapshot made no progress for %s; the last was: %s", silent.Round(time.Second), b.Status.Message))
	}
	return ctrl.Result{RequeueAfter: SuperviseEvery}, r.wait(ctx, b, "waiting for a member that can be snapshot")
}

// supervise makes the Job of a backup that a person asked for, and watches over the Job of any.
func (r *Supervisor) supervise(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	job, err := r.job(ctx, b, RunnerOf(b))
	if err != nil {
		return ctrl.Result{}, err
	}
	running, silent := b.Status.Phase == v1alpha1.BackupRunning, r.Clock.Since(lastSign(b))
	switch stall := stallOf(cluster); {
	case job != nil && jobs.Ending(job) != nil:
		return ctrl.Result{}, r.takeEnd(ctx, b, job)
	case running && (silent > stall+ReportGrace || job != nil && silent > stall):
		return r.superviseSilent(ctx, b, job, stall+ReportGrace)
	case job == nil:
		return r.superviseWithout(ctx, b, cluster, silent)
	case !running && jobs.NeverRan(job, r.Clock.Now()):
		return ctrl.Result{}, r.endUnstarted(ctx, b, job, cluster)
	case !running:
		return ctrl.Result{RequeueAfter: SuperviseEvery}, r.reportStart(ctx, b, cluster)
	}
	return ctrl.Result{RequeueAfter: SuperviseEvery}, nil
}

// superviseWithout makes the Job of a backup that has none yet, and fails one whose Job is gone.
func (r *Supervisor) superviseWithout(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster, silent time.Duration) (ctrl.Result, error) {
	switch {
	case b.Status.Phase != v1alpha1.BackupRunning && !scheduled(b):
		return r.startNow(ctx, b, cluster)
	case silent > RunnerGrace:
		return ctrl.Result{}, r.Fail(ctx, b, v1alpha1.BackupReasonRunnerLost, "the Job that worked on it is gone")
	}
	return ctrl.Result{RequeueAfter: SuperviseEvery}, nil
}

// takeEnd takes that the Job of a backup has ended. What its pod said last may not be in the cache yet.
func (r *Supervisor) takeEnd(ctx context.Context, b *v1alpha1.MySQLBackup, job *batchv1.Job) error {
	if err := r.readAnew(ctx, b); err != nil || b.Done() {
		return client.IgnoreNotFound(err)
	}
	return r.Fail(ctx, b, v1alpha1.BackupReasonRunnerLost, "its pods ended without a result: "+jobs.Ended(job))
}

// startNow makes the Job of a backup, and says what it waits for.
func (r *Supervisor) startNow(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	err := r.start(ctx, b, cluster)
	if p := pass.AsProblem(err); p != nil && p.InTheWay() {
		return ctrl.Result{RequeueAfter: SuperviseEvery}, r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.Message = v1alpha1.BackupPending, p.Message })
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: SuperviseEvery}, r.reportStart(ctx, b, cluster)
}

// endUnstarted ends a backup whose pod did not run in time.
func (r *Supervisor) endUnstarted(ctx context.Context, b *v1alpha1.MySQLBackup, job *batchv1.Job, cluster *v1alpha1.MySQLCluster) error {
	missing, err := jobs.Missing(ctx, r.Reader, b.Namespace, cluster.Spec.Backup.Destination)
	message := jobs.NotStarted(job.Name)
	switch {
	case err != nil:
		message = err.Error() // once the Job is gone, nothing but the end of the backup may follow: it would be started again
	case missing != nil:
		message = fmt.Sprintf("the pod of Job %s did not run within %s: %s", job.Name, jobs.StartPatience, missing.Message)
	}
	if err := r.endJob(ctx, job); err != nil {
		return err
	}
	return r.Fail(ctx, b, v1alpha1.BackupReasonNotStarted, message)
}

// superviseSilent ends a backup of which nothing was heard for longer than limit. It is asked for from ReportGrace before that
// on, to see whether the API server answers: while it does not, and for a moment after that, a pod that works cannot have reported.
func (r *Supervisor) superviseSilent(ctx context.Context, b *v1alpha1.MySQLBackup, job *batchv1.Job, limit time.Duration) (ctrl.Result, error) {
	if err := r.readAnew(ctx, b); err != nil || b.Done() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	silent := r.Clock.Since(lastSign(b))
	if silent <= limit || !r.Hearing.longEnough(r.Clock.Now()) {
		return ctrl.Result{RequeueAfter: SuperviseEvery}, nil
	}
	// The pod goes first: a backup that is called failed must not complete after all.
	if job != nil && silent <= limit+jobs.EndPatience {
		return ctrl.Result{RequeueAfter: SuperviseEvery}, r.endJob(ctx, job)
	}
	if job != nil {
		if err := r.dropJob(ctx, job); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.Fail(ctx, b, v1alpha1.BackupReasonStalled, fmt.Sprintf("nothing was heard of it for %s", silent.Round(time.Second)))
}

// readAnew reads a backup past the cache, which is old for a while after the API server was away.
func (r *Supervisor) readAnew(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	var fresh v1alpha1.MySQLBackup
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(b), &fresh)
	r.Hearing.record(client.IgnoreNotFound(err) == nil, r.Clock.Now())
	if err != nil {
		return fmt.Errorf("read MySQLBackup %s: %w", b.Name, err)
	}
	*b = fresh
	return nil
}

// reportStart says that the pod of a backup is on its way, or what keeps it from starting.
func (r *Supervisor) reportStart(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) error {
	missing, err := jobs.Missing(ctx, r.Reader, b.Namespace, cluster.Spec.Backup.Destination)
	if err != nil {
		return err
	}
	message := "its pod is being started. " + jobs.WhereToLook(RunnerOf(b))
	if missing != nil {
		message = missing.Message
	}
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.Message = v1alpha1.BackupPending, message })
}

// lastSign is when something was last heard of a backup. Of a snapshot StartedAt is no sign: EC2 may be asked again and again.
func lastSign(b *v1alpha1.MySQLBackup) time.Time {
	last := b.CreationTimestamp.Time
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot && b.Status.Progress != nil {
		return b.Status.Progress.At.Time
	}
	if b.Status.StartedAt != nil && b.Status.StartedAt.After(last) {
		last = b.Status.StartedAt.Time
	}
	if b.Status.Progress != nil && b.Status.Progress.At.After(last) {
		last = b.Status.Progress.At.Time
	}
	return last
}

// stallOf is how long backups of a cluster may make no progress; the cluster may be gone by now.
func stallOf(c *v1alpha1.MySQLCluster) time.Duration {
	if c == nil {
		return v1alpha1.DefaultStallTimeout
	}
	return c.Spec.Backup.EffectiveStallTimeout()
}

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// superviseEvery is how often a running backup is looked at.
	superviseEvery = 15 * time.Second
	// reportGrace is how much longer than the pod's own watch the operator waits before it calls a backup stalled: a pod
	// that lives ends itself first, and says more.
	reportGrace = 2 * time.Minute
	// runnerGrace is how long the Job of a backup may not be seen.
	runnerGrace = time.Minute
	// endPatience is how long the pods of a stalled backup may take to end before it is failed all the same: on a node that
	// is cut off they end when it comes back, and find then that they were given up.
	endPatience = 10 * time.Minute
	// clusterGrace is how long a MySQLBackup waits for its cluster, so that both can be applied at once.
	clusterGrace = 5 * time.Minute
	// snapshotPatience is how long EC2 may show no progress of a snapshot, unless spec.backup.stallTimeout is longer: it tells
	// whole percents, of volumes up to 64 TiB, and stays at some of them for long.
	snapshotPatience = 6 * time.Hour
	// queuePatience is how long a snapshot may wait for its turn behind others of its cluster.
	queuePatience = 24 * time.Hour
	// messageLimit is how long status.message may be, in characters.
	messageLimit = 4096
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

	// hearing is from when on the silence of a backup means something.
	hearing hearing
}

// hearing is since when something can have been heard of backups: since this process leads, and the API server answers.
type hearing struct {
	mu    sync.Mutex
	since time.Time
	// away is true from when the API server was seen not to answer until it was seen to answer again.
	away bool
}

// begin notes that this process leads.
func (h *hearing) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		h.since = now
	}
}

// note takes whether the API server answered.
func (h *hearing) note(answered bool, now time.Time) {
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
	return !h.away && now.Sub(h.since) > reportGrace
}

// SetupWithManager registers the reconciler and its watches.
func (r *MySQLBackupReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("mysqlbackup").
		For(&v1alpha1.MySQLBackup{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(backupOfJob)).
		WithOptions(options(r.Workers)).
		Complete(r)
}

// Reconcile looks at one MySQLBackup.
func (r *MySQLBackupReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.hearing.begin(r.Clock.Now())
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
		return r.tidy(ctx, &b)
	}
	cluster, err := r.cluster(ctx, &b)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case cluster == nil && (b.Status.Phase != v1alpha1.BackupRunning || b.Spec.Method == v1alpha1.BackupMethodSnapshot):
		if r.Clock.Since(b.CreationTimestamp.Time) < clusterGrace {
			return ctrl.Result{RequeueAfter: superviseEvery}, r.wait(ctx, &b, "waiting for MySQLCluster "+b.Spec.ClusterName)
		}
		return ctrl.Result{}, r.fail(ctx, &b, v1alpha1.BackupReasonNoCluster, "there is no MySQLCluster "+b.Spec.ClusterName+" in this namespace")
	case b.Spec.Method == v1alpha1.BackupMethodSnapshot:
		return r.superviseSnapshot(ctx, &b, cluster)
	case b.Status.Phase != v1alpha1.BackupRunning && (cluster.Spec.Backup == nil || cluster.Spec.Backup.Destination == nil):
		return ctrl.Result{}, r.fail(ctx, &b, v1alpha1.BackupReasonNoDestination, "MySQLCluster "+cluster.Name+" has no spec.backup.destination")
	}
	return r.supervise(ctx, &b, cluster)
}

// cluster reads the backup's cluster, nil when there is none. Another one of that name is not it.
func (r *MySQLBackupReconciler) cluster(ctx context.Context, b *v1alpha1.MySQLBackup) (*v1alpha1.MySQLCluster, error) {
	var c v1alpha1.MySQLCluster
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ClusterName}, &c)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	if b.Status.ClusterUID != "" && b.Status.ClusterUID != string(c.UID) {
		return nil, nil
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
	return patchBackup(ctx, r.Client, b, change)
}

// patchBackup changes the status of a backup, with a lock: what was reported meanwhile is newer than what was decided here.
func patchBackup(ctx context.Context, c client.Client, b *v1alpha1.MySQLBackup, change func(*v1alpha1.MySQLBackupStatus)) error {
	before := b.DeepCopy()
	change(&b.Status)
	b.Status.Message = within(b.Status.Message, messageLimit)
	if apiequality.Semantic.DeepEqual(before.Status, b.Status) {
		return nil
	}
	if err := c.Status().Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of MySQLBackup %s: %w", b.Name, err)
	}
	return nil
}

// within shortens a text to a number of characters, as the API server counts them.
func within(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

func (r *MySQLBackupReconciler) fail(ctx context.Context, b *v1alpha1.MySQLBackup, reason, message string) error {
	at := metav1.NewTime(r.Clock.Now())
	if err := r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Phase, s.Reason, s.Message, s.Progress, s.CompletedAt = v1alpha1.BackupFailed, reason, message, nil, &at
	}); err != nil {
		return err
	}
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventBackupFailed, actionObserve, "%s", shorten(reason+": "+message))
	return nil
}

// superviseSnapshot fails a snapshot that does not get on. The MySQLClusterReconciler takes it, and deletes what is left.
func (r *MySQLBackupReconciler) superviseSnapshot(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	limit := stallOf(cluster) + reportGrace
	if b.Status.SnapshotID != "" {
		limit = max(limit, snapshotPatience)
	}
	if b.Status.Phase == v1alpha1.BackupPending && b.Status.Reason == v1alpha1.BackupReasonQueued {
		limit = queuePatience
	}
	// After a start nobody has asked EC2 yet.
	if silent := r.Clock.Since(lastSign(b)); silent > limit && r.hearing.longEnough(r.Clock.Now()) {
		// What EC2 makes of it in the end is deleted only when it was EC2 that showed no progress. While it is out of reach it may
		// have completed the snapshot long ago.
		if !meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ConditionCloudReachable) {
			if err := giveUpSnapshot(ctx, r.Client, b, v1alpha1.BackupReasonStalled); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonStalled,
			fmt.Sprintf("the snapshot made no progress for %s; the last was: %s", silent.Round(time.Second), b.Status.Message))
	}
	return ctrl.Result{RequeueAfter: superviseEvery}, r.wait(ctx, b, "waiting for a member that can be snapshot")
}

// supervise makes the Job of a backup that a person asked for, and watches over the Job of any.
func (r *MySQLBackupReconciler) supervise(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) (ctrl.Result, error) {
	job, err := r.job(ctx, b, runnerOf(b))
	if err != nil {
		return ctrl.Result{}, err
	}
	running, silent := b.Status.Phase == v1alpha1.BackupRunning, r.Clock.Since(lastSign(b))
	switch stall := stallOf(cluster); {
	case job != nil && jobEnded(job) != "":
		// What the pod said last may not be in the cache yet.
		if err := r.readAnew(ctx, b); err != nil || b.Done() {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonRunnerLost, "its pods ended without a result: "+jobEnded(job))
	case running && (silent > stall+reportGrace || job != nil && silent > stall):
		return r.superviseSilent(ctx, b, job, stall+reportGrace)
	case job == nil && !running && !scheduled(b):
		err := r.start(ctx, b, cluster)
		if p := asProblem(err); p != nil && p.InTheWay() {
			return ctrl.Result{RequeueAfter: superviseEvery}, r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.Message = v1alpha1.BackupPending, p.Message })
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: superviseEvery}, r.tellStart(ctx, b, cluster)
	case job == nil && silent > runnerGrace:
		return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonRunnerLost, "the Job that worked on it is gone")
	case job != nil && !running && neverRan(job, r.Clock.Now()):
		return ctrl.Result{}, r.endUnstarted(ctx, b, job, cluster)
	case job != nil && !running:
		return ctrl.Result{RequeueAfter: superviseEvery}, r.tellStart(ctx, b, cluster)
	}
	return ctrl.Result{RequeueAfter: superviseEvery}, nil
}

// endUnstarted ends a backup whose pod did not run in time.
func (r *MySQLBackupReconciler) endUnstarted(ctx context.Context, b *v1alpha1.MySQLBackup, job *batchv1.Job, cluster *v1alpha1.MySQLCluster) error {
	missing, err := keysMissing(ctx, r.Reader, b.Namespace, cluster.Spec.Backup.Destination)
	if err != nil {
		missing = err.Error() // once the Job is gone, nothing but the end of the backup may follow: it would be started again
	}
	if err := r.endJob(ctx, job); err != nil {
		return err
	}
	message := fmt.Sprintf("the pod of Job %s did not run within %s", job.Name, startPatience)
	if missing != "" {
		message += ": " + missing
	}
	return r.fail(ctx, b, v1alpha1.BackupReasonNotStarted, message)
}

// superviseSilent ends a backup of which nothing was heard for longer than limit. It is asked for from reportGrace before that
// on, to see whether the API server answers: while it does not, and for a moment after that, a pod that works cannot have reported.
func (r *MySQLBackupReconciler) superviseSilent(ctx context.Context, b *v1alpha1.MySQLBackup, job *batchv1.Job, limit time.Duration) (ctrl.Result, error) {
	if err := r.readAnew(ctx, b); err != nil || b.Done() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	silent := r.Clock.Since(lastSign(b))
	if silent <= limit || !r.hearing.longEnough(r.Clock.Now()) {
		return ctrl.Result{RequeueAfter: superviseEvery}, nil
	}
	// The pod goes first: a backup that is called failed must not complete after all.
	if job != nil && silent <= limit+endPatience {
		return ctrl.Result{RequeueAfter: superviseEvery}, r.endJob(ctx, job)
	}
	if job != nil {
		if err := r.dropJob(ctx, job); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.fail(ctx, b, v1alpha1.BackupReasonStalled, fmt.Sprintf("nothing was heard of it for %s", silent.Round(time.Second)))
}

// readAnew reads a backup past the cache, which is old for a while after the API server was away.
func (r *MySQLBackupReconciler) readAnew(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	var fresh v1alpha1.MySQLBackup
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(b), &fresh)
	r.hearing.note(client.IgnoreNotFound(err) == nil, r.Clock.Now())
	if err != nil {
		return fmt.Errorf("read MySQLBackup %s: %w", b.Name, err)
	}
	*b = fresh
	return nil
}

// tellStart says that the pod of a backup is on its way, or what keeps it from starting.
func (r *MySQLBackupReconciler) tellStart(ctx context.Context, b *v1alpha1.MySQLBackup, cluster *v1alpha1.MySQLCluster) error {
	missing, err := keysMissing(ctx, r.Reader, b.Namespace, cluster.Spec.Backup.Destination)
	if err != nil {
		return err
	}
	message := "its pod is being started"
	if missing != "" {
		message = missing
	}
	return r.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.Message = v1alpha1.BackupPending, message })
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

// stallOf is how long backups of a cluster may make no progress; the cluster may be gone by now.
func stallOf(c *v1alpha1.MySQLCluster) time.Duration {
	if c == nil {
		return v1alpha1.DefaultStallTimeout
	}
	return c.Spec.Backup.EffectiveStallTimeout()
}

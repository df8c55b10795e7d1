package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// pruned is why the operator gives a snapshot up that its schedule's retention no longer keeps.
const pruned = "Pruned"

// settleFinalizers is settleFinalizer of each MySQLBackup that is a snapshot.
func (r *Snapshots) settleFinalizers(ctx context.Context, s *pass.Pass) (errs error) {
	for i := range s.Backup.All {
		if b := &s.Backup.All[i]; b.Spec.Method == v1alpha1.BackupMethodSnapshot && b.DeletionTimestamp.IsZero() && !emptied(s, b) {
			errs = errors.Join(errs, r.settleFinalizer(ctx, s, b))
		}
	}
	return errs
}

// settleFinalizer puts our finalizer on the MySQLBackup of a snapshot while EC2 shows what is to be deleted with the object, and takes it off
// after that. Where EC2 shows nothing, it takes it off a backup that has ended, unless its whole snapshot was to be deleted with it.
func (r *Snapshots) settleFinalizer(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	deletes := b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete
	taken, shown := s.TakenFor(b)
	switch {
	case shown && (deletes || superfluous(b, taken)):
		return addFinalizer(ctx, r.Client, b)
	case shown, b.Done() && (!deletes || b.Status.Phase == v1alpha1.BackupFailed) && s.SnapshotsListed(shownBy(b)):
		return removeFinalizer(ctx, r.Client, b)
	}
	return nil
}

// shownBy is when EC2 shows at the latest what it was asked for.
func shownBy(b *v1alpha1.MySQLBackup) time.Time {
	if b.Status.StartedAt == nil {
		return time.Time{}
	}
	return b.Status.StartedAt.Add(observe.TagsShown)
}

// GivenUp says whether the operator gave a snapshot up.
func GivenUp(b *v1alpha1.MySQLBackup) bool { return b.Annotations[v1alpha1.AnnotationGivenUp] != "" }

// giveUpSnapshot notes that the operator gives a snapshot up, before its status says so: whatever EC2 makes of it is deleted.
func giveUpSnapshot(ctx context.Context, c client.Client, b *v1alpha1.MySQLBackup, reason string) error {
	if GivenUp(b) {
		return nil
	}
	before := b.DeepCopy()
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationGivenUp, reason)
	if err := c.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("give the snapshot of MySQLBackup %s up: %w", b.Name, err)
	}
	return nil
}

// emptied says whether the retention took a completed backup's snapshot, and was cut off before its MySQLBackup was deleted. As long
// as EC2 shows the snapshot, the retention decides anew.
func emptied(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	_, shown := s.TakenFor(b)
	return b.Status.Phase == v1alpha1.BackupCompleted && b.DeletionTimestamp.IsZero() && b.Annotations[v1alpha1.AnnotationGivenUp] == pruned &&
		!shown && s.SnapshotsListed(ptr.Deref(b.Status.CompletedAt, metav1.Time{}).Time)
}

// superfluous says whether the snapshot of a backup that failed, or goes, is to be deleted. One that EC2 has completed stays
// unless the operator itself gave it up: what a status says must not cost anybody a whole one.
func superfluous(b *v1alpha1.MySQLBackup, taken inventory.Snapshot) bool {
	return taken.State != inventory.SnapshotCompleted || GivenUp(b) && b.Annotations[v1alpha1.AnnotationGivenUp] != pruned
}

// completedAfterAll says whether EC2 has completed the snapshot of a backup that failed while EC2 did not answer.
func completedAfterAll(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	taken, ok := s.TakenFor(b)
	return ok && taken.State == inventory.SnapshotCompleted && b.Status.Phase == v1alpha1.BackupFailed && b.DeletionTimestamp.IsZero() && !GivenUp(b)
}

// mayComplete says whether EC2 may have, or get, a whole snapshot of a backup that failed.
func mayComplete(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	if b.Spec.Method != v1alpha1.BackupMethodSnapshot || b.Status.Phase != v1alpha1.BackupFailed || b.Status.StartedAt == nil || GivenUp(b) {
		return false
	}
	_, shown := s.TakenFor(b)
	return shown || !s.Observed.CloudReachable || !listed(s)
}

// discardSnapshot deletes what is left of a snapshot that failed or was given up, also when EC2 completes it after that.
func (r *Snapshots) discardSnapshot(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	taken, ok := s.TakenFor(b)
	if !ok || !superfluous(b, taken) {
		return nil
	}
	return s.Cache.Requests.Upkeep(engine.Errand{What: engine.DeleteSnapshotErrand, Object: taken.ID}, r.Clock, func() error { return s.Access.Cloud.DeleteSnapshot(ctx, s.UID(), taken.ID) })
}

// deleteSnapshotOf deletes what EC2 has of a backup, and reports what it must not delete.
func (r *Snapshots) deleteSnapshotOf(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	return r.askToDelete(s, b, func() error {
		if err := s.Access.Cloud.DeleteSnapshotsFor(ctx, s.UID(), pass.PurposeOf(b)); err != nil {
			return err
		}
		return r.reportUntagged(ctx, s, b)
	})
}

// dropEmptied deletes a MySQLBackup that is emptied.
func (r *Snapshots) dropEmptied(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if err := r.askToDelete(s, b, func() error { return r.reportUntagged(ctx, s, b) }); err != nil {
		return err
	}
	return r.dropPruned(ctx, b)
}

// askToDelete asks EC2 for what the deletion of a backup's snapshots takes, unless that was refused shortly before.
func (r *Snapshots) askToDelete(s *pass.Pass, b *v1alpha1.MySQLBackup, ask func() error) error {
	return s.Cache.Requests.Upkeep(engine.Errand{What: engine.DeleteSnapshotsErrand, Object: pass.PurposeOf(b)}, r.Clock, ask)
}

// reportUntagged reports the snapshot that the status of a backup names, where EC2 has it without the tags of this cluster and this
// backup: nothing proves then that the operator took it, and it is never deleted.
func (r *Snapshots) reportUntagged(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	id := b.Status.SnapshotID
	if id == "" {
		return nil
	}
	found, exists, err := s.Access.Cloud.Inventory.SnapshotByID(ctx, id)
	if err != nil || !exists || found.TakenBy(s.UID(), pass.PurposeOf(b)) {
		return err
	}
	r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventBackupDataLeft, announce.Act,
		"snapshot %s is left: it does not carry the tags %s=%s and %s=%s, without which the operator deletes nothing. Delete it in EC2 if it is not needed",
		id, v1alpha1.TagClusterUID, s.UID(), awsapi.TagPurpose, pass.PurposeOf(b))
	return nil
}

// releaseSnapshot lets a MySQLBackup go that was deleted. Its snapshot goes with it where its policy says so, and where it is
// none: nobody would know of it any more.
func (r *Snapshots) releaseSnapshot(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) {
		return nil
	}
	deletes := b.Spec.DeletionPolicy == v1alpha1.BackupDeletionDelete
	taken, shown := s.TakenFor(b)
	switch completed := b.Status.Phase == v1alpha1.BackupCompleted; {
	case !deletes && unlisted(s, b):
		return unlistedProblem(s)
	case deletes, shown && superfluous(b, taken), !shown && !completed:
		return r.deleteAndRelease(ctx, s, b)
	case !completed:
		r.Events.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.EventBackupDataLeft, announce.Act, "snapshot %s is left: EC2 completed it after the backup had failed; delete it, or restore from it by its ID", taken.ID)
	}
	return removeFinalizer(ctx, r.Client, b)
}

// deleteAndRelease deletes what EC2 has of a backup, and then takes our finalizer off its MySQLBackup.
func (r *Snapshots) deleteAndRelease(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if _, shown := s.TakenFor(b); !shown && r.mayYetShow(b) {
		return &engine.Problem{Message: "EC2 may not show yet what it made for it", After: engine.AfterWaiting, Aside: true}
	}
	if err := r.deleteSnapshotOf(ctx, s, b); err != nil {
		return err
	}
	return removeFinalizer(ctx, r.Client, b)
}

// unlisted says whether EC2 may have completed the snapshot of a backup that was begun, and has not answered the list of snapshots since:
// a whole one must not be deleted for that.
func unlisted(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	taken, ok := s.TakenFor(b)
	return !listed(s) && b.Status.StartedAt != nil && (!ok || taken.State == inventory.SnapshotPending)
}

// listed says whether EC2 answers the list of snapshots.
func listed(s *pass.Pass) bool {
	return s.Observed.Snapshots.Unanswered == "" && !s.Observed.Snapshots.Taken.IsZero()
}

// unlistedProblem is what waits for the list of snapshots. A condition says why EC2 does not answer it.
func unlistedProblem(s *pass.Pass) *engine.Problem {
	p := &engine.Problem{Message: "waiting for EC2's list of snapshots", After: engine.AfterWaiting, Aside: true}
	if why := s.Observed.Snapshots.Unanswered; why != "" {
		p.Reason, p.Message = v1alpha1.ReasonSnapshotsUnknown, why
	}
	return p
}

// mayYetShow says whether a snapshot that was asked for may have been made although EC2 does not list it: the answer may have been
// lost, with the operator that waited for it.
func (r *Snapshots) mayYetShow(b *v1alpha1.MySQLBackup) bool {
	return b.Status.SnapshotID == "" && b.Status.StartedAt != nil && r.Clock.Since(b.Status.StartedAt.Time) < observe.TagsShown
}

// SettleSnapshots ends what is under way of a cluster that goes, and deletes the snapshots of MySQLBackups that go with it: once
// the cluster is gone nobody has its way to EC2. The cluster waits for it.
func (r *Snapshots) SettleSnapshots(ctx context.Context, s *pass.Pass) error {
	if s.Access.Cloud == nil || s.Abandons() || s.NeverBegun() {
		return nil
	}
	backups, err := r.List(ctx, s)
	if err != nil {
		return err
	}
	for i := range backups {
		b := &backups[i]
		if b.Spec.Method != v1alpha1.BackupMethodSnapshot {
			continue
		}
		if failure := r.settle(ctx, s, b); failure != nil {
			p := *pass.AsProblem(failure)
			p.Message = b.Name + ": " + p.Message
			err = errors.Join(err, &p)
		}
	}
	return err
}

// settle deletes what EC2 has of a backup, unless it is a whole snapshot, and takes our finalizer off a MySQLBackup with which nothing is to be
// deleted.
func (r *Snapshots) settle(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	taken, shown := s.TakenFor(b)
	switch {
	case !b.DeletionTimestamp.IsZero():
		return r.releaseSnapshot(ctx, s, b)
	case completedAfterAll(s, b):
		if err := r.snapshot(ctx, s, b); err != nil {
			return err
		}
	case b.Status.Phase == v1alpha1.BackupFailed && controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) && (GivenUp(b) || listed(s)):
		return r.deleteAndRelease(ctx, s, b)
	case b.Status.Phase == v1alpha1.BackupFailed:
		return r.discardSnapshot(ctx, s, b)
	case emptied(s, b):
		return r.dropEmptied(ctx, s, b)
	case !b.Done(), shown && taken.State != inventory.SnapshotCompleted:
		return r.endSnapshot(ctx, s, b)
	}
	return r.settleFinalizer(ctx, s, b)
}

// endSnapshot gives up a snapshot whose cluster goes, unless EC2 has completed it and only its status does not say so yet.
func (r *Snapshots) endSnapshot(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if unlisted(s, b) {
		return unlistedProblem(s)
	}
	if taken, ok := s.TakenFor(b); ok && taken.State == inventory.SnapshotCompleted && !GivenUp(b) {
		if err := r.reportSnapshot(ctx, b, taken); err != nil {
			return err
		}
		return r.settleFinalizer(ctx, s, b)
	}
	if err := giveUpSnapshot(ctx, r.Client, b, v1alpha1.BackupReasonNoCluster); err != nil {
		return err
	}
	if err := r.deleteAndRelease(ctx, s, b); err != nil {
		return err
	}
	now := metav1.NewTime(r.Clock.Now())
	return patchBackup(ctx, r.Client, b, func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.Reason, st.Message, st.Progress, st.CompletedAt = v1alpha1.BackupFailed, v1alpha1.BackupReasonNoCluster, "its cluster was deleted before the snapshot was complete", nil, &now
		st.SnapshotID, st.Location = "", ""
	})
}

package backups

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// statusGTIDs is how much of a GTID set a status takes.
	statusGTIDs = 16384
	// SnapshotLook is how often a snapshot is asked for that EC2 still copies.
	SnapshotLook = 15 * time.Second
	// SnapshotsAtOnce is how many snapshots of a cluster are under way side by side, so that many MySQLBackups made at once use
	// up nothing that other clusters of the account need. EBS takes five at once of one volume.
	SnapshotsAtOnce = 2
	// snapshotRemovals is how many backups' snapshots are deleted in a pass: each is one or two calls, and the cluster waits.
	snapshotRemovals = 10
)

// Advance works on the backups that are EBS snapshots: it begins the oldest, looks how far they are, takes away what failed,
// and keeps what the schedules want kept. Trouble with one holds no other up.
func (r *Snapshots) Advance(ctx context.Context, s *pass.Pass) {
	if s.Access.Cloud == nil || !s.Observed.CloudReachable {
		return
	}
	underWay, removals := 0, 0
	for i := range s.Backup.All {
		if begun(s, &s.Backup.All[i]) {
			underWay++
		}
	}
	for i := range slices.Backward(s.Backup.All) {
		b := &s.Backup.All[i]
		if b.Spec.Method != v1alpha1.BackupMethodSnapshot {
			continue
		}
		var err error
		switch {
		case leavesSnapshot(s, b):
			if removals++; removals > snapshotRemovals {
				lookSoon(s)
				continue
			}
			err = r.endOrDiscard(ctx, s, b)
		case emptied(s, b):
			err = r.dropEmptied(ctx, s, b)
		case completedAfterAll(s, b):
			err = r.snapshot(ctx, s, b)
		case b.Done() || GivenUp(b):
			err = r.recordVanished(ctx, s, b)
		case begun(s, b):
			err = r.snapshot(ctx, s, b)
		case underWay < SnapshotsAtOnce:
			underWay++
			err = r.snapshot(ctx, s, b)
		default:
			lookSoon(s)
			err = patchBackup(ctx, r.Client, b, func(st *v1alpha1.MySQLBackupStatus) {
				st.Phase, st.Reason, st.Message = v1alpha1.BackupPending, v1alpha1.BackupReasonQueued, "waiting for its turn: other snapshots of this cluster are under way"
			})
		}
		s.ReportBackup(b.Name+": ", err)
	}
	s.ReportBackup("", r.settleFinalizers(ctx, s))
	s.ReportBackup("", r.pruneSnapshots(ctx, s))
}

// begun says whether EC2 was asked for a backup's snapshot, and has not completed it as far as is known.
func begun(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	if b.Spec.Method != v1alpha1.BackupMethodSnapshot || b.Done() || GivenUp(b) || !b.DeletionTimestamp.IsZero() {
		return false
	}
	_, shown := s.TakenFor(b)
	return shown || b.Status.Phase == v1alpha1.BackupRunning
}

// leavesSnapshot says whether a backup was deleted or failed, so that what EC2 has of it may have to go.
func leavesSnapshot(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	if !b.DeletionTimestamp.IsZero() {
		return controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer)
	}
	taken, shown := s.TakenFor(b)
	return b.Status.Phase == v1alpha1.BackupFailed && shown && superfluous(b, taken)
}

// endOrDiscard takes away what is left of a backup that was deleted or failed.
func (r *Snapshots) endOrDiscard(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if !b.DeletionTimestamp.IsZero() {
		return r.releaseSnapshot(ctx, s, b)
	}
	return r.discardSnapshot(ctx, s, b)
}

// lookSoon has the next pass come within SnapshotLook.
func lookSoon(s *pass.Pass) { s.Plan.RequeueAfter = min(s.Plan.RequeueAfter, SnapshotLook) }

// snapshot begins the snapshot of a backup, or looks how far it is. The volume is crash-consistent at the call: data and
// binary log are on the one volume, and MySQL recovers it as after a power cut. One backup has one snapshot: whatever
// becomes of the member and its volume, no second is asked for.
func (r *Snapshots) snapshot(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if !b.Done() {
		lookSoon(s)
	}
	if taken, ok := s.TakenFor(b); ok {
		return r.reportSnapshot(ctx, b, taken)
	}
	if b.Status.SnapshotID != "" {
		return nil // EC2 does not show it yet; of one that a person deleted nothing more is heard, and the backup fails
	}
	if r.askedByAnother(s, b) {
		return nil // CreateSnapshot takes no client token: asked too soon, EC2 would make a second one
	}
	errand := engine.Errand{What: engine.TakeSnapshotErrand, Object: pass.PurposeOf(b)}
	if refusal := s.Cache.Requests.Refusal(errand, r.Clock.Now()); refusal != nil {
		return refusal // EC2 is not asked yet, so that there is nothing to record
	}
	member, volume := r.SnapshotSource(s, b)
	if volume == "" {
		return nil // no member is fit at the moment
	}
	if err := addFinalizer(ctx, r.Client, b); err != nil {
		return err
	}
	if err := r.recordSource(ctx, s, b, member); err != nil {
		return err
	}
	var taken inventory.Snapshot
	err := s.Cache.Requests.Upkeep(errand, r.Clock, func() (err error) {
		taken, err = s.Access.Cloud.CreateSnapshot(ctx, ec2.SnapshotSpec{
			Owner: s.Owner(), Member: member, VolumeID: volume, Purpose: pass.PurposeOf(b), MySQLVersion: s.OpenedBy(member),
		})
		return err
	})
	if err != nil {
		why := pass.AsProblem(err).Message
		return errors.Join(err, patchBackup(ctx, r.Client, b, func(st *v1alpha1.MySQLBackupStatus) {
			if st.Message = why; refused(err) {
				st.Member, st.GTIDSet = "", "" // nothing was taken of it: the next attempt is free to choose
			}
		}))
	}
	return r.reportSnapshot(ctx, b, taken)
}

// askedByAnother says whether an operator before this one asked EC2 for a backup's snapshot, and EC2 may not list yet what it made: that
// operator may have ended without the answer.
func (r *Snapshots) askedByAnother(s *pass.Pass, b *v1alpha1.MySQLBackup) bool {
	return b.Status.Phase == v1alpha1.BackupRunning && b.Status.Member != "" && r.mayYetShow(b) && b.Status.StartedAt.Time.Before(s.Observed.WatchedSince)
}

// refused says whether EC2 surely has not done what it was asked for.
func refused(err error) bool {
	class := awsapi.Classify(err)
	return class != awsapi.Unreachable && class != awsapi.Transient && class != awsapi.Waiting
}

// recordSource writes before the call what holds of the snapshot that it makes: its answer may be lost. StartedAt is when EC2 is asked. A
// refusal is no progress: Progress stays that of the first call.
func (r *Snapshots) recordSource(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup, member string) error {
	if b.Status.Phase == v1alpha1.BackupRunning && b.Status.Member == member {
		return nil
	}
	now, sql := metav1.NewTime(r.Clock.Now()), s.Observed.Members[member].SQL
	return patchBackup(ctx, r.Client, b, func(st *v1alpha1.MySQLBackupStatus) {
		if st.Progress == nil {
			st.Message, st.Progress = "asking EC2 for a snapshot", &v1alpha1.BackupProgress{At: now}
		}
		st.Phase, st.Reason = v1alpha1.BackupRunning, ""
		st.StartedAt, st.Member, st.ClusterUID, st.Version, st.GTIDSet = &now, member, s.UID(), sql.Version, ""
		st.Archive = archiveNow(s.Cluster)
		// What the member had executed just before: the volume holds at least that.
		if text := sql.Executed.String(); len(text) <= statusGTIDs {
			st.GTIDSet = text
		}
	})
}

// archiveNow is where the cluster archives its binary logs; nil when it does not.
func archiveNow(c *v1alpha1.MySQLCluster) *v1alpha1.ArchiveSource {
	t := backupTask(c)
	if !c.Archives() || t.Destination == nil {
		return nil
	}
	return &v1alpha1.ArchiveSource{Destination: *t.Destination, Path: backup.RootOf(c.Namespace, c.Name, string(c.UID))}
}

// SnapshotSource is the member to snapshot: the one that was chosen before, as long as it is fit and holds what was noted of it; else
// a replica in service that is least behind, or the primary when it is alone. While EC2 may have taken the snapshot of the one that was
// chosen before, there is no other.
func (r *Snapshots) SnapshotSource(s *pass.Pass, b *v1alpha1.MySQLBackup) (member, volume string) {
	if chosen := b.Status.Member; chosen != "" {
		noted, err := gtid.Parse(b.Status.GTIDSet)
		if volume, fit := fitVolume(s, chosen); fit && err == nil && s.Observed.Members[chosen].SQL.Executed.Contains(noted) {
			return chosen, volume
		}
		if r.mayYetShow(b) {
			return "", ""
		}
	}
	lag := time.Duration(-1)
	primary := ""
	for _, v := range s.Plan.Members {
		switch _, fit := fitVolume(s, v.Name); {
		case !fit:
		case v.Role == v1alpha1.RolePrimary:
			primary = v.Name
		case lag < 0 || v.Lag < lag:
			member, lag = v.Name, v.Lag
		}
	}
	member = cmp.Or(member, primary)
	volume, _ = fitVolume(s, member)
	return member, volume
}

// fitVolume is the data volume of a member in service, whose server answers; no other is fit. One that is being rebuilt is not in service.
func fitVolume(s *pass.Pass, member string) (id string, fit bool) {
	m := s.Observed.Members[member]
	if m == nil || m.SQL.Access != topology.AccessVerified {
		return "", false
	}
	i := slices.IndexFunc(s.Plan.Members, func(v topology.View) bool { return v.Name == member && v.InService })
	if i < 0 {
		return "", false
	}
	return s.Plan.Members[i].VolumeID, s.Plan.Members[i].VolumeID != ""
}

// pruneSnapshots deletes what the schedules' retention no longer keeps. The newest good backup of the cluster stays, and
// nothing goes unless a newer one of the same schedule is good. What EC2 does not show as completed counts for nothing, and while it does
// not answer the list of snapshots nothing goes: a newer one may have been deleted since.
func (r *Snapshots) pruneSnapshots(ctx context.Context, s *pass.Pass) error {
	if s.Cluster.Spec.Backup == nil || !listed(s) {
		return nil
	}
	var errs error
	for _, schedule := range s.Cluster.Spec.Backup.Schedules {
		if schedule.Method == v1alpha1.BackupMethodSnapshot {
			errs = errors.Join(errs, r.pruneSchedule(ctx, s, schedule))
		}
	}
	return errs
}

// pruneSchedule deletes the snapshots of one schedule that it keeps no longer.
func (r *Snapshots) pruneSchedule(ctx context.Context, s *pass.Pass, schedule v1alpha1.BackupSchedule) (errs error) {
	kept, latest := 0, time.Time{}
	newest := true
	for i := range s.Backup.All {
		b := &s.Backup.All[i]
		if !b.Good() || !b.DeletionTimestamp.IsZero() || emptied(s, b) {
			continue
		}
		last := newest
		newest = false
		taken, ok := s.SnapshotOf(b)
		if !ok || taken.State != inventory.SnapshotCompleted || b.Spec.Method != v1alpha1.BackupMethodSnapshot || b.Spec.Schedule != schedule.Name {
			continue
		}
		if kept++; kept == 1 {
			latest = taken.StartTime // a schedule that is suspended or fails loses nothing by time alone
		}
		if !last && surplus(schedule.Retention, kept, latest.Sub(taken.StartTime)) {
			errs = errors.Join(errs, r.pruneSnapshot(ctx, s, b))
		}
	}
	return errs
}

// surplus says whether the nth newest snapshot of a schedule, which is so much older than its newest, is kept no longer.
func surplus(keep v1alpha1.RetentionSpec, nth int, older time.Duration) bool {
	return keep.Count != nil && nth > int(*keep.Count) || nth > 1 && keep.MaxAge != nil && older > keep.MaxAge.Duration
}

// pruneSnapshot deletes a backup that is no longer kept. The snapshot goes first, and that is noted before: when nothing more comes
// of it, the MySQLBackup is not taken for a good one.
func (r *Snapshots) pruneSnapshot(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	if err := giveUpSnapshot(ctx, r.Client, b, pruned); err != nil {
		return err
	}
	if err := r.deleteSnapshotOf(ctx, s, b); err != nil {
		return err
	}
	return r.dropPruned(ctx, b)
}

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// backupPurpose begins the purpose tag of a snapshot that is a backup; the MySQLBackup's UID follows.
	backupPurpose = "backup-"
	// statusGTIDs is how much of a GTID set a status takes.
	statusGTIDs = 16384
	// snapshotLook is how often a snapshot is asked for that EC2 still copies.
	snapshotLook = 15 * time.Second
)

// backups reads the cluster's MySQLBackups, the newest first.
func (r *MySQLClusterReconciler) backups(ctx context.Context, s *scope) ([]v1alpha1.MySQLBackup, error) {
	var list v1alpha1.MySQLBackupList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	own := slices.DeleteFunc(list.Items, func(b v1alpha1.MySQLBackup) bool {
		// A backup of an older cluster of this name says nothing of this one.
		return b.Spec.ClusterName != s.cluster.Name || b.Status.ClusterUID != "" && b.Status.ClusterUID != s.uid()
	})
	slices.SortFunc(own, func(a, b v1alpha1.MySQLBackup) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	return own, nil
}

// snapshots works on the backups that are EBS snapshots: it begins one, looks how far it is, and keeps what the schedule
// wants kept.
func (r *MySQLClusterReconciler) snapshots(ctx context.Context, s *scope) error {
	if s.cloud == nil || !s.observed.CloudReachable {
		return nil
	}
	for i := range s.backups {
		b := &s.backups[i]
		if b.Spec.Method != v1alpha1.BackupMethodSnapshot {
			continue
		}
		var err error
		switch {
		case !b.DeletionTimestamp.IsZero():
			err = r.releaseSnapshot(ctx, s, b)
		case !b.Done():
			err = r.snapshot(ctx, s, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
	}
	return r.pruneSnapshots(ctx, s)
}

// snapshot begins the snapshot of a backup, or looks how far it is. The volume is crash-consistent at the call: data and
// binary log are on the one volume, and MySQL recovers it as after a power cut.
func (r *MySQLClusterReconciler) snapshot(ctx context.Context, s *scope, b *v1alpha1.MySQLBackup) error {
	member, volume := b.Status.Member, ""
	if member == "" {
		if member, volume = s.snapshotSource(); member == "" {
			return nil // no member is fit at the moment
		}
	} else {
		volume = s.volumeOf(member)
	}
	if volume == "" {
		return nil // the member is being replaced; its volume will be there again
	}
	// By the UID, because the name may come again. It is safe to repeat: the snapshot is found by its tags.
	snapshot, err := s.cloud.CreateSnapshot(ctx, s.owner(), member, volume, backupPurpose+string(b.UID))
	if err != nil {
		return cloudError(err)
	}
	now := metav1.NewTime(r.Clock.Now())
	before := b.DeepCopy()
	st := &b.Status
	if m := s.observed.Members[member]; st.StartedAt == nil && m != nil {
		st.StartedAt, st.Member, st.ClusterUID, st.Version = &now, member, s.uid(), m.SQL.Version
		// What the member had executed just before: the volume holds at least that.
		if text := m.SQL.Executed.String(); len(text) <= statusGTIDs {
			st.GTIDSet = text
		}
	}
	st.Phase, st.SnapshotID, st.Location = v1alpha1.BackupRunning, snapshot.ID, "ebs://"+snapshot.ID
	st.Message = strings.TrimSpace("EC2 copies the volume " + snapshot.Progress)
	switch snapshot.State {
	case ec2.SnapshotCompleted:
		st.Phase, st.Message, st.CompletedAt = v1alpha1.BackupCompleted, "", &now
		st.Duration = now.Sub(st.StartedAt.Time).Round(time.Second).String()
		st.DataBytes = int64(s.cluster.StorageGiB()) << 30
	case ec2.SnapshotError:
		st.Phase, st.Reason, st.Message, st.CompletedAt = v1alpha1.BackupFailed, v1alpha1.BackupReasonSnapshotFailed, "EC2 could not complete snapshot "+snapshot.ID, &now
	}
	if err := r.Client.Status().Patch(ctx, b, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if !b.Done() && s.plan.RequeueAfter > snapshotLook {
		s.plan.RequeueAfter = snapshotLook
	}
	return nil
}

// snapshotSource is the member to snapshot: a replica in service that is least behind, or the primary when it is alone.
func (s *scope) snapshotSource() (member, volume string) {
	lag := time.Duration(-1)
	primary := ""
	for _, v := range s.plan.Members {
		if !v.InService || v.VolumeID == "" {
			continue
		}
		if v.Role == v1alpha1.RolePrimary {
			primary = v.Name
			continue
		}
		if lag < 0 || v.Lag < lag {
			member, lag = v.Name, v.Lag
		}
	}
	if member == "" {
		member = primary
	}
	if m := s.observed.Members[member]; m != nil && m.SQL.Access == topology.AccessVerified {
		return member, s.volumeOf(member)
	}
	return "", ""
}

// volumeOf is the data volume of a member as the plan shows it, empty when there is none.
func (s *scope) volumeOf(member string) string {
	for _, v := range s.plan.Members {
		if v.Name == member {
			return v.VolumeID
		}
	}
	return ""
}

// releaseSnapshot deletes the snapshot of a MySQLBackup that is deleted with its data.
func (r *MySQLClusterReconciler) releaseSnapshot(ctx context.Context, s *scope, b *v1alpha1.MySQLBackup) error {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) {
		return nil
	}
	if b.Status.SnapshotID != "" {
		if err := s.cloud.DeleteSnapshot(ctx, b.Status.SnapshotID); err != nil {
			return cloudError(err)
		}
	}
	before := b.DeepCopy()
	controllerutil.RemoveFinalizer(b, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// pruneSnapshots deletes what the schedules' retention no longer keeps. The newest good backup of the cluster stays, and
// nothing goes unless a newer one of the same schedule is good.
func (r *MySQLClusterReconciler) pruneSnapshots(ctx context.Context, s *scope) error {
	if s.cluster.Spec.Backup == nil {
		return nil
	}
	for _, schedule := range s.cluster.Spec.Backup.Schedules {
		kept := 0
		newest := true
		for i := range s.backups {
			b := &s.backups[i]
			if b.Status.Phase != v1alpha1.BackupCompleted || !b.DeletionTimestamp.IsZero() {
				continue
			}
			last := newest
			newest = false
			if b.Spec.Method != v1alpha1.BackupMethodSnapshot || b.Spec.Schedule != schedule.Name {
				continue
			}
			kept++
			surplus := schedule.Retention.Count != nil && kept > int(*schedule.Retention.Count)
			old := kept > 1 && schedule.Retention.MaxAge != nil && b.Status.CompletedAt != nil &&
				r.Clock.Since(b.Status.CompletedAt.Time) > schedule.Retention.MaxAge.Duration
			if last || !surplus && !old {
				continue
			}
			if b.Status.SnapshotID != "" {
				if err := s.cloud.DeleteSnapshot(ctx, b.Status.SnapshotID); err != nil {
					return cloudError(err)
				}
			}
			if err := r.Client.Delete(ctx, b); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete MySQLBackup %s, whose snapshot is gone: %w", b.Name, err)
			}
		}
	}
	return nil
}

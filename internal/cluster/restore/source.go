package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// RecoversCopy says whether the cluster begins with a copy of a volume, as far as the spec alone tells.
func RecoversCopy(s *pass.Pass) bool {
	recovery := s.Cluster.Recovery()
	return recovery != nil && (recovery.SnapshotID != "" || recovery.VolumeID != "")
}

// FindSource finds out what a cluster that is yet to begin is made from, and whether that may be used: a snapshot or a volume of
// the same namespace, or one that the administrator allows; whole, not larger than the members' volumes, and of no newer MySQL.
// It asks EC2 only until the first volume is there.
func (r *Restorer) FindSource(ctx context.Context, s *pass.Pass) error {
	recovery, source := s.Cluster.Recovery(), &s.Observed.Source
	if recovery == nil || recovery.ObjectStore != nil || !s.Recovering() || s.Deleting() || s.Desired.Hibernate {
		return nil
	}
	var of *v1alpha1.MySQLBackup
	if recovery.BackupName != "" && s.Observed.Records.Source == "" {
		if of = r.snapshotNamed(ctx, s); of == nil {
			return nil
		}
	}
	archive, err := archiveOf(ctx, r.Marker(), s, of)
	if err != nil {
		return err
	}
	source.Copied, source.Archive = true, archive
	if firstVolumeMade(s) || s.Access.Cloud == nil || !s.Observed.CloudReachable {
		return nil
	}
	if err := lookAt(ctx, s, of); err != nil {
		p := engine.ReadingError(err)
		s.Result.Problems = append(s.Result.Problems, p)
		source.Why = topology.Finding{Reason: v1alpha1.ReasonRecovering, Message: p.Message}
	}
	return nil
}

// snapshotNamed returns the MySQLBackup that the spec names when it is a snapshot that is to be copied; nil when there is nothing to copy,
// or not yet.
func (r *Restorer) snapshotNamed(ctx context.Context, s *pass.Pass) *v1alpha1.MySQLBackup {
	if firstVolumeMade(s) {
		return nil // an empty one: what is copied is written down before. A dump is restored, also when its MySQLBackup is gone
	}
	b, p := r.backupNamed(ctx, s)
	if p != nil {
		s.Observed.Source.Why = topology.Finding{Reason: cmp.Or(p.Reason, v1alpha1.ReasonWaitingForDependency), Message: p.Message}
		s.Observed.Source.Final = !p.Quiet()
		return nil
	}
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		return b
	}
	if s.Cluster.Recovery().Archive != nil {
		turnDown(&s.Observed.Source, v1alpha1.ReasonInvalidSpec, "%s.archive: MySQLBackup %s is a dump, whose archive is beside it; delete this cluster, and make it without archive", fieldRecovery, b.Name)
	}
	return nil
}

// lookAt looks at what is copied: what was chosen before, else the snapshot of a MySQLBackup, else what the spec names.
func lookAt(ctx context.Context, s *pass.Pass, of *v1alpha1.MySQLBackup) error {
	recovery, chosen := s.Cluster.Recovery(), s.Observed.Records.Source
	switch {
	case of != nil && recovery.PointInTime != nil && s.Observed.Source.Archive == nil:
		turnDown(&s.Observed.Source, v1alpha1.ReasonInvalidSpec, "%s.pointInTime: MySQLBackup %s is a snapshot, which holds one moment only, and its annotation %s does not say where the binary logs of its cluster are archived; delete this cluster, and make it with archive, or without pointInTime", fieldRecovery, of.Name, v1alpha1.AnnotationPlace)
		return nil
	case chosen != "":
		return lookAtSnapshot(ctx, s, chosen)
	case of != nil:
		return lookAtBackup(ctx, s, of)
	case recovery.SnapshotID != "":
		return lookAtSnapshot(ctx, s, recovery.SnapshotID)
	default:
		return lookAtVolume(ctx, s, recovery.VolumeID)
	}
}

// backupNamed is backupToRestore with what is in the way in words.
func (r *Restorer) backupNamed(ctx context.Context, s *pass.Pass) (*v1alpha1.MySQLBackup, *engine.Problem) {
	b, err := r.backupToRestore(ctx, s)
	return b, pass.AsProblem(err)
}

// firstVolumeMade says whether the volume that is made from the source is there.
func firstVolumeMade(s *pass.Pass) bool {
	m := s.Observed.Members[s.Desired.MemberName(0)]
	return m != nil && slices.ContainsFunc(m.Volumes, func(v topology.Volume) bool {
		return v.State != inventory.VolumeDeleting && v.State != inventory.VolumeDeleted
	})
}

// turnDown notes what only a person can change.
func turnDown(source *topology.Source, reason, format string, args ...any) {
	source.Why, source.Final = topology.Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}, true
}

// lookAtBackup looks for the snapshot of a MySQLBackup.
func lookAtBackup(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	snapshot, found, err := s.Access.Cloud.Inventory.SnapshotOf(ctx, pass.SnapshotQuery(b))
	if err != nil {
		return err
	}
	if !found {
		turnDown(&s.Observed.Source, v1alpha1.ReasonWaitingForDependency, "%s: EC2 shows no snapshot of MySQLBackup %s in this account in %s: it was deleted, lost its tags, or is elsewhere. Restore the snapshot or its tags, or restore another backup into a new cluster", fieldRecovery, b.Name, s.Access.Cloud.Inventory.Region())
		return nil
	}
	JudgeSnapshot(s, snapshot, b.Status.Version)
	return nil
}

func lookAtSnapshot(ctx context.Context, s *pass.Pass, id string) error {
	snapshot, found, err := s.Access.Cloud.Inventory.SnapshotByID(ctx, id)
	if err != nil {
		return err
	}
	if !found {
		turnDown(&s.Observed.Source, v1alpha1.ReasonWaitingForDependency, "%s: this account has no snapshot %s in %s; it was deleted, or is elsewhere", fieldRecovery, id, s.Access.Cloud.Inventory.Region())
		return nil
	}
	JudgeSnapshot(s, snapshot, "")
	return nil
}

// JudgeSnapshot decides on a snapshot. version is what opened its volume where no tag says so, empty for unknown.
func JudgeSnapshot(s *pass.Pass, snapshot inventory.Snapshot, version string) {
	source := &s.Observed.Source
	if !maySource(s, snapshot.ID, snapshot.Tags) {
		return
	}
	switch snapshot.State {
	case inventory.SnapshotCompleted:
	case inventory.SnapshotPending:
		source.Why = topology.Finding{Reason: v1alpha1.ReasonRecovering, Message: fmt.Sprintf("waiting until EC2 has copied snapshot %s: %s", snapshot.ID, announce.OrDash(snapshot.Progress))}
		return
	default:
		turnDown(source, v1alpha1.ReasonRecoveryFailed, "%s: snapshot %s is in state %s", fieldRecovery, snapshot.ID, snapshot.State)
		return
	}
	if fits(s, "snapshot "+snapshot.ID, snapshot.SizeGiB, snapshot.Tags, version) {
		source.SnapshotID = snapshot.ID
	}
}

// lookAtVolume decides on a volume that a cluster left behind. Once its snapshot was begun, the volume may go where it likes.
func lookAtVolume(ctx context.Context, s *pass.Pass, id string) error {
	source := &s.Observed.Source
	for _, snapshot := range s.Seen.Inventory.Snapshots {
		if snapshot.VolumeID == id && snapshot.Tags[awsapi.TagPurpose] == topology.RecoveryPurpose && snapshot.State != inventory.SnapshotError {
			source.VolumeID = id
			return nil
		}
	}
	v, found, err := s.Access.Cloud.Inventory.VolumeByID(ctx, id)
	switch {
	case err != nil:
		return err
	case !found:
		turnDown(source, v1alpha1.ReasonWaitingForDependency, "%s: this account has no data volume %s in %s; it was deleted, or is elsewhere", fieldRecovery, id, s.Access.Cloud.Inventory.Region())
	case !maySource(s, id, v.Tags):
	case v.State == inventory.VolumeInUse:
		turnDown(source, v1alpha1.ReasonWaitingForDependency, "%s: volume %s is attached to instance %s, which may be writing to it; detach it, or take a snapshot of it and name that", fieldRecovery, id, announce.OrDash(v.AttachedTo))
	case v.State != inventory.VolumeAvailable:
		turnDown(source, v1alpha1.ReasonWaitingForDependency, "%s: volume %s is in state %s", fieldRecovery, id, v.State)
	case fits(s, "volume "+id, v.SizeGiB, v.Tags, ""):
		source.VolumeID = id
	}
	return nil
}

// maySource says whether the cluster's namespace may restore from what EC2 shows with these tags.
func maySource(s *pass.Pass, id string, tags map[string]string) bool {
	v := s.Access.Policy.CheckSource(s.Cluster.Namespace, s.Cluster.Spec, id, tags)
	if v != nil {
		turnDown(&s.Observed.Source, v1alpha1.ReasonNotPermitted, "%s: %s", v.Field, v.Message)
	}
	return v == nil
}

// fits says whether a source is small enough and not of a newer MySQL. Where nothing tells what opened it, mysqld itself
// refuses what it cannot read.
func fits(s *pass.Pass, what string, sizeGiB int32, tags map[string]string, version string) bool {
	if have := s.Cluster.StorageGiB(); have < sizeGiB {
		turnDown(&s.Observed.Source, v1alpha1.ReasonInvalidSpec, "spec.storage.size: %s has %d GiB and the members' volumes %d GiB; set it to %dGi at least", what, sizeGiB, have, sizeGiB)
		return false
	}
	if tag := tags[v1alpha1.TagMySQLVersion]; tag != "" {
		version = tag
	}
	if version == "" {
		return true
	}
	if err := backup.CheckVersion(version, s.Cluster.Spec.Version); err != nil {
		turnDown(&s.Observed.Source, v1alpha1.ReasonInvalidSpec, "spec.version: %s: %v", what, err)
		return false
	}
	return true
}

// Adopt makes what is on a copied volume the cluster's own, tells so by the volume's tag, and then remembers it: from then on
// the cluster begins on it, and nothing is ever made from the source again.
func (r *Restorer) Adopt(ctx context.Context, s *pass.Pass, m *admin.Member, a topology.Adopt) error {
	if s.Access.Cloud == nil || !s.Observed.CloudReachable {
		return &engine.Problem{Reason: v1alpha1.ReasonCloudSilent, Message: "waiting for EC2's API", After: engine.AfterWaiting}
	}
	err := m.Adopt(ctx)
	if errors.Is(err, mysql.ErrNothingThere) {
		s.Backup.Unadoptable = fmt.Sprintf("%v. Delete the cluster, and restore from another", err)
		return &engine.Problem{Reason: v1alpha1.ReasonRecoveryFailed, Message: s.Backup.Unadoptable, After: engine.AfterPerson, Cause: err}
	}
	if err != nil {
		return err
	}
	if err := s.Access.Cloud.TagRecovered(ctx, s.UID(), a.VolumeID); err != nil {
		return engine.CloudError(err)
	}
	return s.Stored.Save(ctx, func(records *topology.ClusterRecord) { records.Recovered = true })
}

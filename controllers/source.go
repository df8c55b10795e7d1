package controllers

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// fieldRecovery is the path of what a cluster begins with.
const fieldRecovery = "spec.bootstrap.recovery"

// recoversCopy says whether the cluster begins with a copy of a volume, as far as the spec alone tells.
func recoversCopy(s *pass) bool {
	recovery := s.cluster.Recovery()
	return recovery != nil && (recovery.SnapshotID != "" || recovery.VolumeID != "")
}

// findSource finds out what a cluster that is yet to begin is made from, and whether that may be used: a snapshot or a volume of
// the same namespace, or one that the administrator allows; whole, not larger than the members' volumes, and of no newer MySQL.
// It asks EC2 only until the first volume is there.
func (r *restorer) findSource(ctx context.Context, s *pass) error {
	recovery, source := s.cluster.Recovery(), &s.observed.Source
	if recovery == nil || recovery.ObjectStore != nil || !s.recovering() || s.deleting() || s.desired.Hibernate {
		return nil
	}
	chosen := s.observed.Records.Source
	var of *v1alpha1.MySQLBackup
	if recovery.BackupName != "" && chosen == "" {
		if firstVolumeMade(s) {
			return nil // an empty one: what is copied is written down before. A dump is restored, also when its MySQLBackup is gone
		}
		b, p := r.backupNamed(ctx, s)
		if p != nil {
			source.Why = topology.Finding{Reason: v1alpha1.ReasonWaitingForDependency, Message: p.Message}
			source.Final = !p.Quiet()
			return nil
		}
		if b.Spec.Method != v1alpha1.BackupMethodSnapshot {
			return nil
		}
		of = b
	}
	source.Copied = true
	if firstVolumeMade(s) || s.access.cloud == nil || !s.observed.CloudReachable {
		return nil
	}
	var err error
	switch {
	case of != nil && recovery.PointInTime != nil:
		turnDown(source, v1alpha1.ReasonInvalidSpec, "%s.pointInTime: MySQLBackup %s is a snapshot, which holds one moment only; name a dump", fieldRecovery, of.Name)
	case chosen != "":
		err = lookAtSnapshot(ctx, s, chosen)
	case of != nil:
		err = lookAtBackup(ctx, s, of)
	case recovery.SnapshotID != "":
		err = lookAtSnapshot(ctx, s, recovery.SnapshotID)
	default:
		err = lookAtVolume(ctx, s, recovery.VolumeID)
	}
	if err != nil {
		p := engine.ReadingError(err)
		s.result.problems = append(s.result.problems, p)
		source.Why = topology.Finding{Reason: v1alpha1.ReasonRecovering, Message: p.Message}
	}
	return nil
}

// backupNamed is backupToRestore with what is in the way in words.
func (r *restorer) backupNamed(ctx context.Context, s *pass) (*v1alpha1.MySQLBackup, *engine.Problem) {
	b, err := r.backupToRestore(ctx, s)
	return b, asProblem(err)
}

// firstVolumeMade says whether the volume that is made from the source is there.
func firstVolumeMade(s *pass) bool {
	m := s.observed.Members[s.desired.MemberName(0)]
	if m == nil {
		return false
	}
	for _, v := range m.Volumes {
		if v.State != ec2.VolumeDeleting && v.State != ec2.VolumeDeleted {
			return true
		}
	}
	return false
}

// turnDown notes what only a person can change.
func turnDown(source *topology.Source, reason, format string, args ...any) {
	source.Why, source.Final = topology.Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}, true
}

// lookAtBackup looks for the snapshot of a MySQLBackup by the tags that only the operator gives. What the status says, which the
// backup pods may write, has to agree with them: neither alone leads to a snapshot.
func lookAtBackup(ctx context.Context, s *pass, b *v1alpha1.MySQLBackup) error {
	snapshot, found, err := s.access.cloud.SnapshotOf(ctx, ec2.SnapshotQuery{Namespace: b.Namespace, Purpose: purposeOf(b), ClusterUID: b.Status.ClusterUID, ID: b.Status.SnapshotID})
	if err != nil {
		return err
	}
	if !found {
		turnDown(&s.observed.Source, v1alpha1.ReasonWaitingForDependency, "%s: EC2 shows no snapshot of MySQLBackup %s in this account in %s; it was deleted, or is elsewhere", fieldRecovery, b.Name, s.access.cloud.Region())
		return nil
	}
	judgeSnapshot(s, snapshot, b.Status.Version)
	return nil
}

func lookAtSnapshot(ctx context.Context, s *pass, id string) error {
	snapshot, found, err := s.access.cloud.SnapshotByID(ctx, id)
	if err != nil {
		return err
	}
	if !found {
		turnDown(&s.observed.Source, v1alpha1.ReasonWaitingForDependency, "%s: this account has no snapshot %s in %s; it was deleted, or is elsewhere", fieldRecovery, id, s.access.cloud.Region())
		return nil
	}
	judgeSnapshot(s, snapshot, "")
	return nil
}

// judgeSnapshot decides on a snapshot. version is what opened its volume where no tag says so, empty for unknown.
func judgeSnapshot(s *pass, snapshot ec2.Snapshot, version string) {
	source := &s.observed.Source
	if !maySource(s, snapshot.ID, snapshot.Tags) {
		return
	}
	switch snapshot.State {
	case ec2.SnapshotCompleted:
	case ec2.SnapshotPending:
		source.Why = topology.Finding{Reason: v1alpha1.ReasonRecovering, Message: fmt.Sprintf("waiting until EC2 has copied snapshot %s: %s", snapshot.ID, orDash(snapshot.Progress))}
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
func lookAtVolume(ctx context.Context, s *pass, id string) error {
	source := &s.observed.Source
	for _, snapshot := range s.seen.inventory.Snapshots {
		if snapshot.VolumeID == id && snapshot.Tags[ec2.TagPurpose] == topology.RecoveryPurpose && snapshot.State != ec2.SnapshotError {
			source.VolumeID = id
			return nil
		}
	}
	v, found, err := s.access.cloud.VolumeByID(ctx, id)
	switch {
	case err != nil:
		return err
	case !found:
		turnDown(source, v1alpha1.ReasonWaitingForDependency, "%s: this account has no data volume %s in %s; it was deleted, or is elsewhere", fieldRecovery, id, s.access.cloud.Region())
	case !maySource(s, id, v.Tags):
	case v.State == ec2.VolumeInUse:
		turnDown(source, v1alpha1.ReasonWaitingForDependency, "%s: volume %s is attached to instance %s, which may be writing to it; detach it, or take a snapshot of it and name that", fieldRecovery, id, orDash(v.AttachedTo))
	case v.State != ec2.VolumeAvailable:
		turnDown(source, v1alpha1.ReasonWaitingForDependency, "%s: volume %s is in state %s", fieldRecovery, id, v.State)
	case fits(s, "volume "+id, v.SizeGiB, v.Tags, ""):
		source.VolumeID = id
	}
	return nil
}

// maySource says whether the cluster's namespace may restore from what EC2 shows with these tags.
func maySource(s *pass, id string, tags map[string]string) bool {
	v := s.access.policy.CheckSource(s.cluster.Namespace, s.cluster.Spec, id, tags)
	if v != nil {
		turnDown(&s.observed.Source, v1alpha1.ReasonNotPermitted, "%s: %s", v.Field, v.Message)
	}
	return v == nil
}

// fits says whether a source is small enough and not of a newer MySQL. Where nothing tells what opened it, mysqld itself
// refuses what it cannot read.
func fits(s *pass, what string, sizeGiB int32, tags map[string]string, version string) bool {
	if have := s.cluster.StorageGiB(); have < sizeGiB {
		turnDown(&s.observed.Source, v1alpha1.ReasonInvalidSpec, "spec.storage.size: %s has %d GiB and the members' volumes %d GiB; set it to %dGi at least", what, sizeGiB, have, sizeGiB)
		return false
	}
	if tag := tags[v1alpha1.TagMySQLVersion]; tag != "" {
		version = tag
	}
	if version == "" {
		return true
	}
	if err := backup.CheckVersion(version, s.cluster.Spec.Version); err != nil {
		turnDown(&s.observed.Source, v1alpha1.ReasonInvalidSpec, "spec.version: %s: %v", what, err)
		return false
	}
	return true
}

// adopt makes what is on a copied volume the cluster's own, tells so by the volume's tag, and then remembers it: from then on
// the cluster begins on it, and nothing is ever made from the source again.
func (r *restorer) adopt(ctx context.Context, s *pass, m *mysql.Member, a topology.Adopt) error {
	if s.access.cloud == nil || !s.observed.CloudReachable {
		return &engine.Problem{Reason: v1alpha1.ReasonCloudSilent, Message: "waiting for EC2's API", After: engine.AfterWaiting}
	}
	err := m.Adopt(ctx)
	if errors.Is(err, mysql.ErrNothingThere) {
		s.backup.unadoptable = fmt.Sprintf("%v. Delete the cluster, and restore from another", err)
		return &engine.Problem{Reason: v1alpha1.ReasonRecoveryFailed, Message: s.backup.unadoptable, After: engine.AfterPerson, Cause: err}
	}
	if err != nil {
		return err
	}
	if err := s.access.cloud.NoteRecovered(ctx, s.uid(), a.VolumeID); err != nil {
		return engine.CloudError(err)
	}
	return s.stored.Save(ctx, func(records *topology.Records) { records.Recovered = true })
}

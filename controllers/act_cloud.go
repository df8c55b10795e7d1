package controllers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// EC2's codes for a zone that has none of an instance type, and none of a volume type left.
const (
	codeNoCapacity       = "InsufficientInstanceCapacity"
	codeNoVolumeCapacity = "InsufficientVolumeCapacity"
)

// refusalKept is how long after EC2 said so last a zone is believed to have no capacity. As long as that matters it is asked again
// within half a minute; what was refused and then not wanted any more says nothing about another day.
const refusalKept = 5 * time.Minute

// codeTokenEnded is EC2's code for a client token whose instance ended.
const codeTokenEnded = "IdempotentInstanceTerminated"

// tokenPatience is how long the instance or volume of a token that EC2 knows from another request is waited for. What is made
// shows within seconds, at the worst within minutes; after an hour EC2 shows none that ended. tokenTold is after how long that is
// told.
const (
	tokenPatience = 10 * time.Minute
	tokenTold     = time.Minute
)

// takeInCloud gives an action on EC2 its effect, and says whether it was one.
func (r *executor) takeInCloud(ctx context.Context, s *pass, action topology.Action) (bool, error) {
	var err error
	switch a := action.(type) {
	case topology.EnsureSecurityGroup:
		var id string
		id, err = s.access.cloud.EnsureSecurityGroup(ctx, ec2.SecurityGroupSpec{
			Owner: s.owner(), VPCID: s.seen.vpc, ClientCIDRs: s.cluster.Spec.AWS.ClientCIDRs, ClientSecurityGroupIDs: s.cluster.Spec.AWS.ClientSecurityGroupIDs,
		})
		if err == nil && s.observed.SecurityGroup == "" {
			r.announcer.announceGroup(s, id)
		}
	case topology.CreateVolume:
		if !mayCopy(s, a.SnapshotID) {
			return true, &problem{reason: v1alpha1.ReasonNotPermitted, message: "snapshot " + a.SnapshotID + " is not what spec.bootstrap.recovery names; no volume is made from it", after: afterPerson}
		}
		_, err = s.access.cloud.CreateVolume(ctx, r.volumeSpec(s, a))
		s.cache.requests.noteCapacity(a.Member, a.Zone, codeNoVolumeCapacity, err, r.Clock.Now())
		err = r.ordered(ctx, s, a, err)
	case topology.LaunchInstance:
		err = r.launch(ctx, s, a)
	case topology.AttachVolume:
		cloud, uid := s.access.cloud, s.uid()
		err = r.attempts.unhurried(ctx, s, &call{action: a, finish: asItIs}, func(ctx context.Context) error {
			return cloud.AttachVolume(ctx, uid, a.VolumeID, a.InstanceID, ec2.DataDevice)
		})
	case topology.DetachVolume:
		err = s.access.cloud.DetachVolume(ctx, s.uid(), a.VolumeID, a.InstanceID)
	case topology.ModifyVolume:
		err = r.modify(ctx, s, a)
	case topology.StartInstance:
		err = r.start(ctx, s, a)
	case topology.StopInstance:
		err = r.attempts.powerOff(ctx, s, a)
	case topology.TerminateInstance:
		err = s.access.cloud.TerminateInstance(ctx, s.uid(), a.InstanceID)
	case topology.DeleteVolume:
		err = s.access.cloud.DeleteVolume(ctx, s.uid(), a.VolumeID)
	case topology.TakeSnapshot:
		_, err = s.access.cloud.CreateSnapshot(ctx, ec2.SnapshotSpec{
			Owner: s.owner(), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose, MySQLVersion: s.openedBy(a.Member),
		})
	case topology.CopyVolume:
		_, err = s.access.cloud.CopyVolume(ctx, ec2.SnapshotSpec{Owner: s.owner(), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose})
	case topology.DeleteSnapshot:
		err = s.access.cloud.DeleteSnapshot(ctx, s.uid(), a.SnapshotID)
	case topology.RetireVolume:
		err = s.access.cloud.RetireVolume(ctx, s.uid(), a.VolumeID)
	case topology.DeleteSecurityGroup:
		err = s.access.cloud.DeleteSecurityGroup(ctx, s.uid(), a.ID)
	default:
		return false, nil
	}
	var p *problem
	switch {
	case err == nil, errors.Is(err, errUnderWay), errors.As(err, &p):
		return true, err
	}
	return true, r.attempts.cloudFailure(s, action, err)
}

// mayCopy says whether a snapshot is the one that was judged in this pass, or the cluster's own of the volume that was. The
// records alone do not decide: whoever may edit ConfigMaps could name another namespace's.
func mayCopy(s *pass, snapshotID string) bool {
	if snapshotID == "" || snapshotID == s.observed.Source.SnapshotID {
		return true
	}
	for _, snapshot := range s.seen.inventory.Snapshots {
		if snapshot.ID == snapshotID {
			return strings.HasPrefix(snapshot.Tags[ec2.TagPurpose], topology.RecoveryPurpose)
		}
	}
	return false
}

func (r *executor) volumeSpec(s *pass, a topology.CreateVolume) ec2.VolumeSpec {
	storage, version := s.cluster.Spec.Storage, s.cluster.Spec.Version
	if s.desired.Before.Version != "" && a.SnapshotID == "" {
		version = "" // which one opens it is known, and noted, when a machine gets it
	}
	return ec2.VolumeSpec{
		Owner: s.owner(), Member: a.Member, Incarnation: a.Incarnation, Zone: a.Zone,
		SizeGiB: s.cluster.StorageGiB(), Type: string(storage.VolumeType()), IOPS: storage.IOPS, Throughput: storage.Throughput,
		Encrypted: s.cluster.Spec.Storage.IsEncrypted(), KMSKeyID: storage.KMSKeyID,
		SnapshotID: a.SnapshotID, MySQLVersion: version,
	}
}

// modify makes a volume what the spec asks for, and counts what EC2 takes of that.
func (r *executor) modify(ctx context.Context, s *pass, a topology.ModifyVolume) error {
	modified, err := s.access.cloud.ModifyVolume(ctx, a.VolumeID, r.volumeSpec(s, topology.CreateVolume{Member: a.Member}))
	if err != nil || !modified {
		return err
	}
	if err := r.recordKeeper.saveRecords(ctx, s, func(records *topology.Records) {
		rec := records.Members[a.Member]
		rec.NoteModified(a.VolumeID, r.Clock.Now())
		records.Members[a.Member] = rec
	}); err != nil {
		return asProblem(err) // which is none of EC2's
	}
	return nil
}

// ordered takes what came of an order for a machine or a volume. Its client token may be spent, also because the instance ended so
// long ago that EC2 no longer shows it: then the next incarnation has another.
func (r *executor) ordered(ctx context.Context, s *pass, action topology.Action, err error) error {
	o, _ := orderOf(action)
	if !s.cache.requests.tokenSpent(o, err, r.Clock.Now()) && ec2.Code(err) != codeTokenEnded {
		return err
	}
	return errors.Join(err, r.recordKeeper.saveRecords(ctx, s, func(records *topology.Records) {
		rec := records.Members[o.member]
		if o.volume {
			rec.Volume = max(rec.Volume, o.incarnation+1)
		} else {
			rec.Instance = max(rec.Instance, o.incarnation+1)
		}
		records.Members[o.member] = rec
	}))
}

// zoneOf returns the zone of one of the spec's subnets.
func zoneOf(s *pass, subnetID string) string {
	for _, subnet := range s.desired.Subnets {
		if subnet.ID == subnetID {
			return subnet.Zone
		}
	}
	return ""
}

// noteCapacity notes in which zone, and since when, EC2 refuses capacity for a member's machine or volume (which of them, the code
// says), or that it does not. Any other error says nothing about that. Several members are launched at the same time.
func (q *requestCache) noteCapacity(member, zone, code string, err error, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.full[member]
	switch {
	case err == nil && (known.code == code || code == codeNoCapacity): // with a machine there is a volume
		delete(q.full, member)
	case ec2.Code(err) != code || zone == "":
	case known.zone != zone || known.code != code || now.Sub(known.last) > refusalKept:
		q.full[member] = refusal{zone: zone, code: code, since: now, last: now}
	default:
		known.last = now
		q.full[member] = known
	}
}

// capacityRefused returns in which zone EC2 refuses capacity for a member, and since when.
func (q *requestCache) capacityRefused(member string, now time.Time) (zone string, since time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.full[member]; now.Sub(known.last) <= refusalKept {
		return known.zone, known.since
	}
	return "", time.Time{}
}

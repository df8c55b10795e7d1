package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// dataDevice is the device name under which the data volume is attached. Nitro instances rename it; the guest finds
// the volume by its id.
const dataDevice = "/dev/sdf"

// codeNoCapacity is EC2's code for a zone that has none of an instance type left.
const codeNoCapacity = "InsufficientInstanceCapacity"

// takeInCloud gives an action on EC2 its effect, and says whether it was one.
func (r *MySQLClusterReconciler) takeInCloud(ctx context.Context, s *scope, action topology.Action) (bool, error) {
	var err error
	switch a := action.(type) {
	case topology.EnsureSecurityGroup:
		_, err = s.cloud.EnsureSecurityGroup(ctx, ec2.SecurityGroupSpec{
			Owner: s.owner(), VPCID: s.vpc, ClientCIDRs: s.cluster.Spec.AWS.ClientCIDRs, ClientSecurityGroupIDs: s.cluster.Spec.AWS.ClientSecurityGroupIDs,
		})
	case topology.CreateVolume:
		if !s.mayCopy(a.SnapshotID) {
			return true, &problem{reason: v1alpha1.ReasonNotPermitted, message: "snapshot " + a.SnapshotID + " is not what spec.bootstrap.recovery names; no volume is made from it", after: afterPerson}
		}
		_, err = s.cloud.CreateVolume(ctx, r.volumeSpec(s, a))
	case topology.LaunchInstance:
		err = r.unhurried(ctx, s, a, func(ctx context.Context) error { return r.launch(ctx, s, a) })
	case topology.AttachVolume:
		err = r.unhurried(ctx, s, a, func(ctx context.Context) error {
			return s.cloud.AttachVolume(ctx, s.uid(), a.VolumeID, a.InstanceID, dataDevice)
		})
	case topology.DetachVolume:
		err = s.cloud.DetachVolume(ctx, s.uid(), a.VolumeID, a.InstanceID)
	case topology.ModifyVolume:
		err = s.cloud.ModifyVolume(ctx, a.VolumeID, r.volumeSpec(s, topology.CreateVolume{Member: a.Member}))
	case topology.StartInstance:
		err = r.unhurried(ctx, s, a, func(ctx context.Context) error { return r.start(ctx, s, a) })
	case topology.StopInstance:
		err = r.powerOff(ctx, s, a.InstanceID, a.Gracefully)
	case topology.TerminateInstance:
		err = s.cloud.TerminateInstance(ctx, s.uid(), a.InstanceID)
	case topology.DeleteVolume:
		err = s.cloud.DeleteVolume(ctx, s.uid(), a.VolumeID)
	case topology.TakeSnapshot:
		_, err = s.cloud.CreateSnapshot(ctx, ec2.SnapshotSpec{
			Owner: s.owner(), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose, MySQLVersion: s.openedBy(a.Member),
		})
	case topology.CopyVolume:
		_, err = s.cloud.CopyVolume(ctx, ec2.SnapshotSpec{Owner: s.owner(), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose})
	case topology.DeleteSnapshot:
		err = s.cloud.DeleteSnapshot(ctx, s.uid(), a.SnapshotID)
	case topology.RetireVolume:
		err = s.cloud.RetireVolume(ctx, s.uid(), a.VolumeID)
	case topology.DeleteSecurityGroup:
		err = s.cloud.DeleteSecurityGroup(ctx, s.uid(), a.ID)
	default:
		return false, nil
	}
	if err == nil {
		return true, nil
	}
	r.memory.doubtAfter(s.notes, err, r.Clock.Now())
	p := cloudError(err)
	if _, fence := action.(topology.StopInstance); !fence {
		p.pause = max(p.pause, longestPause)
	}
	return true, p
}

// mayCopy says whether a snapshot is the one that was judged in this pass, or the cluster's own of the volume that was. The
// records alone do not decide: whoever may edit ConfigMaps could name another namespace's.
func (s *scope) mayCopy(snapshotID string) bool {
	if snapshotID == "" || snapshotID == s.observed.Source.SnapshotID {
		return true
	}
	for _, snapshot := range s.inventory.Snapshots {
		if snapshot.ID == snapshotID {
			return strings.HasPrefix(snapshot.Tags[ec2.TagPurpose], topology.RecoveryPurpose)
		}
	}
	return false
}

func (r *MySQLClusterReconciler) volumeSpec(s *scope, a topology.CreateVolume) ec2.VolumeSpec {
	storage := s.cluster.Spec.Storage
	return ec2.VolumeSpec{
		Owner: s.owner(), Member: a.Member, Incarnation: a.Incarnation, Zone: a.Zone,
		SizeGiB: s.cluster.StorageGiB(), Type: string(storage.VolumeType()), IOPS: storage.IOPS, Throughput: storage.Throughput,
		Encrypted: s.cluster.Spec.Storage.IsEncrypted(), KMSKeyID: storage.KMSKeyID,
		SnapshotID: a.SnapshotID, MySQLVersion: s.cluster.Spec.Version,
	}
}

// launchSpec describes a member's instance but for what is resolved at the last moment: image, subnet, user data.
func (r *MySQLClusterReconciler) launchSpec(s *scope, member string, incarnation int) ec2.LaunchSpec {
	aws := s.cluster.Spec.AWS
	return ec2.LaunchSpec{
		Owner: s.owner(), Member: member, Incarnation: incarnation, TemplateHash: s.desired.TemplateHash,
		InstanceType: aws.InstanceType, IAMInstanceProfile: aws.IAMInstanceProfile, KeyName: aws.KeyName,
		RootEncrypted: s.cluster.Spec.Storage.IsEncrypted(), KMSKeyID: s.cluster.Spec.Storage.KMSKeyID,
	}
}

// start starts a member's stopped instance. A zone may be out of capacity for that as for a launch.
func (r *MySQLClusterReconciler) start(ctx context.Context, s *scope, a topology.StartInstance) error {
	err := s.cloud.StartInstance(ctx, s.uid(), a.InstanceID)
	zone := ""
	if m := s.observed.Members[a.Member]; ec2.Code(err) == codeNoCapacity && m != nil && m.CurrentInstance() != nil {
		zone = m.CurrentInstance().Zone
	}
	r.memory.noteCapacity(s.notes, a.Member, zone, r.Clock.Now())
	return err
}

// launch launches a member's instance. Capacity that EC2 refuses is noted, so that the brain can look elsewhere.
func (r *MySQLClusterReconciler) launch(ctx context.Context, s *scope, a topology.LaunchInstance) error {
	aws := s.cluster.Spec.AWS
	image, err := s.cloud.ResolveImage(ctx, aws.ImageID, aws.ImageSSMParameter, aws.InstanceType)
	if err != nil {
		return fmt.Errorf("resolve the image: %w", err)
	}
	userData, err := bootstrap.Render(r.bootstrapInput(s, a))
	if err != nil {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), after: afterPerson, cause: err}
	}
	spec := r.launchSpec(s, a.Member, a.Incarnation)
	spec.ImageID, spec.SubnetID, spec.UserData = image.ID, a.SubnetID, userData
	if spec.SecurityGroupIDs = aws.SecurityGroupIDs; len(spec.SecurityGroupIDs) == 0 {
		spec.SecurityGroupIDs = []string{s.observed.SecurityGroup}
	}
	_, err = s.cloud.LaunchInstance(ctx, spec)
	zone := ""
	if ec2.Code(err) == codeNoCapacity {
		zone = s.zoneOf(a.SubnetID)
	}
	r.memory.noteCapacity(s.notes, a.Member, zone, r.Clock.Now())
	if code := ec2.Code(err); code == "IdempotentInstanceTerminated" || code == "IdempotentParameterMismatch" {
		// The token's instance ended so long ago that EC2 no longer shows it, or was asked for from another spec and is not
		// shown yet: the next incarnation has another token.
		return errors.Join(err, r.saveRecords(ctx, s, func(records *topology.Records) {
			rec := records.Members[a.Member]
			rec.Instance = max(rec.Instance, a.Incarnation+1)
			records.Members[a.Member] = rec
		}))
	}
	return err
}

func (r *MySQLClusterReconciler) bootstrapInput(s *scope, a topology.LaunchInstance) bootstrap.Input {
	in := bootstrap.Input{
		ClusterUID: s.uid(), Namespace: s.cluster.Namespace, Cluster: s.cluster.Name,
		Member: a.Member, Ordinal: a.Ordinal, Incarnation: a.Incarnation, VolumeIncarnation: a.VolumeIncarnation,
		Version: s.cluster.Spec.Version, VolumeID: a.VolumeID,
		CAPEM: s.authority.CertificatePEM(), JoinToken: s.authority.JoinToken(a.Member, a.Incarnation),
		IssuerDN: s.authority.IssuerDN(), OperatorDN: s.authority.OperatorDN(),
		Settings: s.cluster.Spec.MySQLD,
	}
	if d := s.cluster.Spec.AWS.Download; d != nil {
		in.Download = &bootstrap.Download{URL: d.URL, SHA256: d.SHA256}
	}
	return in
}

// zoneOf returns the zone of one of the spec's subnets.
func (s *scope) zoneOf(subnetID string) string {
	for _, subnet := range s.desired.Subnets {
		if subnet.ID == subnetID {
			return subnet.Zone
		}
	}
	return ""
}

// noteCapacity notes in which zone, and since when, EC2 refuses capacity for a member, or with an empty zone that it
// does not. Several members are launched at the same time.
func (m *memory) noteCapacity(n *notes, member, zone string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case zone == "":
		delete(n.refused, member)
	case n.refused[member].zone != zone:
		n.refused[member] = refusal{zone: zone, since: now}
	}
}

// capacityRefused returns in which zone EC2 refuses capacity for a member, and since when.
func (m *memory) capacityRefused(n *notes, member string) (zone string, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return n.refused[member].zone, n.refused[member].since
}

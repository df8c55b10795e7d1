package execute

import (
	"context"
	"maps"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

var _ engine.Cloud = cloudPort{}

// cloudPort is EC2 for one cluster. What may outlast the pass uses nothing of the pass.
type cloudPort struct {
	r     *Executor
	s     *pass.Pass
	cloud *ec2.Cloud
	uid   string
}

// EnsureSecurityGroup keeps the cluster's own group, unless the spec names others, and then which groups the members' instances have.
func (p cloudPort) EnsureSecurityGroup(ctx context.Context) error {
	aws := p.s.Cluster.Spec.AWS
	want := aws.SecurityGroupIDs
	if len(want) == 0 {
		id, err := p.cloud.EnsureSecurityGroup(ctx, ec2.SecurityGroupSpec{
			Owner: p.s.Owner(), VPCID: p.s.Seen.VPC, ClientCIDRs: aws.ClientCIDRs, ClientSecurityGroupIDs: aws.ClientSecurityGroupIDs,
		})
		if err != nil {
			return err
		}
		if p.s.Observed.SecurityGroup == "" {
			p.r.Announcer.SecurityGroup(p.s, id)
		}
		want = []string{id}
	}
	for id, hash := range p.s.Seen.OldTags {
		if err := p.cloud.RestoreTags(ctx, p.uid, id, map[string]string{v1alpha1.TagTemplateHash: hash}); err != nil {
			return err
		}
	}
	return p.cloud.KeepGroups(ctx, p.uid, want)
}

func (p cloudPort) DeleteSecurityGroup(ctx context.Context, a topology.DeleteSecurityGroup) error {
	return p.cloud.DeleteSecurityGroup(ctx, p.uid, a.ID)
}

func (p cloudPort) PrepareVolume(a topology.CreateVolume) (func(context.Context) error, error) {
	switch {
	case mayCopy(p.s, a.SnapshotID):
	case p.s.Observed.Snapshots.Taken.IsZero():
		return nil, &engine.Problem{Reason: v1alpha1.ReasonSnapshotsUnknown, Message: "waiting for EC2's list of snapshots: it says whose snapshot " + a.SnapshotID + " is, from which a volume is to be made", After: engine.AfterWaiting}
	default:
		return nil, &engine.Problem{Reason: v1alpha1.ReasonNotPermitted, Message: "snapshot " + a.SnapshotID + " is not what spec.bootstrap.recovery names; no volume is made from it", After: engine.AfterPerson}
	}
	cloud, spec := p.cloud, VolumeSpec(p.s, a)
	spec.Owner.UserTags = maps.Clone(spec.Owner.UserTags)
	return func(ctx context.Context) error {
		_, err := cloud.CreateVolume(ctx, spec)
		return err
	}, nil
}

// mayCopy says whether a snapshot is the one that was judged in this pass, or the cluster's own of the volume that was. The
// records alone do not decide: whoever may edit ConfigMaps could name another namespace's.
func mayCopy(s *pass.Pass, snapshotID string) bool {
	if snapshotID == "" || snapshotID == s.Observed.Source.SnapshotID {
		return true
	}
	for _, snapshot := range s.Seen.Inventory.Snapshots {
		if snapshot.ID == snapshotID {
			return strings.HasPrefix(snapshot.Tags[awsapi.TagPurpose], topology.RecoveryPurpose)
		}
	}
	return false
}

// wanted is the configuration of volumes that the spec asks for.
func wanted(s *pass.Pass) ec2.VolumeConfiguration {
	storage := s.Cluster.Spec.Storage
	return ec2.VolumeConfiguration{SizeGiB: s.Cluster.StorageGiB(), Type: string(storage.VolumeType()), IOPS: storage.EffectiveIOPS(), Throughput: storage.EffectiveThroughput()}
}

// configurationOfNew is the configuration of a new volume: the spec's, and at least the size of the members' volumes. While EC2 refuses to
// modify those, it is that of the largest of them: EC2 may refuse a new one as the spec says too.
func configurationOfNew(s *pass.Pass) ec2.VolumeConfiguration {
	largest := s.LargestVolume()
	for _, m := range s.Observed.Members {
		if m.ModificationRefused != "" && largest.Type != "" {
			return ec2.VolumeConfiguration{SizeGiB: largest.SizeGiB, Type: largest.Type, IOPS: largest.IOPS, Throughput: largest.Throughput}
		}
	}
	configuration := wanted(s)
	configuration.SizeGiB = max(configuration.SizeGiB, largest.SizeGiB)
	return configuration
}

// VolumeSpec describes a volume of a member.
func VolumeSpec(s *pass.Pass, a topology.CreateVolume) ec2.VolumeSpec {
	storage, version := s.Cluster.Spec.Storage, s.Cluster.Spec.Version
	if s.Desired.PreviousTemplate.Version != "" && a.SnapshotID == "" {
		version = "" // which one opens it is known, and noted, when an instance gets it
	}
	return ec2.VolumeSpec{
		Owner: s.Owner(), Member: a.Member, Incarnation: a.Incarnation, Zone: a.Zone,
		VolumeConfiguration: configurationOfNew(s), Encrypted: storage.IsEncrypted(), KMSKeyID: storage.KMSKeyID,
		SnapshotID: a.SnapshotID, MySQLVersion: version,
	}
}

func (p cloudPort) PrepareLaunch(a topology.LaunchInstance) (func(context.Context) error, error) {
	return p.r.prepareLaunch(p.s, p.cloud, a)
}

func (p cloudPort) AttachVolume(ctx context.Context, a topology.AttachVolume) error {
	return p.cloud.AttachVolume(ctx, p.uid, a.VolumeID, a.InstanceID, ec2.DataDevice)
}

func (p cloudPort) DetachVolume(ctx context.Context, a topology.DetachVolume) error {
	return p.cloud.DetachVolume(ctx, p.uid, a.VolumeID, a.InstanceID)
}

func (p cloudPort) ModifyVolume(ctx context.Context, a topology.ModifyVolume) (bool, error) {
	return p.cloud.ModifyVolume(ctx, p.uid, a.VolumeID, wanted(p.s))
}

func (p cloudPort) StartInstance(ctx context.Context, a topology.StartInstance) error {
	return p.cloud.StartInstance(ctx, p.uid, a.InstanceID)
}

func (p cloudPort) StopInstance(ctx context.Context, a topology.StopInstance) error {
	how := ec2.StopPower
	switch {
	case a.Gracefully:
		how = ec2.StopGracefully
	case a.Force:
		how = ec2.StopByForce
	}
	return p.cloud.StopInstance(ctx, p.uid, a.InstanceID, how)
}

func (p cloudPort) TerminateInstance(ctx context.Context, a topology.TerminateInstance) error {
	return p.cloud.TerminateInstance(ctx, p.uid, a.InstanceID)
}

func (p cloudPort) DeleteVolume(ctx context.Context, a topology.DeleteVolume) error {
	return p.cloud.DeleteVolume(ctx, p.uid, a.VolumeID)
}

func (p cloudPort) RetireVolume(ctx context.Context, a topology.RetireVolume) error {
	return p.cloud.RetireVolume(ctx, p.uid, a.VolumeID)
}

func (p cloudPort) TakeSnapshot(ctx context.Context, a topology.TakeSnapshot) error {
	_, err := p.cloud.CreateSnapshot(ctx, ec2.SnapshotSpec{
		Owner: p.s.Owner(), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose, MySQLVersion: p.s.OpenedBy(a.Member),
	})
	return err
}

func (p cloudPort) CopyVolume(ctx context.Context, a topology.CopyVolume) error {
	_, err := p.cloud.CopyVolume(ctx, ec2.SnapshotSpec{Owner: p.s.Owner(), Member: a.Member, VolumeID: a.VolumeID, Purpose: a.Purpose})
	return err
}

func (p cloudPort) DeleteSnapshot(ctx context.Context, a topology.DeleteSnapshot) error {
	return p.cloud.DeleteSnapshot(ctx, p.uid, a.SnapshotID)
}

func (p cloudPort) RestoreTags(ctx context.Context, id string, tags map[string]string) error {
	return p.cloud.RestoreTags(ctx, p.uid, id, tags)
}

func (p cloudPort) TagVersion(ctx context.Context, volumeID, version string) error {
	return p.cloud.TagVersion(ctx, p.uid, volumeID, version)
}

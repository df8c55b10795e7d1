package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// codeDryRun is EC2's way of saying that a dry run would have succeeded: as an error.
const codeDryRun = "DryRunOperation"

// passed reports that a dry run found nothing.
func passed(err error) bool { return err == nil || Code(err) == codeDryRun }

// tryLaunch makes RunInstances as a dry run in the first subnet that exists, with those parts of the spec in which no
// fault was found: EC2 names only the first fault that it meets, and that should be a new one.
func (p *preflight) tryLaunch(ctx context.Context) error {
	subnet, ok := p.firstSubnet()
	if !ok || p.img == nil || p.info == nil {
		return nil // what is missing has been said
	}
	spec := p.spec.Launch
	spec.SubnetID, spec.ImageID, spec.SecurityGroupIDs = subnet.ID, p.img.ID, p.groups
	if len(spec.UserData) > MaxUserData {
		p.wrong("", "%d bytes of user data, at most %d: shorten spec.mysqld", len(spec.UserData), MaxUserData)
		return nil
	}
	input, err := p.cloud.runInput(ctx, spec)
	if err != nil {
		return p.judge(err, fieldImageID)
	}
	// The incarnation's token stays unused, whatever EC2 does with tokens of dry runs.
	input.DryRun, input.ClientToken = aws.Bool(true), nil
	if _, err = p.cloud.api.RunInstances(ctx, input); passed(err) {
		return nil
	}
	return p.judge(explainLaunch(err, spec), fieldInstanceType)
}

// tryVolume makes CreateVolume as a dry run in the zone of the first subnet.
func (p *preflight) tryVolume(ctx context.Context) error {
	subnet, ok := p.firstSubnet()
	if !ok {
		return nil
	}
	spec := p.spec.Volume
	spec.Zone = subnet.Zone
	input := volumeInput(spec)
	input.DryRun, input.ClientToken = aws.Bool(true), nil
	if _, err := p.cloud.api.CreateVolume(ctx, input); !passed(err) {
		return p.judge(err, fieldStorage)
	}
	return nil
}

// tryGroup makes CreateSecurityGroup as a dry run, when the cluster needs a group of its own and has none yet.
func (p *preflight) tryGroup(ctx context.Context) error {
	owner := p.spec.Launch.Owner
	if len(p.spec.SecurityGroupIDs) > 0 || p.vpc == "" || len(p.cloud.store.inventory(owner.ClusterUID).SecurityGroups) > 0 {
		return nil
	}
	input := groupInput(owner, p.vpc)
	input.DryRun = aws.Bool(true)
	if _, err := p.cloud.api.CreateSecurityGroup(ctx, input); !passed(err) && Code(err) != codeGroupExists {
		return p.judge(err, fieldGroups)
	}
	return nil
}

// tryOwned checks the permissions that will be needed in an emergency, on what the cluster already has: that the fence
// (StopInstances) is not allowed is better learned now than in a failover. These calls' permissions go by the tags of
// real resources, so nothing can be said before there are some.
func (p *preflight) tryOwned(ctx context.Context) error {
	inventory := p.cloud.store.inventory(p.spec.Launch.Owner.ClusterUID)
	var tries []func() error
	if i := slices.IndexFunc(inventory.Instances, func(i Instance) bool { return i.State == StateRunning }); i >= 0 {
		tries = append(tries, p.tryInstance(ctx, inventory.Instances[i])...)
	}
	if len(inventory.Volumes) > 0 {
		tries = append(tries, p.tryDisk(ctx, inventory.Volumes[0])...)
	}
	if i := slices.IndexFunc(inventory.Snapshots, func(s Snapshot) bool { return s.Tags[TagPurpose] != "" }); i >= 0 {
		tries = append(tries, func() error {
			_, err := p.cloud.api.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(inventory.Snapshots[i].ID), DryRun: aws.Bool(true)})
			return err
		})
	}
	for _, try := range tries {
		// A dry run on a protected or attached thing may be refused for its state; only permissions matter here.
		if err := try(); err != nil && lacksPermission(Code(err)) {
			if err := p.judge(err, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryInstance are dry runs of what may have to be done to an instance.
func (p *preflight) tryInstance(ctx context.Context, i Instance) []func() error {
	api, dry, ids := p.cloud.api, aws.Bool(true), []string{i.ID}
	return []func() error{
		func() error {
			_, err := api.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids, DryRun: dry})
			return err
		},
		func() error {
			_, err := api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids, DryRun: dry})
			return err
		},
	}
}

// tryDisk are dry runs of what may have to be done to a data volume.
func (p *preflight) tryDisk(ctx context.Context, v Volume) []func() error {
	api, dry, id := p.cloud.api, aws.Bool(true), aws.String(v.ID)
	tries := []func() error{
		func() error {
			_, err := api.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: id, DryRun: dry,
				TagSpecifications: snapshotTags(SnapshotSpec{Owner: p.spec.Launch.Owner, Member: v.Member, Purpose: "preflight"})})
			return err
		},
		func() error {
			_, err := api.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: id, DryRun: dry})
			return err
		},
	}
	if v.AttachedTo != "" {
		tries = append(tries, func() error {
			_, err := api.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: id, InstanceId: aws.String(v.AttachedTo), DryRun: dry})
			return err
		})
	}
	return tries
}

func (p *preflight) firstSubnet() (Subnet, bool) {
	for _, id := range p.spec.SubnetIDs {
		if s, ok := p.subnets[id]; ok && s.State == subnetAvailable {
			return s, true
		}
	}
	return Subnet{}, false
}

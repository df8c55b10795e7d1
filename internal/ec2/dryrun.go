package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	if len(p.spec.SecurityGroupIDs) > 0 || p.vpc == "" || len(p.cloud.Inventory.Known(owner.ClusterUID).SecurityGroups) > 0 {
		return nil
	}
	input := groupInput(owner, p.vpc)
	input.DryRun = aws.Bool(true)
	if _, err := p.cloud.api.CreateSecurityGroup(ctx, input); !passed(err) && Code(err) != codeGroupExists {
		return p.judge(err, fieldGroups)
	}
	return nil
}

// firstSubnet is the first in which a member could be.
func (p *preflight) firstSubnet() (Subnet, bool) {
	for _, id := range p.spec.SubnetIDs {
		if s, ok := p.subnets[id]; ok && s.State == SubnetAvailable && (p.zones == nil || p.zones[s.Zone]) {
			return s, true
		}
	}
	return Subnet{}, false
}

package moto_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func attach(t *testing.T, volume, instance, device string) error {
	t.Helper()
	_, err := client().AttachVolume(t.Context(), &ec2.AttachVolumeInput{
		VolumeId: aws.String(volume), InstanceId: aws.String(instance), Device: aws.String(device),
	})
	return err
}

func attachmentState(t *testing.T, id string) types.VolumeAttachmentState {
	t.Helper()
	if a := volume(t, id).Attachments; len(a) > 0 {
		return a[0].State
	}
	return types.VolumeAttachmentStateDetached
}

func TestAttachChecks(t *testing.T) {
	c := client()
	here, there := mustLaunch(t), mustLaunch(t, func(in *ec2.RunInstancesInput) {
		in.SubnetId = aws.String(seeded.Subnets["us-east-1b"])
	})
	v, other := mustVolume(t, "us-east-1a"), mustVolume(t, "us-east-1a")
	goOn := hold(t)
	pending := mustLaunch(t)
	wantCode(t, attach(t, v, pending, "/dev/sdf"), "IncorrectState")
	goOn()
	awaitState(t, here, "running")
	awaitState(t, there, "running")

	wantCode(t, attach(t, v, there, "/dev/sdf"), "InvalidVolume.ZoneMismatch")
	wantCode(t, attach(t, v, here, "sdf"), "InvalidParameterValue")
	wantCode(t, attach(t, v, "i-0deadbeefdeadbeef", "/dev/sdf"), "InvalidInstanceID.NotFound")
	wantCode(t, attach(t, "vol-0deadbeefdeadbeef", here, "/dev/sdf"), "InvalidVolume.NotFound")
	_, err := c.AttachVolume(t.Context(), &ec2.AttachVolumeInput{
		VolumeId: aws.String(v), InstanceId: aws.String(here), Device: aws.String("/dev/sdf"), DryRun: aws.Bool(true),
	})
	wantCode(t, err, "DryRunOperation")

	goOn = hold(t)
	wantCode(t, attach(t, v, here, "/dev/sdf"), "")
	if got := attachmentState(t, v); got != "attaching" {
		t.Errorf("just attached: %s", got)
	}
	goOn()
	eventually(t, "attached", func() bool { return attachmentState(t, v) == "attached" })
	wantCode(t, attach(t, v, here, "/dev/sdg"), "VolumeInUse")
	wantCode(t, attach(t, other, here, "/dev/sdf"), "InvalidParameterValue")
	_, err = c.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: aws.String(v)})
	wantCode(t, err, "VolumeInUse")

	detach := func(from string) error {
		_, err := c.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: aws.String(v), InstanceId: aws.String(from)})
		return err
	}
	wantCode(t, detach(there), "InvalidAttachment.NotFound")
	wantCode(t, detach(here), "")
	eventually(t, "detached", func() bool { return volumeState(t, v) == "available" })
	wantCode(t, detach(here), "IncorrectState")
	_, err = c.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: aws.String(v)})
	wantCode(t, err, "")
}

func TestAttachedVolumeSurvivesItsInstance(t *testing.T) {
	id, v := mustLaunch(t), mustVolume(t, "us-east-1a")
	awaitState(t, id, "running")
	wantCode(t, attach(t, v, id, "/dev/sdf"), "")
	goOn := hold(t)
	if _, err := client().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	if got := volumeState(t, v); got != "in-use" {
		t.Errorf("while its instance shuts down the volume is %s", got)
	}
	goOn()
	awaitState(t, id, "terminated")
	if got := volumeState(t, v); got != "available" {
		t.Errorf("afterwards it is %s", got)
	}
}

func TestSnapshots(t *testing.T) {
	c := client()
	v := mustVolume(t, "us-east-1a")
	goOn := hold(t)
	out, err := c.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String(v)})
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(out.SnapshotId)
	if out.State != "pending" {
		t.Errorf("a new snapshot is %s", out.State)
	}
	restore := func(size int32) error {
		_, err := c.CreateVolume(t.Context(), &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String("us-east-1b"), SnapshotId: aws.String(id), Size: aws.Int32(size),
		})
		return err
	}
	wantCode(t, restore(10), "IncorrectState")
	goOn()
	eventually(t, "completed", func() bool {
		d, err := c.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
		return err == nil && d.Snapshots[0].State == "completed" && aws.ToString(d.Snapshots[0].Progress) == "100%"
	})
	wantCode(t, restore(9), "InvalidParameterValue")
	wantCode(t, restore(20), "")
	_, err = c.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String("vol-0deadbeefdeadbeef")})
	wantCode(t, err, "InvalidVolume.NotFound")
}

func TestVolumeGrowth(t *testing.T) {
	v := mustVolume(t, "us-east-1a")
	grow := func(to int32) error {
		_, err := client().ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: aws.String(v), Size: aws.Int32(to)})
		return err
	}
	done := func() bool {
		out, err := client().DescribeVolumesModifications(t.Context(), &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{v}})
		if err != nil {
			return false
		}
		for _, m := range out.VolumesModifications {
			if m.ModificationState != "completed" {
				return false
			}
		}
		return true
	}
	wantCode(t, grow(9), "InvalidParameterValue")
	goOn := hold(t)
	wantCode(t, grow(11), "")
	wantCode(t, grow(12), "IncorrectModificationState")
	goOn()
	for _, size := range []int32{12, 13, 14} {
		eventually(t, "modified", done)
		wantCode(t, grow(size), "")
	}
	eventually(t, "modified", done)
	wantCode(t, grow(15), "VolumeModificationRateExceeded")
	if got := aws.ToInt32(volume(t, v).Size); got != 14 {
		t.Errorf("size %d", got)
	}
}

// TestConversionSetsDefaults: a modification that changes the type gives the volume that type's performance where it names none.
func TestConversionSetsDefaults(t *testing.T) {
	v := mustVolume(t, "us-east-1a")
	for _, row := range []struct {
		asked                    ec2.ModifyVolumeInput
		wantIOPS, wantThroughput int32
	}{
		{ec2.ModifyVolumeInput{VolumeType: types.VolumeTypeIo2, Iops: aws.Int32(5000)}, 5000, 0},
		{ec2.ModifyVolumeInput{VolumeType: types.VolumeTypeGp3, Iops: aws.Int32(5000)}, 5000, 125},
		{ec2.ModifyVolumeInput{Throughput: aws.Int32(300)}, 5000, 300},
		{ec2.ModifyVolumeInput{VolumeType: types.VolumeTypeIo2}, 3000, 0},
	} {
		row.asked.VolumeId = aws.String(v)
		eventually(t, "modified", func() bool {
			out, err := client().DescribeVolumesModifications(t.Context(), &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{v}})
			return err == nil && !slices.ContainsFunc(out.VolumesModifications, func(m types.VolumeModification) bool { return m.ModificationState != "completed" })
		})
		out, err := client().ModifyVolume(t.Context(), &row.asked)
		if err != nil {
			t.Fatal(err)
		}
		m, now := out.VolumeModification, volume(t, v)
		if iops, throughput := aws.ToInt32(now.Iops), aws.ToInt32(now.Throughput); iops != row.wantIOPS || throughput != row.wantThroughput ||
			aws.ToInt32(m.TargetIops) != iops || aws.ToInt32(m.TargetThroughput) != throughput || m.TargetVolumeType != now.VolumeType {
			t.Errorf("%s with %d IOPS and %d MiB/s (answered %+v), want %d and %d", now.VolumeType, iops, throughput, m, row.wantIOPS, row.wantThroughput)
		}
	}
}

// Every call whose permission the operator's preflight asks for.
func TestDryRuns(t *testing.T) {
	c, yes := client(), aws.Bool(true)
	id, v := mustLaunch(t), mustVolume(t, "us-east-1a")
	awaitState(t, id, "running")
	ids := []string{id}
	group, err := c.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("dry"), Description: aws.String("dry"), VpcId: aws.String(seeded.VPC),
	})
	if err != nil {
		t.Fatal(err)
	}
	rule := []types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(3306), ToPort: aws.Int32(3306),
		IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}},
	}}
	tags := []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}
	for name, call := range map[string]func() error{
		"CreateVolume": func() error {
			_, err := c.CreateVolume(t.Context(), &ec2.CreateVolumeInput{DryRun: yes, AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(1)})
			return err
		},
		"DeleteVolume": func() error {
			_, err := c.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{DryRun: yes, VolumeId: aws.String(v)})
			return err
		},
		"ModifyVolume": func() error {
			_, err := c.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{DryRun: yes, VolumeId: aws.String(v), Size: aws.Int32(99)})
			return err
		},
		"CreateSnapshot": func() error {
			_, err := c.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{DryRun: yes, VolumeId: aws.String(v)})
			return err
		},
		"StopInstances": func() error {
			_, err := c.StopInstances(t.Context(), &ec2.StopInstancesInput{DryRun: yes, InstanceIds: ids})
			return err
		},
		"StartInstances": func() error {
			_, err := c.StartInstances(t.Context(), &ec2.StartInstancesInput{DryRun: yes, InstanceIds: ids})
			return err
		},
		"RebootInstances": func() error {
			_, err := c.RebootInstances(t.Context(), &ec2.RebootInstancesInput{DryRun: yes, InstanceIds: ids})
			return err
		},
		"TerminateInstances": func() error {
			_, err := c.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{DryRun: yes, InstanceIds: ids})
			return err
		},
		"ModifyInstanceAttribute": func() error {
			_, err := c.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{DryRun: yes, InstanceId: aws.String(id), DisableApiTermination: &types.AttributeBooleanValue{Value: yes}})
			return err
		},
		"CreateTags": func() error {
			_, err := c.CreateTags(t.Context(), &ec2.CreateTagsInput{DryRun: yes, Resources: ids, Tags: tags})
			return err
		},
		"DeleteTags": func() error {
			_, err := c.DeleteTags(t.Context(), &ec2.DeleteTagsInput{DryRun: yes, Resources: ids, Tags: tags})
			return err
		},
		"CreateSecurityGroup": func() error {
			_, err := c.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{DryRun: yes, GroupName: aws.String("g"), Description: aws.String("g"), VpcId: aws.String(seeded.VPC)})
			return err
		},
		"DeleteSecurityGroup": func() error {
			_, err := c.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{DryRun: yes, GroupId: group.GroupId})
			return err
		},
		"AuthorizeSecurityGroupIngress": func() error {
			_, err := c.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{DryRun: yes, GroupId: group.GroupId, IpPermissions: rule})
			return err
		},
		"RevokeSecurityGroupIngress": func() error {
			_, err := c.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{DryRun: yes, GroupId: group.GroupId, IpPermissions: rule})
			return err
		},
		"DescribeInstances": func() error {
			_, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{DryRun: yes})
			return err
		},
		"DescribeVolumes": func() error {
			_, err := c.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{DryRun: yes})
			return err
		},
		"DescribeSubnets": func() error {
			_, err := c.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{DryRun: yes})
			return err
		},
		"DescribeInstanceTypes": func() error {
			_, err := c.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{DryRun: yes})
			return err
		},
		"GetConsoleOutput": func() error {
			_, err := c.GetConsoleOutput(t.Context(), &ec2.GetConsoleOutputInput{DryRun: yes, InstanceId: aws.String(id)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), "DryRunOperation") })
	}
	if got := instance(t, id); got.State.Name != "running" || len(got.Tags) != 0 {
		t.Errorf("a dry run changed the instance: %s %v", got.State.Name, got.Tags)
	}
	wantCode(t, func() error {
		_, err := c.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: aws.String(v)})
		return err
	}(), "")
}

func TestSecurityGroupInUse(t *testing.T) {
	c := client()
	group, err := c.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("used"), Description: aws.String("used"), VpcId: aws.String(seeded.VPC),
	})
	if err != nil {
		t.Fatal(err)
	}
	id := mustLaunch(t, func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{aws.ToString(group.GroupId)} })
	remove := func() error {
		_, err := c.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: group.GroupId})
		return err
	}
	wantCode(t, remove(), "DependencyViolation")
	goOn := hold(t)
	if _, err := c.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, remove(), "DependencyViolation")
	goOn()
	awaitState(t, id, "terminated")
	// Another group's rule holds it, too.
	other, err := c.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("other"), Description: aws.String("other"), VpcId: aws.String(seeded.VPC),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: other.GroupId, IpPermissions: []types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(3306), ToPort: aws.Int32(3306),
			UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: group.GroupId}},
		}},
	}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, remove(), "DependencyViolation")
	if _, err := c.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: other.GroupId}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, remove(), "")
}

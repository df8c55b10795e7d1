package inventory

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// ToInstance is an instance as EC2 describes it.
func ToInstance(i types.Instance) Instance {
	tags := awsapi.FromTags(i.Tags)
	out := Instance{
		ID:           aws.ToString(i.InstanceId),
		Member:       tags[v1alpha1.TagMember],
		Incarnation:  awsapi.IncarnationOf(tags),
		TemplateHash: tags[v1alpha1.TagTemplateHash],
		PrivateIP:    aws.ToString(i.PrivateIpAddress),
		Interface:    Interface{SubnetID: aws.ToString(i.SubnetId), VPCID: aws.ToString(i.VpcId)},
		ImageID:      aws.ToString(i.ImageId),
		Type:         string(i.InstanceType),
		Architecture: string(i.Architecture),
		LaunchTime:   aws.ToTime(i.LaunchTime),
		Tags:         tags,
		Token:        aws.ToString(i.ClientToken),
	}
	if i.State != nil {
		out.State = string(i.State.Name)
	}
	if i.StateReason != nil {
		out.StateReason = aws.ToString(i.StateReason.Message)
	}
	if i.Placement != nil {
		out.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	for _, g := range i.SecurityGroups {
		out.SecurityGroupIDs = append(out.SecurityGroupIDs, aws.ToString(g.GroupId))
	}
	slices.Sort(out.SecurityGroupIDs)
	for _, m := range i.BlockDeviceMappings {
		if m.Ebs != nil {
			out.Attachments = append(out.Attachments, Attachment{
				VolumeID: aws.ToString(m.Ebs.VolumeId), Device: aws.ToString(m.DeviceName), State: string(m.Ebs.Status)})
		}
	}
	return out
}

// ToVolume is a volume as EC2 describes it.
func ToVolume(v types.Volume) Volume {
	tags := awsapi.FromTags(v.Tags)
	out := Volume{
		ID:          aws.ToString(v.VolumeId),
		Member:      tags[v1alpha1.TagMember],
		Incarnation: awsapi.IncarnationOf(tags),
		State:       string(v.State),
		Zone:        aws.ToString(v.AvailabilityZone),
		Type:        string(v.VolumeType),
		SizeGiB:     aws.ToInt32(v.Size),
		IOPS:        aws.ToInt32(v.Iops),
		Throughput:  aws.ToInt32(v.Throughput),
		Encrypted:   aws.ToBool(v.Encrypted),
		Retired:     tags[v1alpha1.TagRetired] != "",
		CreateTime:  aws.ToTime(v.CreateTime),
		Tags:        tags,
	}
	for _, a := range v.Attachments {
		if a.State != types.VolumeAttachmentStateDetached {
			out.AttachedTo, out.AttachState = aws.ToString(a.InstanceId), string(a.State)
		}
	}
	return out
}

func toSnapshot(s types.Snapshot) Snapshot {
	tags := awsapi.FromTags(s.Tags)
	return Snapshot{
		ID: aws.ToString(s.SnapshotId), VolumeID: aws.ToString(s.VolumeId), Member: tags[v1alpha1.TagMember],
		State: string(s.State), Progress: aws.ToString(s.Progress), SizeGiB: aws.ToInt32(s.VolumeSize), StartTime: aws.ToTime(s.StartTime), Tags: tags,
	}
}

func toGroup(g types.SecurityGroup) Group {
	return Group{
		SecurityGroup: SecurityGroup{
			ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName), VPCID: aws.ToString(g.VpcId), Tags: awsapi.FromTags(g.Tags)},
		Ingress: RulesOf(g.IpPermissions),
	}
}

func toSubnet(s types.Subnet) Subnet {
	return Subnet{
		ID: aws.ToString(s.SubnetId), VPCID: aws.ToString(s.VpcId), Zone: aws.ToString(s.AvailabilityZone),
		CIDR: aws.ToString(s.CidrBlock), State: string(s.State), AvailableIPs: aws.ToInt32(s.AvailableIpAddressCount),
		IPv6Only: aws.ToBool(s.Ipv6Native),
	}
}

func toHealth(s types.InstanceStatus) health {
	var h health
	for _, summary := range []*types.InstanceStatusSummary{s.InstanceStatus, s.SystemStatus} {
		h.impaired = h.impaired || summary != nil && summary.Status == types.SummaryStatusImpaired
	}
	h.volumes = s.AttachedEbsStatus != nil && s.AttachedEbsStatus.Status == types.SummaryStatusImpaired
	h.impaired = h.impaired || h.volumes
	for _, e := range s.Events {
		if description := aws.ToString(e.Description); !pastEvent(description) {
			h.events = append(h.events, Event{Code: string(e.Code), Description: description, NotBefore: aws.ToTime(e.NotBefore)})
		}
	}
	slices.SortStableFunc(h.events, func(a, b Event) int { return a.NotBefore.Compare(b.NotBefore) })
	return h
}

// pastEvent says whether an event is history: EC2 goes on listing it for up to a week, and tells only by the first word of its
// description.
// Source: InstanceStatusEvent in the EC2 API reference, and "Scheduled events for Amazon EC2 instances".
func pastEvent(description string) bool {
	for _, word := range []string{"[completed]", "[canceled]", "[cancelled]"} {
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(description)), word) {
			return true
		}
	}
	return false
}

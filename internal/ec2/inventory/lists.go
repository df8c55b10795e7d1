package inventory

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// lists makes EC2's list calls. All go by filters.
type lists struct {
	api awsapi.API
	// paging is that of the lists that a sweep needs. Snapshots have their own, so that a slow list makes no other's pages smaller.
	paging, snapshotPaging *paging
}

func (l *lists) instances(ctx context.Context, filters ...types.Filter) (map[string]Instance, error) {
	return readPages(l.paging, func() pages[Instance] {
		list := ec2.NewDescribeInstancesPaginator(l.api, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: l.paging.next()})
		return pages[Instance]{list.HasMorePages, func() (map[string]Instance, error) {
			page, err := list.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("list instances: %w", err)
			}
			out := map[string]Instance{}
			for _, r := range page.Reservations {
				for _, i := range r.Instances {
					out[aws.ToString(i.InstanceId)] = ToInstance(i)
				}
			}
			return out, nil
		}}
	})
}

func (l *lists) volumes(ctx context.Context, filters ...types.Filter) (map[string]Volume, error) {
	return readPages(l.paging, func() pages[Volume] {
		list := ec2.NewDescribeVolumesPaginator(l.api, &ec2.DescribeVolumesInput{Filters: filters, MaxResults: l.paging.next()})
		return pages[Volume]{list.HasMorePages, func() (map[string]Volume, error) {
			page, err := list.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("list volumes: %w", err)
			}
			out := map[string]Volume{}
			for _, v := range page.Volumes {
				if volume := ToVolume(v); volume.Tags[awsapi.TagPurpose] != awsapi.PurposeRoot {
					out[volume.ID] = volume
				}
			}
			return out, nil
		}}
	})
}

func (l *lists) snapshots(ctx context.Context, filters ...types.Filter) (map[string]Snapshot, error) {
	return readPages(l.snapshotPaging, func() pages[Snapshot] {
		list := ec2.NewDescribeSnapshotsPaginator(l.api, &ec2.DescribeSnapshotsInput{
			OwnerIds: []string{"self"}, Filters: filters, MaxResults: l.snapshotPaging.next()})
		return pages[Snapshot]{list.HasMorePages, func() (map[string]Snapshot, error) {
			page, err := list.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("list snapshots: %w", err)
			}
			out := map[string]Snapshot{}
			for _, s := range page.Snapshots {
				out[aws.ToString(s.SnapshotId)] = toSnapshot(s)
			}
			return out, nil
		}}
	})
}

func (l *lists) groups(ctx context.Context, filters ...types.Filter) (map[string]Group, error) {
	return readPages(l.paging, func() pages[Group] {
		list := ec2.NewDescribeSecurityGroupsPaginator(l.api, &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: l.paging.next()})
		return pages[Group]{list.HasMorePages, func() (map[string]Group, error) {
			page, err := list.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("list security groups: %w", err)
			}
			out := map[string]Group{}
			for _, g := range page.SecurityGroups {
				out[aws.ToString(g.GroupId)] = toGroup(g)
			}
			return out, nil
		}}
	})
}

func (l *lists) subnets(ctx context.Context, filters ...types.Filter) (map[string]Subnet, error) {
	return readPages(l.paging, func() pages[Subnet] {
		list := ec2.NewDescribeSubnetsPaginator(l.api, &ec2.DescribeSubnetsInput{Filters: filters})
		return pages[Subnet]{list.HasMorePages, func() (map[string]Subnet, error) {
			page, err := list.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("describe subnets: %w", err)
			}
			out := map[string]Subnet{}
			for _, raw := range page.Subnets {
				s := toSubnet(raw)
				out[s.ID] = s
			}
			return out, nil
		}}
	})
}

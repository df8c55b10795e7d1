package inventory

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// lists makes EC2's list calls. All go by filters.
type lists struct {
	api    awsapi.API
	paging *paging
}

func (l *lists) instances(ctx context.Context, filters ...types.Filter) (map[string]Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(l.api, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: l.paging.next()})
	return readPages(l.paging, pages.HasMorePages, func() (map[string]Instance, error) {
		page, err := pages.NextPage(ctx)
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
	})
}

func (l *lists) volumes(ctx context.Context, filters ...types.Filter) (map[string]Volume, error) {
	pages := ec2.NewDescribeVolumesPaginator(l.api, &ec2.DescribeVolumesInput{Filters: filters, MaxResults: l.paging.next()})
	return readPages(l.paging, pages.HasMorePages, func() (map[string]Volume, error) {
		page, err := pages.NextPage(ctx)
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
	})
}

func (l *lists) snapshots(ctx context.Context, filters ...types.Filter) (map[string]Snapshot, error) {
	pages := ec2.NewDescribeSnapshotsPaginator(l.api, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: filters, MaxResults: l.paging.next()})
	return readPages(l.paging, pages.HasMorePages, func() (map[string]Snapshot, error) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		out := map[string]Snapshot{}
		for _, s := range page.Snapshots {
			out[aws.ToString(s.SnapshotId)] = toSnapshot(s)
		}
		return out, nil
	})
}

func (l *lists) groups(ctx context.Context, filters ...types.Filter) (map[string]Group, error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(l.api, &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: l.paging.next()})
	return readPages(l.paging, pages.HasMorePages, func() (map[string]Group, error) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list security groups: %w", err)
		}
		out := map[string]Group{}
		for _, g := range page.SecurityGroups {
			out[aws.ToString(g.GroupId)] = toGroup(g)
		}
		return out, nil
	})
}

// listHealth finds the instances that a status check calls impaired or that have a scheduled event. The four lists are
// nearly always empty, however many instances there are; the call knows no filter by tag, and its filters no "or".
func (l *lists) health(ctx context.Context) (map[string]health, error) {
	out := map[string]health{}
	impaired := string(types.SummaryStatusImpaired)
	for _, f := range []types.Filter{
		awsapi.Filter("instance-status.status", impaired),
		awsapi.Filter("system-status.status", impaired),
		awsapi.Filter("attached-ebs-status.status", impaired),
		awsapi.Filter("event.code", eventCodes()...),
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(l.api, &ec2.DescribeInstanceStatusInput{
			Filters: []types.Filter{f}, MaxResults: l.paging.next()})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				l.paging.failed(err)
				return nil, fmt.Errorf("list impaired instances: %w", err)
			}
			for _, s := range page.InstanceStatuses {
				if h := toHealth(s); h.impaired || len(h.events) > 0 {
					out[aws.ToString(s.InstanceId)] = h
				}
			}
		}
	}
	return out, nil
}

func eventCodes() []string {
	var out []string
	for _, code := range types.EventCode("").Values() {
		out = append(out, string(code))
	}
	return out
}

// readPages reads all pages of a list.
func readPages[T any](pages *paging, more func() bool, next func() (map[string]T, error)) (map[string]T, error) {
	out := map[string]T{}
	for more() {
		page, err := next()
		if err != nil {
			pages.failed(err)
			return nil, err
		}
		maps.Copy(out, page)
	}
	return out, nil
}

func (l *lists) subnets(ctx context.Context, filters ...types.Filter) (map[string]Subnet, error) {
	out := map[string]Subnet{}
	pages := ec2.NewDescribeSubnetsPaginator(l.api, &ec2.DescribeSubnetsInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe subnets: %w", err)
		}
		for _, raw := range page.Subnets {
			s := toSubnet(raw)
			out[s.ID] = s
		}
	}
	return out, nil
}

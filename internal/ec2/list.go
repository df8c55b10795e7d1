package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// idsPerCall is EC2's limit on the values of one filter.
const idsPerCall = 200

// The list calls go by filters, also for ids: an id that EC2 does not know is then absent from the answer, where the call
// by ids would fail as a whole.

func (c *Cloud) listInstances(ctx context.Context, filters ...types.Filter) (map[string]Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(c.api, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: c.paging.next()})
	return readPages(c.paging, pages.HasMorePages, func() (map[string]Instance, error) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list instances: %w", err)
		}
		out := map[string]Instance{}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				out[aws.ToString(i.InstanceId)] = toInstance(i)
			}
		}
		return out, nil
	})
}

func (c *Cloud) listVolumes(ctx context.Context, filters ...types.Filter) (map[string]Volume, error) {
	pages := ec2.NewDescribeVolumesPaginator(c.api, &ec2.DescribeVolumesInput{Filters: filters, MaxResults: c.paging.next()})
	return readPages(c.paging, pages.HasMorePages, func() (map[string]Volume, error) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list volumes: %w", err)
		}
		out := map[string]Volume{}
		for _, v := range page.Volumes {
			if volume := toVolume(v); volume.Tags[TagPurpose] != purposeRoot {
				out[volume.ID] = volume
			}
		}
		return out, nil
	})
}

func (c *Cloud) listSnapshots(ctx context.Context, filters ...types.Filter) (map[string]Snapshot, error) {
	pages := ec2.NewDescribeSnapshotsPaginator(c.api, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: filters, MaxResults: c.paging.next()})
	return readPages(c.paging, pages.HasMorePages, func() (map[string]Snapshot, error) {
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

func (c *Cloud) listGroups(ctx context.Context, filters ...types.Filter) (map[string]group, error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(c.api, &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: c.paging.next()})
	return readPages(c.paging, pages.HasMorePages, func() (map[string]group, error) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list security groups: %w", err)
		}
		out := map[string]group{}
		for _, g := range page.SecurityGroups {
			out[aws.ToString(g.GroupId)] = toGroup(g)
		}
		return out, nil
	})
}

// listHealth finds the instances that a status check calls impaired or that have a scheduled event. The four lists are
// nearly always empty, however many instances there are; the call knows no filter by tag, and its filters no "or".
func (c *Cloud) listHealth(ctx context.Context) (map[string]health, error) {
	out := map[string]health{}
	impaired := string(types.SummaryStatusImpaired)
	for _, f := range []types.Filter{
		filter("instance-status.status", impaired),
		filter("system-status.status", impaired),
		filter("attached-ebs-status.status", impaired),
		filter("event.code", eventCodes()...),
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(c.api, &ec2.DescribeInstanceStatusInput{
			Filters: []types.Filter{f}, MaxResults: c.paging.next()})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				c.paging.failed(err)
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

func (c *Cloud) instancesByID(ctx context.Context, ids []string) (map[string]Instance, error) {
	return byID(ctx, "instance-id", ids, c.listInstances)
}

func (c *Cloud) volumesByID(ctx context.Context, ids []string) (map[string]Volume, error) {
	return byID(ctx, "volume-id", ids, c.listVolumes)
}

func (c *Cloud) snapshotsByID(ctx context.Context, ids []string) (map[string]Snapshot, error) {
	return byID(ctx, "snapshot-id", ids, c.listSnapshots)
}

func (c *Cloud) groupsByID(ctx context.Context, ids []string) (map[string]group, error) {
	return byID(ctx, "group-id", ids, c.listGroups)
}

// lister lists what the filters let through.
type lister[T any] = func(context.Context, ...types.Filter) (map[string]T, error)

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

func byID[T any](ctx context.Context, name string, ids []string, list lister[T]) (map[string]T, error) {
	out := make(map[string]T, len(ids))
	for batch := range slices.Chunk(ids, idsPerCall) {
		found, err := list(ctx, filter(name, batch...))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, found)
	}
	return out, nil
}

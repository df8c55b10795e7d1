package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// healthFilters are the filters by which EC2 is asked for the status of instances. An endpoint that does not know one rejects it
// each time: it is not asked by that again.
type healthFilters struct {
	log logr.Logger

	mu      sync.Mutex
	dropped map[string]bool
}

// all returns the filters that are still asked by.
func (f *healthFilters) all() []types.Filter {
	f.mu.Lock()
	defer f.mu.Unlock()
	impaired := string(types.SummaryStatusImpaired)
	return slices.DeleteFunc([]types.Filter{
		awsapi.Filter("instance-status.status", impaired),
		awsapi.Filter("system-status.status", impaired),
		awsapi.Filter("attached-ebs-status.status", impaired),
		awsapi.Filter("event.code", eventCodes()...),
	}, func(filter types.Filter) bool { return f.dropped[aws.ToString(filter.Name)] })
}

// unknown says whether EC2 rejected a filter because it does not know it, and drops the filter if so.
func (f *healthFilters) unknown(filter types.Filter, err error) bool {
	name := aws.ToString(filter.Name)
	if awsapi.Code(err) != "InvalidParameterValue" || !awsapi.Mentions(err, name) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped[name] = true
	f.log.Info("EC2 does not know a filter of DescribeInstanceStatus; the operator no longer asks by it", "filter", name, "problem", awsapi.Message(err))
	return true
}

// errNoFilter: EC2 knows none of the filters.
var errNoFilter = &awsapi.Error{Class: awsapi.Invalid, Text: "EC2 rejects every filter of DescribeInstanceStatus that the operator uses"}

// statusLists makes EC2's list calls for the status of instances.
type statusLists struct {
	api     awsapi.API
	paging  *paging
	filters *healthFilters
	store   *store
}

// sweep lists the instances of which there is something to say, and returns what takes that over into the store.
func (l *statusLists) sweep(ctx context.Context) (takeOver, error) {
	found, err := l.all(ctx)
	return func(time.Time, time.Time) []string {
		l.store.takeHealth(found)
		return nil
	}, err
}

// nothing is the look by id of a list that lacks nothing.
func (l *statusLists) nothing(context.Context, []string) error { return nil }

// all lists the instances that a status check calls impaired or that have a scheduled event. The lists are nearly always empty,
// however many instances there are; the call knows no filter by tag, and its filters no "or".
func (l *statusLists) all(ctx context.Context) (map[string]health, error) {
	out, answered := map[string]health{}, 0
	for _, f := range l.filters.all() {
		found, err := l.statuses(ctx, f)
		if err != nil && l.filters.unknown(f, err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(out, found)
		answered++
	}
	if answered == 0 {
		return nil, errNoFilter
	}
	return out, nil
}

// statuses lists the instances that a filter lets through and of which there is something to say.
func (l *statusLists) statuses(ctx context.Context, filter types.Filter) (map[string]health, error) {
	return readPages(l.paging, func() pages[health] {
		list := ec2.NewDescribeInstanceStatusPaginator(l.api, &ec2.DescribeInstanceStatusInput{
			Filters: []types.Filter{filter}, MaxResults: l.paging.next()})
		return pages[health]{list.HasMorePages, func() (map[string]health, error) {
			page, err := list.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("list impaired instances: %w", err)
			}
			out := map[string]health{}
			for _, s := range page.InstanceStatuses {
				if h := toHealth(s); h.impaired || len(h.events) > 0 {
					out[aws.ToString(s.InstanceId)] = h
				}
			}
			return out, nil
		}}
	})
}

func eventCodes() []string {
	var out []string
	for _, code := range types.EventCode("").Values() {
		out = append(out, string(code))
	}
	return out
}

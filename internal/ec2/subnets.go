package ec2

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Subnets describes subnets in the order of ids. Answers are kept for ten minutes, AvailableIPs with them. When some do
// not exist (yet), the error names them all and is of class Waiting: somebody may be about to create them.
func (c *Cloud) Subnets(ctx context.Context, ids []string) ([]Subnet, error) {
	known, ask := map[string]Subnet{}, []string{}
	for _, id := range ids {
		if s, ok := c.caches.subnets.get(id, c.clock.Now()); ok {
			known[id] = s
		} else {
			ask = append(ask, id)
		}
	}
	if len(ask) > 0 {
		found, err := c.askSubnets(ctx, ask)
		if err != nil {
			return nil, err
		}
		for id, s := range found {
			known[id] = s
		}
	}
	out, unknown := make([]Subnet, 0, len(ids)), []string{}
	for _, id := range ids {
		if s, ok := known[id]; ok {
			out = append(out, s)
		} else {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		return nil, waiting("%s in %s: %s", missingSubnet, c.region, strings.Join(unknown, ", "))
	}
	return out, nil
}

const missingSubnet = "waiting for subnets that do not exist"

// askSubnets asks EC2, whatever is cached; subnets that do not exist are absent from the answer.
func (c *Cloud) askSubnets(ctx context.Context, ids []string) (map[string]Subnet, error) {
	return byID(ctx, "subnet-id", ids, c.listSubnets)
}

func (c *Cloud) listSubnets(ctx context.Context, filters ...types.Filter) (map[string]Subnet, error) {
	out := map[string]Subnet{}
	pages := ec2.NewDescribeSubnetsPaginator(c.api, &ec2.DescribeSubnetsInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe subnets: %w", err)
		}
		for _, raw := range page.Subnets {
			s := toSubnet(raw)
			out[s.ID] = s
			if s.State == subnetAvailable {
				c.caches.subnets.set(s.ID, s, c.clock.Now())
			}
		}
	}
	return out, nil
}

const subnetAvailable = "available"

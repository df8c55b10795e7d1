package ec2

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	subnetAvailable = "available"

	// subnetFor is how long a subnet is taken as read: its VPC, zone and CIDR never change; the count of free addresses
	// does, and who needs that asks afresh.
	subnetFor = 10 * time.Minute
	// subnetIdle is how long after its last use a subnet is still kept up to date: several times the interval at which a
	// Ready cluster is looked at.
	subnetIdle = accountIdle
	// subnetGrace is how many times its life an entry may last before a reader asks for it himself: the background keeps
	// entries younger than that, so that looking at a Ready cluster costs no call.
	subnetGrace = 2
)

// subnets remembers what EC2 said of subnets, also that it does not know one.
type subnets struct {
	mu      sync.Mutex
	entries map[string]subnetEntry
	// missing is the life of an entry of a subnet that is not available: somebody may be about to create it.
	missing time.Duration
}

type subnetEntry struct {
	subnet      Subnet
	exists      bool
	asked, used time.Time
}

func newSubnets(missing time.Duration) *subnets {
	return &subnets{entries: map[string]subnetEntry{}, missing: missing}
}

func (s *subnets) life(e subnetEntry) time.Duration {
	if e.exists && e.subnet.State == subnetAvailable {
		return subnetFor
	}
	return s.missing
}

// due lists those of the ids that must be asked for before they can be spoken of.
func (s *subnets) due(ids []string, now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ask []string
	for _, id := range ids {
		e, ok := s.entries[id]
		if !ok || now.Sub(e.asked) > subnetGrace*s.life(e) {
			ask = append(ask, id)
		}
		if ok {
			e.used = now
			s.entries[id] = e
		}
	}
	return ask
}

// stale lists what the background has to ask for again, and drops what nobody uses.
func (s *subnets) stale(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ask []string
	for id, e := range s.entries {
		switch {
		case now.Sub(e.used) > subnetIdle:
			delete(s.entries, id)
		case now.Sub(e.asked) >= s.life(e):
			ask = append(ask, id)
		}
	}
	slices.Sort(ask)
	return ask
}

// learn keeps the answer to a question for ids.
func (s *subnets) learn(ids []string, found map[string]Subnet, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		e := s.entries[id]
		e.asked = now
		if e.used.IsZero() {
			e.used = now
		}
		e.subnet, e.exists = found[id]
		s.entries[id] = e
	}
}

// recall sorts ids into those that exist, in their order, those that do not, and those of which nothing is known.
func (s *subnets) recall(ids []string) (exist []Subnet, missing, unknown []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		switch e, ok := s.entries[id]; {
		case !ok:
			unknown = append(unknown, id)
		case e.exists:
			exist = append(exist, e.subnet)
		default:
			missing = append(missing, id)
		}
	}
	return exist, missing, unknown
}

// Subnets describes subnets in the order of ids, and lists those that do not exist (any more, or yet). It answers from
// memory, AvailableIPs included, which the background keeps at most ten minutes old, and half a minute where a subnet is
// missing or pending. A call is made for ids that were never asked for, and where there is no background.
//
// The error is set when EC2 could not be asked for subnets of which nothing is known; right after a failure it is returned
// without a call.
func (c *Cloud) Subnets(ctx context.Context, ids []string) (exist []Subnet, missing []string, err error) {
	if ask := c.subnets.due(ids, c.clock.Now()); len(ask) > 0 {
		if err = c.recentFailure(&c.described, c.interval/retryPart); err == nil {
			_, err = c.askSubnets(ctx, ask)
			c.noteReading(&c.described, err)
		}
	}
	exist, missing, unknown := c.subnets.recall(ids)
	if len(unknown) == 0 {
		err = nil // what was known before is still the best that is known
	}
	return exist, missing, err
}

// refreshSubnets brings what Subnets answers from up to date. A failure leaves it as it is.
func (c *Cloud) refreshSubnets(ctx context.Context) {
	if ask := c.subnets.stale(c.clock.Now()); len(ask) > 0 {
		if _, err := c.askSubnets(ctx, ask); err != nil {
			c.log.V(1).Info("the subnets could not be looked at again", "problem", Message(err))
		}
	}
}

// askSubnets asks EC2, whatever is remembered; subnets that do not exist are absent from the answer.
func (c *Cloud) askSubnets(ctx context.Context, ids []string) (map[string]Subnet, error) {
	found, err := byID(ctx, "subnet-id", ids, c.listSubnets)
	if err != nil {
		return nil, err
	}
	c.subnets.learn(ids, found, c.clock.Now())
	return found, nil
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
		}
	}
	return out, nil
}

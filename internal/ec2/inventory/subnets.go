package inventory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// SubnetAvailable is the state of a subnet in which instances can be launched.
const SubnetAvailable = "available"

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
	if e.exists && e.subnet.State == SubnetAvailable {
		return SubnetFor
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
		if !ok || now.Sub(e.asked) > SubnetGrace*s.life(e) {
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
		case now.Sub(e.used) > IdleAfter:
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

// cached sorts ids into those that exist, in their order, those that do not, and those of which nothing is known.
func (s *subnets) cached(ids []string) (exist []Subnet, missing, unknown []string) {
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
// missing or pending. A call is made for ids that were never asked for, and where there is no background. It is waited for
// for a moment.
//
// The error is set when EC2 could not be asked for subnets of which nothing is known, of class Waiting while it has not answered yet;
// right after a failure it is returned without a call.
func (r *Reader) Subnets(ctx context.Context, ids []string) (exist []Subnet, missing []string, err error) {
	f := r.freshness
	if ask := r.subnets.due(ids, r.clock.Now()); len(ask) > 0 {
		if err = f.recentFailure(&f.described, f.retryPause()); err == nil {
			err = r.awaitSubnets(ctx, ask)
		}
	}
	exist, missing, unknown := r.subnets.cached(ids)
	if len(unknown) == 0 {
		err = nil // what was known before is still the best that is known
	}
	return exist, missing, err
}

// awaitSubnets asks EC2 for subnets, and waits for the answer as long as for a list beside the sweep: a failover must not wait for it. What
// is answered later is there for the next pass.
func (r *Reader) awaitSubnets(ctx context.Context, ids []string) error {
	names := strings.Join(ids, ", ")
	done := r.flights.DoChan("subnets "+names, func() (any, error) {
		_, err := r.AskSubnets(context.WithoutCancel(ctx), ids)
		r.freshness.record(&r.freshness.described, err)
		return nil, err
	})
	patience := time.NewTimer(r.beside.patience)
	defer patience.Stop()
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return awsapi.NewWaiting("EC2 has not answered yet for %s", names)
	}
}

// refreshSubnets brings what Subnets answers from up to date. A failure leaves it as it is.
func (r *Reader) refreshSubnets(ctx context.Context) {
	if ask := r.subnets.stale(r.clock.Now()); len(ask) > 0 {
		if _, err := r.AskSubnets(ctx, ask); err != nil {
			r.log.V(1).Info("the subnets could not be looked at again", "problem", awsapi.Message(err))
		}
	}
}

// AskSubnets asks EC2, whatever is remembered; subnets that do not exist are absent from the answer.
func (r *Reader) AskSubnets(ctx context.Context, ids []string) (map[string]Subnet, error) {
	found, err := byID(ctx, "subnet-id", ids, r.lists.subnets)
	if err != nil {
		return nil, err
	}
	r.subnets.learn(ids, found, r.clock.Now())
	return found, nil
}

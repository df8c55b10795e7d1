package ec2

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// Start sweeps every account in use, every sweep interval or every second one (see Reader.Round), until ctx ends: so reconciles find
// what they need in the store and make no call of their own. It implements controller-runtime's Runnable.
func (f *Factory) Start(ctx context.Context) error {
	ticker := time.NewTicker(f.options.SweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		f.round(ctx)
	}
}

// round sweeps the accounts in use whose turn it is, some side by side: one that does not answer must not make the others' view old.
func (f *Factory) round(ctx context.Context) {
	var sweeps errgroup.Group
	sweeps.SetLimit(sweepsAtOnce)
	for _, cloud := range f.inUse() {
		sweeps.Go(func() error {
			cloud.Inventory.Round(ctx)
			return nil
		})
	}
	_ = sweeps.Wait()
}

// NeedLeaderElection implements controller-runtime's LeaderElectionRunnable: only the leader asks EC2.
func (f *Factory) NeedLeaderElection() bool { return true }

// inUse returns the clouds that somebody asked for lately.
func (f *Factory) inUse() []*Cloud {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.options.Clock.Now()
	var clouds []*Cloud
	for _, k := range f.clouds {
		if now.Sub(k.used) <= inventory.IdleAfter {
			clouds = append(clouds, k.cloud)
		}
	}
	return clouds
}

// sweepsAtOnce is how many accounts are swept side by side: with a dead one among them that takes twenty seconds, hundreds
// of accounts still have their turn within a sweep interval.
const sweepsAtOnce = 16

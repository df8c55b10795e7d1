package ec2

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Start sweeps every account in use, every sweep interval or every second one (see sweepDue), until ctx ends: so reconciles find
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

// mostPages is how many pages of instances a sweep may have before it becomes rarer no more. What reconciles rely on in the store is
// never older than two minutes, and a sweep that failed is made again before that.
const mostPages = 2

// round sweeps the accounts in use whose turn it is, some side by side: one that does not answer must not make the others' view old.
func (f *Factory) round(ctx context.Context) {
	var sweeps errgroup.Group
	sweeps.SetLimit(sweepsAtOnce)
	for _, cloud := range f.inUse() {
		sweeps.Go(func() error {
			if cloud.sweepDue() {
				// Failures are remembered by the Cloud and told to whoever asks next.
				_ = cloud.joinSweep(ctx)
			}
			cloud.refreshSubnets(ctx)
			return nil
		})
	}
	_ = sweeps.Wait()
}

// sweepDue says whether it is time for the next sweep in the background: every interval for each page of instances that one has. So
// what sweeps cost, here and in EC2's bucket of calls, grows less than the instances. Who is in trouble does not wait for it; see
// Freshen and RefreshNow.
func (c *Cloud) sweepDue() bool {
	var things int
	c.store.read(func() { things = max(len(c.store.instances.rows), len(c.store.volumes.rows)) })
	pages := min(max((things+pageSize-1)/pageSize, 1), mostPages)
	if pages == 1 {
		return true
	}
	pause := time.Duration(pages)*c.interval - c.interval/2 // rounds and sweeps do not begin at quite the same moment
	return !c.sweptSince(c.clock.Now().Add(-pause))
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
		if now.Sub(k.used) <= accountIdle {
			clouds = append(clouds, k.cloud)
		}
	}
	return clouds
}

// sweepsAtOnce is how many accounts are swept side by side: with a dead one among them that takes four seconds, hundreds
// of accounts still have their turn within a sweep interval.
const sweepsAtOnce = 16

// accountIdle is how long after its last use an account is still swept: several times the interval at which a Ready
// cluster is looked at.
const accountIdle = 5 * time.Minute

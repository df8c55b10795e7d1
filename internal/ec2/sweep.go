package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

const (
	// sweepFlight is the one key of the single flight: a Cloud has at most one sweep under way.
	sweepFlight = "sweep"

	// retryPart of the sweep interval must pass after a failed sweep before EC2 is asked again. With a thousand clusters
	// waiting on a silent EC2 there is then one sweep every 5 s, not one after the other.
	retryPart = 6
)

// Observe is what EC2 holds for a cluster, at most maxAge old (negative: the factory's sweep interval). It sweeps the
// account when the store is older than that; callers that come meanwhile share that sweep.
//
// When the sweep fails, the error comes with the last known Inventory, whose Taken tells its age: it is good enough to
// keep phases as they are, not to create anything from. Right after a failure the same error is returned without a call.
func (c *Cloud) Observe(ctx context.Context, clusterUID string, maxAge time.Duration) (Inventory, error) {
	if maxAge < 0 {
		maxAge = c.interval
	}
	wanted := c.clock.Now().Add(-maxAge)
	if c.sweptSince(wanted) {
		c.metrics.store.WithLabelValues("hit").Inc()
		return c.store.inventory(clusterUID), nil
	}
	c.metrics.store.WithLabelValues("miss").Inc()
	// A flight that we join may have begun before the moment that we want to see; the next one is then ours to start.
	for range 2 {
		err := c.recentFailure(&c.swept, c.interval/retryPart)
		if err == nil {
			err = c.joinSweep(ctx)
		}
		if err != nil {
			return c.store.inventory(clusterUID), c.told(err)
		}
		if c.sweptSince(wanted) {
			break
		}
	}
	return c.store.inventory(clusterUID), nil
}

func (c *Cloud) sweptSince(t time.Time) bool {
	now := c.clock.Now()
	age, ok := c.store.age(now)
	return ok && !now.Add(-age).Before(t)
}

// recentFailure is why EC2 could not be read less than pause ago; nil when that was long enough ago to ask again.
func (c *Cloud) recentFailure(last *reading, pause time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clock.Since(last.at) >= pause {
		return nil
	}
	return last.err
}

// noteReading keeps the outcome of a reading of EC2 for recentFailure.
func (c *Cloud) noteReading(last *reading, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*last = reading{err: err, at: c.clock.Now()}
}

// note keeps the outcome of a sweep or a look: what it says of EC2 counts until the next one. That EC2 takes no more calls
// just now says that it is there.
func (c *Cloud) note(last *reading, err error) {
	c.noteReading(last, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.trouble = nil
	case IsThrottled(err):
	case c.trouble == nil || Classify(c.trouble) != Classify(err):
		c.trouble = err
	}
}

// troubled is why EC2 could not be read when that was tried last, nil when it could.
func (c *Cloud) troubled() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

// told is the error of a reading in the words of the trouble that it is a part of.
func (c *Cloud) told(err error) error {
	if first := c.troubled(); first != nil && Classify(first) == Classify(err) {
		err = first
	}
	return fmt.Errorf("read the state of EC2 in %s: %w", c.region, err)
}

// Freshen begins a sweep when the store is older than maxAge, and does not wait for it. How it went is told to whoever observes next.
func (c *Cloud) Freshen(ctx context.Context, maxAge time.Duration) {
	if !c.sweptSince(c.clock.Now().Add(-maxAge)) && c.recentFailure(&c.swept, c.interval/retryPart) == nil {
		c.beginSweep(ctx)
	}
}

// joinSweep waits for the sweep under way, or for one that it starts. The sweep outlives a caller who gives up.
func (c *Cloud) joinSweep(ctx context.Context) error {
	select {
	case result := <-c.beginSweep(ctx):
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginSweep begins a sweep, unless one is under way, and tells how it went.
func (c *Cloud) beginSweep(ctx context.Context) <-chan singleflight.Result {
	return c.flights.DoChan(sweepFlight, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.sweepTimeout)
		defer cancel()
		err := c.sweep(own)
		c.note(&c.swept, err)
		return nil, err
	})
}

// sweep lists everything of ours in the account and takes it over into the store. It is all or nothing: half a picture
// would look like missing things, and so would the lists of another account.
func (c *Cloud) sweep(ctx context.Context) error {
	account, began := c.whose.known(ctx), c.clock.Now()
	var found struct {
		instances map[string]Instance
		volumes   map[string]Volume
		snapshots map[string]Snapshot
		groups    map[string]group
		health    map[string]health
	}
	calls, callCtx := errgroup.WithContext(ctx)
	calls.Go(func() (err error) {
		found.instances, err = c.listInstances(callCtx, ownedFilter())
		return err
	})
	calls.Go(func() (err error) {
		found.volumes, err = c.listVolumes(callCtx, ownedFilter())
		return err
	})
	calls.Go(func() (err error) {
		found.snapshots, err = c.listSnapshots(callCtx, ownedFilter())
		return err
	})
	calls.Go(func() (err error) {
		found.groups, err = c.listGroups(callCtx, ownedFilter())
		return err
	})
	calls.Go(func() (err error) { found.health, err = c.listHealth(callCtx); return err })
	if err := calls.Wait(); err != nil {
		return err
	}

	if now := c.whose.known(ctx); account != "" && now != account {
		return errOtherAccount
	}

	var missing lost
	c.store.do(func() {
		s, now := c.store, c.clock.Now()
		if account != "" && account != s.account {
			if s.account != "" {
				s.empty()
			}
			s.account = account
		}
		missing.instances = s.instances.replace(began, now, found.instances)
		missing.volumes = s.volumes.replace(began, now, found.volumes)
		missing.snapshots = s.snapshots.replace(began, now, found.snapshots)
		missing.groups = s.groups.replace(began, now, found.groups)
		s.health = found.health
	})
	if err := c.lookAgain(ctx, missing); err != nil {
		return err
	}
	c.store.do(func() { c.store.taken = began })
	c.log.V(2).Info("swept", "instances", len(found.instances), "volumes", len(found.volumes),
		"snapshots", len(found.snapshots), "securityGroups", len(found.groups))
	return nil
}

// lost are ids by kind, to be looked for one by one.
type lost struct{ instances, volumes, snapshots, groups []string }

func (l lost) empty() bool {
	return len(l.instances)+len(l.volumes)+len(l.snapshots)+len(l.groups) == 0
}

// String names all of them.
func (l lost) String() string {
	return strings.Join(slices.Sorted(slices.Values(slices.Concat(l.instances, l.volumes, l.snapshots, l.groups))), " ")
}

// lookAgain asks EC2 for ids and takes the answer over: what it does not know is dropped from the store unless it is
// fresh. No call is made for a kind without ids.
func (c *Cloud) lookAgain(ctx context.Context, l lost) error {
	if l.empty() {
		return nil
	}
	account := c.whose.known(ctx)
	var stored string
	c.store.read(func() { stored = c.store.account })
	if account != "" && stored != "" && account != stored {
		return errOtherAccount
	}
	calls, ctx := errgroup.WithContext(ctx)
	again(ctx, calls, c, l.instances, c.instancesByID, &c.store.instances)
	again(ctx, calls, c, l.volumes, c.volumesByID, &c.store.volumes)
	again(ctx, calls, c, l.snapshots, c.snapshotsByID, &c.store.snapshots)
	again(ctx, calls, c, l.groups, c.groupsByID, &c.store.groups)
	return calls.Wait()
}

func again[T any](ctx context.Context, calls *errgroup.Group, c *Cloud, ids []string,
	list func(context.Context, []string) (map[string]T, error), into *table[T]) {
	if len(ids) == 0 {
		return
	}
	calls.Go(func() error {
		began := c.clock.Now()
		found, err := list(ctx, ids)
		if err != nil {
			return err
		}
		c.store.do(func() { into.confirm(ids, began, c.clock.Now(), found) })
		return nil
	})
}

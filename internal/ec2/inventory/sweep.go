package inventory

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// sweepFlight is the one key of the single flight: a Reader has at most one sweep under way.
const sweepFlight = "sweep"

func (r *Reader) sweptSince(t time.Time) bool {
	now := r.clock.Now()
	age, ok := r.store.age(now)
	return ok && !now.Add(-age).Before(t)
}

// recentSweepFailure is why the last sweep failed, while it is too soon for another.
func (r *Reader) recentSweepFailure() error {
	return r.freshness.recentFailure(&r.freshness.swept, r.freshness.retryPause())
}

// joinSweep waits for the sweep under way, or for one that it starts. The sweep outlives a caller who gives up.
func (r *Reader) joinSweep(ctx context.Context) error {
	select {
	case result := <-r.beginSweep(ctx):
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginSweep begins a sweep, unless one is under way, and returns how it went. The lists beside it are begun after it, and do not
// make it longer.
func (r *Reader) beginSweep(ctx context.Context) <-chan singleflight.Result {
	return r.flights.DoChan(sweepFlight, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.freshness.sweepTimeout)
		defer cancel()
		err := r.sweep(own)
		r.freshness.conclude(&r.freshness.swept, err)
		if err == nil {
			r.beside.beginAll(ctx)
		}
		return nil, err
	})
}

// sweep lists the instances, volumes and security groups of ours in the account and takes them over into the store. It is all or
// nothing: half a picture would look like missing things, and so would the lists of another account.
func (r *Reader) sweep(ctx context.Context) error {
	account, began := r.identity.known(ctx), r.clock.Now()
	var instances, volumes, groups takeOver
	calls, callCtx := errgroup.WithContext(ctx)
	calls.Go(func() (err error) { instances, err = r.Instances.sweep(callCtx); return err })
	calls.Go(func() (err error) { volumes, err = r.Volumes.sweep(callCtx); return err })
	calls.Go(func() (err error) { groups, err = r.Groups.sweep(callCtx); return err })
	if err := calls.Wait(); err != nil {
		return err
	}

	if now := r.identity.known(ctx); account != "" && now != account {
		return errOtherAccount
	}

	var missing IDs
	r.store.do(func() {
		s, now := r.store, r.clock.Now()
		if account != "" && account != s.account {
			if s.account != "" {
				s.empty()
			}
			s.account = account
		}
		missing = IDs{Instances: instances(began, now), Volumes: volumes(began, now), Groups: groups(began, now)}
	})
	if err := r.LookAgain(ctx, missing); err != nil {
		return err
	}
	r.store.do(func() { r.store.taken = began })
	r.log.V(2).Info("swept", "things", r.store.size())
	return nil
}

// IDs are ids by kind.
type IDs struct{ Instances, Volumes, Snapshots, Groups []string }

func (ids IDs) empty() bool {
	return len(ids.Instances)+len(ids.Volumes)+len(ids.Snapshots)+len(ids.Groups) == 0
}

// String names all of them.
func (ids IDs) String() string {
	return strings.Join(slices.Sorted(slices.Values(slices.Concat(ids.Instances, ids.Volumes, ids.Snapshots, ids.Groups))), " ")
}

// LookAgain asks EC2 for instances, volumes and security groups by id and takes the answer over: what it does not know is dropped from
// the store unless it is fresh. No call is made for a kind without ids.
func (r *Reader) LookAgain(ctx context.Context, ids IDs) error {
	if ids.empty() {
		return nil
	}
	account := r.identity.known(ctx)
	var stored string
	r.store.read(func() { stored = r.store.account })
	if account != "" && stored != "" && account != stored {
		return errOtherAccount
	}
	calls, ctx := errgroup.WithContext(ctx)
	r.Instances.again(ctx, calls, ids.Instances)
	r.Volumes.again(ctx, calls, ids.Volumes)
	r.Groups.again(ctx, calls, ids.Groups)
	return calls.Wait()
}

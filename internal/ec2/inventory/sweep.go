package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
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
		return gaveUp(ctx, r.store)
	}
}

// gaveUp is why a caller waits no longer for the sweep under way. When its time is over, that is what the sweep itself will report
// if EC2 does not answer: a condition says the same then.
func gaveUp(ctx context.Context, s *store) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	var list List
	var call string
	s.read(func() { list, call = s.oldest() })
	return fmt.Errorf("list %s: %w", list, &smithy.OperationError{ServiceID: ec2.ServiceID, OperationName: call, Err: ctx.Err()})
}

// beginSweep begins a sweep, unless one is under way, and returns how it went. The lists beside it are begun after it, and do not
// make it longer.
func (r *Reader) beginSweep(ctx context.Context) <-chan singleflight.Result {
	return r.flights.DoChan(sweepFlight, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.freshness.sweepTimeout)
		defer cancel()
		instances, others := r.sweep(own)
		r.freshness.concludeSweep(instances, others)
		err := cmp.Or(instances, others)
		if err == nil {
			r.beside.beginAll(ctx)
		}
		return nil, err
	})
}

// sweep lists the instances, volumes and security groups of ours in the account and takes each list over into the store as soon as EC2
// has answered it: a fence and a failover need the instances, whatever becomes of the others. It returns why EC2 did not answer for the
// instances, and for the others. Of what was not answered nothing is taken for absent, and the sweep does not count as complete.
func (r *Reader) sweep(ctx context.Context) (instances, others error) {
	account, began := r.identity.known(ctx), r.clock.Now()
	var lists sync.WaitGroup
	var volumes, groups error
	lists.Go(func() {
		instances = r.sweepList(ctx, listInstances, account, began, r.Instances.sweep, r.Instances.look)
	})
	lists.Go(func() { volumes = r.sweepList(ctx, listVolumes, account, began, r.Volumes.sweep, r.Volumes.look) })
	lists.Go(func() { groups = r.sweepList(ctx, listGroups, account, began, r.Groups.sweep, r.Groups.look) })
	lists.Wait()
	r.log.V(2).Info("swept", "things", r.store.size())
	return instances, cmp.Or(volumes, groups)
}

// sweepList reads a list of the sweep that began at began, and takes it over unless the credentials turned into those of another account
// meanwhile. What the list lacks is asked for by id.
func (r *Reader) sweepList(ctx context.Context, list List, account string, began time.Time, read func(context.Context) (takeOver, error), again func(context.Context, []string) error) error {
	take, err := read(ctx)
	if err != nil {
		return err
	}
	if now := r.identity.known(ctx); account != "" && now != account {
		return errOtherAccount
	}
	var missing []string
	r.store.do(func() {
		r.store.enter(account)
		missing = take(began, r.clock.Now())
	})
	if err := again(ctx, missing); err != nil {
		return err
	}
	r.store.do(func() { r.store.listed[list] = began })
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

// LookAgain asks EC2 for instances, volumes and security groups by id and takes the answers over: what it does not know is dropped from
// the store unless it is fresh. No call is made for a kind without ids, and the failure of one kind ends no other's call.
func (r *Reader) LookAgain(ctx context.Context, ids IDs) error {
	if ids.empty() {
		return nil
	}
	if err := r.ofStoredAccount(ctx); err != nil {
		return err
	}
	var looks errgroup.Group
	looks.Go(func() error { return r.Instances.look(ctx, ids.Instances) })
	looks.Go(func() error { return r.Volumes.look(ctx, ids.Volumes) })
	looks.Go(func() error { return r.Groups.look(ctx, ids.Groups) })
	return looks.Wait()
}

// ofStoredAccount is an error while the credentials are of another account than what the store holds.
func (r *Reader) ofStoredAccount(ctx context.Context) error {
	account := r.identity.known(ctx)
	var stored string
	r.store.read(func() { stored = r.store.account })
	if account != "" && stored != "" && account != stored {
		return errOtherAccount
	}
	return nil
}

package inventory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// advisory is a list beside the sweep. Its last answer stays in the store, with an age of its own; nothing is taken for absent, sound
// or impaired because it was not answered.
type advisory struct {
	list   List
	reason string
	read   func(ctx context.Context) (takeOver, error)
	// again asks EC2 by id for what the list lacks.
	again func(ctx context.Context, ids []string) error

	mu sync.Mutex
	// tried is when the last reading began.
	tried time.Time
	// trouble is why EC2 has not answered since troubled; nil after an answer. As long as the trouble stays of one class it is reported
	// in the words in which it began.
	trouble  error
	troubled time.Time
}

// triedSince says whether a reading began at t or later.
func (a *advisory) triedSince(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.tried.IsZero() && !a.tried.Before(t)
}

// failing says whether EC2 did not answer the last reading.
func (a *advisory) failing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trouble != nil
}

// conclude takes how a reading ended that began at began, and says whether that is news.
func (a *advisory) conclude(began time.Time, err error) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.trouble
	a.tried = began
	switch {
	case err == nil:
		a.trouble, a.troubled = nil, time.Time{}
	case before == nil:
		a.trouble, a.troubled = err, began
	case !awsapi.IsThrottled(err) && awsapi.Classify(before) != awsapi.Classify(err):
		a.trouble = err
	}
	return (before == nil) != (a.trouble == nil)
}

// unanswered says why EC2 does not answer, nil as long as nobody need know: a missing permission does not come by itself, anything else
// may pass within AdvisoryFor. taken is when the last answer began.
func (a *advisory) unanswered(taken, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := taken
	if known.IsZero() {
		known = a.troubled
	}
	if a.trouble == nil || !awsapi.IsDenied(a.trouble) && now.Sub(known) <= AdvisoryFor {
		return nil
	}
	return a.trouble
}

// beside are the lists beside the sweep.
type beside struct {
	all      []*advisory
	clock    clock.PassiveClock
	log      logr.Logger
	store    *store
	identity *identity
	// timeout bounds the reading of a list, patience how long a reconcile waits for one.
	timeout, patience time.Duration
	flights           singleflight.Group
}

// unanswered are the lists that EC2 does not answer.
func (b *beside) unanswered() []Unanswered {
	var all []Unanswered
	for _, a := range b.all {
		taken := b.store.listedAt(a.list)
		if err := a.unanswered(taken, b.clock.Now()); err != nil {
			all = append(all, Unanswered{List: a.list, Reason: a.reason, Taken: taken, Err: err})
		}
	}
	return all
}

// begin begins to read a list, unless that is under way or was done since the last sweep.
func (b *beside) begin(ctx context.Context, a *advisory) <-chan singleflight.Result {
	return b.flights.DoChan(string(a.list), func() (any, error) {
		began := b.clock.Now()
		if a.triedSince(b.store.takenAt()) {
			return nil, nil
		}
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
		defer cancel()
		err := b.read(own, a, began)
		switch news := a.conclude(began, err); {
		case news && err != nil:
			b.log.Info("EC2 does not answer a list; its last answer is kept", "list", a.list, "problem", awsapi.Message(err))
		case news:
			b.log.Info("EC2 answers the list again", "list", a.list)
		}
		return nil, nil
	})
}

// read reads a list and takes it over into the store.
func (b *beside) read(ctx context.Context, a *advisory, began time.Time) error {
	account := b.identity.known(ctx)
	take, err := a.read(ctx)
	if err != nil {
		return err
	}
	if now := b.identity.known(ctx); account != "" && now != account {
		return errOtherAccount
	}
	var missing []string
	if !b.store.ofAccount(account, func() { missing = take(began, b.clock.Now()) }) {
		return errOtherAccount
	}
	if err := a.again(ctx, missing); err != nil {
		return err
	}
	if !b.store.ofAccount(account, func() { b.store.listed[a.list] = began }) {
		return errOtherAccount
	}
	return nil
}

// beginAll begins to read all lists, and waits for none.
func (b *beside) beginAll(ctx context.Context) {
	for _, a := range b.all {
		b.begin(ctx, a)
	}
}

// await waits for the lists that were begun after the last sweep, as long as patience at the most, and for none that failed when it
// was read last.
func (b *beside) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	for _, a := range slices.DeleteFunc(slices.Clone(b.all), (*advisory).failing) {
		select {
		case <-b.begin(ctx, a):
		case <-ctx.Done():
			return
		}
	}
}

// Package steps says what an action of the planner does over SQL, and in which order: the order is what keeps every
// acknowledged commit within reach of a promotion. It talks to a Server, which is a real mysqld in the operator and the
// model of one in the simulation; so the sequences that run in production are the ones that are tortured.
//
// Each sequence may be cut off between any two calls, and may be run again from its beginning.
package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// applyWait is how long a member may take to apply what it received within one pass. One that needs longer is tried
	// again in the next pass, so that a member far behind takes a worker from other clusters for seconds at a time.
	applyWait = 5 * time.Second
	// catchUpWait is how long clients wait in a switchover for the target to apply what the old primary had committed.
	catchUpWait = 2 * time.Second
	// catchUpStep is how far behind the target may be, in the time that it takes to apply, when clients begin to wait;
	// catchUpRounds is how often it is asked before the switchover is given up for now.
	catchUpStep   = 200 * time.Millisecond
	catchUpRounds = 25
)

// ErrNotAsPlanned says that a member is no longer what it was when the action was planned. Nothing was changed; the next
// pass decides anew.
var ErrNotAsPlanned = errors.New("no longer as it was when this was planned")

// errNoRow says that a member shows no membership row.
var errNoRow = errors.New("it has no membership row")

// Server is a member's mysqld as the sequences need it. *admin.Member is one; its comments say what each call promises.
type Server interface {
	Observe(ctx context.Context) mysql.Observation
	ApplyReceived(ctx context.Context, gtids string, timeout time.Duration) error
	WaitApplied(ctx context.Context, gtids string, timeout time.Duration) error
	Promote(ctx context.Context, spec mysql.PromoteSpec) error
	Reopen(ctx context.Context, spec mysql.PromoteSpec) error
	Demote(ctx context.Context) error
	WriteMembership(ctx context.Context, oldEpoch uint64, row mysql.Membership) error
	SetSourceWait(ctx context.Context, enabled bool, w int) error
	LowerSourceWait(ctx context.Context, w, strangers int) error
	ReleaseWaiting(ctx context.Context) error
	DisconnectStrangers(ctx context.Context) error
	RestoreReplicationAccount(ctx context.Context) error
	SetAcknowledging(ctx context.Context, on bool) error
	CommitEmptyTransaction(ctx context.Context) error
	LoggedTransactions(ctx context.Context, gtids string) ([]mysql.LoggedTransaction, error)
	AdoptTransactions(ctx context.Context, gtids []string) error
	RetireTransactions(ctx context.Context, gtids []string) error
	ReplicateFrom(ctx context.Context, host string, port int) error
	ResetRelayLog(ctx context.Context) error
	StopIOThread(ctx context.Context) error
	Restart(ctx context.Context) error
}

// Detach runs a write that may have to wait until the next pass has pointed the voters at their new primary. It returns
// the outcome when there is one soon, and nil when the write goes on by itself.
type Detach func(write func(context.Context) error) error

// Bootstrap makes the first primary. Nobody else votes yet, so it waits for nobody.
func Bootstrap(ctx context.Context, m Server, a topology.Bootstrap) error {
	if err := m.Promote(ctx, mysql.PromoteSpec{}); err != nil {
		return err
	}
	first := topology.Membership{Epoch: 1, Primary: a.Member, Voters: []string{a.Member}, W: topology.WaitFor(1)}
	return m.WriteMembership(ctx, 0, mysql.Membership(first))
}

// ApplyReceived has a member whose applier stopped apply what it received.
func ApplyReceived(ctx context.Context, m Server, a topology.ApplyReceived) error {
	return m.ApplyReceived(ctx, a.MustHold, applyWait)
}

// Promote makes a member primary once it has applied all that it holds: what the proof counted may lie in its relay log,
// and RESET REPLICA would throw that away. A newer membership row may lie there too: then the proof stood on an old one,
// and counts for nothing.
func Promote(ctx context.Context, m Server, a topology.Promote, detach Detach) error {
	if err := m.ApplyReceived(ctx, a.MustHold, applyWait); err != nil {
		return err
	}
	own, err := ownRow(ctx, m)
	if errors.Is(err, errNoRow) && a.Membership.Primary == "" {
		own, err = &mysql.Membership{}, nil
	}
	if err != nil {
		return err
	}
	if own.Epoch > a.Membership.Epoch {
		return fmt.Errorf("%w: its membership row is of epoch %d, after %d", ErrNotAsPlanned, own.Epoch, a.Membership.Epoch)
	}
	if err := m.Promote(ctx, mysql.PromoteSpec{SemiSync: a.SemiSync, W: a.Membership.WaitCount()}); err != nil {
		return err
	}
	return recordPrimary(ctx, m, own.Epoch, a.Next, a.SemiSync, detach)
}

// ownRow reads the membership row that a member itself holds.
func ownRow(ctx context.Context, m Server) (*mysql.Membership, error) {
	o := m.Observe(ctx)
	switch {
	case o.Access != mysql.AccessVerified || !o.MembershipKnown:
		return nil, fmt.Errorf("%w: its membership row cannot be read", ErrNotAsPlanned)
	case o.Membership == nil:
		return nil, fmt.Errorf("%w: %w", ErrNotAsPlanned, errNoRow)
	}
	return o.Membership, nil
}

// RecordPrimary names a promoted member in the membership row, or writes a row where somebody has dropped it.
func RecordPrimary(ctx context.Context, m Server, a topology.RecordPrimary, detach Detach) error {
	o := m.Observe(ctx)
	if o.Access != mysql.AccessVerified || !o.MembershipKnown {
		return fmt.Errorf("%w: its membership row cannot be read", ErrNotAsPlanned)
	}
	from := uint64(0)
	if o.Membership != nil {
		from = o.Membership.Epoch
	}
	return recordPrimary(ctx, m, from, a.Next, a.SemiSync, detach)
}

// recordPrimary writes the row that names the primary. With semi-synchronous replication that commit waits until voters
// are pointed at the new primary, which the next pass does; waiting for it here would only delay that.
func recordPrimary(ctx context.Context, m Server, from uint64, next topology.Membership, semiSync bool, detach Detach) error {
	if from >= next.Epoch {
		return fmt.Errorf("%w: its membership row is of epoch %d, not before %d", ErrNotAsPlanned, from, next.Epoch)
	}
	write := func(ctx context.Context) error { return m.WriteMembership(ctx, from, mysql.Membership(next)) }
	if !semiSync {
		return write(ctx)
	}
	if err := detach(write); err != nil && !errors.Is(err, mysql.ErrCommitsPending) {
		return err
	}
	return nil
}

// KeepWait takes the actions that keep a primary's commits waiting for the voters, and for nobody in vain.
func KeepWait(ctx context.Context, m Server, action topology.Action) error {
	switch a := action.(type) {
	case topology.SetSourceWait:
		return SetSourceWait(ctx, m, a)
	case topology.LowerSourceWait:
		return m.LowerSourceWait(ctx, a.W, a.Strangers)
	case topology.DisconnectStrangers:
		return m.DisconnectStrangers(ctx)
	case topology.RestoreReplicationAccount:
		return m.RestoreReplicationAccount(ctx)
	case topology.CommitEmptyTransaction:
		return CommitEmptyTransaction(ctx, m)
	}
	return fmt.Errorf("%w: %s", mysql.ErrInvalidArgument, action)
}

// SetSourceWait puts the primary's wait count right. A primary that is the only voter stops waiting for good.
func SetSourceWait(ctx context.Context, m Server, a topology.SetSourceWait) error {
	if a.Alone && !a.Enabled {
		return m.ReleaseWaiting(ctx)
	}
	return m.SetSourceWait(ctx, a.Enabled, a.W)
}

// Restart restarts mysqld. A primary is made read-only first, which fails while commits wait: a shutdown would answer them
// as done. Its replicas stop receiving before, because a mysqld that still sends takes some ten seconds to end; one that
// cannot be told only costs that time.
func Restart(ctx context.Context, m Server, isPrimary bool, replicas []Server) error {
	if isPrimary {
		if err := m.Demote(ctx); err != nil {
			return err
		}
		for _, replica := range replicas {
			_ = replica.StopIOThread(ctx) // the restart is right with or without
		}
	}
	return m.Restart(ctx)
}

package steps

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Switchover hands the writes of a primary that is well to another voter. The old primary is read-only before the new one
// is opened, so that there are never two. When the target does not catch up in time the old one is opened again, and the
// error says so. From the moment on that the target may have been opened there is no way back: then nobody else is
// touched, and the ordinary proof settles who is primary.
func Switchover(ctx context.Context, old, target Server, a topology.Switchover, detach Detach) error {
	if err := readyToLead(ctx, old, target, a); err != nil {
		return err
	}
	if err := old.Demote(ctx); err != nil {
		return fmt.Errorf("%s stays primary: %w", a.Member, err)
	}
	before := old.Observe(ctx).SemiSync.WaitCount
	if err := handOver(ctx, old, target, a); err != nil {
		if back := revertSwitchover(ctx, old, a, before); back != nil {
			return fmt.Errorf("%s did not catch up, and %s was not opened again: %w", a.To, a.Member, errors.Join(err, back))
		}
		return fmt.Errorf("%s stays primary, %s did not catch up in time: %w", a.Member, a.To, err)
	}
	if err := target.Promote(ctx, mysql.PromoteSpec{SemiSync: a.SemiSync, W: a.From.WaitCount()}); err != nil {
		return err
	}
	return recordPrimary(ctx, target, a.From.Epoch, a.Next, a.SemiSync, detach)
}

// revertSetting opens the old primary again, and lets it wait for as many acknowledgements as before: while it waited for more than there
// are, nobody was answered.
func revertSwitchover(ctx context.Context, old Server, a topology.Switchover, wait int) error {
	w := a.From.WaitCount()
	if err := old.Reopen(ctx, mysql.PromoteSpec{SemiSync: a.SemiSync, W: w}); err != nil || !a.SemiSync || wait < w {
		return err
	}
	return old.LowerSourceWait(ctx, w, wait-w)
}

// readyToLead fails when the target is not a replica that follows, under the membership row that the plan stands on. What
// it is behind by, writers would wait for: it catches up while they go on.
func readyToLead(ctx context.Context, old, target Server, a topology.Switchover) error {
	o := target.Observe(ctx)
	r := o.Replication
	if o.Access != mysql.AccessVerified || !o.ReadOnly || r == nil || r.IOState != mysql.IOOn || !r.SQLRunning {
		return fmt.Errorf("%w: %s does not replicate", ErrNotAsPlanned, a.To)
	}
	if o.Membership == nil || o.Membership.Epoch != a.From.Epoch {
		return fmt.Errorf("%w: %s does not know the present membership", ErrNotAsPlanned, a.To)
	}
	err := mysql.ErrNotApplied
	for range catchUpRounds {
		o := old.Observe(ctx)
		if o.Access != mysql.AccessVerified || o.ReadOnly {
			return fmt.Errorf("%w: %s is not the primary", ErrNotAsPlanned, a.Member)
		}
		if err = target.WaitApplied(ctx, o.Executed, catchUpStep); !errors.Is(err, mysql.ErrNotApplied) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s stays primary, %s does not catch up: %w", a.Member, a.To, err)
	}
	return nil
}

// handOver waits until the target has executed everything that the read-only old primary committed, or can still commit:
// XA COMMIT of a transaction that was prepared before passes super_read_only. So first nobody can acknowledge such a one any
// more, and only then it is read what the target needs. Without semi-synchronous replication there is no such fence, and
// what is committed after that is lost.
func handOver(ctx context.Context, old, target Server, a topology.Switchover) error {
	if a.SemiSync {
		if err := old.SetSourceWait(ctx, true, topology.NobodyAnswers); err != nil {
			return err
		}
	}
	o := old.Observe(ctx)
	if o.Access != mysql.AccessVerified || !o.ReadOnly || o.PendingCommits > 0 {
		return fmt.Errorf("%w: the old primary is not at rest", ErrNotAsPlanned)
	}
	return target.WaitApplied(ctx, o.Executed, catchUpWait)
}

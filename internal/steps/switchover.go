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
	if err := readyToLead(ctx, target, a); err != nil {
		return err
	}
	if err := old.Demote(ctx); err != nil {
		return fmt.Errorf("%s stays primary: %w", a.Member, err)
	}
	if err := handOver(ctx, old, target); err != nil {
		if back := old.Promote(ctx, mysql.PromoteSpec{SemiSync: a.SemiSync, W: a.From.WaitCount()}); back != nil {
			return fmt.Errorf("%s did not catch up, and %s was not opened again: %w", a.To, a.Member, errors.Join(err, back))
		}
		return fmt.Errorf("%s stays primary, %s did not catch up in time: %w", a.Member, a.To, err)
	}
	if err := target.Promote(ctx, mysql.PromoteSpec{SemiSync: a.SemiSync, W: a.From.WaitCount()}); err != nil {
		return err
	}
	return recordPrimary(ctx, target, a.From.Epoch, a.Next, a.SemiSync, detach)
}

// readyToLead fails when the target is not a replica that follows, under the membership row that the plan stands on.
func readyToLead(ctx context.Context, target Server, a topology.Switchover) error {
	o := target.Observe(ctx)
	r := o.Replication
	if o.Access != mysql.AccessVerified || !o.ReadOnly || r == nil || r.IOState != mysql.IOOn || !r.SQLRunning {
		return fmt.Errorf("%w: %s does not replicate", ErrNotAsPlanned, a.To)
	}
	if o.Membership == nil || o.Membership.Epoch != a.From.Epoch {
		return fmt.Errorf("%w: %s does not know the present membership", ErrNotAsPlanned, a.To)
	}
	return nil
}

// handOver waits until the target has executed everything that the read-only old primary committed.
func handOver(ctx context.Context, old, target Server) error {
	o := old.Observe(ctx)
	if o.Access != mysql.AccessVerified || !o.ReadOnly || o.PendingCommits > 0 {
		return fmt.Errorf("%w: the old primary is not at rest", ErrNotAsPlanned)
	}
	return target.WaitApplied(ctx, o.Executed, catchUpWait)
}

package steps

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// AdmitVoter makes a replica a voter, in the order that keeps every acknowledged commit within reach of a promotion:
// it holds what the primary had executed; the wait count is raised; the row is written; only then it acknowledges.
// With a single voter nobody's acknowledgement counts yet, so there the newcomer may, and must, acknowledge the row.
func AdmitVoter(ctx context.Context, primary, m Server, a topology.AdmitVoter) error {
	next := a.From.With(a.Member)
	alone := len(a.From.Voters) == 1
	if a.SemiSync && !alone {
		if err := primary.SetSourceWait(ctx, true, max(next.W, a.From.W)); err != nil {
			return err
		}
	}
	if err := holdsWhatPrimaryHad(ctx, primary, m, a.Primary); err != nil {
		return err
	}
	if a.SemiSync && alone {
		if err := m.SetAcknowledging(ctx, true); err != nil {
			return err
		}
		if err := primary.SetSourceWait(ctx, true, next.W); err != nil {
			return err
		}
	}
	if err := primary.WriteMembership(ctx, a.From.Epoch, row(next)); err != nil || !a.SemiSync {
		return err
	}
	return m.SetAcknowledging(ctx, true)
}

// holdsWhatPrimaryHad waits until a replica has executed what its primary had executed a moment ago.
func holdsWhatPrimaryHad(ctx context.Context, primary, m Server, name string) error {
	o := primary.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.ReadOnly {
		return fmt.Errorf("%w: %s is not the primary", ErrNotAsPlanned, name)
	}
	return m.WaitApplied(ctx, o.Executed, admitWait)
}

// RemoveVoter takes the vote of a member that is known never to acknowledge again. The row is written under the old wait
// count, so that whoever is promoted under the old row would hold it. Only when nobody would be left to acknowledge it,
// the primary stops waiting first; then the operator's records, which the caller has written before, keep the one who
// leaves from being promoted alone.
func RemoveVoter(ctx context.Context, primary Server, a topology.RemoveVoter) error {
	next := a.From.Without(a.Member)
	if a.SemiSync && next.W == 0 {
		if err := standsOn(ctx, primary, a.From); err != nil {
			return err
		}
		if err := primary.ReleaseWaiting(ctx); err != nil {
			return err
		}
	}
	if err := primary.WriteMembership(ctx, a.From.Epoch, row(next)); err != nil || !a.SemiSync || next.W == 0 {
		return err
	}
	return primary.SetSourceWait(ctx, true, next.W)
}

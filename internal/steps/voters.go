package steps

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// AdmitVoter makes a replica a voter, in the order that keeps every acknowledged commit within reach of a promotion:
// it holds what the primary had executed; the wait count is raised; the row is written; a second row confirms that the
// first was acknowledged; only then the newcomer acknowledges.
// With a single voter nobody's acknowledgement counts yet, so there the newcomer may, and must, acknowledge the rows.
func AdmitVoter(ctx context.Context, primary, m Server, a topology.AdmitVoter) error {
	alone := len(a.From.Voters) == 1
	if a.SemiSync && !alone {
		if err := primary.SetSourceWait(ctx, true, a.Next.WaitCount()); err != nil {
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
		if err := primary.SetSourceWait(ctx, true, a.Next.WaitCount()); err != nil {
			return err
		}
	}
	if err := primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership(a.Next)); err != nil {
		return err
	}
	if err := primary.WriteMembership(ctx, a.Next.Epoch, mysql.Membership(a.Settled)); err != nil || !a.SemiSync {
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
	return m.WaitApplied(ctx, o.Executed, applyWait)
}

// RemoveVoter takes the vote of a member that gives no acknowledgement any more. Both rows are written under the old wait
// count, so that whoever is promoted under the old row would hold them; LowerSourceWait comes after it.
func RemoveVoter(ctx context.Context, primary Server, a topology.RemoveVoter) error {
	if err := primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership(a.Next)); err != nil {
		return err
	}
	return primary.WriteMembership(ctx, a.Next.Epoch, mysql.Membership(a.Settled))
}

// Certify writes the row that says in which memory voters acknowledge. What the voter that it is about may have acknowledged before it was
// observed lies before an empty transaction in the primary's binary log: when that one is answered all of it is executed there. Where
// another row was written since this was planned, as that of a promotion, the next plan goes by that.
func Certify(ctx context.Context, primary, voter Server, a topology.Certify) error {
	if voter != nil {
		if err := primary.CommitEmptyTransaction(ctx); err != nil {
			return err
		}
		if err := holdsWhatPrimaryHad(ctx, primary, voter, a.Member); err != nil {
			return err
		}
	}
	err := primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership(a.Next))
	if errors.Is(err, mysql.ErrEpochChanged) {
		return nil
	}
	return err
}

// SettleVoters confirms a change of the voters that was acknowledged and then cut off.
func SettleVoters(ctx context.Context, primary Server, a topology.SettleVoters) error {
	return primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership(a.Next))
}

// RemoveAllVoters makes the primary the only voter, when nobody is left to acknowledge: it stops waiting, and so answers the
// commits that wait, which its own disk holds. The operator's records, which the caller has written before, keep the
// others from being promoted without it.
func RemoveAllVoters(ctx context.Context, primary Server, a topology.RemoveAllVoters) error {
	o := primary.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.ReadOnly || !o.MembershipKnown || o.Membership == nil {
		return fmt.Errorf("%w: %s is not the primary", ErrNotAsPlanned, a.Member)
	}
	if o.Membership.Epoch >= a.Next.Epoch {
		return fmt.Errorf("%w: its membership row is of epoch %d, not before %d", ErrNotAsPlanned, o.Membership.Epoch, a.Next.Epoch)
	}
	if a.SemiSync {
		if err := primary.ReleaseWaiting(ctx); err != nil {
			return err
		}
		// A row of its own may have been among the commits that waited.
		if o = primary.Observe(ctx); o.Membership == nil {
			return fmt.Errorf("%w: its membership row cannot be read", ErrNotAsPlanned)
		}
	}
	return primary.WriteMembership(ctx, o.Membership.Epoch, mysql.Membership(a.Next))
}

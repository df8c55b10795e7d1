package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// AdoptHarmless commits on the primary, empty, what a replica committed itself. The replica's binary log is read once more: what counts
// is what stands there now. It may be cut off between any two transactions: those that are left are still errant, and are planned again.
func AdoptHarmless(ctx context.Context, primary, replica Server, a topology.AdoptHarmless) error {
	if err := leads(ctx, primary, a.Member, a.Epoch); err != nil {
		return err
	}
	found, err := replica.LoggedTransactions(ctx, strings.Join(a.GTIDs, ","))
	if err != nil {
		return err
	}
	for _, id := range a.GTIDs {
		at := slices.IndexFunc(found, func(t mysql.LoggedTransaction) bool { return t.GTID == id })
		if at < 0 {
			return fmt.Errorf("%w: the binary log of %s does not hold %s any more", ErrNotAsPlanned, a.Replica, id)
		}
		if _, certain := found[at].ChangesNothing(); !certain {
			return fmt.Errorf("%w: %s on %s may change data", ErrNotAsPlanned, id, a.Replica)
		}
	}
	return primary.AdoptTransactions(ctx, a.GTIDs)
}

// RetireGTIDs records on the primary that GTIDs were lost, and commits under them, empty. It may be cut off between any two of them.
func RetireGTIDs(ctx context.Context, primary Server, a topology.RetireGTIDs) error {
	if err := leads(ctx, primary, a.Member, a.Epoch); err != nil {
		return err
	}
	return primary.RetireTransactions(ctx, a.GTIDs)
}

// leads makes sure that a server is the primary of an epoch, and takes writes.
func leads(ctx context.Context, primary Server, member string, epoch uint64) error {
	o := primary.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.ReadOnly || o.Membership == nil || o.Membership.Epoch != epoch || o.Membership.Primary != member {
		return fmt.Errorf("%w: %s is not the primary of epoch %d", ErrNotAsPlanned, member, epoch)
	}
	return nil
}

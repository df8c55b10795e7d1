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
	o := primary.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.ReadOnly || o.Membership == nil || o.Membership.Epoch != a.Epoch || o.Membership.Primary != a.Member {
		return fmt.Errorf("%w: %s is not the primary of epoch %d", ErrNotAsPlanned, a.Member, a.Epoch)
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

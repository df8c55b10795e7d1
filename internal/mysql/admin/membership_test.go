package admin_test

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestMembership: one writer of an epoch wins.
func TestMembership(t *testing.T) {
	_, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	row := *m[0].Observe(ctx).Membership
	next := mysql.Membership{Epoch: row.Epoch + 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1}
	mysqltest.Must(t, m[0].WriteMembership(ctx, row.Epoch, next))
	mysqltest.Must(t, m[0].WriteMembership(ctx, row.Epoch, next)) // done already
	rival := mysql.Membership{Epoch: row.Epoch + 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), mysql.ErrEpochChanged)
	mysqltest.WantError(t, m[0].WriteMembership(ctx, 0, rival), mysql.ErrEpochChanged)
	// The same voters under another primary are another row, and so are the same voters while a change is under way.
	rival = next
	rival.Previous = row.Voters
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), mysql.ErrEpochChanged)
	rival = next
	rival.Primary = "orders-2"
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), mysql.ErrEpochChanged)
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch+5, mysql.Membership{Epoch: row.Epoch + 6, Voters: row.Voters, W: 1}), mysql.ErrEpochChanged)
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch+1, mysql.Membership{Epoch: row.Epoch + 1, Voters: row.Voters}), mysql.ErrInvalidArgument)
	rival.Primary = strings.Repeat("x", 65)
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), mysql.ErrInvalidArgument)
	if got := m[0].Observe(ctx).Membership; got.Epoch != next.Epoch || got.Primary != "orders-0" || len(got.Voters) != 2 || got.Voters[1] != "orders-2" {
		t.Errorf("%+v", got)
	}
	mysqltest.WaitFor(t, "the row at a replica", func() bool {
		o := m[2].Observe(ctx)
		return o.Membership != nil && o.Membership.Epoch == next.Epoch && o.Membership.Primary == "orders-0"
	})
	if err := m[2].WriteMembership(ctx, next.Epoch, mysql.Membership{Epoch: next.Epoch + 1, Voters: row.Voters, W: 1}); err == nil {
		t.Error("a replica took a membership row")
	}
}

// TestMembershipTableLocked: a client that locks the table makes the row unknown, not the member silent.
func TestMembershipTableLocked(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	holder, err := mysqltest.Root(t, w.Servers[0]).Conn(ctx)
	mysqltest.Must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(ctx, "LOCK TABLES nairobi_mysql.membership WRITE")
	mysqltest.Must(t, err)
	if o := m[0].Observe(ctx); o.Access != mysql.AccessVerified || o.MembershipKnown || o.Membership != nil {
		t.Errorf("%s %s, membership known: %t", o.Access, o.Reason, o.MembershipKnown)
	}
	_, err = holder.ExecContext(ctx, "UNLOCK TABLES")
	mysqltest.Must(t, err)
	if o := m[0].Observe(ctx); !o.MembershipKnown || o.Membership == nil {
		t.Errorf("after it: %s %s", o.Access, o.Reason)
	}
}

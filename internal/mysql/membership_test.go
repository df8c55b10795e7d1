package mysql

import (
	"strings"
	"testing"
)

// TestMembership: one writer of an epoch wins.
func TestMembership(t *testing.T) {
	_, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	row := *m[0].Observe(ctx).Membership
	next := Membership{Epoch: row.Epoch + 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1}
	must(t, m[0].WriteMembership(ctx, row.Epoch, next))
	must(t, m[0].WriteMembership(ctx, row.Epoch, next)) // done already
	rival := Membership{Epoch: row.Epoch + 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
	wantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), ErrEpochChanged)
	wantError(t, m[0].WriteMembership(ctx, 0, rival), ErrEpochChanged)
	// The same voters under another primary are another row, and so are the same voters while a change is under way.
	rival = next
	rival.Previous = row.Voters
	wantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), ErrEpochChanged)
	rival = next
	rival.Primary = "orders-2"
	wantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), ErrEpochChanged)
	wantError(t, m[0].WriteMembership(ctx, row.Epoch+5, Membership{Epoch: row.Epoch + 6, Voters: row.Voters, W: 1}), ErrEpochChanged)
	wantError(t, m[0].WriteMembership(ctx, row.Epoch+1, Membership{Epoch: row.Epoch + 1, Voters: row.Voters}), ErrInvalidArgument)
	rival.Primary = strings.Repeat("x", 65)
	wantError(t, m[0].WriteMembership(ctx, row.Epoch, rival), ErrInvalidArgument)
	if got := m[0].Observe(ctx).Membership; got.Epoch != next.Epoch || got.Primary != "orders-0" || len(got.Voters) != 2 || got.Voters[1] != "orders-2" {
		t.Errorf("%+v", got)
	}
	waitFor(t, "the row at a replica", func() bool {
		o := m[2].Observe(ctx)
		return o.Membership != nil && o.Membership.Epoch == next.Epoch && o.Membership.Primary == "orders-0"
	})
	if err := m[2].WriteMembership(ctx, next.Epoch, Membership{Epoch: next.Epoch + 1, Voters: row.Voters, W: 1}); err == nil {
		t.Error("a replica took a membership row")
	}
}

// TestMembershipTableLocked: a client that locks the table makes the row unknown, not the member silent.
func TestMembershipTableLocked(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	holder, err := root(t, w.servers[0]).Conn(ctx)
	must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(ctx, "LOCK TABLES nairobi_mysql.membership WRITE")
	must(t, err)
	if o := m[0].Observe(ctx); o.Access != AccessVerified || o.MembershipKnown || o.Membership != nil {
		t.Errorf("%s %s, membership known: %t", o.Access, o.Reason, o.MembershipKnown)
	}
	_, err = holder.ExecContext(ctx, "UNLOCK TABLES")
	must(t, err)
	if o := m[0].Observe(ctx); !o.MembershipKnown || o.Membership == nil {
		t.Errorf("after it: %s %s", o.Access, o.Reason)
	}
}

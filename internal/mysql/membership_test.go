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
	// The same voters under another primary are another row.
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

// TestMembershipOfAnEarlierRelease: a table without the primary's name is read, and gets the column with the next row
// that can be acknowledged. A row that cannot be yet is written without, so that the table stays readable.
func TestMembershipOfAnEarlierRelease(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	exec(t, root(t, w.servers[0]), "ALTER TABLE nairobi_mysql.membership DROP COLUMN leader")
	o := m[0].Observe(ctx)
	if o.Membership == nil || !o.MembershipKnown || o.Membership.Primary != "" || o.Membership.Epoch == 0 || len(o.Membership.Voters) == 0 {
		t.Fatalf("an earlier release's row: %+v", o.Membership)
	}

	// Nobody is there to acknowledge, as right after a promotion.
	must(t, m[1].StopIOThread(ctx))
	must(t, m[2].StopIOThread(ctx))
	waitFor(t, "the source has lost its replicas", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 0 })
	next := Membership{Epoch: o.Membership.Epoch + 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	waiting := make(chan error, 1)
	go func() { waiting <- m[0].WriteMembership(ctx, o.Membership.Epoch, next) }()
	waitFor(t, "the row waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	for range 3 {
		if now := m[0].Observe(ctx); !now.MembershipKnown || now.Membership.Epoch != o.Membership.Epoch {
			t.Fatalf("while the row waits: %s %s, %+v", now.Access, now.Reason, now.Membership)
		}
	}
	must(t, m[1].StartReplica(ctx))
	must(t, m[2].StartReplica(ctx))
	must(t, <-waiting)
	if got := m[0].Observe(ctx).Membership; got.Epoch != next.Epoch || got.Primary != "" {
		t.Errorf("written without the column: %+v", got)
	}

	waitFor(t, "the source has its replicas", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 2 })
	named := next
	named.Epoch++
	must(t, m[0].WriteMembership(ctx, next.Epoch, named))
	must(t, m[0].WriteMembership(ctx, next.Epoch, named))
	for i := range m {
		waitFor(t, "the named row at "+w.servers[i].Name, func() bool {
			got := m[i].Observe(ctx).Membership
			return got != nil && got.Epoch == named.Epoch && got.Primary == "orders-0"
		})
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

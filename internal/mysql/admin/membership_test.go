package admin_test

import (
	"maps"
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

// TestMembershipNamesMemories: the row says in which memory voters acknowledge. A table of an earlier release, which cannot, is read as one
// that says so of nobody, and gets the column with the first row that needs it.
func TestMembershipNamesMemories(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "ALTER TABLE nairobi_mysql.membership DROP COLUMN memory")
	row := *m[0].Observe(ctx).Membership
	if row.Epoch == 0 || len(row.Memory) != 0 {
		t.Fatalf("without the column: %+v", row)
	}
	const column = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'membership' AND COLUMN_NAME = 'memory'"
	write := func(memory map[string]string, columns string) {
		t.Helper()
		next := row
		next.Epoch, next.Memory = row.Epoch+1, memory
		mysqltest.Must(t, m[0].WriteMembership(ctx, row.Epoch, next))
		mysqltest.Must(t, m[0].WriteMembership(ctx, row.Epoch, next)) // done already
		row = next
		for _, member := range m {
			mysqltest.WaitFor(t, "the row at a member", func() bool {
				o := member.Observe(ctx)
				return o.Membership != nil && o.Membership.Epoch == row.Epoch && maps.Equal(o.Membership.Memory, memory)
			})
		}
		if n := mysqltest.Value(t, db, column); n != columns {
			t.Errorf("%s columns for %v", n, memory)
		}
	}
	write(nil, "0")
	write(map[string]string{"orders-0": "one", "orders-1": "two"}, "1")
	rival := row
	rival.Memory = map[string]string{"orders-0": "one", "orders-1": "three"}
	mysqltest.WantError(t, m[0].WriteMembership(ctx, row.Epoch-1, rival), mysql.ErrEpochChanged)
	write(map[string]string{"orders-1": "three"}, "1")
	write(nil, "1")
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

// TestAMembershipTableThatHoldsNoRow is made again with the next row.
func TestAMembershipTableThatHoldsNoRow(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	for name, done := range map[string][]string{
		"it lacks columns":      {"ALTER TABLE nairobi_mysql.membership DROP COLUMN voters"},
		"it takes no row":       {"DELETE FROM nairobi_mysql.membership", "ALTER TABLE nairobi_mysql.membership ADD CHECK (epoch = 0)"},
		"it is an invalid view": {"CREATE TABLE nairobi_mysql.other (id INT)", "CREATE VIEW nairobi_mysql.seen AS SELECT * FROM nairobi_mysql.other", "DROP TABLE nairobi_mysql.other, nairobi_mysql.membership", "RENAME TABLE nairobi_mysql.seen TO nairobi_mysql.membership"},
		"it is renamed":         {"RENAME TABLE nairobi_mysql.membership TO nairobi_mysql.former"},
		"it is dropped":         {"DROP TABLE nairobi_mysql.membership"},
		"the database is":       {"DROP DATABASE nairobi_mysql"},
	} {
		t.Run(name, func(t *testing.T) {
			row := *m[0].Observe(ctx).Membership
			for _, statement := range done {
				mysqltest.Exec(t, db, statement)
			}
			if o := m[0].Observe(ctx); o.Access != mysql.AccessVerified || !o.MembershipKnown || o.Membership != nil {
				t.Errorf("%s %s: %+v, known: %t", o.Access, o.Reason, o.Membership, o.MembershipKnown)
			}
			row.Epoch++
			mysqltest.Must(t, m[0].WriteMembership(ctx, 0, row))
			for _, member := range m {
				mysqltest.WaitFor(t, "the row at a member", func() bool {
					o := member.Observe(ctx)
					return o.Membership != nil && o.Membership.Epoch == row.Epoch
				})
			}
		})
	}
}

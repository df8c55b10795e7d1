package simulation

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// TestTheRowInForceSaysWhoIsNotEmptied: it is the newest that was acknowledged, or that a member held which was promoted, whichever member
// is writable at the moment.
func TestTheRowInForceSaysWhoIsNotEmptied(t *testing.T) {
	removed := &mysql.Membership{Epoch: 4, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, Previous: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	settled := &mysql.Membership{Epoch: 5, Primary: "orders-0", Voters: []string{"orders-0", "orders-1"}, W: 1}
	for name, row := range map[string]struct {
		rows         []*mysql.Membership
		acknowledged int // how many of them
		writable     bool
		promoted     bool // another, which holds the last of them
		broken       string
	}{
		"all vote":                                   {nil, 0, true, false, keptVote},
		"all vote, and nobody is writable":           {nil, 0, false, false, keptVote},
		"removed, but that is not confirmed":         {[]*mysql.Membership{removed}, 1, true, false, keptVote},
		"removed, but the last row waits":            {[]*mysql.Membership{removed, settled}, 1, true, false, keptVote},
		"removed, and who holds the last row leads":  {[]*mysql.Membership{removed, settled}, 1, true, true, ""},
		"removed, and a former primary is writable":  {[]*mysql.Membership{removed, settled}, 2, true, false, ""},
		"removed, and nobody is writable any longer": {[]*mysql.Membership{removed, settled}, 2, false, false, ""},
	} {
		w := emptyWorld(1, 1)
		w.shape = shape{size: 3, lossless: true}
		w.desired = desiredFor(w.shape)
		w.preset()
		servers := []*mysqld{w.serverOf(0), w.serverOf(1), w.serverOf(2)}
		for n, next := range row.rows {
			c := servers[0].commit(transaction{row: next, client: -1}, nil)
			if n < row.acknowledged {
				servers[0].acks[servers[1].st] = len(servers[0].st.binlog)
				servers[0].release()
			}
			if c.done != (n < row.acknowledged) {
				t.Fatalf("%s: row %d is acknowledged: %t", name, next.Epoch, c.done)
			}
		}
		servers[0].st.row = w.ledger.all[0].row // a former primary shows an older one
		servers[0].writable = row.writable
		if row.promoted {
			w.ledger.inForceFrom(row.rows[len(row.rows)-1])
		}
		w.checkEmptied(servers[2])
		broken := ""
		if w.failure != nil {
			broken = w.failure.invariant
		}
		if broken != row.broken {
			t.Errorf("%s: broken is %q", name, broken)
		}
	}
}

package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// flush runs a statement on a server that changes nothing, and returns the GTID under which it is logged.
func flush(t *testing.T, s *mysqld.Server) string {
	t.Helper()
	db := mysqltest.Root(t, s)
	before := mysqltest.Value(t, db, "SELECT @@GLOBAL.gtid_executed")
	mysqltest.Exec(t, db, "FLUSH STATUS")
	return conn.Compact(mysqltest.Value(t, db, "SELECT GTID_SUBTRACT(GTID_SUBTRACT(@@GLOBAL.gtid_executed, '"+before+"'), GTID_SUBTRACT(@@GLOBAL.gtid_executed, CONCAT(@@server_uuid, ':1-1000000')))"))
}

// even waits until all members have executed the same.
func even(t *testing.T, m []*admin.Member) {
	t.Helper()
	mysqltest.WaitFor(t, "all members have the same GTID set", func() bool {
		want := m[0].Observe(t.Context()).Executed
		return m[1].Observe(t.Context()).Executed == want && m[2].Observe(t.Context()).Executed == want
	})
}

// TestAdoptTransactions: once the primary has the GTIDs of what a replica logged all members have the same set, nothing else has
// changed, and the replica goes on replicating.
func TestAdoptTransactions(t *testing.T) {
	cutAt := ""
	cut := errors.New("cut off")
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, moment string) error {
			if op == cutAt && moment == "before" {
				return cut
			}
			return nil
		}
	}))
	ctx := t.Context()
	primary := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, primary, "CREATE DATABASE IF NOT EXISTS adopted")
	mysqltest.Exec(t, primary, "CREATE TABLE IF NOT EXISTS adopted.t (id INT PRIMARY KEY)")
	mysqltest.Exec(t, primary, "REPLACE INTO adopted.t VALUES (1), (2)")
	even(t, m)
	checksum := mysqltest.Value(t, primary, "SELECT COUNT(*) FROM adopted.t")

	one, two := flush(t, w.Servers[1]), flush(t, w.Servers[1])
	if one == "" || one == two || strings.Contains(one, ",") {
		t.Fatalf("FLUSH STATUS is logged as %q, then as %q", one, two)
	}
	cutAt = "adopt-transactions/commit"
	mysqltest.WantError(t, m[0].AdoptTransactions(ctx, []string{one, two}), cut)
	if mysqltest.Contains(t, primary, m[0].Observe(ctx).Executed, one) {
		t.Error("a transaction that was cut off before its commit is there")
	}
	cutAt = "adopt-transactions/automatic" // of the first
	mysqltest.WantError(t, m[0].AdoptTransactions(ctx, []string{one, two}), cut)
	if executed := m[0].Observe(ctx).Executed; !mysqltest.Contains(t, primary, executed, one) || mysqltest.Contains(t, primary, executed, two) {
		t.Errorf("cut off after the first of %s and %s, the primary has executed %s", one, two, executed)
	}
	cutAt = ""
	mysqltest.Must(t, m[0].AdoptTransactions(ctx, []string{one, two}))
	even(t, m)
	before := m[0].Observe(ctx).Executed
	mysqltest.Must(t, m[0].AdoptTransactions(ctx, []string{one, two}))
	if after := m[0].Observe(ctx).Executed; after != before {
		t.Errorf("what is adopted already is adopted again: %s, before %s", after, before)
	}
	found, err := m[0].LoggedTransactions(ctx, one+","+two)
	mysqltest.Must(t, err)
	if len(found) != 2 || found[0].Others+found[1].Others > 0 || len(found[0].Statements) != 2 {
		t.Errorf("the primary logged %+v, want two empty transactions", found)
	}
	for i, s := range w.Servers {
		if got := mysqltest.Value(t, mysqltest.Root(t, s), "SELECT COUNT(*) FROM adopted.t"); got != checksum {
			t.Errorf("member %d has %s rows, want %s", i, got, checksum)
		}
	}
	mysqltest.Exec(t, primary, "INSERT INTO adopted.t VALUES (3)")
	even(t, m)
	mysqltest.Exec(t, primary, "DROP DATABASE adopted")
}

// TestAdoptTransactionsOfTheOnlyOneThatAcknowledges: a replica does not receive what it has, and so never acknowledges it. Something newer
// is committed that covers it.
func TestAdoptTransactionsOfTheOnlyOneThatAcknowledges(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.Must(t, m[2].SetAcknowledging(ctx, false))
	mysqltest.WaitFor(t, "one replica acknowledges", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 1 })
	even(t, m)
	ids := []string{flush(t, w.Servers[1]), flush(t, w.Servers[1])}
	began := time.Now()
	mysqltest.Must(t, m[0].AdoptTransactions(ctx, ids))
	if took := time.Since(began); took > mysqltest.Patience/2 {
		t.Errorf("it took %s", took)
	}
	if n := m[0].Observe(ctx).PendingCommits; n != 0 {
		t.Errorf("%d commits wait", n)
	}
	even(t, m)

	// With nobody that acknowledges it does not wait for ever.
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, false))
	mysqltest.WaitFor(t, "nobody acknowledges", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 0 })
	hasty := w.Members(mysqltest.NewPool(t, func(o *conn.Options) { o.ChangeTimeout = time.Second }))
	mysqltest.WantError(t, hasty[0].AdoptTransactions(ctx, []string{flush(t, w.Servers[1])}), mysql.ErrCommitsPending)
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	mysqltest.Must(t, m[2].SetAcknowledging(ctx, true))
	mysqltest.Must(t, m[0].CommitEmptyTransaction(ctx))
	even(t, m)
}

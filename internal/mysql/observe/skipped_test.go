package observe_test

import (
	"context"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestSkippedTransaction: the error of an applier names the transaction at which it stopped, and a person who skips that leaves an empty one
// in the replica's binary log.
func TestSkippedTransaction(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	primary, replica := mysqltest.Root(t, w.Servers[0]), mysqltest.Root(t, w.Servers[2])
	mysqltest.Exec(t, primary, "CREATE DATABASE IF NOT EXISTS skipped")
	mysqltest.Exec(t, primary, "CREATE TABLE IF NOT EXISTS skipped.t (id INT PRIMARY KEY)")
	t.Cleanup(func() { _, _ = primary.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE skipped") })
	mysqltest.CatchUp(t, m[2], m[0])
	session, err := replica.Conn(ctx)
	mysqltest.Must(t, err)
	defer session.Close()
	run := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := session.ExecContext(ctx, statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	run("SET GLOBAL super_read_only = OFF", "SET sql_log_bin = 0", "INSERT INTO skipped.t VALUES (1)", "SET sql_log_bin = 1", "SET GLOBAL super_read_only = ON")
	mysqltest.Exec(t, primary, "INSERT INTO skipped.t VALUES (1)")

	var failed string
	mysqltest.WaitFor(t, "the applier's error", func() bool {
		r := m[2].Observe(ctx).Replication
		if r == nil {
			return false
		}
		failed = mysql.FailedTransaction(r.LastSQLError)
		return failed != ""
	})
	run("STOP REPLICA", "SET gtid_next = '"+failed+"'", "BEGIN", "COMMIT", "SET gtid_next = AUTOMATIC", "START REPLICA")
	mysqltest.CatchUp(t, m[2], m[0])
	found, err := m[2].LoggedTransactions(ctx, failed)
	if err != nil || len(found) != 1 || found[0].GTID != failed || !found[0].Empty() {
		t.Errorf("of the skipped transaction %s the binary log shows %+v, %v", failed, found, err)
	}
}

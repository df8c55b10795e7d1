package observe_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// logs runs statements on a replica in one session, and returns the GTIDs that they add.
func logs(t *testing.T, session *sql.Conn, statements ...string) (gtids string) {
	t.Helper()
	ctx := t.Context()
	var before string
	mysqltest.Must(t, session.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&before))
	for _, statement := range statements {
		if _, err := session.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	mysqltest.Must(t, session.QueryRowContext(ctx, "SELECT REPLACE(GTID_SUBTRACT(@@GLOBAL.gtid_executed, ?), '\n', '')", before).Scan(&gtids))
	return gtids
}

// TestLoggedTransactions: what a statement that somebody runs on a replica leaves in the binary log is read there, and told from what
// changes data.
func TestLoggedTransactions(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	primary := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, primary, "CREATE DATABASE IF NOT EXISTS logged")
	mysqltest.Exec(t, primary, "CREATE TABLE IF NOT EXISTS logged.a (id INT PRIMARY KEY, v INT)")
	mysqltest.Exec(t, primary, "CREATE TABLE IF NOT EXISTS logged.b (id INT PRIMARY KEY, v INT)")
	mysqltest.CatchUp(t, m[2], m[0])
	replica := mysqltest.Root(t, w.Servers[2])
	t.Cleanup(func() { // as the operator rebuilds a replica that diverged
		ctx := context.WithoutCancel(ctx)
		_, _ = primary.ExecContext(ctx, "DROP DATABASE logged")
		_, _ = replica.ExecContext(ctx, "SET GLOBAL super_read_only = ON")
		if err := m[2].CloneFrom(ctx, w.Servers[0].Address()); err != nil {
			t.Error(err)
			return
		}
		mysqltest.WaitFor(t, "the copy", func() bool {
			c := m[2].Observe(ctx).Clone
			return c != nil && c.State == mysql.CloneCompleted
		})
	})
	mysqltest.Exec(t, replica, "STOP REPLICA") // nothing else gets into its binary log meanwhile
	session, err := replica.Conn(ctx)
	mysqltest.Must(t, err)
	t.Cleanup(func() { session.Close() })
	var uuid string
	mysqltest.Must(t, session.QueryRowContext(ctx, "SELECT @@server_uuid").Scan(&uuid))

	const nothing, harmless, harmful = "nothing is logged", "harmless", "harmful"
	var all []string
	want := map[string]string{}
	for _, c := range []struct {
		want       string
		statements []string
	}{
		{harmless, []string{"FLUSH STATUS"}},
		{harmless, []string{"flush   status"}},
		{harmless, []string{"FLUSH STATUS;"}},
		{harmless, []string{"FLUSH STATUS, PRIVILEGES"}},
		{harmless, []string{"FLUSH TABLES"}},
		{harmless, []string{"FLUSH TABLE"}},
		{harmless, []string{"FLUSH TABLES logged.a, `logged`.`b`"}},
		{harmless, []string{"USE logged", "FLUSH TABLES a"}},
		{harmless, []string{"FLUSH PRIVILEGES"}},
		{harmless, []string{"FLUSH ENGINE LOGS"}},
		{harmless, []string{"FLUSH ERROR LOGS"}},
		{harmless, []string{"FLUSH SLOW LOGS"}},
		{harmless, []string{"FLUSH GENERAL LOGS"}},
		{harmless, []string{"FLUSH USER_RESOURCES"}},
		{harmless, []string{"FLUSH OPTIMIZER_COSTS"}},
		{harmless, []string{"SET gtid_next = '" + uuid + ":100000'", "BEGIN", "COMMIT", "SET gtid_next = AUTOMATIC"}},
		{harmless, []string{"SET gtid_next = 'AUTOMATIC:agent'", "FLUSH STATUS", "SET gtid_next = AUTOMATIC"}},
		{nothing, []string{"FLUSH LOCAL STATUS"}},
		{nothing, []string{"FLUSH NO_WRITE_TO_BINLOG TABLES"}},
		{nothing, []string{"FLUSH LOGS"}},
		{nothing, []string{"FLUSH BINARY LOGS"}},
		{nothing, []string{"FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"}},
		{nothing, []string{"FLUSH TABLES logged.a WITH READ LOCK", "UNLOCK TABLES"}},
		{nothing, []string{"FLUSH TABLES logged.a FOR EXPORT", "UNLOCK TABLES"}},
		{nothing, []string{"SET PERSIST long_query_time = 9", "RESET PERSIST long_query_time"}},
		{harmful, []string{"ANALYZE TABLE logged.a UPDATE HISTOGRAM ON v WITH 8 BUCKETS"}}, // super_read_only lets it pass
		{harmful, []string{"ANALYZE TABLE logged.a DROP HISTOGRAM ON v"}},
		{harmful, []string{"REPAIR TABLE logged.a"}},
		{harmful, []string{"FLUSH RELAY LOGS"}},
		{harmful, []string{"/*!80000 FLUSH STATUS */"}},
		{harmful, []string{"FLUSH STATUS /*!, PRIVILEGES */"}},
		{harmful, []string{"/* ; */ FLUSH STATUS"}},
		{harmful, []string{"FLUSH STATUS -- ; DROP TABLE logged.a"}},
		{nothing, []string{"SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"}},
		{harmless, []string{"ANALYZE TABLE logged.a, logged.b"}},
		{harmful, []string{"OPTIMIZE TABLE logged.a"}},
		{harmful, []string{"CREATE TABLE logged.c (id INT PRIMARY KEY)"}},
		{harmful, []string{"CREATE TABLE IF NOT EXISTS logged.a (id INT)"}},
		{harmful, []string{"CREATE DATABASE logged_elsewhere"}},
		{harmful, []string{"DROP DATABASE logged_elsewhere"}},
		{harmful, []string{"CREATE USER logged_agent"}},
		{harmful, []string{"GRANT SELECT ON logged.* TO logged_agent"}},
		{harmful, []string{"DROP USER logged_agent"}},
		{harmful, []string{"INSERT INTO logged.a VALUES (1, 1)"}},
		{harmful, []string{"DELETE FROM logged.a"}},
		{nothing, []string{"DELETE FROM logged.a"}},
		{harmful, []string{"SET binlog_format = 'STATEMENT'", "INSERT INTO logged.b VALUES (1, 1)", "SET binlog_format = 'ROW'"}},
		{harmful, []string{"XA START 'x'", "INSERT INTO logged.a VALUES (2, 2)", "XA END 'x'", "XA PREPARE 'x'"}},
		{harmful, []string{"XA COMMIT 'x'"}},
	} {
		gtids := logs(t, session, c.statements...)
		if (gtids == "") != (c.want == nothing) {
			t.Errorf("%q logs %q, want %s", c.statements, gtids, c.want)
		}
		if gtids != "" {
			all = append(all, gtids)
			want[gtids] = c.want + ": " + fmt.Sprintf("%q", c.statements)
		}
	}
	judge := func(found []mysql.LoggedTransaction) {
		t.Helper()
		if len(found) != len(all) {
			t.Errorf("found %d transactions, want %d", len(found), len(all))
		}
		for _, logged := range found {
			what, certain := logged.ChangesNothing()
			if isHarmless := strings.HasPrefix(want[logged.GTID], harmless); want[logged.GTID] == "" || certain != isHarmless {
				t.Errorf("%s: %+v: changes nothing: %t (%s), want %s", logged.GTID, logged, certain, what, want[logged.GTID])
			}
		}
	}
	// All at once: they lie in several binary logs, of which FLUSH BINARY LOGS began one.
	found, err := m[2].LoggedTransactions(ctx, strings.Join(all, ","))
	mysqltest.Must(t, err)
	judge(found)
	// One by one, with nothing of their neighbours.
	found = nil
	for _, one := range all {
		these, err := m[2].LoggedTransactions(ctx, one)
		mysqltest.Must(t, err)
		if len(these) != 1 || these[0].GTID != one {
			t.Errorf("asked for %s, found %+v", one, these)
		}
		found = append(found, these...)
	}
	judge(found)

	// What no binary log holds any more is not found, and is no error.
	var newest string
	var position, a, b, c any
	mysqltest.Exec(t, replica, "FLUSH BINARY LOGS")
	mysqltest.Must(t, session.QueryRowContext(ctx, "SHOW BINARY LOG STATUS").Scan(&newest, &position, &a, &b, &c))
	mysqltest.Exec(t, replica, "PURGE BINARY LOGS TO '"+newest+"'")
	if found, err = m[2].LoggedTransactions(ctx, strings.Join(all, ",")); err != nil || len(found) > 0 {
		t.Errorf("found %+v in binary logs that are purged, error %v", found, err)
	}
	if again := logs(t, session, "FLUSH STATUS"); again != "" {
		all = append(all, again)
		found, err = m[2].LoggedTransactions(ctx, strings.Join(all, ","))
		mysqltest.Must(t, err)
		if !slices.ContainsFunc(found, func(l mysql.LoggedTransaction) bool { return l.GTID == again }) || len(found) != 1 {
			t.Errorf("found %+v, want %s", found, again)
		}
	}
	if _, err := m[2].LoggedTransactions(ctx, "no GTID"); err == nil {
		t.Error("what is no GTID set is taken")
	}
}

package conn_test

import (
	"context"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestTheLogsAreTheUsers: what the operator asks a server for is neither in the general nor in the slow query log, whatever they take;
// what clients ask is.
func TestTheLogsAreTheUsers(t *testing.T) {
	before := mysqltest.NewPool(t, nil)
	w, _ := mysqltest.Settle(t, before)
	before.Close() // its sessions keep the earlier long_query_time
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	db.SetMaxOpenConns(1) // a client that has the long_query_time of now
	set := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	set("SET GLOBAL log_output = 'TABLE', GLOBAL long_query_time = 0, SESSION long_query_time = 0, GLOBAL log_queries_not_using_indexes = ON, GLOBAL log_slow_admin_statements = ON, GLOBAL general_log = ON, GLOBAL slow_query_log = ON")
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.WithoutCancel(ctx), "SET GLOBAL general_log = DEFAULT, GLOBAL slow_query_log = DEFAULT, GLOBAL log_slow_admin_statements = DEFAULT, GLOBAL log_queries_not_using_indexes = DEFAULT, GLOBAL long_query_time = DEFAULT, GLOBAL log_output = DEFAULT"); err != nil {
			t.Error(err)
		}
	})
	p := mysqltest.NewPool(t, nil)
	for range 3 {
		if o := w.Members(p)[0].Observe(ctx); o.Access != mysql.AccessVerified {
			t.Fatalf("not reached: %s", o.Reason)
		}
		mysqltest.Must(t, w.Handles(p)[0].Control(ctx, func(s *conn.Session) error {
			var n int
			return s.Row(ctx, "SELECT COUNT(*), 'by the operator' FROM mysql.user", nil, &n, new(string))
		}))
	}
	set("SELECT 'by a client' FROM mysql.user WHERE Host = Host")

	count := func(query string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("SELECT COUNT(*) FROM mysql.slow_log WHERE user_host LIKE '%" + mysql.OperatorUser + "%'"); n > 0 {
		t.Errorf("%d statements of the operator's are in the slow query log", n)
	}
	// The first statement of a session is what keeps the others out.
	if n := count("SELECT COUNT(*) FROM mysql.general_log WHERE user_host LIKE '%" + mysql.OperatorUser + "%' AND command_type NOT IN ('Connect', 'Quit') AND argument NOT LIKE 'SET SESSION %'"); n > 0 {
		t.Errorf("%d statements of the operator's are in the general query log", n)
	}
	for _, table := range []string{"slow_log WHERE CONVERT(sql_text USING utf8mb4)", "general_log WHERE CONVERT(argument USING utf8mb4)"} {
		if n := count("SELECT COUNT(*) FROM mysql." + table + " LIKE 'SELECT ''by a client''%'"); n != 1 {
			t.Errorf("a client's statement is %d times in mysql.%s", n, table)
		}
	}
}

package observe_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestFullSourceIsToldFromOneThatIsAway: clients that wait take every connection of a source, so that its replicas, which come
// back, are refused. They say so, and a higher limit lets them in; the operator's own connection goes on.
func TestFullSourceIsToldFromOneThatIsAway(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE USER IF NOT EXISTS crowd@localhost IDENTIFIED BY 'crowd'")
	before := m[0].Observe(ctx)
	if before.Connections < 1 || before.MaxConnections <= before.Connections {
		t.Fatalf("%d of %d connections", before.Connections, before.MaxConnections)
	}
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	// The session that sent to the replica ends a moment later, and would leave room for it.
	mysqltest.WaitFor(t, "one replica alone", func() bool {
		return mysqltest.Value(t, db, "SELECT COUNT(*) FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'") == "1"
	})
	mysqltest.Must(t, m[0].SetMaxConnections(ctx, before.Connections+8))
	var crowd []*sql.Conn
	fill := func() {
		for {
			conn, err := mysqltest.Local(t, w.Servers[0], "crowd", "crowd").Conn(ctx)
			if err != nil {
				return
			}
			if crowd = append(crowd, conn); len(crowd) > 40 {
				t.Fatalf("%d clients found room", len(crowd))
			}
		}
	}
	var o mysql.Observation
	mysqltest.WaitFor(t, "a full server", func() bool { // sessions of other tests may have ended meanwhile
		fill()
		o = m[0].Observe(ctx)
		return o.Connections >= o.MaxConnections
	})
	if len(crowd) == 0 {
		t.Fatal("no client found room")
	}
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "START REPLICA IO_THREAD")
	mysqltest.WaitFor(t, "the replica to be refused", func() bool {
		r := m[1].Observe(ctx).Replication
		return r.SourceIsFull && r.IOState == mysql.IOConnecting
	})
	o = m[0].Observe(ctx)
	if o.Access != mysql.AccessVerified || o.Connections < o.MaxConnections {
		t.Errorf("the full server shows %d of %d connections (%s)", o.Connections, o.MaxConnections, o.Access)
	}
	// Whoever administers it took the one place beyond the limit, too. Nothing says that its clients are not served.
	administrator, err := mysqltest.Root(t, w.Servers[0]).Conn(ctx)
	mysqltest.Must(t, err)
	mysqltest.WaitFor(t, "a server without a place for the operator", func() bool {
		fill()
		o := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(w.Servers[0]), w.Identity()).Observe(ctx)
		return o.Access == mysql.AccessDenied && o.Reason == "too many connections"
	})
	mysqltest.Must(t, administrator.Close())
	mysqltest.Must(t, m[0].SetMaxConnections(ctx, o.MaxConnections+100))
	mysqltest.WaitFor(t, "the replica to be let in", func() bool {
		r := m[1].Observe(ctx).Replication
		return !r.SourceIsFull && r.IOState == mysql.IOOn
	})
	for _, conn := range crowd {
		_ = conn.Close()
	}
	mysqltest.Must(t, m[0].SetMaxConnections(ctx, before.MaxConnections))
}

// TestLimitsOfOthersDoNotCountForUs: whoever may set global variables, or the one who was here before the operator, limits every
// session that begins after that. The operator still sees everything, and its replicas come in.
func TestLimitsOfOthersDoNotCountForUs(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	limits := map[string]string{"sql_select_limit": "1", "max_join_size": "1", "sql_big_selects": "0", "sql_safe_updates": "1", "max_execution_time": "1", "max_error_count": "0"}
	want := m[1].Observe(ctx)
	db := mysqltest.Root(t, w.Servers[1])
	for name, value := range limits {
		mysqltest.Exec(t, db, "SET GLOBAL "+name+" = "+value)
		t.Cleanup(func() { _, _ = db.ExecContext(context.Background(), "SET GLOBAL "+name+" = DEFAULT") })
	}
	limited := w.Members(mysqltest.NewPool(t, nil))[1]
	got := limited.Observe(ctx)
	if got.Access != mysql.AccessVerified || len(got.Settings) != len(want.Settings) || !got.MembershipKnown || got.Membership == nil || got.Replication == nil {
		t.Errorf("with limits the operator sees %s (%s), %d of %d settings, membership %v", got.Access, got.Reason, len(got.Settings), len(want.Settings), got.Membership)
	}
	// A value that the server would change is told by a warning alone.
	_, err := limited.ApplySettings(ctx, map[string]string{"max_connections": "10000000"}, nil, nil)
	mysqltest.WantError(t, err, mysql.ErrSettingRefused)
	v, err := podclient.OpenVisit(ctx, podclient.VisitOptions{Endpoint: mysqltest.EndpointOf(w.Servers[1]), Identity: w.Identity(), User: mysql.OperatorUser, Options: conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute}})
	mysqltest.Must(t, err)
	defer v.Close()
	r, err := v.OpenReplay(ctx)
	mysqltest.Must(t, err)
	r.Close()

	primary := mysqltest.Root(t, w.Servers[0])
	t.Cleanup(func() { _, _ = primary.ExecContext(context.Background(), "SET GLOBAL max_user_connections = 0") })
	mysqltest.Exec(t, primary, "SET GLOBAL max_user_connections = 1")
	for _, i := range []int{1, 2} {
		mysqltest.Exec(t, mysqltest.Root(t, w.Servers[i]), "STOP REPLICA IO_THREAD")
		mysqltest.Exec(t, mysqltest.Root(t, w.Servers[i]), "START REPLICA IO_THREAD")
	}
	mysqltest.WaitFor(t, "both replicas to be let in", func() bool {
		return m[1].Observe(ctx).Replication.IOState == mysql.IOOn && m[2].Observe(ctx).Replication.IOState == mysql.IOOn
	})
	for range 3 {
		if o := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(w.Servers[0]), w.Identity()).Observe(ctx); o.Access != mysql.AccessVerified {
			t.Errorf("one more session of the operator: %s: %s", o.Access, o.Reason)
		}
	}
}

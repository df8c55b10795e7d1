package admin_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestPurgeBinaryLogs: what a replica lacks stays, and so do the newest logs; all else goes.
func TestPurgeBinaryLogs(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS purging")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS purging.t (id INT PRIMARY KEY AUTO_INCREMENT)")
	logs := func() (names []string) {
		rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
		mysqltest.Must(t, err)
		defer rows.Close()
		for rows.Next() {
			var name, size, encrypted string
			mysqltest.Must(t, rows.Scan(&name, &size, &encrypted))
			names = append(names, name)
		}
		mysqltest.Must(t, rows.Err())
		return names
	}
	fill := func(n int) {
		for range n {
			mysqltest.Exec(t, db, "INSERT INTO purging.t VALUES ()")
			mysqltest.Exec(t, db, "FLUSH BINARY LOGS")
		}
	}
	caughtUp := func(member int) string {
		mysqltest.CatchUp(t, m[member], m[0])
		return m[member].Observe(ctx).Executed
	}

	fill(3)
	caughtUp(2)
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	behind := m[2].Observe(ctx).Executed
	needed := logs()[len(logs())-1] // the active one when the replica stopped
	fill(6)
	executed := caughtUp(1)

	// Logs without a transaction may go whoever lacks what.
	purged := mysqltest.Value(t, db, "SELECT @@gtid_purged")
	_, err := m[0].PurgeBinaryLogs(ctx, []string{executed, ""}, 0)
	mysqltest.Must(t, err)
	if _, err = m[0].PurgeBinaryLogs(ctx, []string{executed, "nonsense"}, 0); err == nil {
		t.Error("a position that is none was taken")
	}
	if now := mysqltest.Value(t, db, "SELECT @@gtid_purged"); now != purged {
		t.Errorf("gone although a replica lacks it: %s, before %s", now, purged)
	}
	before := logs()
	purgedNow, err := m[0].PurgeBinaryLogs(ctx, []string{executed, behind}, 1)
	mysqltest.Must(t, err)
	if left := logs(); purgedNow.Logs != 1 || purgedNow.Bytes < 100 || len(left) != len(before)-1 {
		t.Errorf("%+v removed for one byte, left %v", purgedNow, left)
	}
	before = logs()
	purgedNow, err = m[0].PurgeBinaryLogs(ctx, []string{executed, behind}, 0)
	mysqltest.Must(t, err)
	left := logs()
	if removed := purgedNow.Logs; removed != len(before)-len(left) || removed == 0 || left[0] != needed {
		t.Errorf("%d removed, left %v, needed %s", removed, left, needed)
	}
	mysqltest.Must(t, m[2].StartReplica(ctx))
	if caughtUp(2) != executed {
		t.Error("the replica that was behind has not caught up")
	}

	// A log that is being read stays, and so do those after it: the session that sent to the replica until it was stopped may
	// not have noticed.
	mysqltest.WaitFor(t, "only the newest logs are left", func() bool {
		before = logs()
		purgedNow, err = m[0].PurgeBinaryLogs(ctx, []string{executed, executed}, 0)
		mysqltest.Must(t, err)
		if left = logs(); purgedNow.Logs != len(before)-len(left) || len(left) < admin.KeepBinaryLogs {
			t.Fatalf("%+v removed, left %v of %v", purgedNow, left, before)
		}
		return len(left) == admin.KeepBinaryLogs
	})
	if purgedNow, err = m[0].PurgeBinaryLogs(ctx, []string{executed, executed}, 0); err != nil || purgedNow.Logs != 0 {
		t.Errorf("again: %+v removed, %v", purgedNow, err)
	}
	fill(2)
	caughtUp(1)
	caughtUp(2)
	for i := range 2 {
		if o := m[i+1].Observe(ctx); o.Replication.LastIOError != "" || o.Replication.IOState != mysql.IOOn {
			t.Errorf("member %d: %s %s", i+1, o.Replication.IOState, o.Replication.LastIOError)
		}
	}

	// Commits that wait: it says so, and does not hang.
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	waiting := mysqltest.Connect(t, w.Servers[0], "&INSERT INTO purging.t VALUES ()")
	mysqltest.WaitFor(t, "the commit waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	_, err = m[0].PurgeBinaryLogs(ctx, []string{executed, executed}, 0)
	mysqltest.WantError(t, err, mysql.ErrCommitsPending)
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.Must(t, m[2].StartReplica(ctx))
	mysqltest.Must(t, <-waiting.Ended)
}

// TestALongListOfBinaryLogsIsRead though it is longer than what the pool takes as an answer to anything else.
func TestALongListOfBinaryLogsIsRead(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	db := mysqltest.Root(t, w.Servers[0])
	for range 400 { // some 25 bytes of an answer each
		mysqltest.Exec(t, db, "FLUSH BINARY LOGS")
	}
	executed := m[0].Observe(t.Context()).Executed
	narrow := mysqltest.NewPool(t, func(o *conn.Options) { o.MaxAnswer = 6 << 10 })
	purged, err := w.Members(narrow)[0].PurgeBinaryLogs(t.Context(), []string{executed}, 0)
	if err != nil || purged.Logs == 0 {
		t.Errorf("%+v removed, %v", purged, err)
	}
	if _, err := m[0].PurgeBinaryLogs(t.Context(), []string{executed}, 0); err != nil {
		t.Error(err)
	}
}

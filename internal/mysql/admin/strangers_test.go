package admin_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// estrange makes server 2 a replica that is no member: it replicates from the primary with an account of its own, and acknowledges.
func estrange(t *testing.T, w *mysqltest.World, semiSync bool) *sql.DB {
	t.Helper()
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE USER IF NOT EXISTS warehouse@'%' IDENTIFIED BY 'Example-1'")
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "GRANT REPLICATION SLAVE ON *.* TO warehouse@'%'")
	db := mysqltest.Root(t, w.Servers[2])
	mysqltest.WaitFor(t, "the account is there", func() bool {
		return mysqltest.Value(t, db, "SELECT COUNT(*) FROM mysql.user WHERE User = 'warehouse' AND Repl_slave_priv = 'Y'") == "1"
	})
	mysqltest.Exec(t, db, "STOP REPLICA")
	mysqltest.Exec(t, db, "SET GLOBAL rpl_semi_sync_replica_enabled = ?", semiSync)
	mysqltest.Exec(t, db, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%d, SOURCE_USER='warehouse', SOURCE_PASSWORD='Example-1', SOURCE_SSL=1, SOURCE_SSL_CERT='', SOURCE_SSL_KEY='', SOURCE_CONNECT_RETRY=600",
		w.Servers[0].IP(), mysqld.Port))
	mysqltest.Exec(t, db, "START REPLICA")
	mysqltest.WaitFor(t, "the stranger receives", func() bool {
		return mysqltest.Value(t, db, "SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE SERVICE_STATE = 'ON'") == "1"
	})
	t.Cleanup(func() {
		for _, statement := range []string{"STOP REPLICA", "RESET REPLICA ALL"} {
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
		// The primary notices the end of the session some time later, and would go on waiting for it as well.
		primary := mysqltest.Root(t, w.Servers[0])
		_, _ = primary.ExecContext(context.WithoutCancel(t.Context()), "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1")
		for range 300 {
			var left int
			if err := primary.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT COUNT(*) "+observe.StrangerThreads).Scan(&left); err != nil || left == 0 {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("the stranger's session does not end")
	})
	return db
}

// TestStrangersDoNotStandInForVoters: a replica that is no member acknowledges like one. The primary waits for one acknowledgement
// more, so that a voter's is among them.
func TestStrangersDoNotStandInForVoters(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, primary := t.Context(), m[0]
	before := primary.Observe(ctx).SemiSync
	if len(before.Strangers) != 0 {
		t.Fatalf("strangers before there is one: %v", before.Strangers)
	}
	estrange(t, w, true)
	mysqltest.WaitFor(t, "it is seen", func() bool { return len(primary.Observe(ctx).SemiSync.Strangers) == 1 })
	seen := primary.Observe(ctx).SemiSync
	if !strings.HasPrefix(seen.Strangers[0].Account, "warehouse@") {
		t.Errorf("strangers %v", seen.Strangers)
	}
	mysqltest.Must(t, primary.SetSourceWait(ctx, true, 1))
	if wait := primary.Observe(ctx).SemiSync.WaitCount; wait != 2 {
		t.Errorf("waits for %d acknowledgements, want 2", wait)
	}
	mysqltest.Must(t, primary.LowerSourceWait(ctx, 1, 0))
	if wait := primary.Observe(ctx).SemiSync.WaitCount; wait != 2 {
		t.Errorf("waits for %d acknowledgements while a stranger acknowledges, want 2", wait)
	}
	mysqltest.Must(t, primary.SetSourceWait(ctx, true, 2))
	mysqltest.Must(t, primary.SetSourceWait(ctx, true, 1))
	if wait := primary.Observe(ctx).SemiSync.WaitCount; wait != 3 {
		t.Errorf("waits for %d acknowledgements, want 3: only one action lowers that", wait)
	}
	mysqltest.Must(t, primary.LowerSourceWait(ctx, 1, 0))

	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS strangers")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS strangers.t (id INT PRIMARY KEY)")
	mysqltest.Exec(t, db, "REPLACE INTO strangers.t VALUES (1)")
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	var answered atomic.Bool
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "REPLACE INTO strangers.t VALUES (2)")
		answered.Store(true)
		done <- err
	}()
	mysqltest.WaitFor(t, "the commit waits", func() bool { return primary.Observe(ctx).PendingCommits > 0 })
	received := mysqltest.Root(t, w.Servers[2])
	mysqltest.WaitFor(t, "the stranger has it", func() bool {
		return mysqltest.Value(t, received, "SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE SERVICE_STATE = 'ON' AND LAST_QUEUED_TRANSACTION <> ''") == "1"
	})
	time.Sleep(time.Second)
	if answered.Load() {
		t.Fatal("the commit was answered with a stranger's acknowledgement")
	}
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.Must(t, <-done)
	mysqltest.Exec(t, db, "DROP DATABASE strangers")
}

// TestStrangersAreDisconnected: their sessions end, and nobody else's. Their replicas connect again at once.
func TestStrangersAreDisconnected(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, primary, db := t.Context(), m[0], mysqltest.Root(t, w.Servers[0])
	estrange(t, w, true)
	mysqltest.WaitFor(t, "it is seen", func() bool { return len(primary.Observe(ctx).SemiSync.Strangers) == 1 })
	sessions := func(user string) string {
		return mysqltest.Value(t, db, "SELECT GROUP_CONCAT(PROCESSLIST_ID) FROM performance_schema.threads WHERE PROCESSLIST_COMMAND LIKE 'Binlog Dump%' AND PROCESSLIST_USER = '"+user+"'")
	}
	stranger, members := sessions("warehouse"), sessions(mysql.ReplicationUser)
	mysqltest.Must(t, m[0].DisconnectStrangers(ctx))
	mysqltest.WaitFor(t, "its session is another", func() bool { now := sessions("warehouse"); return now != "" && now != stranger })
	if now := sessions(mysql.ReplicationUser); now != members {
		t.Errorf("sessions of members: %s, before %s", now, members)
	}
}

// TestReplicasThatDoNotAcknowledgeAreNoStrangers: people may hang replicas on the cluster.
func TestReplicasThatDoNotAcknowledgeAreNoStrangers(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	estrange(t, w, false)
	if s := m[0].Observe(t.Context()).SemiSync; len(s.Strangers) != 0 {
		t.Errorf("strangers %v", s.Strangers)
	}
}

package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// estrange makes server 2 a replica that is no member: it replicates from the primary with an account of its own, and acknowledges.
func estrange(t *testing.T, w *world, semiSync bool) *sql.DB {
	t.Helper()
	exec(t, root(t, w.servers[0]), "CREATE USER IF NOT EXISTS warehouse@'%' IDENTIFIED BY 'Example-1'")
	exec(t, root(t, w.servers[0]), "GRANT REPLICATION SLAVE ON *.* TO warehouse@'%'")
	db := root(t, w.servers[2])
	waitFor(t, "the account is there", func() bool {
		return value(t, db, "SELECT COUNT(*) FROM mysql.user WHERE User = 'warehouse' AND Repl_slave_priv = 'Y'") == "1"
	})
	exec(t, db, "STOP REPLICA")
	exec(t, db, "SET GLOBAL rpl_semi_sync_replica_enabled = ?", semiSync)
	exec(t, db, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%d, SOURCE_USER='warehouse', SOURCE_PASSWORD='Example-1', SOURCE_SSL=1, SOURCE_SSL_CERT='', SOURCE_SSL_KEY='', SOURCE_CONNECT_RETRY=600",
		w.servers[0].IP(), mysqld.Port))
	exec(t, db, "START REPLICA")
	waitFor(t, "the stranger receives", func() bool {
		return value(t, db, "SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE SERVICE_STATE = 'ON'") == "1"
	})
	t.Cleanup(func() {
		for _, statement := range []string{"STOP REPLICA", "RESET REPLICA ALL"} {
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
		// The primary notices the end of the session some time later, and would go on waiting for it as well.
		primary := root(t, w.servers[0])
		_, _ = primary.ExecContext(context.WithoutCancel(t.Context()), "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1")
		for range 300 {
			var left int
			if err := primary.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT COUNT(*) "+strangerThreads).Scan(&left); err != nil || left == 0 {
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
	w, m := settle(t, newPool(t, nil))
	ctx, primary := t.Context(), m[0]
	before := primary.Observe(ctx).SemiSync
	if len(before.Strangers) != 0 {
		t.Fatalf("strangers before there is one: %v", before.Strangers)
	}
	estrange(t, w, true)
	waitFor(t, "it is seen", func() bool { return len(primary.Observe(ctx).SemiSync.Strangers) == 1 })
	seen := primary.Observe(ctx).SemiSync
	if !strings.HasPrefix(seen.Strangers[0].Account, "warehouse@") {
		t.Errorf("strangers %v", seen.Strangers)
	}
	must(t, primary.SetSourceWait(ctx, true, 1))
	if wait := primary.Observe(ctx).SemiSync.WaitCount; wait != 2 {
		t.Errorf("waits for %d acknowledgements, want 2", wait)
	}
	must(t, primary.LowerSourceWait(ctx, 1, 0))
	if wait := primary.Observe(ctx).SemiSync.WaitCount; wait != 2 {
		t.Errorf("waits for %d acknowledgements while a stranger acknowledges, want 2", wait)
	}
	must(t, primary.SetSourceWait(ctx, true, 2))
	must(t, primary.SetSourceWait(ctx, true, 1))
	if wait := primary.Observe(ctx).SemiSync.WaitCount; wait != 3 {
		t.Errorf("waits for %d acknowledgements, want 3: only one action lowers that", wait)
	}
	must(t, primary.LowerSourceWait(ctx, 1, 0))

	db := root(t, w.servers[0])
	exec(t, db, "CREATE DATABASE IF NOT EXISTS strangers")
	exec(t, db, "CREATE TABLE IF NOT EXISTS strangers.t (id INT PRIMARY KEY)")
	exec(t, db, "REPLACE INTO strangers.t VALUES (1)")
	must(t, m[1].StopIOThread(ctx))
	var answered atomic.Bool
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "REPLACE INTO strangers.t VALUES (2)")
		answered.Store(true)
		done <- err
	}()
	waitFor(t, "the commit waits", func() bool { return primary.Observe(ctx).PendingCommits > 0 })
	received := root(t, w.servers[2])
	waitFor(t, "the stranger has it", func() bool {
		return value(t, received, "SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE SERVICE_STATE = 'ON' AND LAST_QUEUED_TRANSACTION <> ''") == "1"
	})
	time.Sleep(time.Second)
	if answered.Load() {
		t.Fatal("the commit was answered with a stranger's acknowledgement")
	}
	must(t, m[1].SetAcknowledging(ctx, true))
	must(t, m[1].StartReplica(ctx))
	must(t, <-done)
	exec(t, db, "DROP DATABASE strangers")
}

// TestStrangersAreDisconnected: their sessions end, and nobody else's. Their replicas connect again at once.
func TestStrangersAreDisconnected(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx, primary, db := t.Context(), m[0], root(t, w.servers[0])
	estrange(t, w, true)
	waitFor(t, "it is seen", func() bool { return len(primary.Observe(ctx).SemiSync.Strangers) == 1 })
	sessions := func(user string) string {
		return value(t, db, "SELECT GROUP_CONCAT(PROCESSLIST_ID) FROM performance_schema.threads WHERE PROCESSLIST_COMMAND LIKE 'Binlog Dump%' AND PROCESSLIST_USER = '"+user+"'")
	}
	stranger, members := sessions("warehouse"), sessions(ReplicationUser)
	must(t, m[0].DisconnectStrangers(ctx))
	waitFor(t, "its session is another", func() bool { now := sessions("warehouse"); return now != "" && now != stranger })
	if now := sessions(ReplicationUser); now != members {
		t.Errorf("sessions of members: %s, before %s", now, members)
	}
}

// TestReplicasThatDoNotAcknowledgeAreNoStrangers: people may hang replicas on the cluster.
func TestReplicasThatDoNotAcknowledgeAreNoStrangers(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	estrange(t, w, false)
	if s := m[0].Observe(t.Context()).SemiSync; len(s.Strangers) != 0 {
		t.Errorf("strangers %v", s.Strangers)
	}
}

// TestProberTellsOfChangedSettings: whoever switches something off on which the promise rests is noticed at the next write.
func TestProberTellsOfChangedSettings(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	var told atomic.Int64
	p := NewProber(ProberOptions{Interval: 200 * time.Millisecond, Timeout: 5 * time.Second, OnChange: func(string) { told.Add(1) }})
	defer p.Close()
	p.Set("uid", Target{Address: w.servers[0].Address(), ServerName: w.servers[0].DNSName(), Identity: w.identity()})
	waitFor(t, "writes succeed", func() bool { return !p.Status("uid").LastSuccess.IsZero() && p.Status("uid").Err == "" })
	db := root(t, w.servers[0])
	for _, row := range []struct{ change, back, refusal string }{
		{"SET GLOBAL rpl_semi_sync_source_enabled = OFF", "SET GLOBAL rpl_semi_sync_source_enabled = ON", ""},
		{"SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2", "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1", ""},
		{"SET GLOBAL rpl_semi_sync_source_timeout = 1000", "SET GLOBAL rpl_semi_sync_source_timeout = " + SourceTimeout, ""},
		{"SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_COMMIT", "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC", ""},
		{"SET GLOBAL rpl_semi_sync_source_wait_no_replica = OFF", "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON", ""},
		{"SET GLOBAL sync_binlog = 0", "SET GLOBAL sync_binlog = 1", ""},
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1", ""},
		{"SET GLOBAL read_only = ON", "SET GLOBAL read_only = OFF", "read_only is ON"},
		{"SET GLOBAL offline_mode = ON", "SET GLOBAL offline_mode = OFF", ""}, // it disconnects the voters, so that writes wait
		{"SET GLOBAL transaction_read_only = ON", "SET GLOBAL transaction_read_only = OFF", "transaction_read_only is ON"},
	} {
		t.Run(strings.TrimPrefix(row.change, "SET GLOBAL "), func(t *testing.T) {
			steady := func() int64 {
				n := told.Load()
				time.Sleep(600 * time.Millisecond)
				return told.Load() - n
			}
			waitFor(t, "no change is reported at rest", func() bool { return steady() == 0 })
			before := told.Load()
			exec(t, db, row.change)
			waitFor(t, "the change is reported", func() bool { return told.Load() > before })
			waitFor(t, "the refusal", func() bool { return strings.HasSuffix(p.Status("uid").Err, row.refusal) })
			if off := m[0].Observe(t.Context()).Refusing; (len(off) > 0) != (strings.Contains(row.change, "offline") || strings.Contains(row.change, "transaction")) {
				t.Errorf("refusing: %v", off)
			}
			exec(t, db, row.back)
			since := time.Now()
			waitFor(t, "writes succeed", func() bool { return p.Status("uid").Err == "" && p.Status("uid").LastSuccess.After(since) })
		})
	}
}

// TestProberDoesWithoutThePlugin: a person can uninstall what the settings belong to. Writes continue, and the change is reported.
func TestProberDoesWithoutThePlugin(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	for _, replica := range m[1:] {
		must(t, replica.StopIOThread(ctx))
	}
	var told atomic.Int64
	p := NewProber(ProberOptions{Interval: 200 * time.Millisecond, Timeout: 5 * time.Second, OnChange: func(string) { told.Add(1) }})
	defer p.Close()
	db := root(t, w.servers[0])
	exec(t, db, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
	p.Set("uid", Target{Address: w.servers[0].Address(), ServerName: w.servers[0].DNSName(), Identity: w.identity()})
	waitFor(t, "writes succeed", func() bool { return !p.Status("uid").LastSuccess.IsZero() })
	before := told.Load()
	exec(t, db, "UNINSTALL PLUGIN rpl_semi_sync_source")
	since := time.Now()
	waitFor(t, "the change is reported, and writes continue", func() bool {
		return told.Load() > before && p.Status("uid").LastSuccess.After(since) && p.Status("uid").Err == ""
	})
	exec(t, db, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
}

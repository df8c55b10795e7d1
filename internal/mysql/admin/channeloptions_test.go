package admin_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestChannelIsRestored: whatever option of a replica's channel somebody changes is seen, and set back.
func TestChannelIsRestored(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	client, db := mysqltest.Root(t, w.Servers[0]), mysqltest.Root(t, w.Servers[1])
	for change, seen := range map[string]string{
		"SOURCE_CONNECT_RETRY = 86400":                                     "SOURCE_CONNECT_RETRY is 86400",
		"SOURCE_RETRY_COUNT = 3":                                           "SOURCE_RETRY_COUNT is 3",
		"SOURCE_HEARTBEAT_PERIOD = 1000":                                   "SOURCE_HEARTBEAT_PERIOD is 1000.000",
		"SOURCE_SSL_VERIFY_SERVER_CERT = 0":                                "SOURCE_SSL_VERIFY_SERVER_CERT is NO",
		"SOURCE_TLS_VERSION = 'TLSv1.3', SOURCE_USER = 'x'":                "SOURCE_USER is x,SOURCE_TLS_VERSION is TLSv1.3",
		"SOURCE_AUTO_POSITION = 0":                                         "SOURCE_AUTO_POSITION is 0",
		"SOURCE_COMPRESSION_ALGORITHMS = 'zstd'":                           "SOURCE_COMPRESSION_ALGORITHMS is zstd",
		"REQUIRE_TABLE_PRIMARY_KEY_CHECK = GENERATE":                       "REQUIRE_TABLE_PRIMARY_KEY_CHECK is GENERATE",
		"GTID_ONLY = 1, REQUIRE_ROW_FORMAT = 1":                            "GTID_ONLY is 1,REQUIRE_ROW_FORMAT is YES",
		"SOURCE_DELAY = 60, PRIVILEGE_CHECKS_USER = 'nairobi_replication'": "SOURCE_DELAY is 60,PRIVILEGE_CHECKS_USER is 'nairobi_replication'@'%'",
	} {
		mysqltest.Exec(t, db, "STOP REPLICA")
		mysqltest.Exec(t, db, "CHANGE REPLICATION SOURCE TO "+change)
		if r := m[1].Observe(ctx).Replication; r == nil || strings.Join(append(r.Filters, r.Options...), ",") != seen {
			t.Errorf("%s: seen %+v", change, r)
		}
		mysqltest.Replicate(t, m[1], w.Servers[0])
		if r := m[1].Observe(ctx).Replication; r == nil || r.Tampered() || !r.SQLRunning {
			t.Errorf("%s: afterwards %+v", change, r)
		}
		insert(t, client, 1)
		mysqltest.CatchUp(t, m[1], m[0])
	}
}

// TestReceiverIsRestoredOnceAllIsApplied: while the applier of a replica hangs behind, its receiver is corrected by no attempt, and goes on
// receiving and acknowledging after each. What was received stays in the relay log, and nobody is disturbed on the replica.
func TestReceiverIsRestoredOnceAllIsApplied(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	client, db := mysqltest.Root(t, w.Servers[0]), mysqltest.Root(t, w.Servers[1])
	for _, change := range []string{"SOURCE_HEARTBEAT_PERIOD = 2", "SOURCE_CONNECT_RETRY = 86400, SOURCE_TLS_VERSION = 'TLSv1.3'"} {
		holder := mysqltest.Connect(t, w.Servers[1], "LOCK TABLES shop.relayed READ")
		before := mysqltest.Value(t, db, "SELECT COUNT(*) FROM shop.relayed")
		insert(t, client, 3)
		received := m[0].Observe(ctx).Executed
		mysqltest.WaitFor(t, "the replica has received all", func() bool { return holds(t, db, received) })
		mysqltest.Exec(t, db, "STOP REPLICA IO_THREAD")
		mysqltest.Exec(t, db, "CHANGE REPLICATION SOURCE TO "+change)
		mysqltest.Exec(t, db, "START REPLICA IO_THREAD")
		mysqltest.WantError(t, m[1].ReplicateFrom(ctx, w.Servers[0].IP(), mysqld.Port), mysql.ErrNotApplied)
		if !holds(t, db, received) {
			t.Errorf("%s: what was received is gone", change)
		}
		insert(t, client, 1)
		received = m[0].Observe(ctx).Executed
		mysqltest.WaitFor(t, "the receiver goes on", func() bool { return holds(t, db, received) })
		if n := mysqltest.Value(t, db, "SELECT COUNT(*) FROM shop.relayed"); n != before {
			t.Errorf("%s: %s rows, before %s: some were applied behind the lock", change, n, before)
		}
		holder.Leave()
		mysqltest.CatchUp(t, m[1], m[0])
		mysqltest.Replicate(t, m[1], w.Servers[0])
		if r := m[1].Observe(ctx).Replication; r == nil || r.Tampered() || !r.SQLRunning {
			t.Errorf("%s: afterwards %+v", change, r)
		}
	}
}

// holds says whether a replica has received or executed all of a set.
func holds(t *testing.T, db *sql.DB, gtids string) bool {
	t.Helper()
	return mysqltest.Value(t, db, `SELECT GTID_SUBSET('`+gtids+`', CONCAT_WS(',', @@GLOBAL.gtid_executed,
		(SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = '')))`) == "1"
}

// TestEveryChannelOptionIsCompared: whatever performance_schema shows of a channel's configuration is compared, but for the address of the
// source, which is another one with each primary.
func TestEveryChannelOptionIsCompared(t *testing.T) {
	w := mysqltest.TheWorld(t)
	columns := mysqltest.Value(t, mysqltest.Root(t, w.Servers[0]), `SELECT GROUP_CONCAT(COLUMN_NAME) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'performance_schema'
		AND TABLE_NAME IN ('replication_connection_configuration', 'replication_applier_configuration')
		AND COLUMN_NAME NOT IN ('CHANNEL_NAME', 'HOST', 'PORT', 'ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_VALUE')`)
	if !strings.Contains(columns, "CONNECTION_RETRY_INTERVAL") {
		t.Fatalf("the columns are %q", columns)
	}
	for _, column := range strings.Split(columns, ",") {
		if !strings.Contains(observe.ChannelDiffers, "IF("+column+" <=> ") {
			t.Errorf("%s is not compared", column)
		}
	}
}

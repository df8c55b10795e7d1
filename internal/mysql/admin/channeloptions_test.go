package admin_test

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
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

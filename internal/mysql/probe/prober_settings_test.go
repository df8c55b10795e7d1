package probe_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestProberTellsOfChangedSettings: whoever switches something off on which the promise rests is noticed at the next write.
func TestProberTellsOfChangedSettings(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	var told atomic.Int64
	p := probe.NewProber(probe.ProberOptions{Interval: 200 * time.Millisecond, Timeout: 5 * time.Second, OnChange: func(string) { told.Add(1) }})
	defer p.Close()
	p.Set("uid", probe.Target{Address: w.Servers[0].Address(), ServerName: w.Servers[0].DNSName(), Identity: w.Identity()})
	mysqltest.WaitFor(t, "writes succeed", func() bool { return !p.Status("uid").LastSuccess.IsZero() && p.Status("uid").Err == "" })
	db := mysqltest.Root(t, w.Servers[0])
	for _, row := range []struct{ change, back, refusal string }{
		{"SET GLOBAL rpl_semi_sync_source_enabled = OFF", "SET GLOBAL rpl_semi_sync_source_enabled = ON", ""},
		{"SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2", "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1", ""},
		{"SET GLOBAL rpl_semi_sync_source_timeout = 1000", "SET GLOBAL rpl_semi_sync_source_timeout = " + mysql.SourceTimeout, ""},
		{"SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_COMMIT", "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC", ""},
		{"SET GLOBAL rpl_semi_sync_source_wait_no_replica = OFF", "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON", ""},
		{"SET GLOBAL sync_binlog = 0", "SET GLOBAL sync_binlog = 1", ""},
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1", ""},
		{"SET GLOBAL binlog_format = STATEMENT", "SET GLOBAL binlog_format = ROW", ""},
		{"SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = ON", ""},
		{"SET GLOBAL autocommit = OFF", "SET GLOBAL autocommit = ON", ""},
		{"SET GLOBAL completion_type = CHAIN", "SET GLOBAL completion_type = NO_CHAIN", ""},
		{"SET GLOBAL protocol_compression_algorithms = 'zstd'", "SET GLOBAL protocol_compression_algorithms = 'zlib,zstd,uncompressed'", "compression"},
		{"ALTER INSTANCE DISABLE INNODB REDO_LOG", "ALTER INSTANCE ENABLE INNODB REDO_LOG", ""},
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
			mysqltest.WaitFor(t, "no change is reported at rest", func() bool { return steady() == 0 })
			before := told.Load()
			mysqltest.Exec(t, db, row.change)
			mysqltest.WaitFor(t, "the change is reported", func() bool { return told.Load() > before })
			mysqltest.WaitFor(t, "the refusal", func() bool { return strings.Contains(p.Status("uid").Err, row.refusal) })
			if off := m[0].Observe(t.Context()).Refusing; (len(off) > 0) != (strings.Contains(row.change, "offline") || strings.Contains(row.change, "transaction")) {
				t.Errorf("refusing: %v", off)
			}
			mysqltest.Exec(t, db, row.back)
			since := time.Now()
			mysqltest.WaitFor(t, "writes succeed", func() bool { return p.Status("uid").Err == "" && p.Status("uid").LastSuccess.After(since) })
		})
	}
}

// TestProberDoesWithoutThePlugin: a person can uninstall what the settings belong to. Writes continue, and the change is reported.
func TestProberDoesWithoutThePlugin(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	for _, replica := range m[1:] {
		mysqltest.Must(t, replica.StopIOThread(ctx))
	}
	var told atomic.Int64
	p := probe.NewProber(probe.ProberOptions{Interval: 200 * time.Millisecond, Timeout: 5 * time.Second, OnChange: func(string) { told.Add(1) }})
	defer p.Close()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
	p.Set("uid", probe.Target{Address: w.Servers[0].Address(), ServerName: w.Servers[0].DNSName(), Identity: w.Identity()})
	mysqltest.WaitFor(t, "writes succeed", func() bool { return !p.Status("uid").LastSuccess.IsZero() })
	before := told.Load()
	mysqltest.Exec(t, db, "UNINSTALL PLUGIN rpl_semi_sync_source")
	since := time.Now()
	mysqltest.WaitFor(t, "the change is reported, and writes continue", func() bool {
		return told.Load() > before && p.Status("uid").LastSuccess.After(since) && p.Status("uid").Err == ""
	})
	mysqltest.Exec(t, db, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
}

// TestProberMakesItsTableAgain: what only the prober writes to is as it was made again, whatever somebody did to it.
func TestProberMakesItsTableAgain(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	db := mysqltest.Root(t, w.Servers[0])
	p := probe.NewProber(probe.ProberOptions{Interval: 200 * time.Millisecond, Timeout: 5 * time.Second})
	defer p.Close()
	p.Set("uid", probe.Target{Address: w.Servers[0].Address(), ServerName: w.Servers[0].DNSName(), Identity: w.Identity()})
	mysqltest.WaitFor(t, "writes succeed", func() bool { return !p.Status("uid").LastSuccess.IsZero() })
	const is = `SELECT CONCAT_WS(' ', (SELECT GROUP_CONCAT(COLUMN_NAME, ' ', COLUMN_TYPE, ' ', COLUMN_KEY ORDER BY COLUMN_NAME) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'heartbeat'),
		(SELECT CONCAT(TABLE_TYPE, CREATE_OPTIONS) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'heartbeat'),
		(SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'heartbeat'),
		(SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'nairobi_mysql'),
		(SELECT OPTIONS FROM information_schema.SCHEMATA_EXTENSIONS WHERE SCHEMA_NAME = 'nairobi_mysql'))`
	was := mysqltest.Value(t, db, is)
	// replaced puts another in its place at once: the prober writes all the time.
	replaced := func(by string) []string {
		return []string{"CREATE " + by, "RENAME TABLE nairobi_mysql.heartbeat TO nairobi_mysql.former, nairobi_mysql.other TO nairobi_mysql.heartbeat", "DROP TABLE nairobi_mysql.former"}
	}
	for name, done := range map[string][]string{
		"it is dropped":           {"DROP TABLE nairobi_mysql.heartbeat"},
		"the database is closed":  {"ALTER DATABASE nairobi_mysql READ ONLY = 1"},
		"a column is missing":     {"ALTER TABLE nairobi_mysql.heartbeat DROP COLUMN at"},
		"a column was added":      {"ALTER TABLE nairobi_mysql.heartbeat ADD COLUMN why TEXT NOT NULL"},
		"a trigger forbids":       {"CREATE TRIGGER nairobi_mysql.`no``more` BEFORE INSERT ON nairobi_mysql.heartbeat FOR EACH ROW SIGNAL SQLSTATE '45000'"},
		"its constraint is other": replaced("TABLE nairobi_mysql.other (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, CONSTRAINT one_other CHECK (id <> 1))"),
		"a column is generated":   replaced("TABLE nairobi_mysql.other (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) AS ('2020-01-01 00:00:00') STORED NOT NULL)"),
		"it is a view":            replaced("VIEW nairobi_mysql.other AS SELECT 1 AS id, NOW(6) AS at"),
		"a constraint forbids":    replaced("TABLE nairobi_mysql.other (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, CHECK (id > 0), CHECK (id > 1))"),
		"it is partitioned":       replaced("TABLE nairobi_mysql.other (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL) PARTITION BY LIST (id) (PARTITION p VALUES IN (2))"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, statement := range done {
				mysqltest.Exec(t, db, statement)
			}
			since := time.Now()
			mysqltest.WaitFor(t, "all is as it was", func() bool { return mysqltest.Value(t, db, is) == was })
			mysqltest.WaitFor(t, "writes succeed again", func() bool { return p.Status("uid").Err == "" && p.Status("uid").LastSuccess.After(since) })
		})
	}
}

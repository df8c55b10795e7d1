package admin_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestNobodyLocksTheOperatorOut: what turns everybody away who connects is put back over the session that is still open.
func TestNobodyLocksTheOperatorOut(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	for _, statements := range [][]string{
		{"SET GLOBAL protocol_compression_algorithms = 'zstd'"},
		{"SET GLOBAL ssl_ca = 'none.pem'", "ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR"}, // it turns TLS off
		{"SET GLOBAL ssl_ca = 'none.pem'", "ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR", "SET GLOBAL ssl_ca = '" + mysql.TLSDir + "ca.pem'"},
	} {
		m := w.Members(mysqltest.NewPool(t, nil))[0] // no writing session is open
		if o := m.Observe(ctx); o.Access != mysql.AccessVerified {
			t.Fatal(o.Access, o.Reason)
		}
		for _, statement := range statements {
			mysqltest.Exec(t, db, statement)
		}
		stranger := mysqltest.NewPool(t, nil)
		if o := w.Members(stranger)[0].Observe(ctx); o.Access == mysql.AccessVerified {
			t.Errorf("%s: a new session is let in", statements)
		}
		wrong := map[string]string{}
		for name, have := range m.Observe(ctx).Settings {
			if want, pinned := mysql.PinnedSettings()[name]; pinned && !mysql.EqualSetting(want, have) {
				wrong[name] = want
			}
		}
		if len(wrong) == 0 {
			t.Errorf("%s: seen as changed: nothing", statements)
		}
		mysqltest.Must(t, m.PinSettings(ctx, wrong))
		if o := w.Members(stranger)[0].Observe(ctx); o.Access != mysql.AccessVerified {
			t.Errorf("%s: afterwards a new session is %s: %s", statements, o.Access, o.Reason)
		}
	}
}

// TestPins: every pinned variable that somebody changed is put back, and the others are not touched.
func TestPins(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[1])
	for name, want := range mysql.PinnedSettings() {
		if have := m[1].Observe(ctx).Settings[name]; !mysql.EqualSetting(want, have) {
			t.Errorf("%s is %q before anything was changed, want %q", name, have, want)
		}
	}
	for name, want := range mysql.ReadOnlyPins() {
		if have := m[1].Observe(ctx).Settings[name]; !mysql.EqualSetting(want, have) {
			t.Errorf("%s is %q, want %q", name, have, want)
		}
	}
	drift := map[string]string{
		"sync_binlog": "1000", "binlog_error_action": "'IGNORE_ERROR'", "innodb_flush_log_at_trx_commit": "2", "innodb_doublewrite": "'DETECT_ONLY'",
		"rpl_semi_sync_source_wait_point": "'AFTER_COMMIT'", "rpl_semi_sync_source_wait_no_replica": "0",
		"rpl_semi_sync_source_timeout": "10000", "replica_net_timeout": "60", "replica_exec_mode": "'IDEMPOTENT'", "require_secure_transport": "OFF", "init_connect": "'SELECT 1'",
		"autocommit": "OFF", "completion_type": "'CHAIN'", "binlog_order_commits": "OFF", "default_storage_engine": "'MEMORY'", "default_tmp_storage_engine": "'MEMORY'",
		"protocol_compression_algorithms": "'zstd'", "tls_version": "'TLSv1.3'", "ssl_ca": "'none.pem'", "ssl_cert": "'none.pem'", "ssl_key": "'none.pem'",
		"innodb_checksum_algorithm": "'innodb'", "innodb_log_checksums": "OFF",
		"init_replica": "'SELECT 1'", "replica_max_allowed_packet": "2048", "replica_type_conversions": "'ALL_LOSSY'",
	}
	for _, name := range slices.Sorted(maps.Keys(drift)) {
		mysqltest.Exec(t, db, "SET GLOBAL "+name+" = "+drift[name])
	}
	wrong := map[string]string{}
	for name, have := range m[1].Observe(ctx).Settings {
		if want, pinned := mysql.PinnedSettings()[name]; pinned && !mysql.EqualSetting(want, have) {
			wrong[name] = want
		}
	}
	if len(wrong) != len(drift) || len(drift) != len(mysql.PinnedSettings())-5 { // those of GTIDs and binlog_format have tests of their own, and for encryption there is no keyring
		t.Errorf("seen as changed: %v", wrong)
	}
	mysqltest.Must(t, m[1].PinSettings(ctx, wrong))
	for name, want := range mysql.PinnedSettings() {
		if have := m[1].Observe(ctx).Settings[name]; !mysql.EqualSetting(want, have) {
			t.Errorf("%s is %q afterwards, want %q", name, have, want)
		}
	}
	if persisted := m[1].Observe(ctx).Persisted; len(persisted) != 0 {
		t.Errorf("persisted: %v", persisted)
	}
	mysqltest.WantError(t, m[1].PinSettings(ctx, map[string]string{"sync_binlog = 1, GLOBAL max_connections": "5"}), mysql.ErrSettingRefused)

	// A server that replicates refuses another binlog_format.
	primary := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, primary, "SET GLOBAL binlog_format = STATEMENT")
	mysqltest.Exec(t, primary, "ALTER INSTANCE DISABLE INNODB REDO_LOG")
	if o := m[0].Observe(ctx); o.Settings["binlog_format"] != "STATEMENT" || o.Settings[mysql.RedoLog] != "OFF" {
		t.Errorf("binlog_format is %q, the redo log is %q", o.Settings["binlog_format"], o.Settings[mysql.RedoLog])
	}
	mysqltest.Must(t, m[0].PinSettings(ctx, map[string]string{"binlog_format": "ROW", mysql.RedoLog: "ON"}))
	if o := m[0].Observe(ctx); o.Settings["binlog_format"] != "ROW" || o.Settings[mysql.RedoLog] != "ON" {
		t.Errorf("binlog_format is %q, the redo log is %q", o.Settings["binlog_format"], o.Settings[mysql.RedoLog])
	}

	// What only a restart changes stays, and keeps nothing else from being put back.
	m[1].WatchSettings([]string{"back_log"})
	before := m[1].Observe(ctx).Settings["back_log"]
	mysqltest.Exec(t, db, "SET GLOBAL sync_binlog = 1000")
	mysqltest.Must(t, m[1].PinSettings(ctx, map[string]string{"back_log": "7", "sync_binlog": "1"}))
	if o := m[1].Observe(ctx); o.Settings["back_log"] != before || o.Settings["sync_binlog"] != "1" {
		t.Errorf("back_log %q, sync_binlog %q", o.Settings["back_log"], o.Settings["sync_binlog"])
	}
}

// TestStartWithoutPersistedSettings: a server that had to leave them out says so, and what is persisted can be taken out there.
func TestStartWithoutPersistedSettings(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	s, replica := w.Servers[2], m[2]
	mysqltest.Exec(t, mysqltest.Root(t, s), "RESET PERSIST")
	_, err := replica.ApplySettings(ctx, map[string]string{mysql.MaxConnections: "78", "back_log": "77"}, nil, nil)
	mysqltest.Must(t, err)
	restarted := func(ignored bool) (o mysql.Observation) {
		t.Helper()
		first := s.PID()
		mysqltest.Must(t, replica.Restart(ctx))
		// The order is taken before the server goes down, and until then it answers.
		mysqltest.WaitFor(t, "the restart", func() bool {
			if pid := s.PID(); pid == 0 || pid == first {
				return false
			}
			o = replica.Observe(ctx)
			return o.Access == mysql.AccessVerified && o.PersistedIgnored == ignored
		})
		return o
	}
	mysqltest.Must(t, s.SetSettings(map[string]string{mysql.PersistedLoad: "OFF"}))
	if o := restarted(true); o.MaxConnections == 78 || o.Persisted[mysql.MaxConnections] != "78" || o.Persisted["back_log"] != "77" {
		t.Errorf("%d connections, persisted %v", o.MaxConnections, o.Persisted)
	}
	restart, err := replica.ApplySettings(ctx, nil, []string{"back_log"}, nil)
	mysqltest.Must(t, err)
	if !restart {
		t.Error("a dropped setting wants no restart")
	}
	mysqltest.Must(t, s.SetSettings(nil))
	if o := restarted(false); o.MaxConnections != 78 || len(o.Persisted) != 1 {
		t.Errorf("%d connections, persisted %v", o.MaxConnections, o.Persisted)
	}
	mysqltest.Exec(t, mysqltest.Root(t, s), "RESET PERSIST")
	restarted(false)
}

// TestApplySettings: dynamic, read-only, refused and dropped settings on a replica, then the restart that some need.
func TestApplySettings(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	replica := m[2]
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "RESET PERSIST")
	before := mysqltest.Value(t, mysqltest.Root(t, w.Servers[2]), "SELECT @@max_connections")
	replica.WatchSettings([]string{"max_connections", "max_heap_table_size", "sql_mode", "innodb_ft_min_token_size", "Not A Name"})

	dynamic := map[string]string{"max_connections": "77", "max_heap_table_size": "32M", "sql_mode": "ANSI_QUOTES", "long_query_time": "0.5", "innodb_adaptive_flushing": "off"}
	restart, err := replica.ApplySettings(ctx, dynamic, nil, nil)
	mysqltest.Must(t, err)
	if restart {
		t.Error("dynamic settings want a restart")
	}
	o := replica.Observe(ctx)
	if o.Settings["max_connections"] != "77" || o.Settings["max_heap_table_size"] != "33554432" || o.Settings["sql_mode"] != "ANSI_QUOTES" || len(o.Persisted) != len(dynamic) {
		t.Errorf("%v, persisted %v", o.Settings, o.Persisted)
	}

	wrongs := map[string]string{
		"max_connections":       "999999999",    // beyond the range: MySQL would take 100000 and warn
		"innodb_io_capacity":    "lots",         // no number
		"transaction_isolation": "CHAOS",        // no such level
		"no_such_variable":      "1",            // unknown
		"back_log":              "ON",           // wrong type, read-only variable
		"max_heap_table_size":   "99999999P",    // beyond 64 bits
		"datadir":               "/tmp",         // cannot be persisted
		"port":                  "3307",         // cannot be persisted
		"sort_buffer_size":      "1M; SHUTDOWN", // injection
	}
	for name, wrong := range wrongs {
		_, err := replica.ApplySettings(ctx, map[string]string{name: wrong, "read_buffer_size": "16384"}, nil, nil)
		if !errors.Is(err, mysql.ErrSettingRefused) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, wrong, err)
		}
	}
	o = replica.Observe(ctx)
	if o.Settings["max_connections"] != "77" || o.Persisted["max_connections"] != "77" || o.Persisted["read_buffer_size"] != "16384" {
		t.Errorf("after refusals: %v, persisted %v", o.Settings, o.Persisted)
	}
	if _, err := replica.ApplySettings(ctx, map[string]string{"x; DROP": "1", "read_rnd_buffer_size": "16384"}, []string{"y; DROP"}, nil); !errors.Is(err, mysql.ErrSettingRefused) {
		t.Error(err)
	}
	if o = replica.Observe(ctx); o.Persisted["read_rnd_buffer_size"] != "16384" {
		t.Errorf("a name that is none keeps others from being applied: persisted %v", o.Persisted)
	}

	static := map[string]string{"innodb_ft_min_token_size": "2"}
	for range 2 { // the second time nothing is written, and the restart is still due
		restart, err = replica.ApplySettings(ctx, static, slices.Sorted(maps.Keys(dynamic)), nil)
		mysqltest.Must(t, err)
		if !restart {
			t.Error("a read-only setting wants no restart")
		}
	}
	mysqltest.Must(t, replica.Restart(ctx))
	mysqltest.WaitFor(t, "the restart", func() bool {
		o = replica.Observe(ctx)
		return o.Access == mysql.AccessVerified && o.Settings["innodb_ft_min_token_size"] == "2"
	})
	if o.Settings["max_connections"] != before || !o.SuperReadOnly || o.Replication.SQLRunning || len(o.Persisted) != 3 {
		t.Errorf("after the restart: %v, persisted %v", o.Settings, o.Persisted)
	}
	db, due := mysqltest.Root(t, w.Servers[2]), 0
	noted := func(context.Context) error { due++; return nil }
	restart, err = replica.ApplySettings(ctx, static, []string{"read_buffer_size", "no_such_variable"}, noted)
	mysqltest.Must(t, err)
	if is := mysqltest.Value(t, db, "SELECT @@GLOBAL.read_buffer_size"); restart || due > 0 || is != "131072" || len(replica.Observe(ctx).Persisted) != 2 {
		t.Errorf("a dynamic setting was dropped: it is %s, restart %t, noted %d times", is, restart, due)
	}
	_, err = replica.ApplySettings(ctx, map[string]string{"thread_cache_size": "3"}, nil, nil)
	mysqltest.Must(t, err)
	for i, name := range []string{"thread_cache_size", "innodb_ft_min_token_size"} {
		restart, err = replica.ApplySettings(ctx, nil, []string{name}, noted)
		mysqltest.Must(t, err)
		if persisted := replica.Observe(ctx).Persisted[name]; !restart || due != i+1 || persisted != "" {
			t.Errorf("%s was dropped: persisted %q, restart %t, noted %d times", name, persisted, restart, due)
		}
	}
	if is := mysqltest.Value(t, db, "SELECT @@GLOBAL.thread_cache_size"); is != "3" {
		t.Errorf("thread_cache_size is %s before the restart that gives it its size", is)
	}
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "RESET PERSIST")
	mysqltest.WantError(t, m[0].Restart(ctx), mysql.ErrWritable)
}

// TestSettingsThatLimitEachOther are applied whatever their order, or refused with the reason; what MySQL made of them is not kept.
func TestSettingsThatLimitEachOther(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[2])
	reset := func() {
		for _, statement := range []string{"RESET PERSIST", "SET GLOBAL innodb_io_capacity_max = 2000", "SET GLOBAL innodb_io_capacity = 200", "SET GLOBAL innodb_io_capacity_max = 400"} {
			mysqltest.Exec(t, db, statement)
		}
	}
	reset()
	defer reset()
	is := func() string {
		return mysqltest.Value(t, db, "SELECT CONCAT(@@innodb_io_capacity, ' ', @@innodb_io_capacity_max)")
	}
	_, err := m[2].ApplySettings(ctx, map[string]string{"innodb_io_capacity": "4000", "innodb_io_capacity_max": "6000"}, nil, nil)
	mysqltest.Must(t, err)
	if is() != "4000 6000" {
		t.Errorf("in force is %s", is())
	}
	_, err = m[2].ApplySettings(ctx, map[string]string{"innodb_io_capacity": "7000", "back_log": "70"}, nil, nil)
	mysqltest.WantError(t, err, mysql.ErrSettingRefused)
	if why := err.Error(); !strings.Contains(why, "MySQL takes 6000") || !strings.Contains(why, "innodb_io_capacity_max") {
		t.Errorf("refused: %s", why)
	}
	if persisted := m[2].Observe(ctx).Persisted; is() != "4000 6000" || persisted["innodb_io_capacity"] != "4000" || persisted["back_log"] != "70" {
		t.Errorf("after the refusal %s, persisted %v", is(), persisted)
	}
}

// TestSizesThatMySQLRounds are applied as it rounds them, unless they are beyond its range.
func TestSizesThatMySQLRounds(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "RESET PERSIST")
	defer mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "RESET PERSIST")
	_, err := m[2].ApplySettings(ctx, map[string]string{"max_allowed_packet": "2097153", "innodb_buffer_pool_size": "12345678"}, nil, nil)
	mysqltest.Must(t, err)
	persisted := m[2].Observe(ctx).Persisted
	if persisted["max_allowed_packet"] != "2097152" || persisted["innodb_buffer_pool_size"] == "" || persisted["innodb_buffer_pool_size"] == "12345678" {
		t.Errorf("persisted %v", persisted)
	}
	_, err = m[2].ApplySettings(ctx, map[string]string{"max_allowed_packet": "2G"}, nil, nil)
	mysqltest.WantError(t, err, mysql.ErrSettingRefused)
	if got := m[2].Observe(ctx).Persisted["max_allowed_packet"]; got != "2097152" {
		t.Errorf("after the refusal %s is persisted", got)
	}

	// The second time it is a new operator, which does not know what became of the value.
	due := 0
	for range 2 {
		_, err = m[2].ApplySettings(ctx, map[string]string{"replica_pending_jobs_size_max": "16800001"}, nil, func(context.Context) error { due++; return nil })
		mysqltest.Must(t, err)
	}
	if got := m[2].Observe(ctx).Persisted["replica_pending_jobs_size_max"]; due != 1 || got != "16799744" {
		t.Errorf("%s is persisted, and %d restarts are due", got, due)
	}
}

// TestSettingOfTheOperatorsOwn: one that somebody persisted by hand is taken out, and counts on; its default would open a replica.
func TestSettingOfTheOperatorsOwn(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	replica := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Owned = func(variable string) bool { return variable == "read_only" }
	}))[2]
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "SET PERSIST read_only = ON")
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "SET GLOBAL super_read_only = ON")
	restart, err := replica.ApplySettings(t.Context(), nil, []string{"read_only"}, nil)
	mysqltest.Must(t, err)
	if o := replica.Observe(t.Context()); !restart || !o.ReadOnly || !o.SuperReadOnly || o.Persisted["read_only"] != "" {
		t.Errorf("restart %t, read_only %t, super_read_only %t, persisted %v", restart, o.ReadOnly, o.SuperReadOnly, o.Persisted)
	}
}

// TestDefaultsOfDynamicVariables: on a server of its own, that nobody has set anything on, the default of every dynamic variable is
// what it started with, but for those that are known for it.
func TestDefaultsOfDynamicVariables(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	s, err := w.Farm.Start(t.Context(), mysqld.Options{})
	mysqltest.Must(t, err)
	t.Cleanup(func() { mysqltest.Must(t, w.Farm.Discard(s)) })
	db := mysqltest.Root(t, s)
	rows, err := db.QueryContext(t.Context(), "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables JOIN performance_schema.variables_info USING (VARIABLE_NAME) WHERE VARIABLE_SOURCE = 'COMPILED'")
	mysqltest.Must(t, err)
	started := map[string]string{}
	for rows.Next() {
		var name, value string
		mysqltest.Must(t, rows.Scan(&name, &value))
		started[name] = value
	}
	mysqltest.Must(t, errors.Join(rows.Err(), rows.Close()))
	dynamic := 0
	for _, name := range slices.Sorted(maps.Keys(started)) {
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL "+name+" = DEFAULT"); err != nil {
			continue // read-only, or without a default
		}
		dynamic++
		if is := mysqltest.Value(t, db, "SELECT VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME = '"+name+"'"); is != started[name] && !admin.StartsAtOther(name) {
			t.Errorf("%s started with %q, and its default is %q", name, started[name], is)
		}
	}
	if dynamic < 200 {
		t.Errorf("%d dynamic variables of %d", dynamic, len(started))
	}
}

// TestSettingsOfComponents: a component's variables have a dot in their names. Where it is not installed, they alone are refused.
func TestSettingsOfComponents(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	const length = "validate_password.length"
	m[0].WatchSettings([]string{length})
	mysqltest.Exec(t, db, "RESET PERSIST")
	defer mysqltest.Exec(t, db, "RESET PERSIST")

	_, err := m[0].ApplySettings(ctx, map[string]string{length: "12", "max_connections": "78", "sort_buffer_size": "65536"}, nil, nil)
	if !errors.Is(err, mysql.ErrSettingRefused) || !strings.Contains(err.Error(), length) || strings.Contains(err.Error(), "max_connections") {
		t.Errorf("without the component: %v", err)
	}
	if o := m[0].Observe(ctx); o.Persisted["max_connections"] != "78" || o.Persisted["sort_buffer_size"] != "65536" || len(o.Persisted) != 2 {
		t.Errorf("without the component: persisted %v", o.Persisted)
	}

	mysqltest.Exec(t, db, "INSTALL COMPONENT 'file://component_validate_password'")
	defer mysqltest.Exec(t, db, "UNINSTALL COMPONENT 'file://component_validate_password'")
	restart, err := m[0].ApplySettings(ctx, map[string]string{length: "12"}, []string{"sort_buffer_size"}, nil)
	mysqltest.Must(t, err)
	if o := m[0].Observe(ctx); o.Settings[length] != "12" || o.Persisted[length] != "12" || restart {
		t.Errorf("%s is %q, persisted %v, restart %v", length, o.Settings[length], o.Persisted, restart)
	}
	if _, err := m[0].ApplySettings(ctx, map[string]string{length: "long"}, nil, nil); !errors.Is(err, mysql.ErrSettingRefused) {
		t.Errorf("a value that is none: %v", err)
	}
	restart, err = m[0].ApplySettings(ctx, nil, []string{length}, nil)
	mysqltest.Must(t, err)
	if o := m[0].Observe(ctx); o.Persisted[length] != "" || o.Settings[length] != "8" || restart {
		t.Errorf("dropped, it is %s, persisted %v, restart %t", o.Settings[length], o.Persisted, restart)
	}
}

// TestDatabase: database, owner and password, with names that were chosen to hurt.
func TestDatabase(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	for _, row := range []struct{ database, user, password string }{
		{"shop_1", "shop", "pass-word-1"},
		{"a`b'c\"d\\e%_; DROP DATABASE x", "o'neil`\"\\ --", `'"\ ; DROP USER root -- ` + "`\x01é"},
		{"база", "owner", strings.Repeat("x", 80)},
	} {
		for i := range 2 {
			out, err := m[0].EnsureDatabase(ctx, admin.Database{Name: row.database, Owner: row.user, Password: row.password})
			mysqltest.Must(t, err)
			if out.Changed != (i == 0) || out.Retained != 0 {
				t.Errorf("%q, round %d: %+v", row.database, i, out)
			}
		}
		mysqltest.Must(t, m[0].Handle().Login(ctx, row.user, row.password))
		out, err := m[0].EnsureDatabase(ctx, admin.Database{Name: row.database, Owner: row.user, Password: row.password + "2"})
		mysqltest.Must(t, err)
		if !out.Changed || m[0].Handle().Login(ctx, row.user, row.password) == nil {
			t.Error("a new password was not taken")
		}
		mysqltest.Must(t, m[0].Handle().Login(ctx, row.user, row.password+"2"))
	}
	// A wildcard in the name is no wildcard in the privilege.
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shopX1")
	if grants := mysqltest.Value(t, db, "SELECT COUNT(*) FROM mysql.db WHERE User = 'shop' AND 'shopX1' LIKE Db"); grants != "0" {
		t.Error("the owner of shop_1 may use shopX1")
	}
	// What somebody took away is given back.
	mysqltest.Exec(t, db, "REVOKE INSERT ON `shop\\_1`.* FROM shop@'%'")
	if out, err := m[0].EnsureDatabase(ctx, admin.Database{Name: "shop_1", Owner: "shop", Password: "pass-word-12"}); err != nil || !out.Changed {
		t.Errorf("%+v, %v", out, err)
	}
	for _, wrong := range [][3]string{
		{"", "u", "p"}, {"mysql", "u", "p"}, {"Nairobi_MySQL", "u", "p"}, {"d", "", "p"}, {"d", "root", "p"}, {"d", "nairobi_operator", "p"},
		{"d", "mysql.sys", "p"}, {"d", "u", ""}, {strings.Repeat("d", 65), "u", "p"}, {strings.Repeat("d", 63) + "_", "u", "p"}, {"d", strings.Repeat("u", 33), "p"}, {"d\x00", "u", "p"},
	} {
		if _, err := m[0].EnsureDatabase(ctx, admin.Database{Name: wrong[0], Owner: wrong[1], Password: wrong[2]}); !errors.Is(err, mysql.ErrInvalidArgument) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	_, err := m[1].EnsureDatabase(ctx, admin.Database{Name: "other", Owner: "other", Password: "hunter2hunter2"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("on a replica: %v", err)
	}
	// Through the replica's Service name, as an application does it.
	mysqltest.WaitFor(t, "the owner at a replica", func() bool { return m[1].Handle().Login(ctx, "shop", "pass-word-12") == nil })
}

// TestSetRelaySync: a member syncs its relay log as often as it is asked to until its next start, after which it syncs it again before it
// acknowledges anything.
func TestSetRelaySync(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	for _, value := range []string{"10000", "1", "10000"} {
		mysqltest.Must(t, m[1].SetRelaySync(ctx, value))
		if o := m[1].Observe(ctx); o.Settings[mysql.RelaySync] != value || len(o.Persisted) != 0 {
			t.Errorf("%s: it is %s; persisted %v", value, o.Settings[mysql.RelaySync], o.Persisted)
		}
	}
	w.Servers[1].Kill()
	mysqltest.Up(t, w.Servers[1])
	mysqltest.WaitFor(t, "an answer", func() bool { return m[1].Observe(ctx).Access == mysql.AccessVerified })
	if got := m[1].Observe(ctx).Settings[mysql.RelaySync]; got != "1" {
		t.Errorf("after a start it is %s", got)
	}
}

// TestGTIDModeIsPutBack step by step, with what it needs.
func TestGTIDModeIsPutBack(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	db := mysqltest.Root(t, w.Servers[0])
	for _, mode := range []string{"ON_PERMISSIVE", "OFF_PERMISSIVE"} {
		mysqltest.Exec(t, db, "SET GLOBAL gtid_mode = "+mode)
	}
	mysqltest.Exec(t, db, "SET GLOBAL enforce_gtid_consistency = OFF")
	mysqltest.Must(t, m[0].PinSettings(t.Context(), map[string]string{mysql.GTIDMode: "ON", "enforce_gtid_consistency": "ON"}))
	for _, name := range []string{mysql.GTIDMode, "enforce_gtid_consistency"} {
		if have := m[0].Observe(t.Context()).Settings[name]; have != "ON" {
			t.Errorf("%s is %q afterwards", name, have)
		}
	}
}

// TestServerIDIsPutBack: a replica with the server_id of its source acknowledges what it drops. With its own it asks for that.
func TestServerIDIsPutBack(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	theirs, source := m[1].Observe(ctx).ServerID, m[0].Observe(ctx).ServerID
	for i, replica := range m[1:] {
		mysqltest.Must(t, replica.SetAcknowledging(ctx, i == 0)) // the other one must not answer in its place
	}
	t.Cleanup(func() { mysqltest.Must(t, m[2].SetAcknowledging(context.WithoutCancel(ctx), true)) })
	mysqltest.Must(t, m[0].SetSourceWait(ctx, true, 1))
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "SET GLOBAL server_id = ?", source)
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE DATABASE dropped")
	committed := gtid.MustParse(m[0].Observe(ctx).Executed)
	holds := func() bool {
		o := m[1].Observe(ctx)
		return gtid.MustParse(o.Executed).Union(gtid.MustParse(o.Replication.Retrieved)).Contains(committed)
	}
	if holds() {
		t.Error("the replica keeps what bears its own server_id")
	}
	mysqltest.Must(t, m[1].PinSettings(ctx, map[string]string{mysql.ServerID: strconv.FormatUint(uint64(theirs), 10)}))
	mysqltest.WaitFor(t, "the replica holds what it dropped", holds)
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "DROP DATABASE dropped")
}

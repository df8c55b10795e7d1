package admin_test

import (
	"context"
	"database/sql"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestEverySettableVariableLasts gives every variable that spec.mysqld takes another value than it has, and looks whether that is in
// force at once or after a restart, and on a server that is launched with it.
func TestEverySettableVariableLasts(t *testing.T) {
	ctx := t.Context()
	farm, err := mysqld.NewFarm(ctx, os.Stderr)
	mysqltest.Must(t, err)
	t.Cleanup(func() { mysqltest.Must(t, farm.Close()) })
	s, err := farm.Start(ctx, mysqld.Options{})
	mysqltest.Must(t, err)
	db := mysqltest.Root(t, s)
	version := mysqltest.Value(t, db, "SELECT VERSION()")
	series := settings.SeriesOf(version)
	before := globals(t, db)
	mysqltest.Exec(t, db, "SET sql_log_bin = OFF")
	for _, statement := range []string{"SET GLOBAL super_read_only = OFF", "CREATE DATABASE stop", "CREATE TABLE stop.words (value VARCHAR(18))"} {
		mysqltest.Exec(t, db, statement)
	}
	want := map[string]string{}
	for _, name := range settings.Names(series) {
		fact, _ := settings.Facts(series, name)
		if d, _ := settings.Decide(name); d.Class == settings.Settable {
			want[name] = other(fact, before[name])
			if strings.HasSuffix(name, "_stopword_table") {
				want[name] = "stop/words"
			}
			if err := settings.Check(name, want[name]); err != nil {
				t.Errorf("%s=%q: %v", name, want[name], err)
			}
		}
	}
	want = settings.ForMembers(want)
	if len(want) < 350 {
		t.Fatalf("%d variables", len(want))
	}

	ca, cert, key := farm.OperatorIdentity()
	m := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key})
	_, err = m.ApplySettings(ctx, want, nil, nil)
	for name, why := range admin.RefusedSettings(err) {
		t.Errorf("refused: %s: %v", name, why)
	}
	comparePersisted(t, want, m.Observe(ctx).Persisted)
	pid := s.PID()
	mysqltest.Must(t, m.Restart(ctx))
	mysqltest.WaitFor(t, "the restart", func() bool { return s.PID() != 0 && s.PID() != pid && m.Observe(ctx).Access == mysql.AccessVerified })
	compare(t, "after a restart", want, globals(t, mysqltest.Root(t, s)), adaptive)
	comparePersisted(t, want, m.Observe(ctx).Persisted)
	_, err = m.ApplySettings(ctx, nil, slices.Sorted(maps.Keys(want)), nil)
	mysqltest.Must(t, err)
	comparePersisted(t, nil, m.Observe(ctx).Persisted)
	mysqltest.Must(t, farm.Discard(s))

	launched, err := farm.Start(ctx, mysqld.Options{Settings: settings.ForLaunch(series, want)})
	mysqltest.Must(t, err)
	compare(t, "of the launch", settings.ForLaunch(series, want), globals(t, mysqltest.Root(t, launched)), append(mysqld.OwnSettings(), append(adaptive, "flush_time")...)) // which mysqld takes over SQL alone
}

// compare reports what is not as it is wanted, but for what the lab sets itself.
func compare(t *testing.T, when string, want, have map[string]string, except []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !mysql.EqualSetting(want[name], have[name]) && !slices.Contains(except, name) {
			t.Errorf("%s, %s is %q, want %q", when, name, have[name], want[name])
		}
	}
}

// comparePersisted reports what is persisted and not wanted, or the other way round: the operator would drop or set it in every pass. Of a
// variable with two names both are.
func comparePersisted(t *testing.T, want, persisted map[string]string) {
	t.Helper()
	if _, deprecated := persisted["slave_parallel_workers"]; deprecated != (len(want) > 0) {
		t.Error("MySQL no longer persists a variable under both of its names")
	}
	have := settings.ByVariable(persisted)
	compare(t, "persisted", want, have, nil)
	for name := range have {
		if _, wanted := want[name]; !wanted {
			t.Errorf("%s=%s is persisted, and nobody wants it", name, have[name])
		}
	}
}

// globals are a server's global variables.
func globals(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables")
	mysqltest.Must(t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name string
		var value sql.Null[string]
		mysqltest.Must(t, rows.Scan(&name, &value))
		all[name] = value.V
	}
	mysqltest.Must(t, rows.Err())
	return all
}

// other is a value of a variable that it does not have; where there is none that is known to do no harm, the one that it has.
func other(fact settings.Fact, is string) string {
	if chosen, ok := chosenValues[fact.Name]; ok {
		return chosen
	}
	if slices.Contains(workedOut, fact.Name) {
		return is
	}
	switch fact.Type {
	case "boolean":
		if is == "ON" {
			return "OFF"
		}
		return "ON"
	case "integer", "numeric":
		return otherNumber(fact, is)
	}
	return is
}

// otherNumber is half of a number, or its double where that would be too little.
func otherNumber(fact settings.Fact, is string) string {
	n, err := strconv.ParseFloat(is, 64)
	lowest, _ := strconv.ParseFloat(fact.Lowest, 64) // 0 where it has none
	highest, _ := strconv.ParseFloat(fact.Highest, 64)
	if err != nil || highest > 1<<53 && n > 1<<53 {
		return is
	}
	switch whole := strings.TrimSuffix(strconv.FormatFloat(n/2, 'f', -1, 64), ".5"); {
	case n >= 2 && n/2 >= lowest:
		return whole
	case n*2 <= highest && n > 0:
		return strconv.FormatFloat(n*2, 'f', -1, 64)
	case n == 0 && highest >= 1:
		return "1"
	}
	return is
}

// adaptive are variables that mysqld changes itself while it runs.
var adaptive = []string{"innodb_thread_sleep_delay"}

// workedOut are variables of which mysqld takes another value where this one does not suit others, or the limits of its process.
var workedOut = []string{"innodb_buffer_pool_instances", "innodb_buffer_pool_size", "innodb_page_cleaners", "open_files_limit"}

// chosenValues are of variables that not every value goes together with the others, or with the machine.
var chosenValues = map[string]string{
	"innodb_fsync_threshold":  "1048576",
	"innodb_monitor_disable":  "module_trx",
	"innodb_monitor_enable":   "module_buffer",
	"key_cache_age_threshold": "200",
	"max_execution_time":      "60000",
	"tls_ciphersuites":        "TLS_AES_256_GCM_SHA384",
}

// TestWhatCountsFromRestart: of some dynamic variables mysqld uses a new value only when replication or TLS is set up again.
func TestWhatCountsFromRestart(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, due := t.Context(), 0
	noted := func(context.Context) error { due++; return nil }
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "RESET PERSIST")
	want := map[string]string{"replica_parallel_workers": "8"}
	restart, err := m[2].ApplySettings(ctx, want, nil, noted)
	mysqltest.Must(t, err)
	if !restart || due != 1 {
		t.Errorf("set: restart %t, noted %d times", restart, due)
	}
	restart, err = m[2].ApplySettings(ctx, want, nil, noted)
	mysqltest.Must(t, err)
	if restart || due != 1 {
		t.Errorf("set again: restart %t, noted %d times", restart, due)
	}
	restart, err = m[2].ApplySettings(ctx, nil, []string{"replica_parallel_workers"}, noted)
	mysqltest.Must(t, err)
	if is := mysqltest.Value(t, mysqltest.Root(t, w.Servers[2]), "SELECT @@replica_parallel_workers"); !restart || due != 2 || is != "8" {
		t.Errorf("dropped: restart %t, noted %d times, and it is %s", restart, due, is)
	}
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[2]), "SET GLOBAL replica_parallel_workers = DEFAULT")
}

package backup

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// limits are what a restore changes for a while.
const limits = "SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.event_scheduler, @@GLOBAL.mandatory_roles"

// TestARowOfManyMegabytes: in the dump its value is twice as long, and longer than the server's max_allowed_packet. It is
// put back afterwards, also where the first attempt was cut off. So are the mandatory roles, which could not be dropped for the second.
func TestARowOfManyMegabytes(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE large; CREATE TABLE large.t (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO large.t VALUES (1, REPEAT(0x00FF2701, 10 << 20))")
	defer func() { sql(t, w.primary, "DROP DATABASE large"); w.caughtUp(t) }()
	o := w.options(t, w.primary)
	_, err := patiently(t, o)
	must(t, err)
	target := w.fresh(t)
	r := w.restore(t, o, target)
	sql(t, target, "SET GLOBAL mandatory_roles = '`reader`@`%`, other'")
	before := sql(t, target, limits)
	if before != "67108864\tON\t`reader`@`%`, other" {
		t.Fatalf("the server begins with %s: this tries nothing", before)
	}
	cut := r
	cut.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		return target.Program(ctx, "sh", append([]string{"-c", cutOff, name}, arguments...)...)
	}
	if _, err := Restore(t.Context(), cut); !errors.Is(err, ErrLoad) {
		t.Fatalf("it was not cut off: %v", err)
	}
	if got := sql(t, target, limits); got != "1073741824\tOFF" {
		t.Errorf("cut off it has %s", got)
	}
	sql(t, target, "SET GLOBAL mandatory_roles = '`reader`@`%`, other'") // as after a restart
	_, err = Restore(t.Context(), r)
	must(t, err)
	const sum = "SELECT LENGTH(b), SHA2(b, 256) FROM large.t"
	if got, want := sql(t, target, sum), sql(t, w.primary, sum); got != want || !strings.HasPrefix(got, "41943040\t") {
		t.Errorf("restored is %s of %s", got, want)
	}
	if got := sql(t, target, limits); got != before {
		t.Errorf("it has %s instead of %s", got, before)
	}
	// Done, and cut off before it was put back.
	sql(t, target, "SET GLOBAL max_allowed_packet = 1 << 30, GLOBAL event_scheduler = OFF, GLOBAL mandatory_roles = ''")
	_, err = Restore(t.Context(), r)
	must(t, err)
	if got := sql(t, target, limits); got != before {
		t.Errorf("once more it has %s instead of %s", got, before)
	}
}

// TestEventsWaitForTheRestore: one that is due every second writes into a table that is loaded.
func TestEventsWaitForTheRestore(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE ticks; CREATE TABLE ticks.t (id INT PRIMARY KEY AUTO_INCREMENT); CREATE EVENT ticks.e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks.t VALUES ()")
	defer func() { sql(t, w.primary, "DROP DATABASE ticks"); w.caughtUp(t) }()
	for deadline := time.Now().Add(time.Minute); sql(t, w.primary, "SELECT COUNT(*) > 0 FROM ticks.t") != "1"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the event does not run: this tries nothing")
		}
	}
	o := w.options(t, w.primary)
	m, err := patiently(t, o)
	must(t, err)
	for name, row := range map[string]struct{ before, scheduler string }{
		"a scheduler that is on":     {"DO 0", "ON"},
		"one that a setting has off": {"SET PERSIST event_scheduler = OFF", "OFF"},
	} {
		t.Run(name, func(t *testing.T) {
			target := w.fresh(t)
			sql(t, target, row.before)
			r := w.restore(t, o, target)
			r.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
				return target.Program(ctx, "sh", append([]string{"-c", `"$0" "$@" && sleep 3`, name}, arguments...)...)
			}
			looked := false
			r.Then = func(ctx context.Context, v *podclient.Visit, m Manifest) error {
				looked = true
				time.Sleep(2 * time.Second) // for what follows the backup no event may run either
				_, err := Compare(ctx, v, m)
				return err
			}
			_, err := Restore(t.Context(), r)
			must(t, err)
			got := sql(t, target, "SELECT (SELECT COUNT(*) FROM ticks.t), STATUS, @@GLOBAL.event_scheduler FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'ticks'")
			if rows, rest, _ := strings.Cut(got, "\t"); !looked || rows == "0" || m.rows("ticks", "t") == 0 || rest != "ENABLED\t"+row.scheduler {
				t.Errorf("the event's rows, its state and the scheduler are %s", got)
			}
		})
	}
}

// hostile are settings of a cluster that refuse or change what a server without them took.
var hostile = map[string]string{
	"parser_max_mem_size": "10000000", "max_execution_time": "1", "max_join_size": "1", "sql_big_selects": "OFF", "sql_safe_updates": "ON", "sql_select_limit": "1",
	"sql_require_primary_key": "ON", "sql_generate_invisible_primary_key": "ON", "innodb_strict_mode": "ON", "explicit_defaults_for_timestamp": "OFF", "restrict_fk_on_non_standard_key": "ON",
	"default_storage_engine": "MyISAM", "table_encryption_privilege_check": "ON", "innodb_file_per_table": "OFF", "innodb_default_row_format": "compact", "old_alter_table": "ON",
	"sql_mode": "TRADITIONAL,ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION", "default_time_zone": "+05:30", "collation_server": "latin1_german1_ci", "character_set_server": "latin1", "default_collation_for_utf8mb4": "utf8mb4_general_ci",
	"autocommit": "OFF", "completion_type": "RELEASE", "transaction_read_only": "ON", "transaction_isolation": "SERIALIZABLE", "lock_wait_timeout": "1", "innodb_lock_wait_timeout": "1", "wait_timeout": "1", "interactive_timeout": "1",
	"net_read_timeout": "1", "max_allowed_packet": "1024", "net_buffer_length": "1024", "max_user_connections": "1", "max_error_count": "0", "group_concat_max_len": "4", "connection_memory_limit": "2097152", "global_connection_memory_tracking": "ON",
	"regexp_time_limit": "1", "regexp_stack_limit": "8192", "sql_auto_is_null": "ON", "sql_quote_show_create": "OFF", "sql_warnings": "ON", "terminology_use_previous": "BEFORE_8_2_0", "show_create_table_verbosity": "ON",
	"show_gipk_in_create_table_and_information_schema": "OFF", "print_identified_with_as_hex": "OFF", "password_history": "3", "log_bin_trust_function_creators": "OFF", "mandatory_roles": "none",
}

// TestHostileSettings: a backup restores whatever the settings of the cluster refuse.
func TestHostileSettings(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	many := strings.Repeat("1,", 120_000) + "1"
	sql(t, from, `CREATE DATABASE h; CREATE TABLE h.child (id INT PRIMARY KEY); CREATE TABLE h.nokey (a INT, t TIMESTAMP NOT NULL, d DATE, u INT UNSIGNED, g TEXT, KEY (a));
		SET sql_mode = 'ALLOW_INVALID_DATES', cte_max_recursion_depth = 300000; INSERT INTO h.nokey (a, t, d, u, g) VALUES (1, '2020-01-01', '2020-02-31', 0, 'a\\b');
		CREATE TABLE h.small (n TINYINT) ROW_FORMAT = COMPACT; INSERT INTO h.small WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 260000) SELECT i % 10 FROM n;
		CREATE TABLE h.wide (a VARCHAR(700), KEY (a)); INSERT INTO h.wide VALUES (REPEAT('ü', 700)), (REPEAT('x', 300));
		CREATE TABLE h.expression (a TEXT, CONSTRAINT c CHECK (a REGEXP '^(a+)+$')); INSERT INTO h.expression VALUES (REPEAT('a', 20000));
		SET SESSION restrict_fk_on_non_standard_key = OFF; CREATE TABLE h.parent (id INT PRIMARY KEY, k INT, KEY (k)); CREATE TABLE h.other (k INT, FOREIGN KEY (k) REFERENCES h.parent (k));
		CREATE VIEW h.v AS SELECT COUNT(*) AS n FROM h.small; CREATE EVENT h.e ON SCHEDULE EVERY 1 DAY STARTS '2020-01-01' DISABLE ON REPLICA DO SELECT 1;
		SET GLOBAL log_bin_trust_function_creators = ON; CREATE FUNCTION h.f() RETURNS INT RETURN RAND() * 10; CREATE PROCEDURE h.p() SELECT 1 IN (`+many+`); CREATE VIEW h.long AS SELECT 1 IN (`+many+`) AS x`)
	target, named, left := w.roundTrip(t, from, hostile)
	if len(named)+len(left) > 0 {
		t.Errorf("named are %v, left out %v", named, left)
	}
	for _, ask := range []string{
		"SELECT COUNT(*), SUM(n) FROM small", "SELECT a, UNIX_TIMESTAMP(t), d + 0, u, g FROM nokey", "SELECT COUNT(*), SUM(LENGTH(a)) FROM wide", "SELECT LENGTH(a) FROM expression",
		"SHOW CREATE TABLE other", "SHOW CREATE TABLE nokey", "SHOW CREATE TABLE wide", "SHOW CREATE TABLE small", "SHOW CREATE DATABASE h", "SHOW CREATE EVENT e", "SHOW CREATE FUNCTION f", "SELECT SHA2(ROUTINE_DEFINITION, 256) FROM information_schema.ROUTINES WHERE ROUTINE_NAME = 'p'", "SELECT x FROM `long`",
		"SELECT TABLE_NAME, ENGINE, ROW_FORMAT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'h' AND TABLE_TYPE = 'BASE TABLE' ORDER BY 1",
	} {
		const session = "SET autocommit = 1, completion_type = NO_CHAIN, transaction_read_only = OFF, sql_select_limit = DEFAULT, sql_select_limit = 1000, max_join_size = 1000000, sql_big_selects = ON, max_execution_time = 0, sql_mode = '', time_zone = '+00:00', parser_max_mem_size = 1000000000, " +
			"terminology_use_previous = NONE, sql_quote_show_create = ON, show_create_table_verbosity = OFF; USE h; "
		if got, want := sql(t, target, session+ask), sql(t, from, session+ask); got != want {
			t.Errorf("%s: restored is\n%.400s\nof\n%.400s", ask, got, want)
		}
	}
	for name, want := range map[string]string{"innodb_default_row_format": "compact", "regexp_time_limit": "1", "regexp_stack_limit": "8192", "max_allowed_packet": "1024", "innodb_file_per_table": "0", "mandatory_roles": "none"} {
		if got := sql(t, target, "SELECT @@GLOBAL."+name); got != want {
			t.Errorf("%s is %s afterwards", name, got)
		}
	}
}

package backup

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// source is a primary of its own, for what must not be seen by other tests.
func (w *world) source(t *testing.T, settings map[string]string) *mysqld.Server {
	t.Helper()
	s, err := w.farm.Start(t.Context(), mysqld.Options{Settings: settings})
	must(t, err)
	t.Cleanup(func() { must(t, w.farm.Discard(s)) })
	p := admin.Open(w.pool, endpoint(s), w.operator)
	must(t, p.Promote(t.Context(), mysql.PromoteSpec{}))
	_, err = p.EnsurePodAccount(t.Context(), mysql.BackupUser, w.farm.Authority.IssuerDN(), w.farm.Authority.ClientDN(pki.BackupPods))
	must(t, err)
	return s
}

// roundTrip dumps a server, verifies the backup with the settings of the cluster, and restores it into a new server with them. It
// returns that, with what the backup names, and what the restore left out.
func (w *world) roundTrip(t *testing.T, from *mysqld.Server, settings map[string]string) (target *mysqld.Server, named, left []podclient.LeftOut) {
	t.Helper()
	programs, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	o := w.options(t, from)
	m, err := patiently(t, o)
	must(t, err)
	verified, err := Verify(t.Context(), VerifyOptions{Place: o.Place, Folder: o.Folder, Dir: workshop(t), Program: programs, Settings: settings, StallTimeout: time.Minute, Clock: o.Clock})
	if err != nil {
		t.Errorf("verification: %v", err)
	}
	target, err = w.farm.Start(t.Context(), mysqld.Options{Settings: settings})
	must(t, err)
	t.Cleanup(func() { must(t, w.farm.Discard(target)) })
	r := w.restore(t, o, target)
	r.Skipped = func(l []podclient.LeftOut) { left = l }
	_, err = Restore(t.Context(), r)
	if err != nil {
		t.Errorf("restore: %v", err)
	}
	if !slices.Equal(whats(verified.LeftOut), whats(left)) {
		t.Errorf("the verification leaves out %v and the restore %v", verified.LeftOut, left)
	}
	return target, m.LeftOut, left
}

func whats(left []podclient.LeftOut) []string {
	var names []string
	for _, l := range left {
		names = append(names, l.What)
	}
	slices.Sort(names)
	return names
}

// TestKindsOfThings restores what is not in a table: of each the answer to a query has to be the same on both servers.
func TestKindsOfThings(t *testing.T) {
	w := theWorld(t)
	settings := map[string]string{"sql_require_primary_key": "ON", "partial_revokes": "OFF", "sql_mode": "ANSI", "autocommit": "OFF", "completion_type": "RELEASE", "transaction_read_only": "ON",
		"explicit_defaults_for_timestamp": "OFF", "default_collation_for_utf8mb4": "utf8mb4_general_ci", "sql_generate_invisible_primary_key": "ON", "innodb_strict_mode": "ON", "log_bin_trust_function_creators": "OFF"}
	from := w.source(t, nil)
	rows := []struct{ name, make, ask string }{
		{"a view that calls a function of another account", `CREATE DATABASE s; USE s; CREATE USER app IDENTIFIED BY 'x'; GRANT ALL ON s.* TO app; CREATE TABLE t (id INT PRIMARY KEY, n TEXT, j JSON); INSERT INTO t VALUES (1, 'A', '[1, 2]');
			CREATE DEFINER=app FUNCTION lc(x TEXT) RETURNS TEXT DETERMINISTIC RETURN LOWER(x); CREATE DEFINER=app VIEW b AS SELECT lc(n) AS n FROM t; CREATE DEFINER=app VIEW a AS SELECT n FROM b`,
			"SELECT n FROM s.a; SHOW CREATE VIEW s.b; SHOW CREATE FUNCTION s.lc"},
		{"a table without a key", "CREATE TABLE s.nokey (a INT, t TIMESTAMP NOT NULL); INSERT INTO s.nokey VALUES (1, '2020-01-01'), (1, '2020-01-01')", "SELECT COUNT(*) FROM s.nokey; SHOW CREATE TABLE s.nokey"},
		{"partial revokes", "SET GLOBAL partial_revokes = ON; CREATE USER ro IDENTIFIED BY 'x'; GRANT SELECT, INSERT ON *.* TO ro; REVOKE SELECT ON mysql.* FROM ro", "SHOW GRANTS FOR ro; SELECT @@partial_revokes"},
		{"general tablespaces", "CREATE TABLESPACE app_ts ADD DATAFILE 'app_ts.ibd'; CREATE TABLESPACE packed ADD DATAFILE 'p.ibd' FILE_BLOCK_SIZE = 8192; CREATE TABLE s.big (id INT PRIMARY KEY) TABLESPACE app_ts; CREATE TABLE s.small (id INT PRIMARY KEY) TABLESPACE packed ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
			"SHOW CREATE TABLE s.big; SHOW CREATE TABLE s.small; SELECT NAME, ZIP_PAGE_SIZE FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'General' ORDER BY 1"},
		{"an event in a named time zone", `INSERT INTO mysql.time_zone VALUES (1, 'N'); INSERT INTO mysql.time_zone_name VALUES ('Test/Zone', 1); INSERT INTO mysql.time_zone_transition_type VALUES (1, 0, 7200, 0, 'TST');
			INSERT INTO mysql.time_zone_transition VALUES (1, -2147483648, 0); SET time_zone = 'Test/Zone'; CREATE EVENT s.e ON SCHEDULE EVERY 1 DAY STARTS '2020-01-01 03:00:00' DISABLE DO SELECT 1; SET time_zone = SYSTEM`,
			"SHOW CREATE EVENT s.e; SELECT CONVERT_TZ('2020-01-01 00:00:00', 'UTC', 'Test/Zone'), CONVERT_TZ('2020-01-01 00:00:00', '+00:00', 'Test/Zone')"},
		{"an event whose time is over", "SET timestamp = 1600000000; CREATE EVENT s.over ON SCHEDULE AT '2020-09-20 00:00:00' DISABLE DO SELECT 1; SET timestamp = DEFAULT", "SHOW CREATE EVENT s.over"},
		{"events that were altered after their time", "SET timestamp = 1600000000; CREATE EVENT s.past ON SCHEDULE AT '2020-09-20 00:00:00' DISABLE DO SELECT 1; CREATE EVENT s.kept ON SCHEDULE AT '2020-09-20 00:00:00' ON COMPLETION PRESERVE DISABLE DO SELECT 1; SET time_zone = '-11:00'; CREATE EVENT s.ended ON SCHEDULE EVERY 1 HOUR STARTS '2020-09-15 00:00:00' ENDS '2020-09-20 00:00:00' DISABLE DO SELECT 1; " +
			"SET time_zone = SYSTEM, timestamp = DEFAULT; ALTER EVENT s.past COMMENT 'x'; ALTER EVENT s.kept COMMENT 'x'; ALTER EVENT s.ended COMMENT 'x'", "SHOW CREATE EVENT s.past; SHOW CREATE EVENT s.kept; SHOW CREATE EVENT s.ended; SELECT EVENT_NAME, STATUS, EXECUTE_AT, STARTS, ENDS FROM information_schema.EVENTS WHERE EVENT_COMMENT = 'x' ORDER BY 1"},
		{"a foreign key on a key that is not unique", "SET SESSION restrict_fk_on_non_standard_key = OFF; CREATE TABLE s.parent (id INT PRIMARY KEY, k INT, KEY (k)); CREATE TABLE s.child (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES s.parent (k)); SET SESSION restrict_fk_on_non_standard_key = ON",
			"SHOW CREATE TABLE s.child"},
		{"views over JSON_TABLE", "CREATE DEFINER=app SQL SECURITY INVOKER VIEW s.jt AS SELECT x.*, s.lc(n) AS l FROM s.t, JSON_TABLE(s.t.j, '$[*]' COLUMNS (i INT PATH '$')) x; CREATE VIEW s.jf AS SELECT * FROM JSON_TABLE(s.lc('[1]'), '$[*]' COLUMNS (i INT PATH '$')) x", "SELECT * FROM s.jt; SELECT * FROM s.jf; SHOW CREATE VIEW s.jt; SHOW CREATE VIEW s.jf"},
		{"a definer that is gone", "CREATE USER leaver; GRANT ALL ON s.* TO leaver; CREATE DEFINER=leaver FUNCTION s.lf() RETURNS INT NO SQL RETURN 1; CREATE DEFINER=leaver VIEW s.lv AS SELECT s.lf() AS n FROM s.t; CREATE VIEW s.lv2 AS SELECT 1 AS n FROM s.lv; DROP USER leaver",
			"SELECT TABLE_NAME, VIEW_DEFINITION, DEFINER FROM information_schema.VIEWS WHERE TABLE_NAME LIKE 'lv%' ORDER BY 1; SHOW CREATE FUNCTION s.lf; SELECT COUNT(*) FROM mysql.user WHERE User = 'leaver'"},
		{"a function that may give something else each time", "SET GLOBAL log_bin_trust_function_creators = ON; CREATE FUNCTION s.rnd() RETURNS INT RETURN FLOOR(RAND() * 10); SET GLOBAL log_bin_trust_function_creators = OFF", "SHOW CREATE FUNCTION s.rnd; SELECT @@log_bin_trust_function_creators"},
		{"privileges on views and routines", "CREATE USER reader; GRANT SELECT (n), SHOW VIEW ON s.a TO reader; GRANT EXECUTE ON FUNCTION s.lc TO reader WITH GRANT OPTION; CREATE DEFINER=reader VIEW s.aa AS SELECT n FROM s.a", "SHOW GRANTS FOR reader; SHOW CREATE VIEW s.aa"},
		{"roles", "CREATE ROLE r1, r2; GRANT r1 TO r2 WITH ADMIN OPTION; GRANT r2 TO reader; SET DEFAULT ROLE r2 TO reader; GRANT SELECT ON s.* TO r1; GRANT PROXY ON app TO reader", "SHOW GRANTS FOR reader USING r2; SHOW CREATE USER reader; SHOW GRANTS FOR r2"},
		{"passwords", "CREATE USER pw IDENTIFIED BY 'one' PASSWORD HISTORY 5 FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2 ATTRIBUTE '{\"a\": 1}'; ALTER USER pw IDENTIFIED BY 'two' RETAIN CURRENT PASSWORD; UPDATE mysql.user SET password_last_changed = '2020-01-01' WHERE User = 'pw'; FLUSH PRIVILEGES",
			"SELECT password_last_changed, HEX(User_attributes) FROM mysql.user WHERE User = 'pw'; SELECT Password_timestamp, HEX(Password) FROM mysql.password_history WHERE User = 'pw'; SET print_identified_with_as_hex = ON; SHOW CREATE USER pw"},
		{"certificates with quotes in their names", `CREATE USER cert IDENTIFIED BY 'x' REQUIRE SUBJECT '/CN=o''bri\\en "x"' AND ISSUER '/C=''x' AND CIPHER 'a''b' PASSWORD EXPIRE NEVER; CREATE USER plaincert REQUIRE SUBJECT '/CN=x'; CREATE USER issued REQUIRE ISSUER '/CN=x' AND CIPHER 'AES'; CREATE USER x509 REQUIRE X509`,
			"SELECT User, ssl_type, HEX(x509_subject), HEX(x509_issuer), HEX(ssl_cipher), password_lifetime FROM mysql.user WHERE User IN ('cert', 'plaincert', 'issued', 'x509') ORDER BY 1; SHOW CREATE USER cert"},
		{"spatial reference systems", `CREATE SPATIAL REFERENCE SYSTEM 999999 NAME 'it''s "mine\\' ORGANIZATION 'me' IDENTIFIED BY 7 DEFINITION 'GEOGCS["WGS 84",DATUM["World Geodetic System 1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["degree",0.017453292519943278],AXIS["Lat",NORTH],AXIS["Lon",EAST]]';
			CREATE TABLE s.geo (g POINT NOT NULL SRID 999999, SPATIAL INDEX (g)); INSERT INTO s.geo VALUES (ST_GeomFromText('POINT(1 2)', 999999))`, "SHOW CREATE TABLE s.geo; SELECT ST_AsText(g) FROM s.geo; SELECT SRS_NAME, DEFINITION FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS WHERE SRS_ID = 999999"},
		{"settings of the sys schema", "UPDATE sys.sys_config SET value = '77', set_by = NULL WHERE variable = 'statement_truncate_len'; INSERT INTO sys.sys_config (variable, value) VALUES ('mine', 'o''x'); DELETE FROM sys.sys_config WHERE variable = 'diagnostics.include_raw'", "SELECT variable, value FROM sys.sys_config WHERE variable IN ('statement_truncate_len', 'mine') ORDER BY 1"},
		{"a database with the name of NDB's", "CREATE DATABASE ndbinfo; CREATE TABLE ndbinfo.t (id INT PRIMARY KEY); INSERT INTO ndbinfo.t VALUES (1), (2); CREATE VIEW ndbinfo.v AS SELECT id FROM ndbinfo.t; CREATE FUNCTION ndbinfo.f() RETURNS INT NO SQL RETURN 1", "SELECT id FROM ndbinfo.v ORDER BY 1; SHOW CREATE FUNCTION ndbinfo.f"},
		{"the optimizer's costs and servers", "UPDATE mysql.server_cost SET cost_value = 0.3 WHERE cost_name = 'row_evaluate_cost'; INSERT INTO mysql.engine_cost VALUES ('InnoDB', 0, 'memory_block_read_cost', 2, NOW(), 'x', DEFAULT); CREATE SERVER sv FOREIGN DATA WRAPPER mysql OPTIONS (USER 'r', HOST 'h', PASSWORD 'p''w')",
			"SELECT cost_name, cost_value FROM mysql.server_cost ORDER BY 1; SELECT engine_name, cost_name, cost_value, comment FROM mysql.engine_cost ORDER BY 1, 2; SELECT * FROM mysql.servers"},
		{"triggers in their order", "CREATE TABLE s.tt (id INT PRIMARY KEY, v INT); SET sql_mode = 'PIPES_AS_CONCAT'; CREATE TRIGGER s.zz BEFORE INSERT ON s.tt FOR EACH ROW SET NEW.v = NEW.v + 1; CREATE TRIGGER s.aa BEFORE INSERT ON s.tt FOR EACH ROW FOLLOWS zz SET NEW.v = NEW.v * 2; CREATE TRIGGER s.mm BEFORE INSERT ON s.tt FOR EACH ROW PRECEDES zz SET NEW.v = NEW.v - 3; SET sql_mode = DEFAULT",
			"SELECT TRIGGER_NAME, ACTION_ORDER, SQL_MODE, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 's' ORDER BY 2"},
		{"invisible things", "SET sql_generate_invisible_primary_key = ON; CREATE TABLE s.inv (a INT, b INT INVISIBLE DEFAULT 7, c INT AS (a + b) STORED, d INT AS (a * 2) VIRTUAL INVISIBLE, KEY k ((a + 1)) INVISIBLE); INSERT INTO s.inv (a, b) VALUES (1, 2), (3, 4); SET sql_generate_invisible_primary_key = OFF", "SHOW CREATE TABLE s.inv; SELECT my_row_id, a, b, c, d FROM s.inv"},
		{"other character sets", "SET NAMES latin1; CREATE FUNCTION s.`f\xe9`(`p\xe9` INT) RETURNS INT DETERMINISTIC COMMENT '\xe8' RETURN LENGTH('\xe9'); CREATE PROCEDURE s.lat() SELECT '\xe9', 'x' AS `\xe9\xe8`; CREATE VIEW s.latv AS SELECT '\xe9' AS `\xe8`, id FROM s.t; CREATE EVENT s.late ON SCHEDULE EVERY 1 YEAR DISABLE COMMENT '\xe9' DO SELECT '\xe9'; SET NAMES utf8mb4; CREATE VIEW s.`vüé` AS SELECT 'ü😀' AS `ß` FROM s.t",
			"SELECT HEX(ROUTINE_DEFINITION) FROM information_schema.ROUTINES WHERE ROUTINE_NAME = 'lat'; SELECT HEX(VIEW_DEFINITION) FROM information_schema.VIEWS WHERE TABLE_NAME IN ('latv', 'vüé') ORDER BY 1; SELECT HEX(EVENT_DEFINITION), HEX(EVENT_COMMENT) FROM information_schema.EVENTS WHERE EVENT_NAME = 'late'; SHOW CREATE VIEW s.latv; SELECT * FROM s.latv; SELECT * FROM s.`vüé`"},
		{"a routine of another collation", "CREATE DATABASE c COLLATE latin1_german1_ci; USE c; CREATE FUNCTION c.f(a CHAR(9)) RETURNS CHAR(9) DETERMINISTIC RETURN a; ALTER DATABASE c COLLATE utf8mb4_bin", "SHOW CREATE FUNCTION c.f; SHOW CREATE DATABASE c; SELECT DTD_IDENTIFIER, COLLATION_NAME FROM information_schema.PARAMETERS WHERE SPECIFIC_SCHEMA = 'c'"},
		{"libraries and duality views", "CREATE LIBRARY s.lib LANGUAGE JAVASCRIPT AS $$ export function f(n) { return n; } $$; CREATE JSON DUALITY VIEW s.dual AS SELECT JSON_DUALITY_OBJECT('_id': id, 'n': n) FROM s.t", "SHOW CREATE LIBRARY s.lib; SHOW CREATE VIEW s.dual"},
		{"a database that is read-only", "CREATE DATABASE still; CREATE TABLE still.t (id INT PRIMARY KEY); INSERT INTO still.t VALUES (1); CREATE VIEW still.v AS SELECT id FROM still.t; ALTER DATABASE still READ ONLY = 1", "SHOW CREATE DATABASE still; SELECT id FROM still.v"},
	}
	for _, row := range rows {
		if _, err := from.SQL(t.Context(), row.make); err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
	}
	target, named, left := w.roundTrip(t, from, settings)
	if len(named)+len(left) > 0 {
		t.Errorf("named are %v, left out %v", named, left)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			const session = "SET autocommit = 1, completion_type = NO_CHAIN, sql_mode = DEFAULT, sql_mode = '', time_zone = '+00:00', default_collation_for_utf8mb4 = utf8mb4_0900_ai_ci; "
			want, got := sql(t, from, session+row.ask), sql(t, target, session+row.ask)
			if strings.Count(want, "\n") > 40 || want == "" || got != want {
				t.Errorf("restored is\n%s\nof\n%s", got, want)
			}
		})
	}
}

// TestWhatIsNotCarried is named before the backup is complete, costs nothing else, and the verification says the same as the restore.
func TestWhatIsNotCarried(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, map[string]string{"max_error_count": "0"})
	sql(t, from, `CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY); INSERT INTO s.t VALUES (1), (2); CREATE TABLE s.gone (id INT);
		CREATE VIEW s.broken AS SELECT id FROM s.gone; CREATE VIEW s.above AS SELECT id FROM s.broken; CREATE VIEW s.whole AS SELECT id FROM s.t; DROP TABLE s.gone;
		CREATE USER mute; GRANT SELECT ON s.whole TO mute; CREATE DEFINER=mute SQL SECURITY DEFINER VIEW s.unfit AS SELECT id FROM s.t;
		CREATE TABLE s.hist (a INT); ANALYZE TABLE s.hist UPDATE HISTOGRAM ON a;
		CREATE USER heir; GRANT SELECT ON s.t TO heir; CREATE TABLE s.x (a INT); GRANT SELECT (a) ON s.x TO heir; DROP TABLE s.x;
		CREATE RESOURCE GROUP rg TYPE = USER; CREATE UNDO TABLESPACE u3 ADD DATAFILE 'u3.ibu'; CREATE USER ''@'10.1.2.3';
		CREATE TABLE mysql.mine (id INT PRIMARY KEY); CREATE USER 'mysql.own'@'%';
		INSTALL PLUGIN mysql_no_login SONAME 'mysql_no_login.so'; CREATE USER nobody IDENTIFIED WITH mysql_no_login; GRANT INSERT ON s.t TO nobody;
		CREATE FUNCTION service_get_read_locks RETURNS INT SONAME 'locking_service.so'; CREATE VIEW sys.mine AS SELECT id FROM mysql.mine; CREATE FUNCTION sys.one() RETURNS INT NO SQL RETURN 1;
		CREATE VIEW s.udf AS SELECT service_get_read_locks('a', 'b', 1) AS x FROM s.t; CREATE VIEW s.onudf AS SELECT x FROM s.udf; CREATE VIEW s.onmine AS SELECT id FROM mysql.mine; CREATE VIEW s.onsys AS SELECT id FROM sys.mine; CREATE VIEW s.onone AS SELECT sys.one() AS x FROM s.t;
		CREATE VIEW s.ofmysql AS SELECT u.User, p.db FROM mysql.user u LEFT JOIN sys.processlist p ON FALSE JOIN sys.sys_config;
		INSTALL COMPONENT 'file://component_validate_password'`)
	target, named, left := w.roundTrip(t, from, nil)
	wantNamed := []string{"account ''@'10.1.2.3'", "account `nobody`@`%`", "component file://component_validate_password", "loadable function service_get_read_locks", "plug-in mysql_no_login", "privilege of `heir`@`%` on column s.x.a", "resource group rg", "routine sys.one", "statistics of column s.hist.a", "table mysql.mine", "undo tablespace u3",
		"view s.above", "view s.broken", "view s.onmine", "view s.onone", "view s.onsys", "view s.onudf", "view s.udf", "view sys.mine"}
	if got := whats(named); !slices.Equal(got, wantNamed) {
		t.Errorf("named are %q", got)
	}
	for _, l := range named {
		if l.Why == "" {
			t.Errorf("%s: nobody says what to do", l.What)
		}
		if l.EndsReplay != (l.What == "table mysql.mine") {
			t.Errorf("%s: that it ends a replay is %t", l.What, l.EndsReplay)
		}
	}
	wantLeft := []string{"GRANT SELECT (`a`) ON `s`.`x` TO `heir`@`%`", "account `nobody`@`%`", "view s.above", "view s.broken", "view s.onmine", "view s.onone", "view s.onsys", "view s.onudf", "view s.udf"}
	if got := whats(left); !slices.Equal(got, wantLeft) {
		t.Errorf("left out are %q", got)
	}
	for ask, want := range map[string]string{
		"SELECT GROUP_CONCAT(id) FROM s.whole": "1,2",
		"SHOW GRANTS FOR heir":                 "GRANT USAGE ON *.* TO `heir`@`%`\nGRANT SELECT ON `s`.`t` TO `heir`@`%`",
		"SHOW GRANTS FOR nobody":               "GRANT USAGE ON *.* TO `nobody`@`%`\nGRANT INSERT ON `s`.`t` TO `nobody`@`%`",
		"SELECT account_locked, plugin FROM mysql.user WHERE User = 'nobody'":      "Y\tcaching_sha2_password",
		"SELECT COUNT(*) FROM mysql.user WHERE User = 'mysql.own'":                 "1",
		"SELECT COUNT(*) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 's'":   "3",
		"SELECT DEFINER FROM information_schema.VIEWS WHERE TABLE_NAME = 'unfit'":  "mute@%",
		"SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'mine'": "0",
	} {
		if got := sql(t, target, ask); got != want {
			t.Errorf("%s: %s, want %s", ask, got, want)
		}
	}
}

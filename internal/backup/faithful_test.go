package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// TestWhatMysqldumpOrALoadGetsWrong has what depends on settings of the source, or on how values are written: the answer to each query has to be
// the same on both servers.
func TestWhatMysqldumpOrALoadGetsWrong(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, map[string]string{"show_create_table_verbosity": "ON", "show_gipk_in_create_table_and_information_schema": "OFF", "sql_mode": "ALLOW_INVALID_DATES"})
	sql(t, from, "SET GLOBAL sql_quote_show_create = OFF") // it cannot be in an option file
	var columns []string
	for i := range 60 {
		columns = append(columns, fmt.Sprintf("`a column with a rather long name ) VALUES (%d` INT DEFAULT %d", i, i))
	}
	wide := strings.Join(columns, ", ")
	rows := []struct{ name, make, ask string }{
		{"wide tables whose columns are all named", "CREATE DATABASE s; CREATE TABLE s.gen (id INT PRIMARY KEY, g INT AS (id * 2) STORED, " + wide + "); INSERT INTO s.gen (id) VALUES (1), (2); CREATE TABLE s.inv (id INT PRIMARY KEY, v INT DEFAULT 7 INVISIBLE, " + wide + "); INSERT INTO s.inv (id) VALUES (1); " +
			"SET sql_generate_invisible_primary_key = ON; CREATE TABLE s.gipk (" + wide + "); INSERT INTO s.gipk () VALUES (), (); SET sql_generate_invisible_primary_key = OFF", "SELECT id, g FROM s.gen; SELECT id, v FROM s.inv; SELECT my_row_id FROM s.gipk; SET show_gipk_in_create_table_and_information_schema = ON; SHOW CREATE TABLE s.gipk"},
		{"dates that there are not", "CREATE TABLE s.dates (id INT PRIMARY KEY, d DATE DEFAULT '2024-02-31', t DATETIME, KEY (d)); INSERT INTO s.dates VALUES (1, DEFAULT, '2023-04-31 10:00:00'), (2, '2023-02-30', '0000-00-00 00:00:00')", "SELECT id, d, t FROM s.dates; SHOW CREATE TABLE s.dates"},
		{"accounts", "CREATE USER reader IDENTIFIED BY 'x'; GRANT SELECT (id), INSERT ON s.dates TO reader; GRANT EXECUTE ON s.* TO reader", "SET sql_quote_show_create = ON; SHOW GRANTS FOR reader"},
		{"characters of four bytes in expressions", "SET NAMES utf8mb4; CREATE TABLE s.smile (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT (CONCAT('\U0001f600', 'x')), CONSTRAINT smile CHECK (v <> '\U0001f601')) CHARSET utf8mb3; INSERT INTO s.smile (id) VALUES (1)",
			"SET NAMES utf8mb4; SELECT id, HEX(v) FROM s.smile; SET character_set_results = NULL; SHOW CREATE TABLE s.smile"},
		{"negative zeros", "CREATE TABLE s.zero (id INT PRIMARY KEY, b LONGBLOB, d DOUBLE, f FLOAT, v VARCHAR(20)); INSERT INTO s.zero VALUES (1, NULL, -0e0, -0e0, ',-0,'), (2, NULL, 0, 0, ',-0)'), (3, REPEAT(0xFF, 3 << 20), -0e0, -0e0, ',-0,')", "SELECT id, LENGTH(b), CAST(d AS CHAR), CAST(f AS CHAR), v FROM s.zero"},
		{"characters in defaults that MySQL's dictionary has no room for", "SET NAMES utf8mb4, sql_mode = ''; CREATE TABLE s.defaults (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT '\U0001f600x', b VARCHAR(9) CHARACTER SET gb18030 DEFAULT '\U0001f600', c VARCHAR(9) CHARACTER SET utf16 DEFAULT '\U0001f600?', d VARCHAR(9) CHARACTER SET cp1250 DEFAULT 0x81, e VARBINARY(9) DEFAULT 0xFF00, f VARCHAR(9) DEFAULT '?'); SET sql_mode = DEFAULT",
			"SELECT HEX(DEFAULT(a)), HEX(DEFAULT(b)), HEX(DEFAULT(c)), HEX(DEFAULT(d)), HEX(DEFAULT(e)), HEX(DEFAULT(f)) FROM (SELECT 1) AS one LEFT JOIN s.defaults ON FALSE"},
	}
	for _, row := range rows {
		if _, err := from.SQL(t.Context(), row.make); err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
	}
	target, named, left := w.roundTrip(t, from, nil)
	if len(named)+len(left) > 0 {
		t.Errorf("named are %v, left out %v", named, left)
	}
	for _, row := range rows {
		unquoted := func(text string) string { return strings.ReplaceAll(text, "`", "") } // as the source has expressions
		if want, got := unquoted(sql(t, from, printed+row.ask)), unquoted(sql(t, target, printed+row.ask)); want == "" || got != want {
			t.Errorf("%s: restored is\n%s\nof\n%s", row.name, got, want)
		}
	}
}

// TestValuesThatADumpDoesNotBringBack are named before the backup is complete, where there are any. The backup is verified and restored all
// the same.
func TestValuesThatADumpDoesNotBringBack(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	sql(t, from, `SET NAMES utf8mb4, sql_mode = ''; CREATE DATABASE s; USE s;
		CREATE TABLE smiles (id INT PRIMARY KEY, e ENUM('a', '😀'), f ENUM('a', 'ü')); INSERT INTO smiles VALUES (1, 'a', 'ü'), (2, '😀', 'a');
		CREATE TABLE valid (id INT PRIMARY KEY, e ENUM('', 'a'), f ENUM('b')); INSERT INTO valid VALUES (1, '', 'nope'), (2, 'a', 'b'); CREATE TABLE invalid LIKE valid; INSERT INTO invalid VALUES (1, 'nope', 'b'), (2, '', 'b');
		CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET cp932, w VARCHAR(20) CHARACTER SET cp1250); INSERT INTO plain VALUES (1, X'81CA', 'ž'); CREATE TABLE legacy LIKE plain; INSERT INTO legacy VALUES (1, X'EEF9', X'81');
		CREATE TABLE utc (id INT PRIMARY KEY, t TIMESTAMP, d DATE AS (DATE(t)) STORED, s VARCHAR(40) AS (CONCAT('it''s \\', DATE(t))) STORED, n DECIMAL(10, 1) AS (TO_DAYS(t) / 3) STORED); CREATE TABLE zoned LIKE utc;
		SET time_zone = '+00:00'; INSERT INTO utc (id, t) VALUES (1, '2024-01-01 23:00:00'); SET time_zone = '+05:30'; INSERT INTO zoned (id, t) VALUES (1, '2024-01-01 02:00:00');
		CREATE TABLE fixed (id INT PRIMARY KEY, d DOUBLE, f FLOAT, g DOUBLE(10, 2)); INSERT INTO fixed VALUES (1, -0e0, -0e0, -0e0); ALTER TABLE fixed MODIFY d DOUBLE(10, 2), MODIFY f FLOAT(8, 3);
		CREATE TABLE typed (n INT, j JSON); INSERT INTO typed VALUES (1, JSON_OBJECT('a', JSON_ARRAY(1, CAST(1.5 AS DECIMAL(5, 2))))); CREATE TABLE deep LIKE typed; INSERT INTO deep VALUES (1, JSON_OBJECT('a', JSON_OBJECT('b', CAST('2024-01-01' AS DATE))));
		CREATE TABLE single LIKE typed; INSERT INTO single VALUES (1, CAST(1.5 AS JSON)); CREATE TABLE untyped LIKE typed; INSERT INTO untyped VALUES (1, '{"a": [1, 1.5, true, null, {"b": "c"}]}'), (2, '"x"'), (3, NULL), (4, '18446744073709551615'); CREATE TABLE identified LIKE typed; ALTER TABLE identified ADD PRIMARY KEY (n); INSERT INTO identified SELECT * FROM typed;
		CREATE TABLE cp (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET cp932 DEFAULT 0xEEF9, w VARCHAR(9) CHARACTER SET cp932 DEFAULT 0x81CA, x VARCHAR(9) CHARACTER SET cp1250 DEFAULT 0x81);
		CREATE TABLE lone (f FLOAT, n INT); INSERT INTO lone VALUES (8388609, 1); CREATE TABLE keyed (f FLOAT, n INT NOT NULL UNIQUE); INSERT INTO keyed VALUES (8388609, 1)`)
	_, named, left := w.roundTrip(t, from, nil)
	if want, got := []string{"FLOAT column s.lone.f", "column s.cp.v", "column s.deep.j", "column s.fixed.d", "column s.fixed.f", "column s.invalid.e", "column s.legacy.v", "column s.legacy.w", "column s.single.j", "column s.smiles.e", "column s.typed.j", "column s.zoned.d", "column s.zoned.n", "column s.zoned.s"}, whats(named); !slices.Equal(got, want) || len(left) > 0 {
		t.Errorf("named are %q and not %q, left out %v", got, want, left)
	}
}

// TestWhatMakesARestoreFail is named before the backup is complete, where rows need it: they were written in another time zone or SQL mode,
// or are rounded. The same tables with other rows are not.
func TestWhatMakesARestoreFail(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	sql(t, from, `CREATE DATABASE fine; USE fine;
		CREATE TABLE day (id INT PRIMARY KEY, t TIMESTAMP NULL, n INT, UNIQUE KEY days ((DATE(t)), n)); CREATE TABLE gday (id INT PRIMARY KEY, t TIMESTAMP NULL, d DATE AS (DATE(t)) VIRTUAL, UNIQUE KEY days (d));
		CREATE TABLE early (id INT PRIMARY KEY, t TIMESTAMP NULL, CONSTRAINT early CHECK (HOUR(t) < 12)); CREATE TABLE lax (id INT PRIMARY KEY, t TIMESTAMP NULL, CONSTRAINT lax CHECK (HOUR(t) < 12) NOT ENFORCED);
		CREATE TABLE less (id INT PRIMARY KEY, a INT UNSIGNED, b INT UNSIGNED, KEY minus ((a - b)));
		CREATE TABLE round (id INT PRIMARY KEY, f FLOAT, UNIQUE KEY (f)); CREATE TABLE bound (id INT PRIMARY KEY, f FLOAT, CONSTRAINT bound CHECK (f < 8388609.5));
		INSTALL PLUGIN simple_parser SONAME 'mypluglib.so'; CREATE TABLE grams (id INT PRIMARY KEY, v TEXT, FULLTEXT KEY (v) WITH PARSER ngram);
		CREATE DATABASE bad; CREATE TABLE bad.parsed (id INT PRIMARY KEY, v TEXT, FULLTEXT KEY (v) WITH PARSER simple_parser, FULLTEXT KEY grams (v) WITH PARSER ngram); CREATE TABLE bad.day LIKE day; CREATE TABLE bad.gday LIKE gday; CREATE TABLE bad.less LIKE less; CREATE TABLE bad.round LIKE round;
		CREATE TABLE bad.early (id INT PRIMARY KEY, t TIMESTAMP NULL, CONSTRAINT early CHECK (HOUR(t) < 12)); CREATE TABLE bad.lax LIKE lax; CREATE TABLE bad.bound (id INT PRIMARY KEY, f FLOAT, CONSTRAINT bound CHECK (f < 8388609.5));
		SET time_zone = '+00:00'; INSERT INTO day VALUES (1, '2024-01-01 01:00:00', 1), (2, '2023-12-31 23:00:00', 1), (3, NULL, 1), (4, NULL, 1), (5, '2024-01-01 01:00:00', 2); INSERT INTO gday (id, t) VALUES (1, '2024-01-01 01:00:00'), (2, '2023-12-31 23:00:00'), (3, NULL), (4, NULL);
		INSERT INTO early VALUES (1, '2024-01-01 01:00:00'), (2, NULL); INSERT INTO lax VALUES (1, '2024-01-01 13:00:00'); INSERT INTO less (id, a, b) VALUES (1, 2, 1), (2, 2, 1), (3, NULL, 1); INSERT INTO round VALUES (1, 0.5), (2, 0.1), (3, NULL); INSERT INTO bound VALUES (1, 0.1);
		USE bad; SET time_zone = '+12:00', sql_mode = 'NO_UNSIGNED_SUBTRACTION'; INSERT INTO day VALUES (1, '2024-01-01 01:00:00', 1), (2, '2023-12-31 23:00:00', 1); INSERT INTO gday (id, t) VALUES (1, '2024-01-01 01:00:00'), (2, '2023-12-31 23:00:00');
		INSERT INTO early VALUES (1, '2024-01-01 01:00:00'); INSERT INTO lax VALUES (1, '2024-01-01 13:00:00'); INSERT INTO less (id, a, b) VALUES (1, 1, 2); INSERT INTO round VALUES (1, 8388609), (2, 8388608); INSERT INTO bound VALUES (1, 8388609)`)
	o := w.options(t, from)
	m, err := patiently(t, o)
	must(t, err)
	want := []string{"FULLTEXT key of table bad.parsed", "column bad.bound.f", "column bad.round.f", "constraint bad.early.early", "key bad.day.days", "key bad.gday.days", "key bad.less.minus", "plug-in simple_parser"}
	if got := whats(m.LeftOut); !slices.Equal(got, want) {
		t.Errorf("named are %q", got)
	}
	for _, table := range []string{"bound", "round", "early", "day", "gday", "less", "parsed"} { // they do make it fail
		sql(t, from, "CREATE DATABASE one; RENAME TABLE bad."+table+" TO one.t; CREATE DATABASE rest; DROP DATABASE IF EXISTS fine")
		o := w.options(t, from)
		_, err := patiently(t, o)
		must(t, err)
		if _, err := Restore(t.Context(), w.restore(t, o, w.fresh(t))); !errors.Is(err, ErrLoad) {
			t.Errorf("with %s it ended with %v", table, err)
		}
		sql(t, from, "DROP DATABASE one; DROP DATABASE rest")
	}
}

// TestARowThatNoServerTakes is named, with a limit that is no gigabyte.
func TestARowThatNoServerTakes(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE lengths; CREATE TABLE lengths.t (id INT PRIMARY KEY, b BLOB); INSERT INTO lengths.t VALUES (1, REPEAT('x', 10000)), (2, REPEAT('x', 10000)); CREATE TABLE lengths.u LIKE lengths.t; INSERT INTO lengths.u VALUES (1, 'x')")
	defer func() { sql(t, w.primary, "DROP DATABASE lengths"); w.caughtUp(t) }()
	var m Manifest
	err := mysql.ErrBlocked
	for attempt := 0; attempt < 3 && errors.Is(err, mysql.ErrBlocked); attempt++ {
		d := newDump(w.options(t, w.primary))
		d.reader.row.length.limit = 30_000
		m, err = d.run(t.Context())
	}
	must(t, err)
	if got := whats(m.LeftOut); !slices.Contains(got, "rows of table lengths.t") || slices.Contains(got, "rows of table lengths.u") {
		t.Errorf("named are %q", got)
	}
}

// printed has both servers print in the same way.
const printed = "SET sql_quote_show_create = ON, show_create_table_verbosity = OFF, sql_mode = ''; "

package backup

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// sideBySide is what sessions that load at the same time may get wrong: tables that refer to each other, to themselves, and to others that
// are made later; the same names in two databases; texts that look like SQL; what the server works out itself; rows of any length;
// and keys of a large table.
const sideBySide = `
SET SESSION restrict_fk_on_non_standard_key = 0;
CREATE DATABASE s; CREATE DATABASE z; USE s; SET foreign_key_checks = 0, cte_max_recursion_depth = 1000000;
CREATE TABLE numbers (n INT PRIMARY KEY); INSERT INTO numbers WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT i FROM n;
CREATE TABLE child (id INT PRIMARY KEY, parent INT, word VARCHAR(20), KEY (word), FOREIGN KEY (parent) REFERENCES parent (code), KEY (parent, word)); INSERT INTO child SELECT n, n, n FROM numbers;
CREATE TABLE parent (id INT AUTO_INCREMENT, code INT NOT NULL, boss INT, note VARCHAR(200), twice INT AS (code * 2) STORED, half INT AS (code / 2), PRIMARY KEY (code, id), KEY (id), KEY (note(10)), KEY (half), KEY (boss),
  UNIQUE KEY (twice), FOREIGN KEY (boss) REFERENCES parent (code));
INSERT INTO parent (id, code, boss, note) SELECT n, n, 60001 - n, CONCAT('it''s; \\', n, CHAR(10), '-- ;', CHAR(10), 'INSERT INTO ` + "`child`" + ` VALUES (1); /* " ') FROM numbers;
CREATE TABLE plain (id BIGINT AUTO_INCREMENT, a INT NOT NULL, b VARCHAR(100), at DATETIME(3), t TEXT, doc JSON, PRIMARY KEY (a), KEY (id), KEY k1 (b), KEY k2 (at DESC, b(7)), KEY k3 (b, at) INVISIBLE, KEY ` + "`k``4`" + ` (a, b) COMMENT 'four', FULLTEXT KEY (t), UNIQUE KEY (b, a)) COMMENT 'a;\\'' -- b';
INSERT INTO plain SELECT n, 60001 - n, CONCAT('b', n % 777), '2026-01-02' + INTERVAL n SECOND, REPEAT('word ', n % 9), JSON_OBJECT('n', n) FROM numbers;
CREATE TABLE parts (a INT, b INT, KEY (b)) PARTITION BY HASH (a) PARTITIONS 3; INSERT INTO parts SELECT n, n % 1000 FROM numbers;
CREATE TABLE z.plain (a INT, b INT, KEY (b), KEY (a)); INSERT INTO z.plain SELECT n, -n FROM numbers;
CREATE TABLE z.long (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO z.long VALUES (1, REPEAT(0x00FF2701, 2 << 20)), (2, REPEAT(';', 5 << 20)), (3, 'x');
CREATE TABLE worked (a INT PRIMARY KEY, b VARCHAR(100), c INT AS (a + 1), KEY (b), KEY ((LOWER(b))), KEY (c)); INSERT INTO worked (a, b) SELECT n, CONCAT('B', n) FROM numbers;
CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT); CREATE TRIGGER t AFTER INSERT ON plain FOR EACH ROW INSERT INTO log VALUES ()`

// TestSessionsSideBySide restores what sessions that load at the same time may get wrong, and verifies it first.
func TestSessionsSideBySide(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	sql(t, from, sideBySide)
	target, named, left := w.roundTrip(t, from, nil)
	if len(named) > 0 || len(left) > 0 {
		t.Errorf("it names %v and leaves %v", named, left)
	}
	for _, difference := range compareServers(t, from, target, nil) {
		t.Error(difference)
	}
	for _, query := range []string{
		"CHECKSUM TABLE s.numbers, s.child, s.parent, s.plain, s.parts, s.worked, s.log, z.plain, z.long", "SHOW CREATE TABLE s.plain", "SHOW CREATE TABLE s.parent", "SHOW CREATE TABLE s.parts", "SHOW CREATE TABLE s.worked", "SHOW CREATE TABLE z.plain",
		"SELECT COUNT(*), COUNT(DISTINCT id), SUM(half) FROM s.parent FORCE INDEX (half)", "SELECT COUNT(*) FROM s.plain FORCE INDEX (k2) WHERE at < '2026-01-02 05:00:00'",
	} {
		if got, want := sql(t, target, query), sql(t, from, query); got != want {
			t.Errorf("%s\ngives %s\nof %s", query, got, want)
		}
	}
	if built := sql(t, target, "SELECT COUNT_STAR FROM performance_schema.events_statements_summary_global_by_event_name WHERE EVENT_NAME = 'statement/sql/alter_table'"); built == "0" {
		t.Error("no key was built after the rows: this tries nothing of that")
	}
}

// TestAFailedStatementNamesItsTable in the middle of a table while others are loaded. Nothing counts as restored, and the same recovery
// succeeds with a backup that is whole.
func TestAFailedStatementNamesItsTable(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	sql(t, from, `CREATE DATABASE s; USE s; SET cte_max_recursion_depth = 1000000; CREATE TABLE a (n INT PRIMARY KEY, t TEXT); INSERT INTO a WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT i, REPEAT('x', 100) FROM n;
		CREATE TABLE bad LIKE a; INSERT INTO bad SELECT * FROM a; CREATE TABLE c LIKE a; INSERT INTO c SELECT * FROM a`)
	o := w.options(t, from)
	_, err := patiently(t, o)
	must(t, err)
	broken := w.options(t, from)
	genuine := broken.Program
	broken.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if strings.Contains(strings.Join(arguments, " "), "--version") {
			return genuine(ctx, name, arguments...)
		}
		return from.Program(ctx, "sh", append([]string{"-c", `"$0" "$@" | sed '/^INSERT INTO .bad./s/),(59000,/),(58999,/'`, name}, arguments...)...)
	}
	_, err = patiently(t, broken)
	must(t, err)
	target := w.fresh(t)
	_, err = Restore(t.Context(), w.restore(t, broken, target))
	if !errors.Is(err, ErrLoad) || !conn.RefusesForGood(err) || !strings.Contains(err.Error(), "table s.bad (INSERT INTO `bad` VALUES (") || !strings.Contains(err.Error(), "58999") {
		t.Fatalf("got %v", err)
	}
	if got := sql(t, target, "SELECT SUM(done) FROM nairobi_mysql.recovery"); got != "0" {
		t.Errorf("done is %s", got)
	}
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
	if got, want := sql(t, target, "CHECKSUM TABLE s.a, s.bad, s.c"), sql(t, from, "CHECKSUM TABLE s.a, s.bad, s.c"); got != want {
		t.Errorf("restored is %s of %s", got, want)
	}
}

// TestAKeyThatIsStillBuilt by a recovery whose pod is gone does not keep the next attempt from dropping the table.
func TestAKeyThatIsStillBuilt(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.replica)
	_, err := Dump(t.Context(), o)
	must(t, err)
	target := w.fresh(t)
	r := w.restore(t, o, target)
	cut := r
	cut.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		return target.Program(ctx, "sh", append([]string{"-c", cutOff, name}, arguments...)...)
	}
	if _, err := Restore(t.Context(), cut); !errors.Is(err, ErrLoad) {
		t.Fatalf("it was not cut off: %v", err)
	}
	sql(t, target, "SET GLOBAL super_read_only = OFF; SET sql_log_bin = OFF; CREATE DATABASE IF NOT EXISTS shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)")
	holder := open(t, target)
	_, err = holder.do("BEGIN; SELECT * FROM shop.t")
	must(t, err)
	builder, err := w.member(target, mysql.OperatorUser).Connect(t.Context())
	must(t, err)
	l, err := podclient.NewRowLoader(t.Context(), builder)
	must(t, err)
	defer l.Close()
	built := make(chan error, 1)
	go func() {
		err := l.Run(t.Context(), "shop", "ALTER TABLE `t` ADD KEY `a` (`a`)")
		holder.close() // whose lock is what the key waits for
		built <- err
	}()
	must(t, open(t, target).await("SELECT COUNT(*) FROM performance_schema.processlist WHERE STATE LIKE 'Waiting%' AND INFO LIKE 'ALTER TABLE%'", "1"))
	_, err = Restore(t.Context(), r)
	must(t, err)
	if err := <-built; err == nil {
		t.Error("the key was built")
	}
}

// TestSessionsByProcessors: there is one session more than the server has processors, within bounds.
func TestSessionsByProcessors(t *testing.T) {
	w := theWorld(t)
	v, err := w.member(w.primary, mysql.OperatorUser).Connect(t.Context())
	must(t, err)
	defer v.Close()
	processors, err := podclient.CPUs(t.Context(), v)
	must(t, err)
	got, err := loading{}.sessions(t.Context(), v)
	must(t, err)
	if processors != runtime.NumCPU() || got != min(max(processors+1, fewestSessions), mostSessions) {
		t.Errorf("%d sessions for %d processors of %d", got, processors, runtime.NumCPU())
	}
}

// TestALoadThatStandsStill ends, unless the server is known to work on a key.
func TestALoadThatStandsStill(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var taken atomic.Int64
	asked := make(chan bool)
	stop := loading{stallTimeout: time.Nanosecond, clock: clock.RealClock{}}.watch(ctx, cancel, &taken, func() bool { return <-asked })
	defer stop()
	asked <- true
	asked <- true
	if err := context.Cause(ctx); err != nil {
		t.Fatalf("it was ended while the server worked: %v", err)
	}
	asked <- false
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	if err := context.Cause(ctx); !errors.Is(err, ErrStalled) {
		t.Errorf("got %v", err)
	}
}

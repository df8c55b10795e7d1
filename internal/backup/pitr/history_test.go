package pitr

import (
	"encoding/hex"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// awkward are transactions of every kind that a careless replay gets wrong.
var awkward = []string{
	"CREATE DATABASE IF NOT EXISTS `we``ird\n'n\"ame;`; CREATE TABLE `we``ird\n'n\"ame;`.`t (``x` (`a``b` INT PRIMARY KEY, v VARCHAR(50)); USE `we``ird\n'n\"ame;`; INSERT INTO `t (``x` VALUES (1, 'o''b\\\\'), (2, ';')",
	"CREATE DATABASE büro; USE büro; SET NAMES latin1; CREATE TABLE stra (id INT PRIMARY KEY, v VARCHAR(20) DEFAULT '\xe4\xf6\xfc') CHARSET utf8mb4; INSERT INTO stra VALUES (1, '\xdf'), (2, DEFAULT)",
	"SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'; CREATE TABLE shop.\"quo'ted\" (id INT PRIMARY KEY, v VARCHAR(30) DEFAULT 'a\\b'); INSERT INTO shop.\"quo'ted\" (id) VALUES (1)",
	"SET time_zone = '+05:30'; CREATE TABLE shop.times (id INT PRIMARY KEY, t TIMESTAMP(6) NOT NULL DEFAULT '2026-03-29 02:30:00.123456', u DATETIME(6) DEFAULT NOW(6)); INSERT INTO shop.times (id) VALUES (1)",
	"ALTER TABLE shop.times ADD COLUMN added TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
	"CREATE TABLE shop.copied AS SELECT id, added FROM shop.times",
	"CREATE TABLE shop.par (id INT PRIMARY KEY); CREATE TABLE shop.kid (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES shop.par (id) ON DELETE CASCADE); INSERT INTO shop.par VALUES (1),(2); INSERT INTO shop.kid VALUES (1,1),(2,2),(3,1); DELETE FROM shop.par WHERE id = 1",
	"CREATE TABLE shop.trig (id INT PRIMARY KEY AUTO_INCREMENT, v INT); CREATE TABLE shop.audit (id INT PRIMARY KEY AUTO_INCREMENT, v INT);\nDELIMITER //\nCREATE TRIGGER shop.trg AFTER INSERT ON shop.trig FOR EACH ROW BEGIN INSERT INTO shop.audit (v) VALUES (NEW.v); END//\nCREATE PROCEDURE shop.p(n INT) BEGIN WHILE n > 0 DO INSERT INTO shop.trig (v) VALUES (n); SET n = n - 1; END WHILE; END//\nDELIMITER ;\nCALL shop.p(5)",
	"SET auto_increment_increment = 7, auto_increment_offset = 3; INSERT INTO shop.trig (v) VALUES (100), (101)",
	"SET binlog_transaction_compression = ON; BEGIN; INSERT INTO shop.trig (v) SELECT 7 FROM information_schema.COLUMNS LIMIT 500; UPDATE shop.trig SET v = v + 1; COMMIT",
	"CREATE TABLE shop.large (id INT PRIMARY KEY, v LONGTEXT, j JSON); INSERT INTO shop.large VALUES (1, REPEAT('x', 3000000), '{\"a\": 1}'), (2, REPEAT('y', 3000000), '{\"a\": [1,2]}'), (3, 'z', 'null')",
	"SET binlog_row_value_options = PARTIAL_JSON; UPDATE shop.large SET j = JSON_SET(j, '$.a', 2) WHERE id = 1; SET binlog_row_image = MINIMAL; UPDATE shop.large SET v = CONCAT(v, 'more')",
	"XA START 'x''1', 'b'; INSERT INTO shop.par VALUES (10); XA END 'x''1', 'b'; XA PREPARE 'x''1', 'b'; XA COMMIT 'x''1', 'b'",
	"XA START 'one'; INSERT INTO shop.par VALUES (11); XA END 'one'; XA COMMIT 'one' ONE PHASE",
	"XA START 'back'; INSERT INTO shop.par VALUES (12); XA END 'back'; XA PREPARE 'back'; XA ROLLBACK 'back'",
	"BEGIN; INSERT INTO shop.par VALUES (20); SAVEPOINT s; INSERT INTO shop.par VALUES (21); ROLLBACK TO s; INSERT INTO shop.par VALUES (22); COMMIT",
	"CREATE USER 'o''brien'@'10.%' IDENTIFIED BY 'p@ss \"word\\\\' COMMENT 'x;\ny'; CREATE ROLE reader; GRANT SELECT ON shop.* TO reader; GRANT reader TO 'o''brien'@'10.%'; ALTER USER 'o''brien'@'10.%' DEFAULT ROLE reader",
	"SET gtid_next = 'AUTOMATIC:awkward_tag'; INSERT INTO shop.par VALUES (30); SET gtid_next = 'AUTOMATIC:another'; CREATE TABLE shop.tagged (id INT PRIMARY KEY); INSERT INTO shop.tagged VALUES (1)",
	"CREATE DATABASE gone; USE gone; CREATE TABLE t (id INT); DROP DATABASE gone; CREATE DATABASE gone; USE gone; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (5)",
	"SET foreign_key_checks = OFF; INSERT INTO shop.kid VALUES (99, 4711); SET unique_checks = OFF; TRUNCATE shop.copied; RENAME TABLE shop.copied TO shop.moved",
	"CREATE VIEW shop.seen AS SELECT * FROM shop.par; CREATE EVENT shop.e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.audit (v) VALUES (-1); ALTER EVENT shop.e DISABLE; CREATE EVENT shop.f ON SCHEDULE EVERY 1 YEAR DO SELECT 1; /* a */ alter -- b\n event`shop`.f COMMENT 'c'",
	"CREATE TABLE shop.parts (id INT, v INT GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3; INSERT INTO shop.parts (id) VALUES (1),(2),(3); ANALYZE TABLE shop.parts; OPTIMIZE TABLE shop.parts",
	"SET restrict_fk_on_non_standard_key = OFF; CREATE TABLE shop.many (id INT PRIMARY KEY, k INT, KEY (k)); CREATE TABLE shop.few (id INT PRIMARY KEY, k INT, FOREIGN KEY (k) REFERENCES shop.many (k)); INSERT INTO shop.many VALUES (1,7),(2,7); INSERT INTO shop.few VALUES (1,7)",
	"SET sql_generate_invisible_primary_key = ON; CREATE TABLE shop.hidden (v INT); INSERT INTO shop.hidden VALUES (1),(1)",
	"CREATE TABLESPACE late ADD DATAFILE 'late.ibd'; CREATE TABLE shop.spaced (id INT PRIMARY KEY) TABLESPACE late; INSERT INTO shop.spaced VALUES (1)",
	"CREATE SPATIAL REFERENCE SYSTEM 990001 NAME 'plane' DEFINITION 'GEOGCS[\"plane\",DATUM[\"x\",SPHEROID[\"x\",6378137,298.257223563]],PRIMEM[\"Greenwich\",0],UNIT[\"degree\",0.017453292519943278],AXIS[\"Lat\",NORTH],AXIS[\"Lon\",EAST]]'; CREATE TABLE shop.places (id INT PRIMARY KEY, p POINT NOT NULL SRID 990001)",
	"SET binlog_rows_query_log_events = ON; INSERT INTO shop.par VALUES (40); FLUSH TABLES; SET default_collation_for_utf8mb4 = utf8mb4_general_ci; CREATE TABLE shop.coll (v VARCHAR(10) CHARSET utf8mb4 PRIMARY KEY)",
}

// settings are transactions whose sessions have settings that those after them do not have.
var settings = []string{
	"SET auto_increment_increment = 7, auto_increment_offset = 3, lc_time_names = de_DE, character_set_database = latin1; CREATE TABLE shop.seven (v INT); INSERT INTO shop.seven VALUES (1), (2); ALTER TABLE shop.seven ADD COLUMN id INT PRIMARY KEY AUTO_INCREMENT",
	"CREATE TABLE shop.one (v INT); INSERT INTO shop.one VALUES (1), (2); ALTER TABLE shop.one ADD COLUMN id INT PRIMARY KEY AUTO_INCREMENT, ADD COLUMN m VARCHAR(20) AS (MONTHNAME('2026-03-01')) STORED",
	"CREATE PROCEDURE shop.collated(a VARCHAR(9)) SELECT a",
	"CREATE TABLE shop.minus (id INT PRIMARY KEY, a INT UNSIGNED, b INT UNSIGNED, CHECK (a - b < 10)); SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'; INSERT INTO shop.minus VALUES (1, 1, 2)",
	"CREATE TABLE shop.day (id INT PRIMARY KEY, t TIMESTAMP, d DATE AS (DATE(t)) STORED); SET time_zone = '+05:30'; INSERT INTO shop.day (id, t) VALUES (1, '2024-01-01 02:00:00'); SET time_zone = '-05:30'; INSERT INTO shop.day (id, t) VALUES (2, '2024-01-01 22:00:00')",
	// With ALGORITHM = INPLACE MySQL numbers in any order, on each server in another.
	"ALTER TABLE shop.keyless ADD COLUMN id INT PRIMARY KEY AUTO_INCREMENT, ALGORITHM = COPY; UPDATE shop.keyless SET v = 'changed' WHERE id % 1000 = 7",
}

// byOthers are statements of an account that has few privileges, in which it is the present one.
var byOthers = []string{
	"CREATE PROCEDURE shop.own() SELECT 1", "CREATE FUNCTION shop.`Own f`(x INT) RETURNS INT DETERMINISTIC RETURN x", "GRANT helper TO CURRENT_USER()", "ALTER USER CURRENT_USER() DEFAULT ROLE helper", "REVOKE INSERT ON shop.* FROM CURRENT_USER()",
	"CREATE PROCEDURE open.free() SELECT 1",
}

// TestStatementsOfOtherSessions are replayed as in theirs: what one has set is not that of the next, and CURRENT_USER is not the replaying account.
func TestStatementsOfOtherSessions(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "SET GLOBAL log_bin_trust_function_creators = ON; CREATE DATABASE shop; CREATE DATABASE open; CREATE TABLE shop.diary (n INT PRIMARY KEY); CREATE TABLE shop.keyless (n INT, v VARCHAR(2000)); SET cte_max_recursion_depth = 9000; INSERT INTO shop.keyless WITH RECURSIVE seq AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM seq WHERE n < 9000) SELECT n * 7919 % 9001, REPEAT('x', 1500) FROM seq; CREATE ROLE helper; CREATE USER maker@localhost; CREATE USER leaver@localhost; "+
		"GRANT CREATE ROUTINE, INSERT ON shop.* TO maker@localhost; GRANT CREATE ROUTINE, EXECUTE, ALTER ROUTINE ON `op%`.* TO maker@localhost; GRANT CREATE USER, ROLE_ADMIN ON *.* TO maker@localhost, leaver@localhost; GRANT INSERT ON shop.* TO maker@localhost WITH GRANT OPTION")
	c.dump(c.replica, "before")
	stop := c.archiver(t.TempDir(), nil)
	for _, statements := range settings {
		sql(t, c.primary, statements)
	}
	for _, statement := range byOthers {
		if _, err := c.primary.SQLAs(t.Context(), "maker", statement); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.primary.SQLAs(t.Context(), "leaver", "DROP USER CURRENT_USER()")
	must(t, err)
	sql(t, c.primary, "REVOKE EXECUTE ON PROCEDURE shop.own FROM maker@localhost; CREATE USER partly; GRANT SELECT, INSERT ON *.* TO partly; SET GLOBAL partial_revokes = ON; REVOKE INSERT ON shop.* FROM partly; REVOKE SELECT ON mysql.* FROM partly")
	last := c.write(c.primary, 1)
	c.write(c.primary, 2)
	c.archived()
	stop()
	plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: last.at})
	must(t, err)
	to := c.server()
	must(t, c.restore(plan, to))
	if got := executed(t, to); !got.Equal(plan.Result) {
		t.Errorf("it has %s instead of %s", got, plan.Result)
	}
	for _, ask := range []string{
		"SELECT id FROM shop.seven", "SELECT id, m FROM shop.one", "SHOW CREATE PROCEDURE shop.collated", "SELECT * FROM shop.minus", "SELECT id, t, d FROM shop.day", "SELECT COUNT(*), SUM(CRC32(CONCAT_WS(' ', id, n, v))), SUM(v = 'changed') FROM shop.keyless", "SHOW GRANTS FOR maker@localhost", "SHOW CREATE USER maker@localhost", "SELECT COUNT(*) FROM mysql.user WHERE User = 'leaver'",
		"SELECT Db, User, Routine_name, Routine_type, Proc_priv FROM mysql.procs_priv WHERE User = 'maker' ORDER BY 1, 2, 3", "SHOW GRANTS FOR nairobi_operator", "SHOW GRANTS FOR partly; SELECT @@GLOBAL.partial_revokes",
	} {
		if got, want := sql(t, to, ask), sql(t, c.primary, ask); got != want {
			t.Errorf("%s: replayed is\n%s\nof\n%s", ask, got, want)
		}
	}
}

// mark is a moment between two transactions, and what had been done then.
type mark struct {
	at   time.Time
	last int
	set  gtid.Set
}

// write adds row n to the diary, which nobody else writes, and marks the moment after it.
func (c *cluster) write(s *mysqld.Server, n int) mark {
	c.t.Helper()
	sql(c.t, s, fmt.Sprintf("INSERT INTO shop.diary VALUES (%d)", n))
	time.Sleep(2 * time.Millisecond)
	m := mark{time.Now(), n, executed(c.t, s)}
	time.Sleep(2 * time.Millisecond)
	return m
}

// TestAnyPointInHistory writes before, during and after a failover while the archive follows, and restores seeded random
// points: exactly the transactions up to each. NAIROBI_PITR_POINTS is how many, NAIROBI_SEED repeats a run.
func TestAnyPointInHistory(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "SET GLOBAL event_scheduler = OFF; CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	stop := c.archiver(t.TempDir(), nil)
	defer stop()
	var marks []mark
	n := 0
	next := func() {
		n++
		marks = append(marks, c.write(c.serving.Load(), n))
	}
	next()
	c.dump(c.replica, "first")
	for i, statements := range awkward {
		if i == len(awkward)/2 {
			time.Sleep(1100 * time.Millisecond) // two backups' folders differ in the second
			c.dump(c.replica, "second")
		}
		next()
		sql(t, c.primary, statements)
		next()
	}
	unacknowledged := c.loseACommit()
	for range 10 {
		next()
	}
	c.archived()
	stop()
	head, _, err := c.folder.Head(t.Context(), 0)
	must(t, err)
	if head.AnchorNumber != 1 || head.Gap != "" || head.Lost != "" {
		t.Errorf("the archive has a break: %+v", head)
	}
	if have := head.All(); have.Contains(unacknowledged) || !have.Equal(executed(t, c.replica)) {
		t.Errorf("the archive holds %s, the cluster has %s, and %s was never acknowledged", have, executed(t, c.replica), unacknowledged)
	}
	t.Run("the end", func(t *testing.T) { c.t = t; c.checkEnd() })
	seed, points := time.Now().UnixNano(), 3
	if text := os.Getenv("NAIROBI_SEED"); text != "" {
		seed, err = strconv.ParseInt(text, 10, 64)
		must(t, err)
	}
	if text := os.Getenv("NAIROBI_PITR_POINTS"); text != "" {
		points, err = strconv.Atoi(text)
		must(t, err)
	}
	t.Logf("NAIROBI_SEED=%d, %d points", seed, points)
	random := rand.New(rand.NewSource(seed)) //nolint:gosec // to be repeated
	for i := range points {
		// The last is left out: that the archive reaches it can be known only from what came after.
		m := marks[1+random.Intn(len(marks)-2)]
		point := Point{Time: m.at}
		if i%2 == 1 {
			point = Point{GTID: m.newest(marks)}
		}
		t.Run(fmt.Sprintf("after %d", m.last), func(t *testing.T) { c.t = t; c.checkPoint(m, point) })
	}
	c.t = t
}

// newest is the last transaction before the mark.
func (m mark) newest(marks []mark) string {
	var before gtid.Set
	for _, other := range marks {
		if other.last == m.last-1 {
			before = other.set
		}
	}
	// The diary's own transaction is the untagged one with the highest number, of the server that took it.
	fresh := m.set.Subtract(before).String()
	for part := range strings.SplitSeq(fresh, ",") {
		fields := strings.Split(part, ":")
		last := ""
		for _, f := range fields[1:] {
			if f[0] < '0' || f[0] > '9' {
				break
			}
			_, end, isRange := strings.Cut(f, "-")
			if last = f; isRange {
				last = end
			}
		}
		if last != "" {
			return fields[0] + ":" + last
		}
	}
	return ""
}

// loseACommit has a commit wait for an acknowledgement that does not come, and the primary die with it.
func (c *cluster) loseACommit() gtid.Set {
	c.t.Helper()
	c.archived()
	must(c.t, c.member(c.replica).StopIOThread(c.t.Context()))
	before := executed(c.t, c.primary)
	numbers, err := c.folder.Numbers(c.t.Context())
	must(c.t, err)
	go func() { _, _ = c.primary.SQL(c.t.Context(), "INSERT INTO shop.diary VALUES (-1)") }()
	await(c.t, "the commit waits", func() bool { return c.member(c.primary).Observe(c.t.Context()).PendingCommits == 1 })
	time.Sleep(2 * time.Second) // many times as long as a segment waits
	after, err := c.folder.Numbers(c.t.Context())
	must(c.t, err)
	if len(after) != len(numbers) {
		c.t.Errorf("a segment was published that holds what was not acknowledged")
	}
	uuid := sql(c.t, c.primary, "SELECT @@server_uuid")
	c.failover()
	all := gtid.MustParse(uuid + ":1-1000000").Subtract(before)
	return gtid.MustParse(strings.SplitN(all.String(), "-1000000", 2)[0])
}

// checkPoint restores a point and looks at the diary, which tells what had been done.
func (c *cluster) checkPoint(m mark, point Point) {
	c.t.Helper()
	plan, err := NewPlan(c.t.Context(), c.folder, "", point)
	must(c.t, err)
	to := c.server()
	must(c.t, c.restore(plan, to))
	if got := executed(c.t, to); !got.Equal(m.set) {
		c.t.Errorf("the restored server has %s instead of %s", got, m.set)
	}
	if got, want := sql(c.t, to, "SELECT COUNT(*), MIN(n), MAX(n), @@super_read_only FROM shop.diary"), fmt.Sprintf("%d\t1\t%d\t1", m.last, m.last); got != want {
		c.t.Errorf("the diary of the restored server is %q instead of %q", got, want)
	}
}

// checkEnd restores all there is and compares it with the cluster itself.
func (c *cluster) checkEnd() {
	c.t.Helper()
	head, _, err := c.folder.Head(c.t.Context(), 0)
	must(c.t, err)
	numbers := strings.Split(sql(c.t, c.replica, "SELECT @@server_uuid")+":"+strconv.Itoa(lastNumber(c.t, c.replica)), "\n")
	plan, err := NewPlan(c.t.Context(), c.folder, "", Point{GTID: numbers[0]})
	must(c.t, err)
	if !strings.HasSuffix(plan.Backup, "-second") {
		c.t.Errorf("it begins with %s", plan.Backup)
	}
	// Everything is replayed, from the first backup on.
	folders, err := c.folder.Folders(c.t.Context())
	must(c.t, err)
	plan, err = NewPlan(c.t.Context(), c.folder, folders[0], Point{GTID: numbers[0]})
	must(c.t, err)
	to := c.server()
	must(c.t, c.restore(plan, to))
	if got := executed(c.t, to); !got.Equal(head.All()) {
		c.t.Errorf("the restored server has %s instead of %s", got, head.Cumulative)
	}
	if got, want := everything(c.t, to), everything(c.t, c.replica); got != want {
		c.t.Errorf("restored was\n%s\nof\n%s", got, want)
	}
}

func lastNumber(t *testing.T, s *mysqld.Server) int {
	t.Helper()
	uuid := sql(t, s, "SELECT @@server_uuid")
	own := executed(t, s).Intersect(gtid.MustParse(uuid + ":1-9000000")).Count()
	return int(own) //nolint:gosec // small
}

// everything is what people would miss.
func everything(t *testing.T, s *mysqld.Server) string {
	t.Helper()
	var b strings.Builder
	names := strings.Split(sql(t, s, "SELECT CONCAT(HEX(TABLE_SCHEMA), ' ', HEX(TABLE_NAME)) FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql','sys','information_schema','performance_schema','nairobi_mysql') ORDER BY 1"), "\n")
	for _, name := range names {
		schema, table, _ := strings.Cut(name, " ")
		quoted := unhex(t, schema) + "." + unhex(t, table)
		fmt.Fprintln(&b, name, sql(t, s, "CHECKSUM TABLE "+quoted), sql(t, s, "SHOW CREATE TABLE "+quoted))
	}
	for _, query := range []string{
		"SHOW CREATE VIEW shop.seen", "SHOW CREATE PROCEDURE shop.p", "SHOW CREATE EVENT shop.e", "SHOW CREATE EVENT shop.f", "SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'shop'",
		"SET print_identified_with_as_hex = ON; SHOW CREATE USER 'o''brien'@'10.%'", "SHOW GRANTS FOR 'o''brien'@'10.%' USING reader", "SHOW GRANTS FOR reader",
		"SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA ORDER BY 1", "XA RECOVER",
	} {
		fmt.Fprintln(&b, sql(t, s, query))
	}
	// Events are off on a replica and after a replay. A replica does not show which their owner had disabled.
	return strings.ReplaceAll(b.String(), " DISABLE ON REPLICA ", " DISABLE ")
}

func unhex(t *testing.T, name string) string {
	t.Helper()
	text, err := hex.DecodeString(name)
	must(t, err)
	return "`" + strings.ReplaceAll(string(text), "`", "``") + "`"
}

package admin_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestMembershipIsWrittenWhateverIsDoneToItsTable: the attempt that is refused makes the table again as it was. Whoever reads the row finds
// it at any time, on the replicas too. EPOCH stands for that of the row.
func TestMembershipIsWrittenWhateverIsDoneToItsTable(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	row := *m[0].Observe(ctx).Membership
	write := func(primary string) error {
		next := row
		next.Epoch, next.Primary = row.Epoch+1, primary
		err := m[0].WriteMembership(ctx, row.Epoch, next)
		if err == nil {
			row = next
		}
		return err
	}
	definition := func() (printed string) {
		t.Helper()
		mysqltest.Must(t, db.QueryRowContext(ctx, "SHOW CREATE TABLE nairobi_mysql.membership").Scan(new(string), &printed))
		return printed
	}
	whole := definition()
	for name, done := range map[string][]string{
		"the database is read-only":   {"ALTER DATABASE nairobi_mysql READ ONLY = 1"},
		"a trigger forbids":           {"CREATE TRIGGER nairobi_mysql.`no``more` BEFORE UPDATE ON nairobi_mysql.membership FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'"},
		"a trigger undoes":            {"CREATE TRIGGER nairobi_mysql.undo BEFORE UPDATE ON nairobi_mysql.membership FOR EACH ROW SET NEW.epoch = OLD.epoch, NEW.leader = OLD.leader"},
		"an event is there":           {"CREATE EVENT nairobi_mysql.`no``more` ON SCHEDULE EVERY 1 YEAR STARTS NOW() + INTERVAL 1 YEAR DO DO 1", "ALTER TABLE nairobi_mysql.membership ADD CHECK (epoch <= EPOCH)"},
		"a constraint forbids":        {"ALTER TABLE nairobi_mysql.membership ADD CONSTRAINT enough CHECK (epoch <= EPOCH)"},
		"its constraint is another":   {"ALTER TABLE nairobi_mysql.membership DROP CHECK membership_chk_1, ADD CONSTRAINT membership_chk_1 CHECK (epoch <= EPOCH)"},
		"a foreign key forbids":       {"CREATE TABLE nairobi_mysql.other (epoch BIGINT UNSIGNED PRIMARY KEY)", "INSERT INTO nairobi_mysql.other VALUES (EPOCH)", "ALTER TABLE nairobi_mysql.membership ADD FOREIGN KEY (epoch) REFERENCES nairobi_mysql.other (epoch)"},
		"a foreign key refers to it":  {"ALTER TABLE nairobi_mysql.membership ADD UNIQUE KEY (epoch)", "CREATE TABLE nairobi_mysql.other (epoch BIGINT UNSIGNED, FOREIGN KEY (epoch) REFERENCES nairobi_mysql.membership (epoch))", "INSERT INTO nairobi_mysql.other VALUES (EPOCH)"},
		"one does, and it is changed": {"ALTER TABLE nairobi_mysql.membership ADD UNIQUE KEY (w), ADD CHECK (epoch <= EPOCH)", "CREATE TABLE nairobi_mysql.other (w TINYINT UNSIGNED, FOREIGN KEY (w) REFERENCES nairobi_mysql.membership (w))", "INSERT INTO nairobi_mysql.other VALUES (1)"},
		"a generated column fails":    {"ALTER TABLE nairobi_mysql.membership ADD COLUMN down BIGINT UNSIGNED AS (EPOCH - epoch) STORED"},
		"a column is generated":       {"ALTER TABLE nairobi_mysql.membership DROP COLUMN w, ADD COLUMN w TINYINT UNSIGNED AS (id) STORED NOT NULL"},
		"a column has no default":     {"ALTER TABLE nairobi_mysql.membership ADD COLUMN why VARCHAR(9) NOT NULL, ADD CHECK (epoch <= EPOCH)"},
		"a column is too small":       {"ALTER TABLE nairobi_mysql.membership MODIFY leader VARCHAR(8) NOT NULL"},
		"a column is of another type": {"ALTER TABLE nairobi_mysql.membership MODIFY leader ENUM('orders-0') NOT NULL"},
		"a column is missing":         {"ALTER TABLE nairobi_mysql.membership DROP COLUMN memory, ADD CHECK (epoch <= EPOCH)"},
		"a column counts by itself":   {"ALTER TABLE nairobi_mysql.membership DROP CHECK membership_chk_1, MODIFY id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, ADD CHECK (epoch <= EPOCH)"},
		"an index is unique":          {"ALTER TABLE nairobi_mysql.membership ADD UNIQUE KEY (leader), ADD CHECK (epoch <= EPOCH)"},
		"it has other defaults":       {"ALTER DATABASE nairobi_mysql DEFAULT COLLATE latin1_bin", "ALTER TABLE nairobi_mysql.membership CONVERT TO CHARACTER SET latin1, ROW_FORMAT = COMPRESSED, COMMENT 'x', ADD CHECK (epoch <= EPOCH)"},
		"it is partitioned":           {"ALTER TABLE nairobi_mysql.membership DROP PRIMARY KEY, ADD PRIMARY KEY (id, epoch)", "ALTER TABLE nairobi_mysql.membership PARTITION BY LIST (epoch) (PARTITION p VALUES IN (EPOCH))"},
		"it has the row twice":        {"ALTER TABLE nairobi_mysql.membership DROP PRIMARY KEY, ADD CHECK (epoch <= EPOCH)", "INSERT INTO nairobi_mysql.membership SELECT * FROM nairobi_mysql.membership"},
		"it is a view":                {"CREATE TABLE nairobi_mysql.other SELECT * FROM nairobi_mysql.membership", "CREATE VIEW nairobi_mysql.seen AS SELECT DISTINCT * FROM nairobi_mysql.other", "RENAME TABLE nairobi_mysql.membership TO nairobi_mysql.former, nairobi_mysql.seen TO nairobi_mysql.membership"},
		"it was being restored":       {"CREATE TABLE nairobi_mysql.membership_restoring (id INT PRIMARY KEY)", "CREATE VIEW nairobi_mysql.membership_replaced AS SELECT 1", "ALTER TABLE nairobi_mysql.membership DROP CHECK membership_chk_1, ADD CHECK (epoch <= EPOCH)"},
	} {
		t.Run(name, func(t *testing.T) {
			mysqltest.Must(t, write("orders-0"))
			mysqltest.CatchUp(t, m[1], m[0])
			mysqltest.CatchUp(t, m[2], m[0])
			for _, statement := range done {
				mysqltest.Exec(t, db, strings.ReplaceAll(statement, "EPOCH", strconv.FormatUint(row.Epoch, 10)))
			}
			missed := watchRow(t, w)
			refused := write("orders-0-and-longer")
			if refused != nil {
				if err := write("orders-0-and-longer"); err != nil {
					t.Fatalf("refused: %v\nafter that: %v", refused, err)
				}
			}
			for _, member := range m {
				mysqltest.WaitFor(t, "the row at a member", func() bool {
					o := member.Observe(ctx)
					return o.Membership != nil && o.Membership.Epoch == row.Epoch && o.Membership.Primary == row.Primary
				})
			}
			if n := missed(); n > 0 {
				t.Errorf("the row was missed %d times", n)
			}
			if now := definition(); refused != nil && now != whole {
				t.Errorf("after %v the table is\n%s", refused, now)
			}
			if left := mysqltest.Value(t, db, "SELECT GROUP_CONCAT(n) FROM (SELECT TABLE_NAME AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME LIKE 'membership\\_%' UNION ALL SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'nairobi_mysql' UNION ALL SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'nairobi_mysql') AS l"); left != "" {
				t.Errorf("left: %s", left)
			}
			mysqltest.Exec(t, db, "DROP TABLE IF EXISTS nairobi_mysql.former")
			if kind := mysqltest.Value(t, db, "SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'nairobi_mysql' AND CONSTRAINT_TYPE = 'FOREIGN KEY' AND TABLE_NAME = 'membership'"); kind == "1" {
				mysqltest.Exec(t, db, "ALTER TABLE nairobi_mysql.membership DROP FOREIGN KEY membership_ibfk_1")
			}
			mysqltest.Exec(t, db, "DROP TABLE IF EXISTS nairobi_mysql.other")
		})
	}
}

// watchRow counts how often a reader of any of the servers does not find the membership row, until the function is called that it returns.
func watchRow(t *testing.T, w *mysqltest.World) (missed func() int) {
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	failures := make([]int, len(w.Servers))
	for i, server := range w.Servers {
		db := mysqltest.Root(t, server)
		group.Go(func() {
			for ctx.Err() == nil {
				var voters string
				if err := db.QueryRowContext(ctx, "SELECT voters FROM nairobi_mysql.membership WHERE id = 1").Scan(&voters); err != nil && ctx.Err() == nil {
					t.Logf("%s: %v", server.Name, err)
					failures[i]++
				}
			}
		})
	}
	return func() (n int) {
		stop()
		group.Wait()
		for _, f := range failures {
			n += f
		}
		return n
	}
}

// hooked returns a pool whose hook is called for the statements that restore tables.
func hooked(t *testing.T, call func(op, moment string) error) *conn.Pool {
	return mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, moment string) error {
			if !strings.HasPrefix(op, "own/") {
				return nil
			}
			return call(op, moment)
		}
	})
}

// forbid makes the primary's membership table refuse the row of the next epoch, and waits until the replicas' tables do.
func forbid(t *testing.T, db *sql.DB, m []*admin.Member, epoch uint64) {
	t.Helper()
	mysqltest.Exec(t, db, fmt.Sprintf("ALTER TABLE nairobi_mysql.membership ADD CONSTRAINT enough_%d CHECK (epoch <= %[1]d)", epoch))
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.CatchUp(t, m[2], m[0])
}

// TestATableIsRestoredOnlyWhileReplicasAcknowledge: nobody can read a table while the commit waits that replaces it.
func TestATableIsRestoredOnlyWhileReplicasAcknowledge(t *testing.T) {
	cut := func() {}
	w, m := mysqltest.Settle(t, hooked(t, func(op, moment string) error {
		if op == "own/keep-rows" && moment == "after" {
			cut()
		}
		return nil
	}))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	row := *m[0].Observe(ctx).Membership
	forbid(t, db, m, row.Epoch)
	each := func(statement string) {
		for _, server := range w.Servers[1:] {
			mysqltest.Exec(t, mysqltest.Root(t, server), statement)
		}
	}
	stopped := false
	cut = func() {
		each("STOP REPLICA IO_THREAD")
		mysqltest.WaitFor(t, "no replica acknowledges", func() bool {
			return mysqltest.Value(t, db, "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_clients'") == "0"
		})
		stopped, cut = true, func() {}
	}
	next := row
	next.Epoch++
	if err := m[0].WriteMembership(ctx, row.Epoch, next); err == nil || !stopped {
		t.Errorf("the row was not refused: %v; the replicas were stopped: %t", err, stopped)
	}
	if o := m[0].Observe(ctx); !o.MembershipKnown || o.Membership == nil || o.Membership.Epoch != row.Epoch || o.PendingCommits != 0 {
		t.Errorf("without acknowledgements: %+v, known: %t, %d commits wait", o.Membership, o.MembershipKnown, o.PendingCommits)
	}
	each("START REPLICA IO_THREAD")
	mysqltest.WaitFor(t, "the row is written", func() bool { return m[0].WriteMembership(ctx, row.Epoch, next) == nil })
}

// TestALockIsNoReasonToRestoreATable, though the table differs.
func TestALockIsNoReasonToRestoreATable(t *testing.T) {
	var restored []string
	w, m := mysqltest.Settle(t, hooked(t, func(op, _ string) error {
		restored = append(restored, op)
		return nil
	}))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	row := *m[0].Observe(ctx).Membership
	forbid(t, db, m, row.Epoch+1)
	holder, err := db.Conn(ctx)
	mysqltest.Must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(ctx, "LOCK TABLES nairobi_mysql.membership READ")
	mysqltest.Must(t, err)
	next := row
	next.Epoch++
	restored = nil
	if err := m[0].WriteMembership(ctx, row.Epoch, next); !conn.IsServerError(err, mysql.ErLockWaitTimeout) {
		t.Errorf("while somebody has the table locked: %v", err)
	}
	if len(restored) > 0 {
		t.Errorf("the table was restored: %v", restored)
	}
	_, err = holder.ExecContext(ctx, "UNLOCK TABLES")
	mysqltest.Must(t, err)
	mysqltest.Must(t, m[0].WriteMembership(ctx, row.Epoch, next))
	mysqltest.Exec(t, db, fmt.Sprintf("ALTER TABLE nairobi_mysql.membership DROP CHECK enough_%d", row.Epoch+1))
}

// TestLeftoversMayDifferOnReplicas: of an attempt that was cut off, or somebody's of the same name.
func TestLeftoversMayDifferOnReplicas(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	row := *m[0].Observe(ctx).Membership
	forbid(t, db, m, row.Epoch)
	for i, create := range []string{"CREATE VIEW nairobi_mysql.membership_replaced AS SELECT 1", "CREATE TABLE nairobi_mysql.membership_replaced (id INT)", "CREATE TABLE nairobi_mysql.membership_restoring (id INT)"} {
		local, err := mysqltest.Root(t, w.Servers[i]).Conn(ctx)
		mysqltest.Must(t, err)
		readOnly := "ON"
		if i == 0 {
			readOnly = "OFF"
		}
		for _, statement := range []string{"SET SESSION sql_log_bin = OFF", "SET GLOBAL super_read_only = OFF", create, "SET GLOBAL super_read_only = " + readOnly} {
			_, err := local.ExecContext(ctx, statement)
			mysqltest.Must(t, err)
		}
		mysqltest.Must(t, local.Close())
	}
	next := row
	next.Epoch++
	if err := m[0].WriteMembership(ctx, row.Epoch, next); err == nil {
		t.Error("the row was not refused")
	}
	mysqltest.Must(t, m[0].WriteMembership(ctx, row.Epoch, next))
	for i, member := range m {
		mysqltest.WaitFor(t, "the row at "+w.Servers[i].Name, func() bool {
			o := member.Observe(ctx)
			return o.Membership != nil && o.Membership.Epoch == next.Epoch
		})
	}
}

// TestTablesOfOtherReleasesAreNotOthers: a column of a later release stays, with its value also when the table has to be made again, and so
// does the name of the constraint that an earlier one gave, and what the defaults were that the table was made with.
func TestTablesOfOtherReleasesAreNotOthers(t *testing.T) {
	made := false
	w, m := mysqltest.Settle(t, hooked(t, func(op, _ string) error {
		made = made || op == "own/create-table"
		return nil
	}))
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "ALTER TABLE nairobi_mysql.membership ADD COLUMN later JSON NULL COMMENT 'a, b', ADD COLUMN `lat``est` BIGINT NOT NULL DEFAULT 7 FIRST, ADD COLUMN latest TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), DROP CHECK membership_chk_1, ADD CONSTRAINT one_row CHECK (id = 1), CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin")
	defer mysqltest.Exec(t, db, "ALTER TABLE nairobi_mysql.membership DROP COLUMN later, DROP COLUMN `lat``est`, DROP COLUMN latest")
	defer mysqltest.Exec(t, db, "ALTER DATABASE nairobi_mysql ENCRYPTION = 'N'")
	mysqltest.Exec(t, db, "UPDATE nairobi_mysql.membership SET later = '[1]', `lat``est` = 8")
	for _, row := range []struct {
		encryption, forbid string
		replaced           bool
	}{
		{"Y", "CREATE TRIGGER nairobi_mysql.no BEFORE UPDATE ON nairobi_mysql.membership FOR EACH ROW SIGNAL SQLSTATE '45000'", false},
		{"N", "ALTER TABLE nairobi_mysql.membership ADD CHECK (epoch <= EPOCH OR later IS NULL)", true},
	} {
		const id = "SELECT TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = 'nairobi_mysql/membership'"
		present := *m[0].Observe(ctx).Membership
		mysqltest.Exec(t, db, "ALTER DATABASE nairobi_mysql ENCRYPTION = '"+row.encryption+"'") // without a keyring no table can be made then
		mysqltest.Exec(t, db, strings.ReplaceAll(row.forbid, "EPOCH", strconv.FormatUint(present.Epoch, 10)))
		table, next := mysqltest.Value(t, db, id), present
		made = false
		next.Epoch++
		if err := m[0].WriteMembership(ctx, present.Epoch, next); err == nil {
			t.Errorf("%s: not refused", row.forbid)
		}
		mysqltest.Must(t, m[0].WriteMembership(ctx, present.Epoch, next))
		if now := mysqltest.Value(t, db, id); (now != table) != row.replaced || made != row.replaced {
			t.Errorf("%s: the table was %s and is %s; another was made: %t", row.forbid, table, now, made)
		}
		if kept := mysqltest.Value(t, db, "SELECT CONCAT(later, `lat``est`) FROM nairobi_mysql.membership"); kept != "[1]8" {
			t.Errorf("%s: the columns have %s", row.forbid, kept)
		}
	}
}

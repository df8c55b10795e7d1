package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// unpacked is what a stream holds, as text.
func (w *world) unpacked(t *testing.T, o DumpOptions, s Stream) string {
	t.Helper()
	r, err := o.Place.Unpack(t.Context(), o.Folder, s)
	must(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	must(t, err)
	return string(text)
}

// beside runs statements on the primary in the moment in which mysqldump begins, and waits for them before much of what
// it says is read: the first of them is held up until the server goes on.
func (w *world) beside(t *testing.T, o *DumpOptions, statements string) {
	t.Helper()
	must(t, w.primary.WriteFile("held", nil))
	o.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if slices.Contains(arguments, "--version") {
			return w.primary.Program(ctx, name, arguments...)
		}
		go func() {
			if _, err := w.primary.SQL(t.Context(), statements); err != nil {
				t.Error(err)
			}
			if err := w.primary.WriteFile("held", []byte("no more")); err != nil {
				t.Error(err)
			}
		}()
		const slowly = `set -o pipefail; "$0" "$@" | { head -c 8192; while [ ! -s /etc/nairobi-mysql/held ]; do sleep 0.1; done; cat; }`
		return w.primary.Program(ctx, "bash", append([]string{"-c", slowly, name}, arguments...)...)
	}
}

// TestTablesThatComeAndGo: mysqldump lists tables as its snapshot has them. One that was dropped before its turn came
// fails the dump, and one that was made is not in it. One that was altered has its rows of the moment and another definition.
func TestTablesThatComeAndGo(t *testing.T) {
	w := theWorld(t)
	// So much that mysqldump cannot say it all before somebody reads it.
	sql(t, w.primary, "CREATE DATABASE aaa; CREATE TABLE aaa.much (id INT PRIMARY KEY, v LONGTEXT); INSERT INTO aaa.much VALUES (1, REPEAT('x', 4000000)), (2, REPEAT('x', 4000000)); "+
		"CREATE DATABASE zzz; CREATE TABLE zzz.`a\nb` (id INT PRIMARY KEY); CREATE TABLE zzz.gone (id INT PRIMARY KEY)")
	defer func() { sql(t, w.primary, "DROP DATABASE aaa; DROP DATABASE zzz"); w.caughtUp(t) }()
	for _, row := range []struct {
		statements string
		want       error
	}{
		{"CREATE TABLE zzz.new (id INT PRIMARY KEY)", nil},
		{"ALTER TABLE zzz.gone ADD INDEX late (id)", ErrMoved},
		{"DROP TABLE zzz.gone", ErrProgram},
	} {
		t.Run(row.statements, func(t *testing.T) {
			o := w.options(t, w.primary)
			w.beside(t, &o, row.statements)
			m, err := Dump(t.Context(), o)
			if !errors.Is(err, row.want) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			if text := w.unpacked(t, o, m.Dump); strings.Contains(text, "CREATE TABLE `new`") || !strings.Contains(text, "CREATE TABLE `gone`") {
				t.Error("it holds a table of later, or not one that was there")
			}
		})
	}
}

// TestTheAccountsAreOfTheMoment: a privilege that is granted once the server goes on is not in the backup.
func TestTheAccountsAreOfTheMoment(t *testing.T) {
	w := theWorld(t)
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "CREATE USER many%d; ", i)
	}
	sql(t, w.primary, many.String()+"CREATE USER zz")
	defer func() {
		sql(t, w.primary, strings.ReplaceAll(many.String(), "CREATE", "DROP")+"DROP USER zz")
		w.caughtUp(t)
	}()
	o := w.options(t, w.primary)
	w.beside(t, &o, "GRANT SELECT ON shop.* TO zz")
	m, err := Dump(t.Context(), o)
	must(t, err)
	if got := w.unpacked(t, o, m.Accounts); strings.Contains(got, "GRANT SELECT ON `shop`.* TO `zz`") || !strings.Contains(got, "`zz`") {
		t.Errorf("it holds a privilege of later, or not the account: %s", got)
	}
}

// TestADatabaseOfTheLastMoment: the lock had to wait, and a database was made meanwhile. It is in the GTIDs, and so it must
// be in the dump.
func TestADatabaseOfTheLastMoment(t *testing.T) {
	w := theWorld(t)
	defer func() { sql(t, w.primary, "DROP DATABASE IF EXISTS late"); w.caughtUp(t) }()
	holder, watcher := open(t, w.primary), open(t, w.primary)
	_, err := holder.do("LOCK TABLES shop.empty WRITE")
	must(t, err)
	made := make(chan error, 1)
	go func() {
		// In the pause after an attempt that was in vain, which is free for others.
		const waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE 'FLUSH LOCAL TABLES%'"
		err := watcher.await(waiting, "1")
		if err == nil {
			err = watcher.await(waiting, "0")
		}
		_, then := holder.do("UNLOCK TABLES; CREATE DATABASE late; CREATE TABLE late.t (id INT PRIMARY KEY); INSERT INTO late.t VALUES (1)")
		made <- errors.Join(err, then)
	}()
	o := w.options(t, w.primary)
	m, err := Dump(t.Context(), o)
	must(t, errors.Join(err, <-made))
	if m.rows("late", "t") != 1 {
		t.Errorf("the dump has the tables %+v", m.Tables)
	}
}

// TestWhatMysqldumpRounds does not make a good backup a bad one: FLOAT, and DECIMAL inside JSON.
func TestWhatMysqldumpRounds(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE rounds; CREATE TABLE rounds.f (id INT PRIMARY KEY, f FLOAT); INSERT INTO rounds.f VALUES (1, 8388609); "+
		"CREATE TABLE rounds.j (id INT PRIMARY KEY, j JSON); INSERT INTO rounds.j VALUES (1, JSON_OBJECT('a', CAST(1.10 AS DECIMAL(10,2)))); "+
		"CREATE TABLE rounds.d (id INT PRIMARY KEY, d DOUBLE, v VECTOR(2)); INSERT INTO rounds.d VALUES (1, 1e0/3, TO_VECTOR('[1.23456789,3]'))")
	defer func() { sql(t, w.primary, "DROP DATABASE rounds"); w.caughtUp(t) }()
	o := w.options(t, w.primary)
	m, err := patiently(t, o)
	must(t, err)
	for table, compared := range map[string]bool{"f": false, "j": false, "d": true} {
		at := slices.IndexFunc(m.Samples, func(s Sample) bool { return s.Database == "rounds" && s.Table == table })
		if at < 0 || (m.Samples[at].Checksum != nil) != compared || m.Samples[at].Rows != 1 {
			t.Errorf("the sample of %s: %d of %+v", table, at, m.Samples)
		}
	}
	target := w.fresh(t)
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
	if sql(t, target, "CHECKSUM TABLE rounds.f") == sql(t, w.primary, "CHECKSUM TABLE rounds.f") {
		t.Error("nothing was rounded: this tries nothing")
	}
}

// TestPrivilegesOnWhatIsGone are left out, and nothing else of what their statement grants.
func TestPrivilegesOnWhatIsGone(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE gone; CREATE TABLE gone.`a, b ON c` (a INT, `b``, (c` INT, `d ON e` INT); CREATE TABLE gone.t (a INT); CREATE USER heir; "+
		"GRANT SELECT (a, `b``, (c`), INSERT (`d ON e`), UPDATE ON gone.`a, b ON c` TO heir WITH GRANT OPTION; GRANT SELECT ON gone.t TO heir; GRANT DELETE ON gone.* TO heir; "+
		"ALTER TABLE gone.`a, b ON c` DROP COLUMN `b``, (c`; DROP TABLE gone.t")
	defer func() { sql(t, w.primary, "DROP DATABASE gone; DROP USER heir"); w.caughtUp(t) }()
	o := w.options(t, w.primary)
	_, err := patiently(t, o)
	must(t, err)
	target := w.fresh(t)
	r := w.restore(t, o, target)
	var skipped []string
	r.Skipped = func(left []podclient.LeftOut) {
		for _, l := range left {
			skipped = append(skipped, l.What)
		}
	}
	_, err = Restore(t.Context(), r)
	must(t, err)
	want := []string{"GRANT SELECT (`b``, (c`) ON `gone`.`a, b ON c` TO `heir`@`%` WITH GRANT OPTION", "GRANT SELECT ON `gone`.`t` TO `heir`@`%`"}
	if slices.Sort(skipped); !slices.Equal(skipped, want) {
		t.Errorf("skipped are %q", skipped)
	}
	got := sql(t, target, "SHOW GRANTS FOR heir")
	for _, grant := range []string{"GRANT SELECT (`a`), INSERT (`d ON e`), UPDATE ON `gone`.`a, b ON c` TO `heir`@`%` WITH GRANT OPTION", "GRANT DELETE ON `gone`.* TO `heir`@`%`"} {
		if !strings.Contains(got, grant) {
			t.Errorf("%s is not in\n%s", grant, got)
		}
	}
}

// TestAccountsOfAboutTheOperatorsNames: the operator's own accounts are left out, with every host, and no other.
func TestAccountsOfAboutTheOperatorsNames(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE USER nairobi_office IDENTIFIED BY 'x'; CREATE USER nairobi_operator_of_trams; CREATE USER nairobi_operator@'10.1.2.3'; GRANT SELECT ON shop.* TO nairobi_office")
	defer func() {
		sql(t, w.primary, "DROP USER nairobi_office, nairobi_operator_of_trams, nairobi_operator@'10.1.2.3'")
		w.caughtUp(t)
	}()
	o := w.options(t, w.primary)
	_, err := patiently(t, o)
	must(t, err)
	target := w.fresh(t)
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
	if got := sql(t, target, "SELECT GROUP_CONCAT(User, '@', Host ORDER BY 1) FROM mysql.user WHERE User LIKE 'nairobi%'"); !strings.Contains(got, "nairobi_office@%") ||
		!strings.Contains(got, "nairobi_operator_of_trams@%") || strings.Contains(got, "10.1.2.3") {
		t.Errorf("restored are %s", got)
	}
	if got := sql(t, target, "SHOW GRANTS FOR nairobi_office"); !strings.Contains(got, "SELECT ON `shop`.*") {
		t.Errorf("it may do %s", got)
	}
}

// TestAReplicaThatIsFarBehind is not dumped.
func TestAReplicaThatIsFarBehind(t *testing.T) {
	w := theWorld(t)
	sql(t, w.replica, "STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600; START REPLICA SQL_THREAD")
	sql(t, w.primary, "CREATE TABLE shop.lag (id INT)")
	defer func() {
		sql(t, w.replica, "STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0; START REPLICA SQL_THREAD")
		sql(t, w.primary, "DROP TABLE shop.lag")
		w.caughtUp(t)
	}()
	primary, replica := w.member(w.primary, mysql.BackupUser), w.member(w.replica, mysql.BackupUser)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		state, err := look(t.Context(), replica)
		must(t, err)
		if state.LagKnown && state.Lag > 2*time.Second {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the replica does not fall behind: %+v", state)
		}
	}
	if m, err := Choose(t.Context(), []Member{primary, replica}, time.Hour, gtid.Set{}, nil); err != nil || m.Name != replica.Name {
		t.Errorf("within the limit: %s, %v", m.Name, err)
	}
	if m, err := Choose(t.Context(), []Member{primary, replica}, time.Second, gtid.Set{}, nil); err != nil || m.Name != primary.Name {
		t.Errorf("beyond it: %s, %v", m.Name, err)
	}
	if _, err := Choose(t.Context(), []Member{replica}, time.Second, gtid.Set{}, nil); !errors.Is(err, ErrNoMember) || !strings.Contains(err.Error(), "behind") {
		t.Errorf("beyond it, without a primary: %v", err)
	}
}

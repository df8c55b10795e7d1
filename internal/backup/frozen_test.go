package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestWhatIsAskedWhileTheServerStandsStill: where the server stands, the databases, and whether the accounts are the same. What
// takes the longer the more tables there are is asked before and afterwards.
func TestWhatIsAskedWhileTheServerStandsStill(t *testing.T) {
	w := theWorld(t)
	watcher := open(t, w.primary)
	_, err := watcher.do("SET GLOBAL log_output = 'TABLE'; TRUNCATE mysql.general_log; SET GLOBAL general_log = ON")
	must(t, err)
	_, err = patiently(t, w.options(t, w.primary))
	log, off := watcher.do("SET GLOBAL general_log = OFF, GLOBAL log_output = DEFAULT; " +
		"SELECT thread_id, REPLACE(REPLACE(CONVERT(argument USING utf8mb4), '\\n', ' '), '\\t', ' ') FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE '%nairobi_backup%' ORDER BY event_time; TRUNCATE mysql.general_log")
	must(t, errors.Join(err, off))
	const lock, unlock, names, sizes = "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES", "COALESCE(DATA_LENGTH, 0)"
	var dumping, holder string
	var asked []string
	before, after := map[string]bool{}, map[string]bool{}
	note := func(all map[string]bool, statement string) {
		for _, part := range []string{names, sizes, "performance_schema.replication"} {
			all[part] = all[part] || strings.Contains(statement, part)
		}
	}
	for line := range strings.Lines(log) {
		thread, statement, _ := strings.Cut(strings.TrimSpace(line), "\t")
		switch {
		case strings.HasPrefix(statement, conn.WholeReads):
			dumping = thread // mysqldump
		case thread == dumping:
		case statement == lock: // the last attempt counts
			holder, asked = thread, nil
		case holder == "":
			note(before, statement)
		case statement == unlock && thread == holder:
			holder, asked = "done", append(asked, unlock)
		case holder == "done":
			note(after, statement)
		default:
			asked = append(asked, statement)
			if thread == holder {
				t.Errorf("the session that holds the lock was asked: %s", statement)
			}
		}
	}
	want := []string{"SELECT @@server_uuid, ", "XA RECOVER", "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ", "CHECKSUM TABLE mysql.user, ", "SET SESSION TRANSACTION ISOLATION LEVEL ", "START TRANSACTION WITH CONSISTENT SNAPSHOT", unlock}
	if !slices.EqualFunc(asked, want, strings.HasPrefix) {
		t.Errorf("while the server stood still it was asked:\n%s", strings.Join(asked, "\n"))
	}
	if !before[sizes] || before[names] || !after[names] || after[sizes] {
		t.Errorf("before it was asked for %v, afterwards for %v; all was:\n%s", before, after, log)
	}
}

// lingering is a store that goes on with an upload for a while when nobody wants it any more.
type lingering struct {
	store.Store
	linger time.Duration
}

func (l lingering) Put(ctx context.Context, _ string, r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	time.Sleep(l.linger)
	return n, errors.Join(err, ctx.Err())
}

// TestTheLockIsGivenBackInTime: mysqldump has no view of the server for minutes, and the store does not let go of the upload. Writes
// wait until the limit, not until either has ended.
func TestTheLockIsGivenBackInTime(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE lone; CREATE TABLE lone.t (id INT PRIMARY KEY AUTO_INCREMENT)")
	defer func() { sql(t, w.primary, "DROP DATABASE lone"); w.caughtUp(t) }()
	o := w.options(t, w.primary)
	const linger = 10 * time.Second
	o.Place.Store = lingering{o.Place.Store, linger}
	o.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if slices.Contains(arguments, "--version") {
			return w.primary.Program(ctx, name, arguments...)
		}
		return w.primary.Program(ctx, "sh", "-c", "head -c 4194304 /dev/urandom; exec sleep 300")
	}
	var took time.Duration
	var err error
	most := w.longestWrite(t, w.twin(t), func() {
		began := time.Now()
		_, err = Dump(t.Context(), o)
		took = time.Since(began)
	})
	if !errors.Is(err, mysql.ErrBlocked) || Sick(err) {
		t.Errorf("it ended with %v", err)
	}
	if took < frozenServing+linger {
		t.Errorf("it ended after %s: this tries nothing", took)
	}
	if most < frozenServing/2 || most > frozenServing+time.Second {
		t.Errorf("a write waited for %s", most)
	}
	ended(t, w.primary)
}

// TestATableThatTakesTooLong to be summed up is in the backup without a checksum, and one that is locked without a sample; those
// after them have theirs.
func TestATableThatTakesTooLong(t *testing.T) {
	w := theWorld(t)
	const rows = 30
	sql(t, w.primary, "CREATE DATABASE slow; CREATE TABLE slow.a (id INT PRIMARY KEY, s CHAR(64) AS (SHA2(REPEAT(CONCAT(id), 30000000), 256)) VIRTUAL); "+
		fmt.Sprintf("INSERT INTO slow.a (id) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n; ", rows)+
		"CREATE TABLE slow.b (id INT PRIMARY KEY); CREATE TABLE slow.c (id INT PRIMARY KEY); INSERT INTO slow.c VALUES (1), (2)")
	defer func() { sql(t, w.primary, "DROP DATABASE slow"); w.caughtUp(t) }()
	o := w.options(t, w.primary)
	// Once the server goes on, and until mysqldump says no more: what it waits for itself fails it.
	locks := open(t, w.primary)
	var group sync.WaitGroup
	defer group.Wait()
	o.Place.Store = midway{o.Place.Store, &sync.Once{}, func() {
		_, err := locks.do("LOCK TABLES slow.b WRITE")
		if err != nil {
			t.Error(err)
		}
		group.Go(func() { time.Sleep(8 * time.Second); locks.close() })
	}}
	d := newDump(o)
	d.sampleEach = 300 * time.Millisecond
	began := time.Now()
	m, err := d.run(t.Context())
	must(t, err)
	t.Logf("it took %s, with the samples %+v", time.Since(began), m.Samples)
	find := func(table string) *Sample {
		for i, s := range m.Samples {
			if s.Database == "slow" && s.Table == table {
				return &m.Samples[i]
			}
		}
		return nil
	}
	if a := find("a"); a == nil || a.Rows != rows || a.Checksum != nil {
		t.Errorf("the sample of the one that takes long: %+v", a)
	}
	if b := find("b"); b != nil {
		t.Errorf("the sample of the one that is locked: %+v", b)
	}
	if c := find("c"); c == nil || c.Rows != 2 || c.Checksum == nil {
		t.Errorf("the sample of the one after them: %+v", c)
	}
	if m.rows("slow", "a") != rows {
		t.Errorf("the dump has the tables %+v", m.Tables)
	}
}

// TestWithinKeepsTheSnapshot: what is interrupted costs neither the connection nor its view.
func TestWithinKeepsTheSnapshot(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE views; CREATE TABLE views.t (id INT PRIMARY KEY); INSERT INTO views.t VALUES (1); "+
		"CREATE TABLE views.slow (id INT PRIMARY KEY, s CHAR(64) AS (SHA2(REPEAT(CONCAT(id), 50000000), 256)) VIRTUAL); INSERT INTO views.slow (id) VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9)")
	defer func() { sql(t, w.primary, "DROP DATABASE views"); w.caughtUp(t) }()
	v, err := w.member(w.primary, mysql.BackupUser).Connect(t.Context())
	must(t, err)
	defer v.Close()
	must(t, v.TakeSnapshot(t.Context()))
	sql(t, w.primary, "INSERT INTO views.t VALUES (2)")
	err = v.Within(t.Context(), 200*time.Millisecond, func(ctx context.Context) error {
		_, err := v.Checksum(ctx, podclient.Table{Database: "views", Name: "slow"})
		return err
	})
	if !errors.Is(err, podclient.ErrTooLong) || !v.Usable() {
		t.Fatalf("got %v, and the connection is usable: %v", err, v.Usable())
	}
	if n, err := v.Count(t.Context(), podclient.Table{Database: "views", Name: "t"}); err != nil || n != 1 {
		t.Errorf("its view has %d rows: %v", n, err)
	}
	v.Close()
	ended(t, w.primary)
}

// TestSizesAreOfNow, whatever the server keeps of a day ago.
func TestSizesAreOfNow(t *testing.T) {
	w := theWorld(t)
	const kept = "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'grows'"
	sql(t, w.primary, "CREATE DATABASE grows; CREATE TABLE grows.t (id INT PRIMARY KEY AUTO_INCREMENT, b BLOB)")
	defer func() { sql(t, w.primary, "DROP DATABASE grows"); w.caughtUp(t) }()
	before := sql(t, w.primary, kept)
	sql(t, w.primary, "SET cte_max_recursion_depth = 10000; INSERT INTO grows.t (b) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4096) SELECT RANDOM_BYTES(1024) FROM n")
	v, err := w.member(w.primary, mysql.BackupUser).Connect(t.Context())
	must(t, err)
	defer v.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) { // InnoDB counts anew some seconds later
		tables, err := v.Tables(t.Context())
		must(t, err)
		at := slices.IndexFunc(tables, func(t podclient.Table) bool { return t.Database == "grows" })
		if at >= 0 && tables[at].Bytes > 4<<20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sizes are %+v", tables)
		}
	}
	if after := sql(t, w.primary, kept); after != before {
		t.Errorf("the server keeps %s instead of %s: this tries nothing", after, before)
	}
}

// TestADumpIsOfAMomentInWhichNothingIsPrepared: of a prepared transaction the dump would have the GTID and not the rows, and what
// commits it later could not be replayed on that.
func TestADumpIsOfAMomentInWhichNothingIsPrepared(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE halves; CREATE TABLE halves.t (id INT PRIMARY KEY)")
	defer func() { sql(t, w.primary, "DROP DATABASE halves"); w.caughtUp(t) }()
	for name, server := range map[string]*mysqld.Server{"a primary": w.primary, "a replica": w.replica} {
		t.Run(name, func(t *testing.T) {
			sql(t, w.primary, "DELETE FROM halves.t; XA START 'half'; INSERT INTO halves.t VALUES (7); XA END 'half'; XA PREPARE 'half'")
			w.caughtUp(t)
			o := w.options(t, server)
			d := newDump(o)
			d.preparedLimit = time.Second
			if _, err := d.run(t.Context()); !errors.Is(err, mysql.ErrBlocked) || !strings.Contains(err.Error(), "XA RECOVER") || Sick(err) {
				t.Errorf("got %v", err)
			}
			ended(t, server)
			var group sync.WaitGroup
			defer group.Wait()
			group.Go(func() { time.Sleep(preparedPause + preparedPause/2); sql(t, w.primary, "XA COMMIT 'half'") })
			o = w.options(t, server)
			m, err := patiently(t, o)
			must(t, err)
			if !strings.Contains(w.unpacked(t, o, m.Dump), "INSERT INTO `t` VALUES (7)") {
				t.Error("the row that was prepared and then committed is not in the dump")
			}
		})
	}
}

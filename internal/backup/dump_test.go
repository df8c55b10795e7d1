package backup

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// World is a real primary with a real replica, and a server that is empty.
type world struct {
	farm             *mysqld.Farm
	primary, replica *mysqld.Server
	operator, pods   mysql.Identity
	pool             *conn.Pool
}

var shared struct {
	once  sync.Once
	world *world
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if w := shared.world; w != nil {
		if w.pool != nil {
			w.pool.Close()
		}
		if err := w.farm.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func theWorld(t *testing.T) *world {
	t.Helper()
	shared.once.Do(func() {
		ctx := context.Background()
		w := &world{}
		if w.farm, shared.err = mysqld.NewFarm(ctx, os.Stderr); shared.err != nil {
			return
		}
		shared.world = w
		shared.err = w.begin(ctx)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// begin makes a primary with awkward data in it and a replica of it.
func (w *world) begin(ctx context.Context) (err error) {
	if w.primary, err = w.farm.Start(ctx, mysqld.Options{}); err != nil {
		return err
	}
	if w.replica, err = w.farm.Start(ctx, mysqld.Options{}); err != nil {
		return err
	}
	ca, cert, key := w.farm.OperatorIdentity()
	w.operator = mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	cert, key, err = w.farm.Authority.IssueClient(pki.BackupPods, time.Now())
	if err != nil {
		return err
	}
	w.pods = mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	w.pool = conn.NewPool(conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, ChangeTimeout: time.Minute})
	p := admin.Open(w.pool, endpoint(w.primary), w.operator)
	if err := p.Promote(ctx, mysql.PromoteSpec{}); err != nil {
		return err
	}
	if err := p.WriteMembership(ctx, 0, mysql.Membership{Epoch: 1, Primary: w.primary.Name, Voters: []string{w.primary.Name, w.replica.Name}}); err != nil {
		return err
	}
	if changed, err := p.EnsurePodAccount(ctx, mysql.BackupUser, w.farm.Authority.IssuerDN(), w.farm.Authority.ClientDN(pki.BackupPods)); err != nil || !changed {
		return fmt.Errorf("make the account: changed %v: %w", changed, err)
	}
	if changed, err := p.EnsurePodAccount(ctx, mysql.BackupUser, w.farm.Authority.IssuerDN(), w.farm.Authority.ClientDN(pki.BackupPods)); err != nil || changed {
		return fmt.Errorf("make the account again: changed %v: %w", changed, err)
	}
	if _, err := w.primary.SQL(ctx, awkward); err != nil {
		return err
	}
	r := admin.Open(w.pool, endpoint(w.replica), w.operator)
	if err := r.CloneFrom(ctx, w.primary.Address()); err != nil {
		return err
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if c := r.Observe(ctx).Clone; c != nil && c.State == mysql.CloneCompleted {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the clone takes too long")
		}
	}
	return w.follow(ctx)
}

// follow has the replica replicate, and waits until it does.
func (w *world) follow(ctx context.Context) error {
	r := admin.Open(w.pool, endpoint(w.replica), w.operator)
	if err := r.ReplicateFrom(ctx, w.primary.IP(), mysqld.Port); err != nil {
		return err
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if o := r.Observe(ctx).Replication; o != nil && o.IOState == mysql.IOOn && o.SQLRunning && o.LagSeconds != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the replica does not follow")
		}
	}
}

// caughtUp waits until the replica has what the primary has.
func (w *world) caughtUp(t *testing.T) {
	t.Helper()
	executed := strings.ReplaceAll(sql(t, w.primary, "SELECT @@gtid_executed"), "\\n", "")
	if got := sql(t, w.replica, "SELECT WAIT_FOR_EXECUTED_GTID_SET('"+executed+"', 120)"); got != "0" {
		t.Fatalf("the replica does not catch up: %s", got)
	}
}

// awkward is data that a careless dump loses.
const awkward = `
CREATE DATABASE shop; CREATE DATABASE ` + "`--all-databases`" + `; CREATE DATABASE ` + "`we``ird\n'n\"ame;`" + `;
CREATE TABLE shop.plain (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100), b BLOB, f DOUBLE, d DECIMAL(20,10), j JSON, t TIMESTAMP(6) NULL, u BIT(7));
INSERT INTO shop.plain (v, b, f, d, j, t, u) VALUES ('o''brien \\ "x" ; ) ( , --', 0x00ff27285c0a0d1a, 1e-300, 0.1234567890, '{"a": [1, "\\u0000", "''"]}', '2026-03-29 02:30:00.123456', b'1010101'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL), ('', '', -0.0, -1, 'null', '1970-01-01 00:00:01', 0), ('äöü€😀', 'ä', 3.14, 1, '"😀"', '2038-01-19 03:14:07', 1);
CREATE TABLE shop.` + "`tab``le ) VALUES (1)`" + ` (` + "`co``l (`" + ` INT PRIMARY KEY, g INT GENERATED ALWAYS AS (` + "`co``l (`" + ` * 2) STORED);
INSERT INTO shop.` + "`tab``le ) VALUES (1)`" + ` (` + "`co``l (`" + `) VALUES (1),(2),(3);
CREATE TABLE shop.empty (id INT PRIMARY KEY);
CREATE TABLE ` + "`--all-databases`.`--result-file=x`" + ` (id INT PRIMARY KEY); INSERT INTO ` + "`--all-databases`.`--result-file=x`" + ` VALUES (1);
CREATE TABLE ` + "`we``ird\n'n\"ame;`" + `.t (id INT PRIMARY KEY); INSERT INTO ` + "`we``ird\n'n\"ame;`" + `.t VALUES (1),(2);
CREATE VIEW shop.seen AS SELECT id, v FROM shop.plain;
DELIMITER //
CREATE TRIGGER shop.trg BEFORE INSERT ON shop.plain FOR EACH ROW BEGIN
INSERT INTO ` + "`empty`" + ` VALUES (9999);
DELETE FROM ` + "`empty`" + `;
END//
CREATE PROCEDURE shop.p() BEGIN SELECT 1; END//
CREATE EVENT shop.e ON SCHEDULE EVERY 1 YEAR DISABLE DO SELECT 1//
DELIMITER ;
CREATE ROLE reader; GRANT SELECT ON shop.* TO reader;
CREATE USER 'o''brien'@'10.%' IDENTIFIED BY 'p@ss "word\\' DEFAULT ROLE reader COMMENT 'x;
y'; GRANT reader TO 'o''brien'@'10.%'; GRANT INSERT ON shop.plain TO 'o''brien'@'10.%' WITH GRANT OPTION;
`

func endpoint(s *mysqld.Server) mysql.Endpoint {
	return mysql.Endpoint{Key: "uid/" + s.Name + "/" + s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
}

// member is a server as a pod reaches it.
func (w *world) member(s *mysqld.Server, user string) Member {
	identity := w.pods
	if user == mysql.OperatorUser {
		identity = w.operator
	}
	return Member{Name: s.Name, Host: s.IP(), Connect: func(ctx context.Context) (*podclient.Visit, error) {
		return podclient.OpenVisit(ctx, podclient.VisitOptions{Endpoint: endpoint(s), Identity: identity, User: user, Options: conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute}})
	}}
}

// credentials puts an identity where the programs of a server see it.
func credentials(t *testing.T, s *mysqld.Server, identity mysql.Identity) Credentials {
	t.Helper()
	for name, content := range map[string][]byte{"pod-ca.pem": identity.CAPEM, "pod-cert.pem": identity.CertPEM, "pod-key.pem": identity.KeyPEM} {
		must(t, s.WriteFile(name, content))
	}
	const dir = "/etc/nairobi-mysql/"
	return Credentials{CAFile: dir + "pod-ca.pem", CertFile: dir + "pod-cert.pem", KeyFile: dir + "pod-key.pem"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) place(t *testing.T) Place {
	t.Helper()
	s, err := store.NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	return Place{Store: s, Root: RootOf("shop", "orders", "uid")}
}

func (w *world) options(t *testing.T, s *mysqld.Server) DumpOptions {
	return DumpOptions{
		Place: w.place(t), Folder: FolderOf(time.Now(), "b"), Backup: "b", Schedule: "daily", Namespace: "shop", Cluster: "orders", ClusterUID: "uid",
		Member: w.member(s, mysql.BackupUser), Credentials: credentials(t, s, w.pods), Program: s.Program, StallTimeout: time.Minute, Clock: clock.RealClock{},
	}
}

// patiently dumps a primary as a pod does: where a busy machine takes longer than writes may be held up, it is tried again.
func patiently(t *testing.T, o DumpOptions) (m Manifest, err error) {
	t.Helper()
	for range 3 {
		if m, err = Dump(t.Context(), o); !errors.Is(err, mysql.ErrBlocked) {
			break
		}
		t.Logf("once more: %v", err)
	}
	return m, err
}

// fresh is an empty server of a cluster that is being made.
func (w *world) fresh(t *testing.T) *mysqld.Server {
	t.Helper()
	s, err := w.farm.Start(t.Context(), mysqld.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, w.farm.Discard(s)) })
	return s
}

func (w *world) restore(t *testing.T, o DumpOptions, to *mysqld.Server) RestoreOptions {
	return RestoreOptions{
		Place: o.Place, Folder: o.Folder, Recovery: "uid-of-the-new-cluster", Target: w.member(to, mysql.OperatorUser), User: mysql.OperatorUser,
		Credentials: credentials(t, to, w.operator), Program: to.Program, StallTimeout: time.Minute, Clock: clock.RealClock{},
	}
}

func sql(t *testing.T, s *mysqld.Server, statements string) string {
	t.Helper()
	out, err := s.SQL(t.Context(), statements)
	must(t, err)
	return out
}

// everything is what people would miss: all tables' checksums, all definitions, all accounts with their privileges.
func everything(t *testing.T, s *mysqld.Server) string {
	t.Helper()
	var b strings.Builder
	names := strings.Split(sql(t, s, "SELECT CONCAT(HEX(TABLE_SCHEMA), ' ', HEX(TABLE_NAME)) FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql','sys','information_schema','performance_schema','nairobi_mysql') ORDER BY 1"), "\n")
	for _, name := range names {
		schema, table, _ := strings.Cut(name, " ")
		fmt.Fprintln(&b, name, sql(t, s, "CHECKSUM TABLE "+quoted(t, schema)+"."+quoted(t, table)), sql(t, s, "SHOW CREATE TABLE "+quoted(t, schema)+"."+quoted(t, table)))
	}
	for _, query := range []string{
		"SHOW CREATE VIEW shop.seen", "SHOW CREATE TRIGGER shop.trg", "SHOW CREATE PROCEDURE shop.p", "SHOW CREATE EVENT shop.e",
		"SET print_identified_with_as_hex = ON; SHOW CREATE USER 'o''brien'@'10.%'", "SHOW GRANTS FOR 'o''brien'@'10.%' USING reader", "SHOW GRANTS FOR reader",
	} {
		out := sql(t, s, query)
		if strings.HasPrefix(query, "SHOW CREATE TRIGGER") {
			out = out[:strings.LastIndexByte(out, '\t')] // when it was created
		}
		fmt.Fprintln(&b, out)
	}
	return b.String()
}

func quoted(t *testing.T, hexName string) string {
	t.Helper()
	name, err := hex.DecodeString(hexName)
	must(t, err)
	return "`" + strings.ReplaceAll(string(name), "`", "``") + "`"
}

// TestDumpAndRestore backs the replica up while the primary is written to, and restores that into an empty server.
func TestDumpAndRestore(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE TABLE shop.busy (id INT PRIMARY KEY)") // and not beside the dump, which DDL fails
	w.caughtUp(t)
	writes, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; writes.Err() == nil; i++ {
			_, _ = w.primary.SQL(t.Context(), fmt.Sprintf("INSERT INTO shop.busy VALUES (%d)", i))
		}
	})
	o := w.options(t, w.replica)
	var seen []Progress
	o.Progress = func(p Progress) { seen = append(seen, p) }
	m, err := Dump(t.Context(), o)
	stop()
	group.Wait()
	must(t, err)
	if m.Member != w.replica.Name || m.GTIDSet == "" || m.BinlogFile == "" || m.BinlogPosition == 0 || m.Version == "" || m.Dump.Bytes == 0 || m.Dump.Stored() == 0 {
		t.Errorf("the manifest says %+v", m)
	}
	if !slices.ContainsFunc(m.Samples, func(s Sample) bool { return s.Table == "tab`le ) VALUES (1)" && s.Rows == 3 }) {
		t.Errorf("no sample of an awkward table: %+v", m.Samples)
	}
	read, err := o.Place.ReadManifest(t.Context(), o.Folder)
	must(t, err)
	if got, want := asJSON(t, read), asJSON(t, withFormat(m)); got != want {
		t.Errorf("the manifest reads\n%s\nand was\n%s", got, want)
	}

	target := w.fresh(t)
	r := w.restore(t, o, target)
	_, err = Restore(t.Context(), r)
	must(t, err)
	// Writes went on, so the replica is no measure for the busy table; the manifest is, and Restore compared it.
	want := without(everything(t, w.replica), hex.EncodeToString([]byte("busy")))
	if got := without(everything(t, target), hex.EncodeToString([]byte("busy"))); got != want {
		t.Errorf("restored was\n%s\nof\n%s", got, want)
	}
	if got := sql(t, target, "SELECT @@super_read_only, COUNT(*) FROM nairobi_mysql.membership"); got != "1\t0" {
		t.Errorf("read-only and rows of membership: %s", got)
	}
	if got := strings.ReplaceAll(sql(t, target, "SELECT @@gtid_executed"), "\\n", ""); got != m.GTIDSet {
		t.Errorf("GTIDs %s instead of %s", got, m.GTIDSet)
	}
	// Done is done: nothing is loaded again.
	sql(t, target, "SET GLOBAL super_read_only = OFF; SET sql_log_bin = 0; DELETE FROM shop.plain; SET GLOBAL super_read_only = ON")
	_, err = Restore(t.Context(), r)
	must(t, err)
	if got := sql(t, target, "SELECT COUNT(*) FROM shop.plain"); got != "0" {
		t.Errorf("a recovery that was done was done again: %s rows", got)
	}
	// Another recovery does not overwrite it.
	r.Recovery = "another"
	if _, err := Restore(t.Context(), r); !errors.Is(err, podclient.ErrNotEmpty) {
		t.Errorf("a server with data: %v", err)
	}
}

func asJSON(t *testing.T, m Manifest) string {
	t.Helper()
	text, err := json.Marshal(m)
	must(t, err)
	return string(text)
}

func withFormat(m Manifest) Manifest { m.FormatVersion = formatVersion; return m }

func without(text, hexName string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(strings.ToLower(line), hexName) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// cutOff has a program read the beginning of what it is given, each byte when it comes, and fail.
const cutOff = `dd bs=1 count=3000 status=none | "$0" "$@"; exit 1`

// TestARestoreThatWasCutOffBeginsAgain: the first attempt ends in the middle of the data.
func TestARestoreThatWasCutOffBeginsAgain(t *testing.T) {
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
	if got := sql(t, target, "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('shop', '--all-databases')"); got == "0" {
		t.Fatal("nothing of it was there when it was cut off: this tries nothing")
	}
	_, err = Restore(t.Context(), r)
	must(t, err)
	if got, want := everything(t, target), everything(t, w.replica); got != want {
		t.Errorf("restored was\n%s\nof\n%s", got, want)
	}
}

// TestNothingIsOverwritten: a server that serves, and one that merely holds something, are refused and left as they are.
func TestNothingIsOverwritten(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.replica)
	_, err := Dump(t.Context(), o)
	must(t, err)
	before := everything(t, w.primary)
	if _, err := Restore(t.Context(), w.restore(t, o, w.primary)); !errors.Is(err, podclient.ErrServes) {
		t.Errorf("the primary: %v", err)
	}
	if _, err := Restore(t.Context(), w.restore(t, o, w.replica)); !errors.Is(err, podclient.ErrNotEmpty) {
		t.Errorf("the replica: %v", err)
	}
	if everything(t, w.primary) != before {
		t.Error("the primary was changed")
	}
}

// TestDamageIsNoticed flips, cuts and lengthens what is stored: each restore fails, says so, and does not count as done.
func TestDamageIsNoticed(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.replica)
	_, err := Dump(t.Context(), o)
	must(t, err)
	target := w.fresh(t)
	for _, object := range []string{"dump.sql.zst", "accounts.json.zst", manifestName} {
		key := o.Place.Folder(o.Folder) + "/" + object
		whole, err := store.ReadAll(t.Context(), o.Place.Store, key, 1<<30)
		must(t, err)
		for name, damaged := range map[string][]byte{
			"a bit in the middle": flip(whole, len(whole)/2), "the first bit": flip(whole, 0), "the last bit": flip(whole, len(whole)-1),
			"half of it": whole[:len(whole)/2], "nothing": {}, "one byte less": whole[:len(whole)-1], "one byte more": append(slices.Clone(whole), 'x'),
		} {
			t.Run(object+"/"+name, func(t *testing.T) {
				_, err := o.Place.Store.Put(t.Context(), key, strings.NewReader(string(damaged)))
				must(t, err)
				_, err = Restore(t.Context(), w.restore(t, o, target))
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLoad) {
					t.Errorf("got %v", err)
				}
				if got := sql(t, target, "SELECT @@read_only, COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'recovery'"); got[0] != '1' {
					t.Errorf("the server is open: %s", got)
				}
			})
		}
		_, err = o.Place.Store.Put(t.Context(), key, strings.NewReader(string(whole)))
		must(t, err)
	}
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
}

func flip(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 0x10
	return b
}

// TestADumpThatFails leaves nothing that looks like a backup, and says why.
func TestADumpThatFails(t *testing.T) {
	w := theWorld(t)
	script := func(s string) func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		return func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
			if slices.Contains(arguments, "--version") {
				return w.replica.Program(ctx, name, arguments...)
			}
			return w.replica.Program(ctx, "sh", append([]string{"-c", s, name}, arguments...)...)
		}
	}
	for name, row := range map[string]struct {
		program func(ctx context.Context, name string, arguments ...string) *exec.Cmd
		stall   time.Duration
		want    error
	}{
		"mysqldump is not there":       {script(`exec /is/not/there`), 0, ErrProgram},
		"it fails in the middle":       {script(`"$0" "$@" | head -c 3000; echo lost >&2; exit 2`), 0, ErrProgram},
		"it lies":                      {script(`"$0" "$@" | head -c 3000; exit 0`), 0, ErrIncomplete},
		"it says nothing and succeeds": {script(`exit 0`), 0, ErrIncomplete},
		"a table is missing":           {script(`"$0" "$@" | grep -v "^INSERT INTO .plain"`), 0, ErrIncomplete},
		"a table without rows is too":  {script(`"$0" "$@" | sed "s/^CREATE TABLE .empty/CREATE TABLE IF NOT EXISTS \\x60empty/"`), 0, ErrIncomplete},
		"it hangs":                     {script(`"$0" "$@" | head -c 3000; exec sleep 30`), 2 * time.Second, ErrSilent},
		"it is of another series": {func(ctx context.Context, _ string, _ ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "echo", "mysqldump  Ver 8.4.3 for Linux")
		}, 0, ErrProgram},
		"it is another program": {func(ctx context.Context, _ string, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "true") }, 0, ErrProgram},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.options(t, w.replica)
			o.Program = row.program
			if row.stall > 0 {
				o.StallTimeout = row.stall
			}
			_, err := Dump(t.Context(), o)
			if !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if _, err := o.Place.ReadManifest(t.Context(), o.Folder); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("there is a manifest: %v", err)
			}
			for object, err := range o.Place.Store.List(t.Context(), "") {
				must(t, err)
				if strings.Contains(object.Key, "dump.sql") {
					t.Errorf("it left %s", object.Key)
				}
			}
			ended(t, w.replica)
		})
	}
}

// TestADumpThatStandsStillBeforeItBegins is told as one that does: behind a query that is waited for longer than that.
func TestADumpThatStandsStillBeforeItBegins(t *testing.T) {
	w := theWorld(t)
	w.caughtUp(t)
	reader, watcher := open(t, w.replica), open(t, w.replica)
	id, err := reader.do("SELECT CONNECTION_ID()")
	must(t, err)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = reader.do("SELECT SLEEP(300) FROM shop.plain LIMIT 1")
	}()
	must(t, watcher.await("SELECT COUNT(*) FROM information_schema.processlist WHERE STATE = 'User sleep'", "1"))
	o := w.options(t, w.replica)
	o.StallTimeout = 2 * time.Second
	// Not for the member's sake: it does what it is asked to.
	if _, err := Dump(t.Context(), o); !errors.Is(err, ErrStalled) || !errors.Is(err, mysql.ErrBlocked) || Sick(err) {
		t.Errorf("got %v", err)
	}
	sql(t, w.replica, "KILL "+id)
	<-read
	ended(t, w.replica)
}

// TestTheServerGoesAwayMidDump kills mysqld after the dump began.
func TestTheServerGoesAwayMidDump(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.replica)
	o.Place.Store = killing{o.Place.Store, w.replica.Kill}
	_, err := Dump(t.Context(), o)
	boot := w.replica.Boot(t.Context())
	must(t, boot)
	must(t, w.follow(t.Context()))
	if !Sick(err) {
		t.Errorf("without its server it ended with %v", err)
	}
	if _, err := o.Place.ReadManifest(t.Context(), o.Folder); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("there is a manifest: %v", err)
	}
}

// TestMysqldumpThatEndsWithoutAWord: it may end when its server dies, and say nothing of that.
func TestMysqldumpThatEndsWithoutAWord(t *testing.T) {
	w := theWorld(t)
	d := newDump(w.options(t, w.replica))
	silent, full := fmt.Errorf("%w: exit status 2: Warning: a partial dump", ErrProgram), errors.New("the store is full")
	for _, err := range []error{silent, full} {
		if got := d.orAway(t.Context(), err); !errors.Is(got, err) || Sick(got) {
			t.Errorf("beside its server %v is %v", err, got)
		}
	}
	w.replica.Kill()
	lost, other := d.orAway(t.Context(), silent), d.orAway(t.Context(), full)
	must(t, w.replica.Boot(t.Context()))
	must(t, w.follow(t.Context()))
	if !errors.Is(lost, silent) || !Sick(lost) {
		t.Errorf("without its server it ended with %v", lost)
	}
	if Sick(other) {
		t.Errorf("the store's fault is the member's: %v", other)
	}
}

// killing is a store in the middle of whose first upload the server dies.
type killing struct {
	store.Store
	kill func()
}

func (k killing) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	k.kill()
	return k.Store.Put(ctx, key, r)
}

// TestAStoreThatTakesNothing is not the member's fault: another member would wait for it as long.
func TestAStoreThatTakesNothing(t *testing.T) {
	w := theWorld(t)
	w.bulk(t)
	w.caughtUp(t)
	o := w.options(t, w.replica)
	o.StallTimeout = time.Minute
	o.Place.Store = stuck{o.Place.Store}
	if _, err := Dump(t.Context(), o); !errors.Is(err, ErrStalled) || Sick(err) {
		t.Errorf("got %v", err)
	}
}

// TestAStoreThatTakesItsTime is no stall while bytes arrive there, although mysqldump says nothing meanwhile.
func TestAStoreThatTakesItsTime(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.primary)
	o.StallTimeout = 4 * time.Second
	o.Place.Store = slow{o.Place.Store}
	if _, err := patiently(t, o); err != nil {
		t.Error(err)
	}
}

// slow is a store that has all of a dump in memory, and accepts it bit by bit for longer than a dump may stand still.
type slow struct{ store.Store }

func (s slow) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	whole, err := io.ReadAll(r)
	for range 16 {
		if !strings.Contains(key, "dump.sql") || err != nil {
			break
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
			store.Accepted(ctx, 1)
		}
	}
	if err != nil {
		return 0, err
	}
	return s.Store.Put(ctx, key, strings.NewReader(string(whole)))
}

// stuck is a store that takes a little of each upload.
type stuck struct{ store.Store }

func (s stuck) Put(ctx context.Context, _ string, r io.Reader) (int64, error) {
	n, _ := r.Read(make([]byte, 1<<10))
	<-ctx.Done()
	return int64(n), context.Cause(ctx)
}

// TestWordsOfALostConnection tells them from mysqldump's other words, of which the numbers are what stays the same.
func TestWordsOfALostConnection(t *testing.T) {
	for text, lost := range map[string]bool{
		"mysqldump: Error 2013: Lost connection to MySQL server during query when dumping table `t` at row: 12":          true,
		"mysqldump: Got error: 2003: Can't connect to MySQL server on '10.0.0.1:3306' (111) when trying to connect":      true,
		"mysqldump: Couldn't execute 'SHOW TABLES': MySQL server has gone away (2006)":                                   true,
		"mysqldump: Couldn't execute 'show create table `t`': Server shutdown in progress (1053)":                        true,
		"mysqldump: Couldn't execute 'FLUSH TABLES': Access denied; you need the RELOAD privilege (1227)":                false,
		"mysqldump: Error 1412: Table definition has changed, please retry transaction when dumping table `t` at row: 0": false,
		"mysqldump: Error 1412: Table definition has changed when dumping table `sales (2026)` at row: 0":                false,
		"": false,
	} {
		if lostConnection.MatchString(text) != lost {
			t.Errorf("%q: lost is not %v", text, lost)
		}
	}
}

func TestChoose(t *testing.T) {
	w := theWorld(t)
	primary, replica := w.member(w.primary, mysql.BackupUser), w.member(w.replica, mysql.BackupUser)
	voteless := replica
	voteless.Name = "orders-7"
	dead := Member{Name: "orders-9", Connect: func(context.Context) (*podclient.Visit, error) { return nil, mysql.ErrUnreachable }}
	reached, err := gtid.Parse(strings.ReplaceAll(sql(t, w.replica, "SELECT @@gtid_executed"), "\\n", ""))
	must(t, err)
	beyond := reached.Union(gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1"))
	tried := func(m Member, err error) map[string]error { return map[string]error{m.Name: err} }
	for name, row := range map[string]struct {
		members  []Member
		tried    map[string]error
		want     string
		required gtid.Set
	}{
		"a replica":                                         {[]Member{primary, replica, dead}, nil, replica.Name, gtid.Set{}},
		"a replica without a vote":                          {[]Member{primary, voteless}, nil, primary.Name, gtid.Set{}},
		"only one without a vote":                           {[]Member{voteless}, nil, "", gtid.Set{}},
		"only the primary":                                  {[]Member{primary, dead}, nil, primary.Name, gtid.Set{}},
		"nobody that answers":                               {[]Member{dead}, nil, "", gtid.Set{}},
		"nobody":                                            {nil, nil, "", gtid.Set{}},
		"a stopped replica":                                 {[]Member{replica}, nil, "", gtid.Set{}},
		"the primary then too":                              {[]Member{primary, replica}, nil, primary.Name, gtid.Set{}},
		"the primary after a silent replica":                {[]Member{primary, replica}, tried(replica, fmt.Errorf("dump: %w", ErrSilent)), primary.Name, gtid.Set{}},
		"the primary after a lost one":                      {[]Member{primary, replica}, tried(replica, fmt.Errorf("dump: %w", ErrLost)), primary.Name, gtid.Set{}},
		"a replica whose dump failed":                       {[]Member{primary, replica}, tried(replica, ErrProgram), replica.Name, gtid.Set{}},
		"the sick one when there is no other":               {[]Member{replica, dead}, tried(replica, ErrLost), replica.Name, gtid.Set{}},
		"a replica that lacks what the archive begins with": {[]Member{primary, replica}, nil, primary.Name, beyond},
		"only such a replica":                               {[]Member{replica}, nil, "", beyond},
		"a replica that has it":                             {[]Member{primary, replica}, nil, replica.Name, reached},
		"the replica when both were sick":                   {[]Member{primary, replica}, map[string]error{primary.Name: ErrSilent, replica.Name: ErrLost}, replica.Name, gtid.Set{}},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "stopped") || strings.Contains(name, "then too") {
				sql(t, w.replica, "STOP REPLICA SQL_THREAD")
				defer func() { must(t, w.follow(t.Context())) }()
			}
			m, err := Choose(t.Context(), row.members, time.Hour, row.required, row.tried)
			if m.Name != row.want || (row.want == "") != errors.Is(err, ErrNoMember) {
				t.Errorf("chose %q, %v", m.Name, err)
			}
		})
	}
}

// TestTheBackupAccountCannotWrite: what the pods' certificate opens.
func TestTheBackupAccountCannotWrite(t *testing.T) {
	w := theWorld(t)
	for _, statement := range []string{"DELETE FROM shop.plain", "CREATE DATABASE x", "DROP TABLE shop.empty", "CREATE USER x", "SET GLOBAL super_read_only = OFF", "STOP REPLICA", "SHUTDOWN", "RESET BINARY LOGS AND GTIDS", "FLUSH BINARY LOGS"} {
		cmd := w.primary.Program(t.Context(), "mysql", append(credentials(t, w.primary, w.pods).arguments(mysql.BackupUser, w.primary.IP()), "-e", statement)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "denied") {
			t.Errorf("%s: %v: %s", statement, err, out)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, row := range []struct {
		backup, server string
		fine           bool
	}{
		{"9.7.1", "9.7.1", true}, {"9.7.1-2", "9.7.4-2", true}, {"8.4.9", "9.7.1", true}, {"8.4.9", "8.4.10", true},
		{"9.7.4", "9.7.3", false}, {"9.7.1", "8.4.9", false}, {"9.7.10", "9.7.9", false}, {"8.4.1", "10.4.1", false}, {"", "9.7.1", false}, {"9.7", "9.7.1", false},
	} {
		if err := CheckVersion(row.backup, row.server); (err == nil) != row.fine || err != nil && !errors.Is(err, ErrVersion) {
			t.Errorf("%s into %s: %v", row.backup, row.server, err)
		}
	}
}

// TestLimitsDoNotCutADump: somebody limits every session that begins from now on. The dump has every row all the same.
func TestLimitsDoNotCutADump(t *testing.T) {
	w := theWorld(t)
	w.caughtUp(t)
	whole, err := Dump(t.Context(), w.options(t, w.replica))
	must(t, err)
	sql(t, w.replica, "SET GLOBAL sql_select_limit = 1, GLOBAL max_join_size = 1, GLOBAL sql_big_selects = 0, GLOBAL sql_safe_updates = 1, GLOBAL max_execution_time = 1")
	t.Cleanup(func() {
		_, err := w.replica.SQL(context.Background(), "SET GLOBAL sql_select_limit = DEFAULT, GLOBAL max_join_size = DEFAULT, GLOBAL sql_big_selects = DEFAULT, GLOBAL sql_safe_updates = DEFAULT, GLOBAL max_execution_time = DEFAULT")
		must(t, err)
	})
	limited, err := Dump(t.Context(), w.options(t, w.replica))
	must(t, err)
	if limited.Dump.Bytes != whole.Dump.Bytes || asJSON(t, Manifest{Samples: limited.Samples}) != asJSON(t, Manifest{Samples: whole.Samples}) {
		t.Errorf("with limits %d bytes were dumped instead of %d, with the samples\n%+v\ninstead of\n%+v", limited.Dump.Bytes, whole.Dump.Bytes, limited.Samples, whole.Samples)
	}
}

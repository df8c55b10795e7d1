package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/logs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// output is what a shipper printed.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	// said is what the shipper itself had to say.
	said *output
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// entries returns those of a log that contain a text.
func (o *output) entries(t *testing.T, log, text string) (found []logs.Entry) {
	t.Helper()
	for line := range strings.Lines(o.String()) {
		var e logs.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Log == log && strings.Contains(e.Statement+e.Message, text) {
			found = append(found, e)
		}
	}
	return found
}

// logged is a server with both query logs in the files that an instance makes, and the identity of the pod that reads them.
func logged(t *testing.T) (*mysqld.Server, mysql.Identity) {
	t.Helper()
	w := mysqltest.TheWorld(t)
	s, err := w.Farm.Start(t.Context(), mysqld.Options{})
	mysqltest.Must(t, err)
	t.Cleanup(func() { mysqltest.Must(t, w.Farm.Discard(s)) })
	m := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity())
	mysqltest.Must(t, m.Promote(t.Context(), mysql.PromoteSpec{}))
	a := w.Farm.Authority
	for _, change := range []bool{true, false} {
		changed, err := m.EnsurePodAccount(t.Context(), mysql.MetricsUser, a.IssuerDN(), a.ClientDN(pki.MetricsPod))
		if err != nil || changed != change {
			t.Fatalf("the account: changed %t, %v", changed, err)
		}
	}
	for _, log := range []string{"slow", "general"} {
		makeLog(t, s, log)
	}
	mysqltest.Exec(t, mysqltest.Root(t, s), "SET GLOBAL slow_query_log=ON, GLOBAL general_log=ON, GLOBAL long_query_time=0")
	cert, key, err := a.IssueClient(pki.MetricsPod, time.Now())
	mysqltest.Must(t, err)
	return s, mysql.Identity{CertPEM: cert, KeyPEM: key, CAPEM: a.CertificatePEM()}
}

// makeLog makes the file of a log as an instance does.
func makeLog(t *testing.T, s *mysqld.Server, log string) {
	t.Helper()
	path := filepath.Join(s.Exchange(), "logs", log+".log")
	mysqltest.Must(t, os.WriteFile(path, nil, 0o666)) //nolint:gosec // LOAD_FILE demands it
	mysqltest.Must(t, os.Chmod(path, 0o666))          //nolint:gosec // the same, whatever the umask
}

// ship reads a server's logs until the test ends, and those of others as orders-1 and so on.
func ship(t *testing.T, s *mysqld.Server, identity mysql.Identity, others ...mysql.Endpoint) *output {
	t.Helper()
	out := &output{said: &output{}}
	members := []exporter.Member{{Name: "orders-0", Endpoint: mysqltest.EndpointOf(s)}}
	for i, endpoint := range others {
		members = append(members, exporter.Member{Name: fmt.Sprintf("orders-%d", i+1), Endpoint: endpoint})
	}
	shipper, err := logs.New(logs.Options{
		Namespace: "shop", Cluster: "orders", Members: members,
		Logs: []string{logs.Error, logs.Slow, logs.General}, Identity: func() (mysql.Identity, error) { return identity, nil },
		Interval: 100 * time.Millisecond, Clock: clock.RealClock{}, Output: out,
		Logger: funcr.New(func(_, args string) { t.Log(args); _, _ = out.said.Write([]byte(args)) }, funcr.Options{}),
	})
	mysqltest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		shipper.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return out
}

// TestEveryEntryIsPrintedOnce, also those that the server writes to a file that was set aside before it opens a new one.
func TestEveryEntryIsPrintedOnce(t *testing.T) {
	s, identity := logged(t)
	out, root := ship(t, s, identity), mysqltest.Root(t, s)
	const rounds, each = 4, 300
	mark := func(n int) string { return fmt.Sprintf("/* mark %d. */", n) }
	for round := range rounds {
		for i := range each {
			mysqltest.Exec(t, root, "DO 1 "+mark(round*each+i))
			if i == each/2 {
				for _, log := range []string{"slow", "general"} {
					path := filepath.Join(s.Exchange(), "logs", log+".log")
					mysqltest.Must(t, os.Rename(path, path+".1"))
					makeLog(t, s, log)
				}
			}
		}
		last := mark(round*each + each - 1)
		mysqltest.WaitFor(t, "what came after the file was set aside", func() bool { return len(out.entries(t, logs.General, last)) == 1 })
		mysqltest.Exec(t, root, "FLUSH GENERAL LOGS")
		mysqltest.Exec(t, root, "FLUSH SLOW LOGS")
		reached := fmt.Sprintf("/* round %d */", round)
		mysqltest.Exec(t, root, "DO 1 "+reached)
		for _, log := range []string{logs.Slow, logs.General} { // an instance sets a file aside once a minute at most
			mysqltest.WaitFor(t, "the new file to be read", func() bool { return len(out.entries(t, log, reached)) == 1 })
		}
	}
	mysqltest.Exec(t, root, "DO 1 /* the end */")
	for _, log := range []string{logs.Slow, logs.General} {
		mysqltest.WaitFor(t, "the last entry", func() bool { return len(out.entries(t, log, "the end")) == 1 })
		times := map[string]int{}
		for _, e := range out.entries(t, log, "/* mark ") {
			times[e.Statement]++
			if log == logs.Slow && (e.User != "root" || e.Connection == 0 || e.Figures["Query_time"] <= 0 || e.Member != "orders-0") {
				t.Fatalf("%+v", e)
			}
		}
		for n := range rounds * each {
			if is := times["DO 1 "+mark(n)]; is != 1 {
				t.Fatalf("entry %d of the %s log is there %d times", n, log, is)
			}
		}
	}
	if found := out.entries(t, logs.Error, "ready for connections"); len(found) != 1 || found[0].Priority != "System" || !strings.HasPrefix(found[0].Code, "MY-") {
		t.Errorf("of the error log: %+v", found)
	}
}

// TestANewPodBeginsWithWhatIsRecent: what was logged while no pod read is printed, but not what is old.
func TestANewPodBeginsWithWhatIsRecent(t *testing.T) {
	s, identity := logged(t)
	root := mysqltest.Root(t, s)
	mysqltest.Exec(t, root, "DO 1 /* recent */")
	old := "2020-01-01T00:00:00.000001Z\t   12 Query\tDO 1 /* old */\n"
	general := filepath.Join(s.Exchange(), "logs", "general.log")
	before, err := os.ReadFile(general)
	mysqltest.Must(t, err)
	mysqltest.Must(t, os.WriteFile(general, append([]byte(old), before...), 0o666)) //nolint:gosec // as makeLog
	out := ship(t, s, identity)
	mysqltest.WaitFor(t, "what is recent", func() bool { return len(out.entries(t, logs.General, "recent")) == 1 })
	if found := out.entries(t, logs.General, "old"); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// TestAFileOfWhichOnlyTheServersHeadWasRead is read to its end after it was set aside: its head is like that of the new one.
func TestAFileOfWhichOnlyTheServersHeadWasRead(t *testing.T) {
	s, identity := logged(t)
	root := mysqltest.Root(t, s)
	mysqltest.Exec(t, root, "SET GLOBAL slow_query_log=OFF")
	path := filepath.Join(s.Exchange(), "logs", "slow.log")
	head, err := os.ReadFile(path)
	mysqltest.Must(t, err)
	head = head[:bytes.Index(head, []byte("Argument\n"))+len("Argument\n")]
	mysqltest.Must(t, os.WriteFile(path, head, 0o666)) //nolint:gosec // as makeLog
	out := ship(t, s, identity)
	mysqltest.Exec(t, root, "DO 1 /* begun */")
	mysqltest.WaitFor(t, "reading to begin", func() bool { return len(out.entries(t, logs.General, "begun")) == 1 })
	// As if nobody had read meanwhile: the server writes, the file is set aside, and the new one is open.
	entry := "# Time: " + time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") + "\n# User@Host: app[app] @  [10.0.0.7]  Id: 1\n# Query_time: 1.0\nSET timestamp=1;\nDO 1 /* set aside */;\n"
	fresh := path + ".fresh"
	mysqltest.Must(t, os.WriteFile(fresh, head, 0o666)) //nolint:gosec // as makeLog
	mysqltest.Must(t, os.Chmod(fresh, 0o666))           //nolint:gosec // as makeLog
	old := path + ".old"
	mysqltest.Must(t, os.WriteFile(old, append(head, entry...), 0o666)) //nolint:gosec // as makeLog
	mysqltest.Must(t, os.Chmod(old, 0o666))                             //nolint:gosec // as makeLog
	mysqltest.Must(t, os.Rename(old, path+".1"))
	mysqltest.Must(t, os.Rename(fresh, path))
	mysqltest.Exec(t, root, "SET GLOBAL slow_query_log=ON")
	mysqltest.Exec(t, root, "DO 1 /* in the new file */")
	mysqltest.Exec(t, root, "DO 1 /* the end */")
	mysqltest.WaitFor(t, "the new file to be read", func() bool { return len(out.entries(t, logs.Slow, "in the new file")) == 1 })
	if found := out.entries(t, logs.Slow, "set aside"); len(found) != 1 {
		t.Errorf("of what was set aside %d entries are printed", len(found))
	}
}

// TestTwoFilesSetAsideBetweenTwoReadings: what can be read of the second is printed.
func TestTwoFilesSetAsideBetweenTwoReadings(t *testing.T) {
	s, identity := logged(t)
	root := mysqltest.Root(t, s)
	out := ship(t, s, identity)
	mysqltest.Exec(t, root, "DO 1 /* the first file */")
	mysqltest.WaitFor(t, "reading to begin", func() bool { return len(out.entries(t, logs.Slow, "the first file")) == 1 })
	mysqltest.Exec(t, root, "SET GLOBAL slow_query_log=OFF")
	path := filepath.Join(s.Exchange(), "logs", "slow.log")
	second := path + ".second"
	entry := "# Time: " + time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") + "\n# User@Host: app[app] @  [10.0.0.7]  Id: 1\n# Query_time: 1.0\nSET timestamp=1;\nDO 1 /* the second file */;\n"
	mysqltest.Must(t, os.WriteFile(second, []byte(entry), 0o666)) //nolint:gosec // as makeLog
	mysqltest.Must(t, os.Chmod(second, 0o666))                    //nolint:gosec // as makeLog
	mysqltest.Must(t, os.Rename(second, path+".1"))
	makeLog(t, s, "slow")
	mysqltest.Exec(t, root, "SET GLOBAL slow_query_log=ON")
	mysqltest.Exec(t, root, "DO 1 /* the third file */")
	for _, file := range []string{"the second file", "the third file"} {
		mysqltest.WaitFor(t, file, func() bool { return len(out.entries(t, logs.Slow, file)) == 1 })
	}
}

// TestAFileThatIsTooLong costs what is in it, and nothing that comes after it.
func TestAFileThatIsTooLong(t *testing.T) {
	s, identity := logged(t)
	root := mysqltest.Root(t, s)
	mysqltest.Exec(t, root, "SET GLOBAL max_allowed_packet=1048576")
	out := ship(t, s, identity)
	mysqltest.Exec(t, root, "DO 1 /* before */")
	mysqltest.WaitFor(t, "reading to begin", func() bool { return len(out.entries(t, logs.Slow, "before")) == 1 })
	path := filepath.Join(s.Exchange(), "logs", "slow.log")
	for range 4 {
		mysqltest.Exec(t, root, "DO 1 /* "+strings.Repeat("x", 300<<10)+" */")
	}
	mysqltest.Must(t, os.Rename(path, path+".1"))
	makeLog(t, s, "slow")
	mysqltest.Exec(t, root, "FLUSH SLOW LOGS")
	mysqltest.Exec(t, root, "DO 1 /* after */")
	mysqltest.WaitFor(t, "what came after", func() bool { return len(out.entries(t, logs.Slow, "after")) == 1 })
}

// TestAQuietLogIsNotRead: the server reads a whole file to return a part of it, so nobody asks it while it has written nothing.
func TestAQuietLogIsNotRead(t *testing.T) {
	s, identity := logged(t)
	root := mysqltest.Root(t, s)
	mysqltest.Exec(t, root, "SET GLOBAL general_log=OFF, GLOBAL slow_query_log=OFF")
	ship(t, s, identity)
	calls := func() string {
		return mysqltest.Value(t, root, "SELECT SUM(COUNT_READ) FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME IN ('wait/io/file/sql/slow_log', 'wait/io/file/sql/query_log', 'wait/io/file/sql/LOAD_FILE')")
	}
	before := ""
	mysqltest.WaitFor(t, "all to be read", func() bool {
		last := before
		time.Sleep(time.Second)
		before = calls()
		return before == last
	})
	time.Sleep(time.Second) // ten intervals
	if now := calls(); now != before {
		t.Errorf("files were read %s times, and then %s", before, now)
	}
	mysqltest.Exec(t, root, "SET GLOBAL slow_query_log=ON")
	mysqltest.WaitFor(t, "a log that is written to to be read", func() bool { return calls() != before })
}

// TestReadingIsNotPrinted: with both logs on, the pod's own statements are in one of them, and are left out.
func TestReadingIsNotPrinted(t *testing.T) {
	s, identity := logged(t)
	out := ship(t, s, identity)
	mysqltest.Exec(t, mysqltest.Root(t, s), "DO 1 /* the last */")
	mysqltest.WaitFor(t, "the last statement", func() bool {
		return len(out.entries(t, logs.General, "the last"))+len(out.entries(t, logs.Slow, "the last")) == 2
	})
	time.Sleep(300 * time.Millisecond)
	printed := out.String()
	time.Sleep(time.Second) // ten intervals
	if more := strings.TrimPrefix(out.String(), printed); more != "" {
		t.Errorf("printed is\n%s", more)
	}
}

// TestNoSecretIsPrinted of those that statements hold, also of one that is refused.
func TestNoSecretIsPrinted(t *testing.T) {
	s, identity := logged(t)
	out, root := ship(t, s, identity), mysqltest.Root(t, s)
	const secret = "hunter2-Secret"
	statements := []string{
		"CREATE USER app IDENTIFIED BY '" + secret + "'",
		"ALTER USER app IDENTIFIED BY '" + secret + "1' RETAIN CURRENT PASSWORD",
		"SET PASSWORD FOR app = '" + secret + "2'",
		"ALTER USER nobody IDENTIFIED BY '" + secret + "3'", // refused: there is no such account
		"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='r', SOURCE_PASSWORD='" + secret + "4' FOR CHANNEL 'other'",
		"START REPLICA UNTIL SQL_AFTER_MTS_GAPS USER='r' PASSWORD='" + secret + "5' FOR CHANNEL 'other'",
		"CREATE SERVER srv FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '" + secret + "6', HOST 'h')",
		"CREATE USER other IDENTIFIED BY '" + secret + "8' BUT NOT SO", // refused: not a statement
		"CREATE USER IF NOT EXISTS app IDENTIFIED WITH caching_sha2_password BY '" + secret + "7'",
		// What MySQL writes as it is: the definition and the statements of stored programs, and what is prepared.
		"CREATE PROCEDURE mysql.rotate() BEGIN ALTER USER app IDENTIFIED BY '" + secret + "9'; SET PASSWORD FOR app = '" + secret + "10'; END",
		"CALL mysql.rotate()",
		"CREATE PROCEDURE mysql.given(p TEXT) BEGIN SET @v = CONCAT('ALTER USER app IDENTIFIED BY ', QUOTE(p)); PREPARE s FROM @v; EXECUTE s; END",
		"CREATE EVENT mysql.nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01' DO ALTER USER app IDENTIFIED BY '" + secret + "11'",
		"SET @v = 'ALTER USER app IDENTIFIED BY ''" + secret + "12'''",
		"PREPARE s FROM @v",
		"EXECUTE s",
		"PREPARE s FROM 'ALTER USER app IDENTIFIED BY \\'" + secret + "13\\''",
	}
	for _, statement := range statements {
		_, err := root.ExecContext(t.Context(), statement)
		t.Logf("%s: %v", statement, err)
	}
	mysqltest.Exec(t, root, "DO 1 /* the end */")
	for _, log := range []string{logs.Slow, logs.General} {
		mysqltest.WaitFor(t, "the last entry", func() bool { return len(out.entries(t, log, "the end")) == 1 })
		for _, text := range []string{"CREATE USER", "CREATE PROCEDURE", "CREATE EVENT", "SET @v = 'ALTER USER"} {
			if found := out.entries(t, log, text); len(found) == 0 {
				t.Errorf("the %s log does not have %s", log, text)
			}
		}
		for _, e := range out.entries(t, log, secret) {
			t.Errorf("the %s log has %q", log, e.Statement)
		}
	}
}

// TestTheAccountReadsLogsAndNothingElse.
func TestTheAccountReadsLogsAndNothingElse(t *testing.T) {
	s, identity := logged(t)
	pool := mysqltest.NewPool(t, func(o *conn.Options) { o.User = mysql.MetricsUser })
	ask := func(query string, args ...any) (answer []byte, err error) {
		err = pool.Handle(mysqltest.EndpointOf(s), identity).Read(t.Context(), func(s *conn.Session) error { return s.Row(t.Context(), query, args, &answer) })
		return answer, err
	}
	const call = "SELECT " + mysql.Database + "." + mysql.ReadLogFunction + "(?, 0)"
	if answer, err := ask(call, "slow.log"); err != nil || !strings.Contains(string(answer), "Version") {
		t.Errorf("%q, %v", answer, err)
	}
	for _, name := range []string{"../member.csr", "slow.log/../a", "error.log", ""} {
		if answer, err := ask(call, name); err != nil || answer != nil {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
	if answer, err := ask("SELECT LOAD_FILE(?)", "/etc/nairobi-mysql/exchange/member.csr"); err != nil || answer != nil {
		t.Errorf("by itself it reads %q, %v", answer, err)
	}
	root := mysqltest.Root(t, s)
	if answer := mysqltest.Value(t, root, "SELECT COALESCE("+mysql.Database+"."+mysql.ReadLogFunction+"('slow.log', 0), 'nothing')"); answer != "nothing" {
		t.Errorf("another account reads %q", answer)
	}
	for _, query := range []string{"SELECT 1 INTO OUTFILE '/etc/nairobi-mysql/exchange/logs/x'", "SELECT COUNT(*) FROM mysql.user", "SELECT COUNT(*) FROM " + mysql.Database + ".membership"} {
		if _, err := ask(query); err == nil {
			t.Errorf("%s is allowed", query)
		}
	}
}

// TestAFrozenServerHoldsUpNobody: what another one logs is printed meanwhile.
func TestAFrozenServerHoldsUpNobody(t *testing.T) {
	s, identity := logged(t)
	frozen, _ := logged(t)
	out := ship(t, s, identity, mysqltest.EndpointOf(frozen))
	mysqltest.Exec(t, mysqltest.Root(t, frozen), "DO 1 /* both are read */")
	mysqltest.WaitFor(t, "both to be read", func() bool { return len(out.entries(t, logs.Slow, "both are read")) == 1 })
	mysqltest.Must(t, frozen.Freeze())
	defer func() { mysqltest.Must(t, frozen.Thaw()) }()
	for i := range 10 {
		text := fmt.Sprintf("/* meanwhile %d */", i)
		mysqltest.Exec(t, mysqltest.Root(t, s), "DO 1 "+text)
		mysqltest.WaitFor(t, text, func() bool { return len(out.entries(t, logs.Slow, text)) == 1 })
	}
	if said := out.said.String(); said != "" {
		t.Errorf("the frozen one was given up first: %s", said)
	}
}

// TestFollowsAServerThatRestarts: what it logs before it ends and after it is back is printed.
func TestFollowsAServerThatRestarts(t *testing.T) {
	s, identity := logged(t)
	out := ship(t, s, identity)
	mysqltest.WaitFor(t, "the first entries", func() bool { return len(out.entries(t, logs.Error, "ready for connections")) == 1 })
	s.Kill()
	mysqltest.Must(t, s.Boot(t.Context()))
	mysqltest.WaitFor(t, "the entries of the second run", func() bool {
		found := out.entries(t, logs.Error, "ready for connections")
		return len(found) == 2 && !slices.ContainsFunc(found, func(e logs.Entry) bool { return e.Time == "" })
	})
}

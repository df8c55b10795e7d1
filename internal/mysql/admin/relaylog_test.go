package admin_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// relayServers are the shared servers with a table that all have.
func relayServers(t *testing.T) (*mysqltest.World, []*admin.Member) {
	t.Helper()
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	client := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, client, "DROP TABLE IF EXISTS shop.relayed")
	mysqltest.Exec(t, client, "CREATE TABLE shop.relayed (id INT PRIMARY KEY AUTO_INCREMENT)")
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.CatchUp(t, m[2], m[0])
	return w, m
}

// insert commits rows one by one.
func insert(t *testing.T, db *sql.DB, rows int) {
	t.Helper()
	for range rows {
		mysqltest.Exec(t, db, "INSERT INTO shop.relayed VALUES ()")
	}
}

// reboot ends a server with kill -9, changes its disk and starts it.
func reboot(t *testing.T, s *mysqld.Server, meanwhile func()) {
	t.Helper()
	s.Kill()
	if meanwhile != nil {
		meanwhile()
	}
	mysqltest.Must(t, s.Boot(t.Context()))
}

// wantNumber fails the test unless an error is MySQL's of a number.
func wantNumber(t *testing.T, err error, number uint16) {
	t.Helper()
	var answer *driver.MySQLError
	if !errors.As(err, &answer) || answer.Number != number {
		t.Fatalf("got error %v, want %d", err, number)
	}
}

// applierPosition is where the applier of a replica goes on, as its metadata says.
func applierPosition(t *testing.T, db *sql.DB) (file string, position int64) {
	t.Helper()
	file = filepath.Base(mysqltest.Value(t, db, "SELECT Relay_log_name FROM mysql.slave_relay_log_info WHERE Channel_name = ''"))
	position, err := strconv.ParseInt(mysqltest.Value(t, db, "SELECT Relay_log_pos FROM mysql.slave_relay_log_info WHERE Channel_name = ''"), 10, 64)
	mysqltest.Must(t, err)
	return file, position
}

// relayLogs are the names of a server's relay logs, in order.
func relayLogs(t *testing.T, s *mysqld.Server) []string {
	t.Helper()
	names, err := os.ReadFile(filepath.Join(s.Data(), relayIndex))
	mysqltest.Must(t, err)
	return strings.Fields(string(names))
}

const relayIndex = "relay.index"

// loseRelayLogs takes the newest relay logs from a server that is down, and their names from the index.
func loseRelayLogs(t *testing.T, s *mysqld.Server, files int) {
	t.Helper()
	names := relayLogs(t, s)
	left := names[:len(names)-files]
	for _, name := range names[len(left):] {
		mysqltest.Must(t, os.Remove(filepath.Join(s.Data(), name)))
	}
	index := strings.Join(left, "\n")
	if index != "" {
		index += "\n"
	}
	mysqltest.Must(t, os.WriteFile(filepath.Join(s.Data(), relayIndex), []byte(index), 0o600))
}

// loseAllRelayLogs starts a replica, which has applied all that it received, without any of its relay logs: a loss of power right after
// a rotation takes the file that the applier reads, and those before it were purged.
func loseAllRelayLogs(t *testing.T, w *mysqltest.World, m []*admin.Member) {
	t.Helper()
	s := w.Servers[1]
	db := mysqltest.Root(t, s)
	mysqltest.Exec(t, db, "FLUSH RELAY LOGS")
	insert(t, mysqltest.Root(t, w.Servers[0]), 3)
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.Exec(t, db, "STOP REPLICA")
	reboot(t, s, func() { loseRelayLogs(t, s, len(relayLogs(t, s))) })
}

// TestKilledReplicaKeepsWhatItAcknowledged: what a replica has acknowledged is in the kernel's memory before, so that kill -9 takes none
// of it whatever sync_relay_log says (fact 28).
func TestKilledReplicaKeepsWhatItAcknowledged(t *testing.T) {
	for _, sync := range []string{"0", "10000"} {
		t.Run(sync, func(t *testing.T) {
			w, m := relayServers(t)
			ctx := t.Context()
			replica, client := mysqltest.Root(t, w.Servers[1]), mysqltest.Root(t, w.Servers[0])
			mysqltest.Exec(t, replica, "SET GLOBAL sync_relay_log = "+sync)
			mysqltest.Exec(t, replica, "STOP REPLICA SQL_THREAD")
			mysqltest.Must(t, m[2].StopIOThread(ctx)) // so the acknowledgements are those of server 1
			insert(t, client, 20)
			acknowledged := m[0].Observe(ctx).Executed
			reboot(t, w.Servers[1], nil)
			o := m[1].Observe(ctx)
			if o.Replication == nil || mysqltest.Contains(t, client, o.Executed, acknowledged) || !mysqltest.Contains(t, client, o.Executed+","+o.Replication.Retrieved, acknowledged) {
				t.Errorf("acknowledged %s, executed %s, received %+v", acknowledged, o.Executed, o.Replication)
			}
		})
	}
}

// TestApplierBeyondItsRelayLog: an applier whose position lies behind the end of its relay log goes on in the next file, also when the file
// is gone and mysqld gives its name to the next one (fact 30).
func TestApplierBeyondItsRelayLog(t *testing.T) {
	for _, row := range []struct {
		name string
		lose func(t *testing.T, s *mysqld.Server, file string, header int64)
	}{
		{"nothing is left but the header", func(t *testing.T, s *mysqld.Server, file string, header int64) {
			mysqltest.Must(t, os.Truncate(filepath.Join(s.Data(), file), header))
		}},
		{"the file is gone and an older one is left", func(t *testing.T, s *mysqld.Server, file string, _ int64) {
			if names := relayLogs(t, s); len(names) < 2 || filepath.Base(names[len(names)-1]) != file {
				t.Fatalf("the applier reads %s of %s", file, names)
			}
			loseRelayLogs(t, s, 1)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, m := relayServers(t)
			ctx := t.Context()
			replica, client := mysqltest.Root(t, w.Servers[1]), mysqltest.Root(t, w.Servers[0])
			mysqltest.Exec(t, replica, "SET GLOBAL relay_log_purge = OFF")
			mysqltest.Exec(t, replica, "FLUSH RELAY LOGS")
			insert(t, client, 5)
			mysqltest.CatchUp(t, m[1], m[0])
			mysqltest.Exec(t, replica, "STOP REPLICA")
			file, position := applierPosition(t, replica)
			header := headerOf(t, replica, file)
			if position <= header {
				t.Fatalf("the applier is at %d of %s", position, file)
			}
			before := m[1].Observe(ctx).Replication.Retrieved
			reboot(t, w.Servers[1], func() { row.lose(t, w.Servers[1], file, header) })
			if o := m[1].Observe(ctx); o.Replication == nil || o.Replication.Retrieved == before {
				t.Fatalf("received is still %s", before)
			}
			insert(t, client, 20)
			mysqltest.Replicate(t, m[1], w.Servers[0])
			mysqltest.CatchUp(t, m[1], m[0])
			wantSameRows(t, client, mysqltest.Root(t, w.Servers[1]))
		})
	}
}

// headerOf is where the header of a relay log ends.
func headerOf(t *testing.T, db *sql.DB, file string) (end int64) {
	t.Helper()
	var log, kind, info string
	var at, server, next int64
	mysqltest.Must(t, db.QueryRowContext(t.Context(), "SHOW RELAYLOG EVENTS IN '"+file+"' LIMIT 1, 1").Scan(&log, &at, &kind, &server, &next, &info))
	if kind != "Previous_gtids" {
		t.Fatalf("%s begins with %s", file, kind)
	}
	return next
}

// wantSameRows fails the test unless two servers have the same rows.
func wantSameRows(t *testing.T, a, b *sql.DB) {
	t.Helper()
	const sum = "SELECT CONCAT(COUNT(*), ' ', COALESCE(BIT_XOR(CRC32(id)), 0)) FROM shop.relayed"
	if a, b := mysqltest.Value(t, a, sum), mysqltest.Value(t, b, sum); a != b {
		t.Errorf("the rows are %s there and %s here", a, b)
	}
}

// TestMissingRelayLog: when the file is gone that the applier's metadata name, neither START REPLICA nor another source nor a restart has
// replication go on; RESET REPLICA does, and keeps the channel (fact 31).
func TestMissingRelayLog(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	loseAllRelayLogs(t, w, m)
	db, client := mysqltest.Root(t, w.Servers[1]), mysqltest.Root(t, w.Servers[0])
	insert(t, client, 3)
	start := func() {
		t.Helper()
		_, err := db.ExecContext(ctx, "START REPLICA")
		wantNumber(t, err, 1872)
		if r := m[1].Observe(ctx).Replication; r == nil || r.Retrieved != "" || r.SQLRunning || r.IOState != mysql.IOOff || r.LastSQLError == "" {
			t.Fatalf("%+v", r)
		}
	}
	start()
	mysqltest.Exec(t, db, "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1'")
	start()
	reboot(t, w.Servers[1], nil)
	start()
	before := m[1].Observe(ctx).Replication
	mysqltest.Exec(t, db, "STOP REPLICA")
	mysqltest.Exec(t, db, "RESET REPLICA")
	if r := m[1].Observe(ctx).Replication; r == nil || r.SourceHost != before.SourceHost || !slices.Equal(r.Options, before.Options) || r.LastSQLError != "" {
		t.Fatalf("%+v of %+v", r, before)
	}
	mysqltest.Replicate(t, m[1], w.Servers[0])
	mysqltest.CatchUp(t, m[1], m[0])
	wantSameRows(t, client, db)
}

// TestSyncRelayLogAtRunTime: a receiver that runs goes by sync_relay_log from the next event on, on the file that is open (fact 32).
func TestSyncRelayLogAtRunTime(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	replica, client := mysqltest.Root(t, w.Servers[1]), mysqltest.Root(t, w.Servers[0])
	defer mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "SET GLOBAL sync_relay_log = 1")
	const rows = 20
	syncs := func(setting string) int {
		t.Helper()
		count := func() (n int) {
			mysqltest.Must(t, replica.QueryRowContext(ctx, `SELECT SUM(COUNT_MISC) FROM performance_schema.file_summary_by_instance
				WHERE EVENT_NAME = 'wait/io/file/sql/relaylog' AND COUNT_WRITE > 0`).Scan(&n))
			return n
		}
		mysqltest.Exec(t, replica, "SET GLOBAL sync_relay_log = "+setting)
		receiver := mysqltest.Value(t, replica, "SELECT THREAD_ID FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''")
		before := count()
		insert(t, client, rows)
		mysqltest.CatchUp(t, m[1], m[0])
		if now := mysqltest.Value(t, replica, "SELECT THREAD_ID FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''"); now != receiver {
			t.Fatalf("the receiver is thread %s and was %s", now, receiver)
		}
		return count() - before
	}
	if n := syncs("10000"); n >= rows {
		t.Errorf("%d syncs for %d rows with 10000", n, rows)
	}
	if n := syncs("1"); n < rows {
		t.Errorf("%d syncs for %d rows with 1", n, rows)
	}
	if n := syncs("0"); n >= rows {
		t.Errorf("%d syncs for %d rows with 0", n, rows)
	}
}

// TestWhatShowsAServersMemory: a server's boot does not show over SQL, unless somebody writes it down for it (fact 33).
func TestWhatShowsAServersMemory(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	s := w.Servers[1]
	db := mysqltest.Root(t, s)
	const boot, inside = "/proc/sys/kernel/random/boot_id", "/etc/nairobi-mysql/exchange/"
	written, link := filepath.Join(s.Exchange(), "boot"), filepath.Join(s.Exchange(), "link")
	mysqltest.Must(t, os.WriteFile(written, []byte("one"), 0o644))
	mysqltest.Must(t, os.Symlink(boot, link))
	defer os.Remove(written)
	defer os.Remove(link)
	for file, want := range map[string]string{boot: "", inside + "link": "", inside + "boot": "one"} {
		if got := mysqltest.Value(t, db, "SELECT LOAD_FILE('"+file+"')"); got != want {
			t.Errorf("LOAD_FILE of %s is %q", file, got)
		}
	}
	before := m[1].Observe(ctx)
	if !before.SuperReadOnly {
		t.Fatal("the replica is writable")
	}
	mysqltest.Exec(t, db, "INSERT INTO performance_schema.setup_actors VALUES ('token', 'nairobi_memory', '%', 'NO', 'NO')")
	mysqltest.Exec(t, db, "INSERT INTO performance_schema.setup_objects VALUES ('TABLE', 'token', 'nairobi_memory', 'NO', 'NO')")
	const tokens = "SELECT (SELECT COUNT(*) FROM performance_schema.setup_actors WHERE HOST = 'token') + (SELECT COUNT(*) FROM performance_schema.setup_objects WHERE OBJECT_SCHEMA = 'token')"
	if n := mysqltest.Value(t, db, tokens); n != "2" {
		t.Errorf("%s rows are there", n)
	}
	own := before.ServerUUID
	if mine := mysqltest.Value(t, db, "SELECT @@GLOBAL.gtid_executed"); strings.Contains(mine, own) && !strings.Contains(before.Executed, own) {
		t.Errorf("the rows made a GTID: %s", mine)
	}
	reboot(t, s, nil)
	if n := mysqltest.Value(t, mysqltest.Root(t, s), tokens); n != "0" {
		t.Errorf("%s rows outlived the process", n)
	}
}

// TestPersistedReportHost: report_host cannot be set while mysqld runs, and what is persisted of it outranks the command line: so it is
// no place for what only the instance may say (fact 33).
func TestPersistedReportHost(t *testing.T) {
	w := mysqltest.TheWorld(t)
	s, err := w.Farm.Start(t.Context(), mysqld.Options{Name: "orders-9", Arguments: []string{"--report-host=this-boot"}})
	mysqltest.Must(t, err)
	defer func() { mysqltest.Must(t, w.Farm.Discard(s)) }()
	db := mysqltest.Root(t, s)
	if host := mysqltest.Value(t, db, "SELECT @@GLOBAL.report_host"); host != "this-boot" {
		t.Fatalf("report_host is %q", host)
	}
	_, err = db.ExecContext(t.Context(), "SET GLOBAL report_host = 'another'")
	wantNumber(t, err, 1238)
	mysqltest.Exec(t, db, "SET PERSIST_ONLY report_host = 'another'")
	reboot(t, s, nil)
	if host := mysqltest.Value(t, mysqltest.Root(t, s), "SELECT @@GLOBAL.report_host"); host != "another" {
		t.Errorf("report_host is %q", host)
	}
}

// TestWaitSessionsCountsLeaders: Rpl_semi_sync_source_wait_sessions counts the leaders of group commits and not those who wait (fact 34).
func TestWaitSessionsCountsLeaders(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	const clients = 8
	for range clients {
		mysqltest.Connect(t, w.Servers[0], "&INSERT INTO shop.relayed VALUES ()")
	}
	if n := mysqltest.Value(t, db, "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_wait_sessions'"); n != "1" {
		t.Errorf("%s of %d are counted", n, clients)
	}
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.Must(t, m[0].CommitEmptyTransaction(context.WithoutCancel(ctx)))
}

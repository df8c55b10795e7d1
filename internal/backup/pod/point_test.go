package pod

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pitr"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// archived archives the primary while statements run there, each into segments of its own, and returns the last transaction.
func (s *scene) archived(statements ...string) string {
	s.t.Helper()
	folder := archive.Folder{Place: backup.Place{Store: s.store, Root: backup.RootOf(s.namespace, "orders", "uid")}}
	spool, err := archive.OpenSpool(s.t.TempDir())
	must(s.t, err)
	visit := podclient.VisitOptions{Endpoint: endpoint(primary), Identity: pods, User: mysql.BackupUser, Options: conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute}}
	stopped := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(s.t.Context())
	ended, begun := make(chan error, 1), make(chan struct{}) // where it begins is clear
	begins := sync.OnceFunc(func() { close(begun) })
	go func() {
		ended <- archive.New(archive.Options{
			Folder: folder, ClusterUID: "uid", Spool: spool, Clock: clock.RealClock{}, SegmentAge: 300 * time.Millisecond, Log: logr.Discard(), Report: func(archive.Report) {},
			Connect: func(ctx context.Context) (*podclient.Visit, error) { return podclient.OpenVisit(ctx, visit) },
			Stream: func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error) {
				begins()
				return podclient.OpenBinlogStream(ctx, visit, podclient.Follower{ServerID: archiveServerID, UUID: "11111111-2222-3333-4444-555555555555"}, have)
			},
		}).Run(ctx)
	}()
	<-begun
	last := ""
	for _, statement := range statements {
		out, err := primary.SQL(s.t.Context(), statement+"; SELECT @@GLOBAL.gtid_executed")
		must(s.t, err)
		have, err := gtid.Parse(strings.ReplaceAll(out, "\\n", ""))
		must(s.t, err)
		await(s.t, "it is archived", func() bool {
			h, _, err := folder.Head(s.t.Context(), 0)
			return err == nil && h != nil && h.All().Contains(have)
		})
		last = out[strings.LastIndexAny(out, "-:")+1:]
	}
	cancel(stopped)
	if err := <-ended; !errors.Is(err, stopped) {
		s.t.Fatalf("the archive ended with %v", err)
	}
	server, err := primary.SQL(s.t.Context(), "SELECT @@server_uuid")
	must(s.t, err)
	return server + ":" + last
}

// TestAPointThatCannotBeReached is told by name in the report that the operator reads: a segment that is gone names what is missing,
// for good; a transaction that cannot be replayed is named, and tried again.
func TestAPointThatCannotBeReached(t *testing.T) {
	const table = "CREATE TABLE shop.point (id INT PRIMARY KEY)"
	for name, row := range map[string]struct {
		statements []string
		lost       bool
		reason     string
		says       string
	}{
		"a segment that is gone": {[]string{table, "INSERT INTO shop.point VALUES (1)", "INSERT INTO shop.point VALUES (2)"}, true, v1alpha1.BackupReasonArchiveGap, "transactions that are needed are missing"},
		"a statement with a variable": {[]string{table, "SET SESSION binlog_format = STATEMENT; SET @one = 1; INSERT INTO shop.point VALUES (@one)"}, false,
			v1alpha1.BackupReasonReplayFailed, "replaying the binary log failed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			path := s.taken("b")
			defer func() {
				_, err := primary.SQL(context.WithoutCancel(t.Context()), "DROP TABLE IF EXISTS shop.point")
				must(t, err)
			}()
			last := s.archived(row.statements...)
			var segments []string
			for object, err := range s.store.List(t.Context(), "") {
				must(t, err)
				if strings.HasSuffix(object.Key, ".seg") {
					segments = append(segments, object.Key)
				}
			}
			if len(segments) < len(row.statements) {
				t.Fatalf("the archive has %v", segments)
			}
			if row.lost {
				must(t, s.store.Delete(t.Context(), segments[len(segments)-2]))
			}
			s.reportIn("orders-recovery")
			into := fresh(t)
			w := s.restorer(path, into)
			w.task.UntilGTID = last
			if err := w.restore(t.Context()); err == nil || errors.Is(err, ErrFailed) != row.lost {
				t.Errorf("it ended with %v", err)
			}
			said := s.said("orders-recovery")
			if said[task.ReportState] != stateFailed || said[task.ReportReason] != row.reason || !strings.Contains(said[task.ReportMessage], row.says) {
				t.Errorf("it said %v, not %s", said, row.reason)
			}
			if out, err := into.SQL(t.Context(), "SELECT @@read_only"); err != nil || out != "1" {
				t.Errorf("the server is open to writes: %s, %v", out, err)
			}
		})
	}
}

// TestAReplayGoesOnFromItsOwnDump although a newer one suits by now.
func TestAReplayGoesOnFromItsOwnDump(t *testing.T) {
	s := newScene(t)
	defer func() {
		_, err := primary.SQL(context.WithoutCancel(t.Context()), "DROP TABLE IF EXISTS shop.point")
		must(t, err)
	}()
	path := s.taken("first")
	first := s.archived("CREATE TABLE shop.point (id INT PRIMARY KEY)", "INSERT INTO shop.point VALUES (1)")
	time.Sleep(1100 * time.Millisecond) // folders are in the order of their seconds
	hidden := s.contents(s.taken("second"))
	second := s.read("second").Status.Path
	last := s.archived("INSERT INTO shop.point VALUES (2)")
	_, folder, _ := strings.Cut(second, "/backups/")
	must(t, backup.Place{Store: s.store, Root: backup.RootOf(s.namespace, "orders", "uid")}.Remove(t.Context(), folder))
	s.reportIn("orders-recovery")
	into := fresh(t)
	root, _, _ := strings.Cut(path, "/backups/")
	w := s.restorer(root, into)
	w.task.UntilGTID = last
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	w.reach = func(name, user string) backup.Member {
		m := reach(into)(name, user)
		connect := m.Connect
		m.Connect = func(ctx context.Context) (*podclient.Visit, error) {
			v, err := connect(ctx)
			if err != nil {
				return nil, err
			}
			if _, loaded, err := v.Recovery("uid").Loaded(ctx); err == nil && loaded {
				kill() // the replay is about to begin
			}
			return v, nil
		}
		return m
	}
	if err := w.restore(ctx); err == nil || errors.Is(err, ErrFailed) {
		t.Fatalf("it was cut off, and ended with %v", err)
	}
	s.put(second, hidden)
	w = s.restorer(root, into)
	w.task.UntilGTID = last
	must(t, w.restore(t.Context()))
	out, err := into.SQL(t.Context(), "SELECT GROUP_CONCAT(id ORDER BY id) FROM shop.point")
	must(t, err)
	if said := s.said("orders-recovery"); out != "1,2" || !strings.Contains(said[task.ReportMessage], "-first of ") || !strings.Contains(said[task.ReportMessage], "the last transaction is "+last+", committed at ") {
		t.Errorf("restored are %s; it said %v; the transactions are %s and %s", out, said, first, last)
	}
}

// copied is a server on a copy of the primary's volume, as EC2 would take it at this moment: the server recovers as after a power cut,
// under a UUID of its own, and the accounts of the old cluster's pods are gone.
func copied(t *testing.T) *mysqld.Server {
	t.Helper()
	into := fresh(t)
	into.Kill()
	must(t, os.RemoveAll(into.Data()))
	must(t, primary.Freeze())
	out, err := exec.CommandContext(t.Context(), "cp", "-a", primary.Data(), into.Data()).CombinedOutput()
	must(t, primary.Thaw())
	if err != nil {
		t.Fatalf("copy the volume: %v: %s", err, out)
	}
	for _, name := range []string{"auto.cnf", "mysqld-auto.cnf"} {
		must(t, os.RemoveAll(filepath.Join(into.Data(), name)))
	}
	must(t, into.Boot(t.Context()))
	_, err = into.SQL(t.Context(), "SET GLOBAL super_read_only = OFF; SET SESSION sql_log_bin = OFF; DROP USER nairobi_backup, nairobi_metrics; SET GLOBAL super_read_only = ON")
	must(t, err)
	return into
}

// archivist is a pod that replays the archive into a copy up to a transaction.
func (s *scene) archivist(into *mysqld.Server, until string) *worker {
	s.t.Helper()
	w := s.restorer(backup.RootOf(s.namespace, "orders", "uid"), into)
	w.task.Copy, w.task.UntilGTID = "vol-1", until
	return w
}

// numbered is the transaction that is n after another one.
func numbered(t *testing.T, one string, n int) string {
	t.Helper()
	uuid, number, _ := strings.Cut(one, ":")
	at, err := strconv.Atoi(number)
	must(t, err)
	return uuid + ":" + strconv.Itoa(at+n)
}

// TestAnArchiveIsReplayedIntoACopy up to the transaction that is asked for and no further, also when it was cut off, and once. The server
// stays closed, and forgets the old cluster's voters.
func TestAnArchiveIsReplayedIntoACopy(t *testing.T) {
	s := newScene(t)
	s.taken("b")
	defer func() {
		_, err := primary.SQL(context.WithoutCancel(t.Context()), "DROP TABLE IF EXISTS shop.point; DROP TABLE nairobi_mysql.membership")
		must(t, err)
	}()
	_, err := primary.SQL(t.Context(), "CREATE TABLE shop.point (id INT PRIMARY KEY); INSERT INTO shop.point VALUES (1); CREATE DATABASE IF NOT EXISTS nairobi_mysql; CREATE TABLE nairobi_mysql.membership (epoch INT PRIMARY KEY)")
	must(t, err)
	into := copied(t)
	last := s.archived("INSERT INTO shop.point VALUES (2)", "INSERT INTO shop.point VALUES (3)", "INSERT INTO nairobi_mysql.membership VALUES (7); ALTER USER nairobi_metrics WITH MAX_USER_CONNECTIONS 4", "INSERT INTO shop.point VALUES (4)", "INSERT INTO shop.point VALUES (5)")
	s.reportIn("orders-recovery")
	held := func() string {
		t.Helper()
		out, err := into.SQL(t.Context(), "SELECT CONCAT((SELECT GROUP_CONCAT(id ORDER BY id) FROM shop.point), ' ', @@read_only, @@super_read_only, ' ', (SELECT COUNT(*) FROM nairobi_mysql.membership), ' ', GTID_SUBSET('"+last+"', @@GLOBAL.gtid_executed))")
		must(t, err)
		return out
	}
	cut := errors.New("cut off by the test")
	w := s.archivist(into, numbered(t, last, -4))
	target := w.reach("orders-0", mysql.OperatorUser)
	base, err := heldBy(t.Context(), target)
	must(t, err)
	w.place.Root = w.task.Path
	plan, err := pitr.NewPlanFrom(t.Context(), archive.Folder{Place: w.place}, base, w.point())
	must(t, err)
	if err := backup.Continue(t.Context(), target, "uid", func(ctx context.Context) error {
		return errors.Join(plan.Replay(ctx, target.Connect, nil), cut)
	}); !errors.Is(err, cut) {
		t.Fatalf("it ended with %v", err)
	}
	if got := held(); !strings.HasPrefix(got, "1,2,3 1") || !strings.HasSuffix(got, "0") {
		t.Fatalf("cut off at 3, it holds %s", got)
	}
	for range 2 {
		w = s.archivist(into, numbered(t, last, -1))
		must(t, w.restore(t.Context()))
		if got := held(); got != "1,2,3,4 11 0 0" {
			t.Errorf("asked for 4, it holds %s", got)
		}
		if said := s.said("orders-recovery"); said[task.ReportState] != stateDone || !strings.Contains(said[task.ReportMessage], "what was archived up to "+w.task.UntilGTID+" is replayed") {
			t.Errorf("it said %v", said)
		}
	}
}

// TestACopyThatCannotBeTakenOn is refused by name, for good where that cannot change, and stays as it is.
func TestACopyThatCannotBeTakenOn(t *testing.T) {
	s := newScene(t)
	s.taken("b")
	defer func() {
		_, err := primary.SQL(context.WithoutCancel(t.Context()), "DROP TABLE IF EXISTS shop.point")
		must(t, err)
	}()
	first := s.archived("CREATE TABLE shop.point (id INT PRIMARY KEY)", "INSERT INTO shop.point VALUES (1)", "INSERT INTO shop.point VALUES (2)")
	into := copied(t)
	last := s.archived("INSERT INTO shop.point VALUES (3)", "INSERT INTO shop.point VALUES (4)", "INSERT INTO shop.point VALUES (5)")
	for _, row := range []struct {
		name         string
		into         *mysqld.Server
		until        string
		change       func(t *testing.T)
		reason, says string
	}{
		{"a point in front of it", into, numbered(t, first, -1), nil, v1alpha1.BackupReasonOutOfReach, "which came after"},
		{"a point that the archive does not reach", into, numbered(t, last, 1000), nil, v1alpha1.BackupReasonOutOfReach, "the archive does not reach that point"},
		{"a server that holds nothing", fresh(t), last, nil, v1alpha1.BackupReasonArchiveGap, "transactions that are needed are missing"},
		{"one with what nobody archived", into, last, func(t *testing.T) {
			t.Helper()
			_, err := into.SQL(t.Context(), "SET GLOBAL super_read_only = OFF; CREATE DATABASE errant; SET GLOBAL super_read_only = ON")
			must(t, err)
		}, v1alpha1.BackupReasonOutOfReach, "it holds"},
		{"one that serves", into, last, func(t *testing.T) {
			t.Helper()
			_, err := into.SQL(t.Context(), "SET GLOBAL super_read_only = OFF; RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '"+strings.Replace(first, ":", ":1-", 1)+"'; SET GLOBAL read_only = OFF")
			must(t, err)
		}, v1alpha1.BackupReasonNotEmpty, "the server takes writes already"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &scene{t: t, namespace: s.namespace, store: s.store}
			report := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "orders-recovery"}}
			must(t, kube.Create(t.Context(), report))
			defer func() { must(t, kube.Delete(context.WithoutCancel(t.Context()), report)) }()
			if row.change != nil {
				row.change(t)
			}
			if err := s.archivist(row.into, row.until).restore(t.Context()); !errors.Is(err, ErrFailed) {
				t.Errorf("it ended with %v", err)
			}
			if said := s.said("orders-recovery"); said[task.ReportState] != stateFailed || said[task.ReportReason] != row.reason || !strings.Contains(said[task.ReportMessage], row.says) {
				t.Errorf("it said %v, not %s", said, row.reason)
			}
		})
	}
}

// TestARecoveryEndsTheOneBefore: the session of a pod that stood still is gone when it wakes, with the transaction that it had open; and
// none closes a server that serves.
func TestARecoveryEndsTheOneBefore(t *testing.T) {
	s := newScene(t)
	into := copied(t)
	w := s.archivist(into, "")
	visit := func() *podclient.Visit {
		t.Helper()
		v, err := w.reach("orders-0", mysql.OperatorUser).Connect(t.Context())
		must(t, err)
		t.Cleanup(v.Close)
		return v
	}
	begin := func(v *podclient.Visit) {
		t.Helper()
		done, err := v.Recovery("uid").BeginReplay(t.Context())
		if must(t, err); done {
			t.Fatal("it is done already")
		}
	}
	frozen := visit()
	begin(frozen)
	replay, err := frozen.OpenReplay(t.Context())
	must(t, err)
	defer replay.Close()
	must(t, replay.Replay(t.Context(), "SET GTID_NEXT = '3e11fa47-71ca-11e1-9e33-c80aa9429562:1'"))
	must(t, replay.Replay(t.Context(), "BEGIN"))
	v := visit()
	begin(v)
	if err := replay.Replay(t.Context(), "COMMIT"); err == nil {
		t.Error("the replay that went before goes on")
	}
	if err := frozen.Recovery("uid").Finish(t.Context()); err == nil {
		t.Error("the recovery that went before is finished")
	}
	again, err := v.OpenReplay(t.Context())
	must(t, err)
	defer again.Close()
	for _, statement := range []string{"SET GTID_NEXT = '3e11fa47-71ca-11e1-9e33-c80aa9429562:1'", "BEGIN", "COMMIT", "SET GTID_NEXT = AUTOMATIC"} {
		must(t, again.Replay(t.Context(), statement))
	}
	_, err = into.SQL(t.Context(), "SET GLOBAL read_only = OFF")
	must(t, err)
	if err := v.Recovery("uid").Finish(t.Context()); !errors.Is(err, podclient.ErrServes) {
		t.Errorf("of a server that serves it is said %v", err)
	}
	if out, err := into.SQL(t.Context(), "SELECT CONCAT(@@read_only, @@super_read_only, @@event_scheduler)"); err != nil || out != "00OFF" {
		t.Errorf("it is %s, %v", out, err)
	}
}

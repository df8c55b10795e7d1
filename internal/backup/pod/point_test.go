package pod

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
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

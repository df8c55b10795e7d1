package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// archiveServerID is what the archive's pod calls itself on a server. Members' numbers are far below it.
	archiveServerID = 1<<32 - 2
	// archiveReportEvery is how often a report is written in which only times and counts changed.
	archiveReportEvery = 30 * time.Second
	// spoolShare of the claim may wait for the bucket; the rest is for the segment that is being written.
	spoolShare = 2
)

// archive follows the primary until the pod is ended.
func (w *worker) archive(ctx context.Context) error {
	spool, err := archive.OpenSpool(task.SpoolDir)
	if err != nil {
		return err
	}
	reporter := &archiveReporter{w: w, changed: make(chan struct{}, 1)}
	var group sync.WaitGroup
	group.Go(func() { reporter.run(ctx) })
	defer group.Wait()
	host := w.task.Primary
	err = archive.New(archive.Options{
		Folder: archive.Folder{Place: w.place}, ClusterUID: w.task.ClusterUID, Spool: spool, SpoolBytes: w.task.SpoolBytes / spoolShare,
		Clock: w.clock, Log: w.log, Report: reporter.tell,
		Connect: func(ctx context.Context) (*mysql.Visit, error) {
			o, err := visit(host, mysql.BackupUser)
			if err != nil {
				return nil, err
			}
			return mysql.OpenVisit(ctx, o)
		},
		Stream: func(ctx context.Context, have gtid.Set) (*mysql.BinlogStream, error) {
			o, err := visit(host, mysql.BackupUser)
			if err != nil {
				return nil, err
			}
			return mysql.OpenBinlogStream(ctx, o, mysql.Follower{ServerID: archiveServerID, UUID: w.task.ClusterUID}, have)
		},
	}).Run(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// archiveReporter writes reports into the archive's ConfigMap, in its own time: archiving does not wait for the API server.
type archiveReporter struct {
	w       *worker
	changed chan struct{}

	mu     sync.Mutex
	report archive.Report
}

func (r *archiveReporter) tell(report archive.Report) {
	r.mu.Lock()
	r.report = report
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *archiveReporter) run(ctx context.Context) {
	var written archive.Report
	var at time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-time.After(archiveReportEvery):
		}
		r.mu.Lock()
		report := r.report
		r.mu.Unlock()
		if report == written || report.News() == written.News() && r.w.clock.Since(at) < archiveReportEvery {
			continue
		}
		if err := r.w.tellArchive(ctx, report); err != nil {
			r.w.log.Info("the report was not written", "error", err.Error())
			continue
		}
		written, at = report, r.w.clock.Now()
	}
}

// tellArchive writes a report into the ConfigMap that the operator made for it.
func (w *worker) tellArchive(ctx context.Context, report archive.Report) error {
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.task.Namespace, Name: w.task.Report}}
	after := cm.DeepCopy()
	after.Data = map[string]string{task.ReportArchive: string(text)}
	if err := w.client.Patch(ctx, after, client.MergeFrom(cm)); err != nil {
		return fmt.Errorf("report in ConfigMap %s: %w", w.task.Report, err)
	}
	return nil
}

package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

const (
	// archiveServerID is what the archive's pod calls itself on a server. Members' numbers are far below it.
	archiveServerID = 1<<32 - 2
	// archiveReportEvery is how often a report is written in which only times and counts changed.
	archiveReportEvery = 30 * time.Second
	// lastReportTimeout bounds the report of a pod that ends.
	lastReportTimeout = 5 * time.Second
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
	// What is stored last, when the pod is ended, is told too.
	reporting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { reporter.run(reporting) })
	defer group.Wait()
	defer stop()
	primary := source("the primary", w.task.Primary, w.task.ClusterUID)
	err = archive.New(archive.Options{
		Folder: archive.Folder{Place: w.place}, ClusterUID: w.task.ClusterUID, Spool: spool, SpoolBytes: w.task.SpoolBytes / spoolShare,
		Clock: w.clock, Log: w.log, Report: reporter.tell,
		Connect: primary.Connect, Stream: primary.Stream, Others: w.others,
	}).Run(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// source is a host whose binary log is followed.
func source(name, host, uid string) archive.Source {
	return archive.Source{
		Name: name,
		Connect: func(ctx context.Context) (*podclient.Visit, error) {
			o, err := visit(host, mysql.BackupUser)
			if err != nil {
				return nil, err
			}
			return podclient.OpenVisit(ctx, o)
		},
		Stream: func(ctx context.Context, have gtid.Set) (*podclient.BinlogStream, error) {
			o, err := visit(host, mysql.BackupUser)
			if err != nil {
				return nil, err
			}
			return podclient.OpenBinlogStream(ctx, o, podclient.Follower{ServerID: archiveServerID, UUID: uid}, have)
		},
	}
}

// others are the cluster's members by the names that they can have, as far as DNS knows them. The pod is not told their number:
// it need not begin again when that changes.
func (w *worker) others(ctx context.Context) []archive.Source {
	var found []archive.Source
	for ordinal := range v1alpha1.MaxReplicas {
		name := fmt.Sprintf("%s-%d", w.task.Cluster, ordinal)
		host := w.host(name)
		_, err := net.DefaultResolver.LookupHost(ctx, host)
		var answer *net.DNSError
		if errors.As(err, &answer) && answer.IsNotFound {
			continue
		}
		found = append(found, source(name, host, w.task.ClusterUID))
	}
	return found
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
			r.last(context.WithoutCancel(ctx), written)
			return
		case <-r.changed:
		case <-time.After(archiveReportEvery):
		}
		report := r.newest()
		if report == written || report.News() == written.News() && r.w.clock.Since(at) < archiveReportEvery {
			continue
		}
		if err := r.w.reportArchive(ctx, report); err != nil {
			r.w.log.Info("the report was not written", "error", err.Error())
			continue
		}
		written, at = report, r.w.clock.Now()
	}
}

func (r *archiveReporter) newest() archive.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// last writes what was not written yet when the archive ended.
func (r *archiveReporter) last(ctx context.Context, written archive.Report) {
	ctx, cancel := context.WithTimeout(ctx, lastReportTimeout)
	defer cancel()
	if report := r.newest(); report != written {
		if err := r.w.reportArchive(ctx, report); err != nil {
			r.w.log.Info("the last report was not written", "error", err.Error())
		}
	}
}

// reportArchive writes a report into the ConfigMap that the operator made for it.
func (w *worker) reportArchive(ctx context.Context, report archive.Report) error {
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

package pod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pitr"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// States of a recovery in its report.
const (
	stateRunning = "Running"
	stateDone    = "Done"
	stateFailed  = "Failed"
)

// permanent are the failures of a restore after which another attempt fails too.
var permanent = []error{
	backup.ErrVersion, backup.ErrCorrupt, backup.ErrDiffers, backup.ErrTooOld, podclient.ErrNotEmpty, podclient.ErrServes, store.ErrNotFound, store.ErrDenied, store.ErrNoBucket,
	pitr.ErrGap, pitr.ErrBeyond, pitr.ErrBefore, pitr.ErrTooLarge,
}

// restore loads a backup into the first member of a new cluster.
func (w *worker) restore(ctx context.Context) error {
	message, err := w.restoreBackup(ctx)
	if err == nil {
		return w.reportRestored(ctx, message)
	}
	told := w.report(context.WithoutCancel(ctx), stateFailed, reasonOf(err), err.Error())
	if slices.ContainsFunc(permanent, func(p error) bool { return errors.Is(err, p) }) || conn.RefusesForGood(err) {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return errors.Join(err, told)
}

// restoreBackup restores, and returns what there is to say about it.
func (w *worker) restoreBackup(ctx context.Context) (string, error) {
	root, folder, _ := strings.Cut(w.task.Path, "/backups/")
	w.place.Root = root
	plan, folder, err := w.choose(ctx, folder)
	if err != nil {
		return "", err
	}
	what := w.place.Store.URL(w.place.Folder(folder))
	if err := w.report(ctx, stateRunning, "", "restoring "+what); err != nil {
		return "", err
	}
	target := w.reach(w.task.Target, mysql.OperatorUser)
	message := "the backup is restored"
	o := backup.RestoreOptions{
		Place: w.place, Folder: folder, Recovery: w.task.ClusterUID, Target: target, User: mysql.OperatorUser,
		Credentials: w.credentials, Program: w.program, StallTimeout: w.task.StallTimeout, Clock: w.clock,
		Skipped: func(left []podclient.LeftOut) {
			w.skipped = leftOut(left)
			// At once: what follows may be cut off, and the pod that goes on does not come by here.
			_ = w.report(ctx, stateRunning, "", "the backup is loaded; "+w.skipped)
		},
	}
	told := w.clock.Now()
	tell := func(message string) {
		if w.clock.Since(told) >= progressEvery {
			told = w.clock.Now()
			_ = w.report(ctx, stateRunning, "", message)
		}
	}
	o.Progress = func(p backup.Progress) {
		if p.Estimate > 0 {
			tell(fmt.Sprintf("restoring %s: %d %% of %s", what, min(p.Bytes*100/p.Estimate, 100), human(p.Estimate)))
		}
	}
	if plan != nil {
		o.NewestVersion = plan.Version
		o.Then = func(ctx context.Context, _ *podclient.Visit, _ backup.Manifest) error {
			return plan.Replay(ctx, target.Connect, func(p pitr.Progress) {
				tell(fmt.Sprintf("restored %s; replaying the binary log: %d of %d segments, at %s", what, p.Segments, p.Of, p.GTID))
			})
		}
	}
	_, err = backup.Restore(ctx, o)
	return message, err
}

// choose says which backup is restored, and how it goes on from there to a point in time.
func (w *worker) choose(ctx context.Context, folder string) (*pitr.Plan, string, error) {
	point := pitr.Point{GTID: w.task.UntilGTID}
	if w.task.UntilTime != nil {
		point.Time = *w.task.UntilTime
	}
	switch {
	case point != pitr.Point{}:
		if err := w.report(ctx, stateRunning, "", "looking through the archive of binary logs up to "+point.String()); err != nil {
			return nil, "", err
		}
		plan, err := pitr.NewPlan(ctx, archive.Folder{Place: w.place}, folder, point)
		if err != nil {
			return nil, "", err
		}
		return plan, plan.Backup, nil
	case folder == "":
		newest, err := w.place.Newest(ctx)
		return nil, newest, err
	}
	return nil, folder, nil
}

// report reports in the ConfigMap that the operator made for it.
func (w *worker) report(ctx context.Context, state, reason, message string) error {
	w.log.Info(message, "state", state, "reason", reason)
	data := map[string]string{task.ReportState: state, task.ReportReason: reason, task.ReportMessage: cut(message, statusMessage)}
	if state == stateFailed {
		data[task.ReportFailure] = cut(reason+": "+message, statusMessage)
	}
	_, err := w.patchReport(ctx, data)
	return err
}

// reportRestored says that the restore is done, and what was left out: also by a pod before this one of the same Job.
func (w *worker) reportRestored(ctx context.Context, message string) error {
	report, err := w.patchReport(ctx, nil)
	if err != nil {
		return err
	}
	if skipped := report[task.ReportSkipped]; skipped != "" {
		message += "; " + skipped
	}
	return w.report(ctx, stateDone, "", message)
}

// patchReport writes into the report, and returns all that it says then. The pod may not read it otherwise.
func (w *worker) patchReport(ctx context.Context, data map[string]string) (map[string]string, error) {
	if w.task.Report == "" {
		return nil, nil
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.task.Namespace, Name: w.task.Report}}
	after := cm.DeepCopy()
	after.Data = map[string]string{task.ReportJob: w.jobUID}
	maps.Copy(after.Data, data)
	if w.skipped != "" {
		after.Data[task.ReportSkipped] = cut(w.skipped, statusMessage)
	}
	if err := w.client.Patch(ctx, after, client.MergeFrom(cm)); err != nil {
		return nil, fmt.Errorf("report in ConfigMap %s: %w", w.task.Report, err)
	}
	return after.Data, nil
}

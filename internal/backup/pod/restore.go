package pod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pitr"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// States of a recovery in its report.
const (
	stateRunning = "Running"
	stateDone    = "Done"
	stateFailed  = "Failed"
)

// permanent are the failures of a restore after which another attempt fails too.
var permanent = []error{
	backup.ErrVersion, backup.ErrSettings, backup.ErrRejected, backup.ErrCorrupt, backup.ErrDiffers, backup.ErrTooOld, podclient.ErrNotEmpty, podclient.ErrServes, store.ErrNotFound, store.ErrDenied, store.ErrNoBucket,
	pitr.ErrGap, pitr.ErrBeyond, pitr.ErrBefore, pitr.ErrClock, pitr.ErrTooLarge, mysql.ErrNothingThere,
}

// restore loads a backup into the first member of a new cluster.
func (w *worker) restore(ctx context.Context) error {
	bring := w.restoreBackup
	if w.task.Copy != "" {
		bring = w.replayIntoCopy
	}
	message, err := bring(ctx)
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
func (w *worker) restoreBackup(ctx context.Context) (_ string, err error) {
	root, folder, _ := strings.Cut(w.task.Path, "/backups/")
	w.place.Root = root
	reserved := w.place.Reserve(ctx, w.task.ClusterUID, folder)
	defer func() { reserved.End(err) }()
	target := w.reach(w.task.Target, mysql.OperatorUser)
	if w.point() != (pitr.Point{}) && folder == "" {
		if folder, err = backup.LoadedFrom(ctx, target, w.task.ClusterUID); err != nil {
			return "", err
		}
	}
	plan, folder, err := w.choose(ctx, folder)
	if err != nil {
		return "", err
	}
	reserved.Narrow(ctx, folder)
	what := w.place.Store.URL(w.place.Folder(folder))
	if err := w.report(ctx, stateRunning, "", "restoring "+what); err != nil {
		return "", err
	}
	o := backup.RestoreOptions{
		Place: w.place, Folder: folder, Recovery: w.task.ClusterUID, Target: target, User: mysql.OperatorUser,
		Credentials: w.credentials, Program: w.program, StallTimeout: w.task.StallTimeout, Clock: w.clock,
		Skipped: func(left []podclient.LeftOut) {
			w.skipped = leftOut(left)
			// At once: what follows may be cut off, and the pod that goes on does not come by here.
			_ = w.report(ctx, stateRunning, "", "the backup is loaded; "+w.skipped)
		},
	}
	tell := w.progress(ctx)
	o.Progress = func(p backup.Progress) {
		if p.Estimate > 0 {
			tell(fmt.Sprintf("restoring %s: %d %% of %s", what, min(p.Bytes*100/p.Estimate, 100), human(p.Estimate)))
		}
	}
	if plan != nil {
		o.NewestVersion = plan.Version
		o.Then = func(ctx context.Context, _ *podclient.Visit, _ backup.Manifest) error {
			return plan.Replay(ctx, target.Connect, func(p pitr.Progress) { tell("restored " + what + "; " + replaying(p)) })
		}
	}
	m, err := backup.Restore(ctx, o)
	message := fmt.Sprintf("backup %s of %s is restored", folder, m.TakenAt.UTC().Format(time.RFC3339))
	if plan != nil {
		message += "; " + plan.Last.String()
	}
	return message, err
}

// progress returns a function that reports how far a restore is, now and then.
func (w *worker) progress(ctx context.Context) func(message string) {
	told := w.clock.Now()
	return func(message string) {
		if w.clock.Since(told) >= progressEvery {
			told = w.clock.Now()
			_ = w.report(ctx, stateRunning, "", message)
		}
	}
}

func replaying(p pitr.Progress) string {
	return fmt.Sprintf("replaying the binary log: %d of %d segments, at %s", p.Segments, p.Of, p.GTID)
}

// replayIntoCopy brings a member whose volume is a copy of another cluster's to a point in time, and returns what there is to say
// about it. What the copy holds is read from its server, so that an attempt that was cut off is continued.
func (w *worker) replayIntoCopy(ctx context.Context) (_ string, err error) {
	w.place.Root = w.task.Path
	reserved := w.place.Reserve(ctx, w.task.ClusterUID, "")
	defer func() { reserved.End(err) }()
	target := w.reach(w.task.Target, mysql.OperatorUser)
	base, err := heldBy(ctx, target)
	if err != nil {
		return "", err
	}
	plan, err := w.plan(ctx, func(folder archive.Folder, point pitr.Point) (*pitr.Plan, error) {
		return pitr.NewPlanFrom(ctx, folder, base, point)
	})
	if err != nil {
		return "", err
	}
	if err := backup.CheckVersion(plan.Version, base.Version); err != nil {
		return "", err
	}
	tell := w.progress(ctx)
	err = backup.Continue(ctx, target, w.task.ClusterUID, func(ctx context.Context) error {
		return plan.Replay(ctx, target.Connect, func(p pitr.Progress) { tell(replaying(p)) })
	})
	return fmt.Sprintf("what was archived up to %s is replayed; %s", w.point(), plan.Last), err
}

// heldBy reads what a server holds, for the archive to lead on from.
func heldBy(ctx context.Context, target backup.Member) (pitr.Base, error) {
	v, err := target.Connect(ctx)
	if err != nil {
		return pitr.Base{}, err
	}
	defer v.Close()
	position, err := v.Position(ctx)
	if err != nil {
		return pitr.Base{}, err
	}
	set, err := gtid.Parse(position.Executed)
	return pitr.Base{Set: set, Version: position.Version}, err
}

// point is how far the source's history is restored; nothing for as far as its backup reaches.
func (w *worker) point() pitr.Point {
	point := pitr.Point{GTID: w.task.UntilGTID}
	if w.task.UntilTime != nil {
		point.Time = *w.task.UntilTime
	}
	return point
}

// plan looks through the archive for the way to the point.
func (w *worker) plan(ctx context.Context, find func(archive.Folder, pitr.Point) (*pitr.Plan, error)) (*pitr.Plan, error) {
	point := w.point()
	if err := w.report(ctx, stateRunning, "", "looking through the archive of binary logs up to "+point.String()); err != nil {
		return nil, err
	}
	return find(archive.Folder{Place: w.place}, point)
}

// choose says which backup is restored, and how it goes on from there to a point in time.
func (w *worker) choose(ctx context.Context, folder string) (*pitr.Plan, string, error) {
	switch {
	case w.point() != pitr.Point{}:
		plan, err := w.plan(ctx, func(f archive.Folder, point pitr.Point) (*pitr.Plan, error) {
			return pitr.NewPlan(ctx, f, folder, point)
		})
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
	data := map[string]string{task.ReportState: state, task.ReportReason: reason, task.ReportMessage: text.Shorten(message, statusMessage)}
	if state == stateFailed {
		data[task.ReportFailure] = text.Shorten(reason+": "+message, statusMessage)
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
	if w.task.Copy != "" {
		after.Data[task.ReportCopy] = w.task.Copy
	}
	maps.Copy(after.Data, data)
	if w.skipped != "" {
		after.Data[task.ReportSkipped] = text.Shorten(w.skipped, statusMessage)
	}
	if err := w.client.Patch(ctx, after, client.MergeFrom(cm)); err != nil {
		return nil, fmt.Errorf("report in ConfigMap %s: %w", w.task.Report, err)
	}
	return after.Data, nil
}

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// verify restores the newest dump into a throw-away mysqld and tells what came of it: on its MySQLBackup, and where the
// cluster's condition is made of it.
func (w *worker) verify(ctx context.Context) error {
	w.reportBegun(ctx)
	found, folder, err := w.verifyNewest(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the next pod of the Job says how it went
	}
	v := v1alpha1.VerificationStatus{At: metav1.NewTime(w.clock.Now()), Result: v1alpha1.VerificationPassed}
	if err == nil {
		v.Tables, v.Checksums = int32(found.Tables), int32(found.Checksums) //nolint:gosec // far fewer than 2 billion tables
		v.Message = fmt.Sprintf("restored with the cluster's settings; the rows of %d tables, the contents of %d, %d definitions and %d accounts are as they were", found.Tables, found.Checksums, found.Definitions, found.Accounts)
		if len(found.LeftOut) > 0 {
			v.Message = text.Shorten(v.Message+"; "+leftOut(found.LeftOut), statusMessage)
		}
	} else {
		v.Result, v.Reason, v.Message = v1alpha1.VerificationFailed, reasonOf(err), text.Shorten(err.Error(), statusMessage)
	}
	name := backup.NameIn(folder) // also where its manifest cannot be read
	w.log.Info(v.Message, "backup", name, "folder", folder, "result", v.Result, "reason", v.Reason)
	// In this order: the change of the MySQLBackup wakes the operator.
	told := errors.Join(w.place.RecordVerdict(ctx, folder, err, v.At.Time), w.reportVerified(ctx, name, v), w.markVerified(ctx, name, folder, v))
	if err := w.compare(ctx); err != nil {
		w.log.Error(err, "backups were not all compared with what is stored of them")
	}
	if err != nil && slices.ContainsFunc(permanent, func(p error) bool { return errors.Is(err, p) }) {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return errors.Join(err, told)
}

// reportBegun reports that a pod of its Job runs, by which the operator tells it from one that never did. A verification does not
// depend on that.
func (w *worker) reportBegun(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if _, err := w.patchReport(ctx, nil); err != nil {
		w.log.Error(err, "could not report the beginning")
	}
}

// verifyNewest verifies the newest backup, and returns its folder. One that is damaged fails; the one before does not stand for it.
func (w *worker) verifyNewest(ctx context.Context) (backup.Verified, string, error) {
	folder, err := w.place.Latest(ctx)
	if err != nil {
		return backup.Verified{}, folder, err
	}
	w.log.Info("verifying", "backup", w.place.Store.URL(w.place.Folder(folder)))
	found, err := backup.Verify(ctx, backup.VerifyOptions{
		Place: w.place, Folder: folder, Dir: w.workDir, Program: w.program, Settings: w.task.Settings, MaxAge: w.task.MaxAge, StallTimeout: w.task.StallTimeout, Clock: w.clock,
	})
	return found, folder, err
}

// markVerified writes the result on the backup's object. One that is gone, or of another folder, is none of it.
func (w *worker) markVerified(ctx context.Context, name, folder string, v v1alpha1.VerificationStatus) error {
	if name == "" {
		return nil
	}
	var b v1alpha1.MySQLBackup
	err := w.client.Get(ctx, client.ObjectKey{Namespace: w.task.Namespace, Name: name}, &b)
	if apierrors.IsNotFound(err) || err == nil && b.Status.Path != w.place.Folder(folder) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read MySQLBackup %s: %w", name, err)
	}
	before := b.DeepCopy()
	b.Status.Verification = &v
	if v.Result == v1alpha1.VerificationPassed {
		b.Status.VerifiedAt = &v.At
	}
	if err := w.client.Status().Patch(ctx, &b, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report in MySQLBackup %s: %w", b.Name, err)
	}
	return nil
}

// reportVerified reports in the ConfigMap that the operator made for it: also of a backup whose object is gone, and of a
// verification that found none.
func (w *worker) reportVerified(ctx context.Context, name string, v v1alpha1.VerificationStatus) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.task.Namespace, Name: w.task.Report}}
	after := cm.DeepCopy()
	at := v.At.UTC().Format(time.RFC3339)
	after.Data = map[string]string{
		task.ReportState: string(v.Result), task.ReportReason: v.Reason, task.ReportMessage: v.Message, task.ReportBackup: name, task.ReportAt: at,
	}
	if v.Result == v1alpha1.VerificationPassed {
		after.Data[task.ReportPassedBackup], after.Data[task.ReportPassedAt] = name, at
	}
	if err := w.client.Patch(ctx, after, client.MergeFrom(cm)); err != nil {
		return fmt.Errorf("report in ConfigMap %s: %w", w.task.Report, err)
	}
	return nil
}

package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

const (
	// reportTimeout bounds telling of the progress, which the dump does not wait for in vain.
	reportTimeout = 10 * time.Second
	// Patience is how long an API server may be away before what decides about a backup is given up; patiencePause is how
	// often it is asked.
	patience      = 5 * time.Minute
	patiencePause = 2 * time.Second
	// statusGTIDs, statusMessage and statusPruned bound what the status takes.
	statusGTIDs   = 16384
	statusMessage = 4000
	statusPruned  = 1000
	bytesPerMiB   = 1 << 20
)

// errNotOurs: the backup is no longer this pod's to work on. The operator gave it up, it was deleted, or another pod has
// taken it over, and whatever this pod has stored must not become a backup.
var errNotOurs = errors.New("the backup is no longer this pod's")

// attempt is a backup that this pod works on. When it began tells it from the attempts of other pods of the same Job: one
// on a node that is lost may go on for as long as nobody sees it.
type attempt struct {
	w *worker
	// b is the object as it was last read or written.
	b         *v1alpha1.MySQLBackup
	uid       types.UID
	startedAt metav1.Time
	folder    string
	// stored is true once something may have been written, by this pod or by one before it.
	stored atomic.Bool
}

// resume is the attempt that an object tells of.
func (w *worker) resume(b *v1alpha1.MySQLBackup) *attempt {
	a := &attempt{w: w, b: b, uid: b.UID}
	// A status is no authority on what may be removed: only a folder of this cluster's is one.
	if folder, ours := strings.CutPrefix(b.Status.Path, w.place.Folder("")); ours && !strings.Contains(folder, "/") && b.Status.StartedAt != nil {
		a.folder, a.startedAt = folder, *b.Status.StartedAt
	}
	return a
}

// begin says that the backup runs. An attempt before may have been cut off: what it left behind is removed, unless it is
// the whole backup, of which only the report is missing. That is returned.
func (w *worker) begin(ctx context.Context, b *v1alpha1.MySQLBackup) (*attempt, *backup.Manifest, error) {
	a := w.resume(b)
	left := a.folder
	if left != "" {
		m, err := w.place.Finished(ctx, left)
		switch {
		case err == nil && m.Backup == b.Name && m.ClusterUID == w.task.ClusterUID:
			w.log.Info("the pod before this one had finished it", "at", b.Status.Location)
			return a, &m, nil
		case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, backup.ErrCorrupt):
			return nil, nil, err // it may be whole: the next pod looks again
		}
	}
	now, err := w.beginning(ctx, b.Status.StartedAt)
	if err != nil {
		return nil, nil, err
	}
	if err := a.change(ctx, a.beginnable, func(s *v1alpha1.MySQLBackupStatus) {
		*s = v1alpha1.MySQLBackupStatus{
			Phase: v1alpha1.BackupRunning, Message: "choosing a member", Runner: w.runner, ClusterUID: w.task.ClusterUID, StartedAt: &now,
			Path: s.Path, Destination: w.task.Destination, Progress: &v1alpha1.BackupProgress{At: now},
		}
	}); err != nil {
		return nil, nil, err
	}
	a.startedAt = now
	// From here on a pod that wrote there cannot make a backup of it any more.
	if left != "" {
		a.stored.Store(true)
		if err := w.place.Remove(ctx, left); err != nil {
			return nil, nil, a.fail(ctx, err)
		}
	}
	a.folder = backup.FolderOf(now.Time, b.Name)
	return a, nil, a.write(ctx, v1alpha1.BackupRunning, func(s *v1alpha1.MySQLBackupStatus) {
		s.Path, s.Location = w.place.Folder(a.folder), w.place.Store.URL(w.place.Folder(a.folder))
	})
}

// beginning is the time of a new attempt, in the whole seconds in which it is kept. It is another than that of the attempt before:
// that is what tells the two apart, and their folders.
func (w *worker) beginning(ctx context.Context, before *metav1.Time) (metav1.Time, error) {
	for {
		now := metav1.NewTime(w.clock.Now()).Rfc3339Copy()
		if before == nil || !now.Equal(before) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-w.clock.After(now.Add(time.Second).Sub(w.clock.Now())):
		}
	}
}

// beginnable says whether work on the object may begin.
func (a *attempt) beginnable() error {
	s := &a.b.Status
	if a.b.UID != a.uid || !a.b.DeletionTimestamp.IsZero() || a.b.Done() || s.Runner != "" && s.Runner != a.w.runner {
		return fmt.Errorf("%w: %w: it is %s, of Job %q", ErrFailed, errNotOurs, s.Phase, s.Runner)
	}
	return nil
}

// ours says whether the object still is this attempt's, and in a phase.
func (a *attempt) ours(phase v1alpha1.BackupPhase) error {
	s := &a.b.Status
	switch {
	case a.b.UID != a.uid || !a.b.DeletionTimestamp.IsZero():
		return fmt.Errorf("%w: MySQLBackup %s was deleted", errNotOurs, a.b.Name)
	case s.Runner != a.w.runner || !s.StartedAt.Equal(&a.startedAt):
		return fmt.Errorf("%w: another pod began it anew", errNotOurs)
	case s.Phase != phase:
		return fmt.Errorf("%w: it is %s already: %s", errNotOurs, s.Phase, s.Message)
	}
	return nil
}

// read reads the object anew.
func (a *attempt) read(ctx context.Context) error {
	var b v1alpha1.MySQLBackup
	err := a.w.client.Get(ctx, client.ObjectKeyFromObject(a.b), &b)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: MySQLBackup %s was deleted", errNotOurs, a.b.Name)
	}
	if err != nil {
		return fmt.Errorf("read MySQLBackup %s: %w", a.b.Name, err)
	}
	a.b = &b
	return nil
}

// write changes the status of a backup that is this attempt's, and in a phase. Otherwise its error wraps errNotOurs.
func (a *attempt) write(ctx context.Context, phase v1alpha1.BackupPhase, change func(*v1alpha1.MySQLBackupStatus)) error {
	return a.change(ctx, func() error { return a.ours(phase) }, change)
}

// change changes the status where may agrees to the object as it is, and not as it was read some time ago.
func (a *attempt) change(ctx context.Context, may func() error, change func(*v1alpha1.MySQLBackupStatus)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := may(); err != nil {
			return err
		}
		after := a.b.DeepCopy()
		change(&after.Status)
		err := a.w.client.Status().Patch(ctx, after, client.MergeFromWithOptions(a.b, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			a.b = after
			return nil
		}
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			if err := a.read(ctx); err != nil {
				return err
			}
		}
		return fmt.Errorf("report in MySQLBackup %s: %w", a.b.Name, err)
	})
}

// patiently repeats a call while the API server does not answer it.
func patiently(ctx context.Context, call func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, patiencePause, patience, true, func(ctx context.Context) (bool, error) {
		last = call(ctx)
		return last == nil || errors.Is(last, errNotOurs) || apierrors.IsForbidden(last) || apierrors.IsInvalid(last), nil
	})
	if last != nil {
		return last
	}
	return err
}

// confirm asks whether what is stored may become a backup.
func (a *attempt) confirm(ctx context.Context) error {
	return patiently(ctx, func(ctx context.Context) error {
		if err := a.read(ctx); err != nil {
			return err
		}
		return a.ours(v1alpha1.BackupRunning)
	})
}

// report writes the progress. A failure to write it is no failure of the backup, unless it is errNotOurs.
func (a *attempt) report(ctx context.Context, p backup.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := a.write(ctx, v1alpha1.BackupRunning, func(s *v1alpha1.MySQLBackupStatus) {
		s.Progress = &v1alpha1.BackupProgress{Bytes: p.Bytes, Table: text.Shorten(p.Table, 260), At: metav1.NewTime(a.w.clock.Now())}
		if p.Estimate > 0 {
			s.Progress.Percent = int32(min(p.Bytes*100/p.Estimate, 99)) //nolint:gosec // at most 99
		}
	})
	if err != nil {
		a.w.log.Info("the progress was not reported", "error", err.Error())
	}
	return err
}

// complete says that the backup is in its place. When that cannot be said, the next pod of the Job finds it there; when
// it must not be said, it is removed.
func (a *attempt) complete(ctx context.Context, m backup.Manifest) error {
	at := metav1.NewTime(m.CompletedAt)
	took := m.CompletedAt.Sub(m.StartedAt)
	stored := m.Dump.Stored() + m.Accounts.Stored() + m.Definitions.Stored()
	err := patiently(ctx, func(ctx context.Context) error {
		return a.write(ctx, v1alpha1.BackupRunning, func(s *v1alpha1.MySQLBackupStatus) {
			s.Phase, s.Reason, s.Message, s.Progress = v1alpha1.BackupCompleted, "", "", nil
			if len(m.LeftOut) > 0 {
				s.Reason, s.Message = v1alpha1.BackupReasonLeftOut, text.Shorten(leftOut(m.LeftOut), statusMessage)
			}
			s.CompletedAt, s.Duration = &at, took.Round(time.Second/10).String()
			s.Version, s.Member = m.Version, m.Member
			s.DataBytes, s.StoredBytes, s.Size = m.Dump.Bytes, stored, human(stored)
			if took > 0 {
				s.Throughput = fmt.Sprintf("%.1f MiB/s", float64(m.Dump.Bytes)/bytesPerMiB/took.Seconds())
			}
			if len(m.GTIDSet) <= statusGTIDs {
				s.GTIDSet = m.GTIDSet
			}
			s.BinlogFile, s.BinlogPosition, s.Checksum = m.BinlogFile, m.BinlogPosition, "sha256:"+m.Dump.SHA256
		})
	})
	switch {
	case err == nil, a.ours(v1alpha1.BackupCompleted) == nil: // it was said, and the answer was lost
		return nil
	case errors.Is(err, errNotOurs):
		return a.fail(ctx, err)
	}
	return err
}

// fail takes back what was written and says why the backup failed. A pod that is being ended leaves the rest to the next
// one of its Job, and one whose backup was taken from it says nothing there.
func (a *attempt) fail(ctx context.Context, failure error) error {
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	left := a.leaves(ctx, failure)
	if ended {
		return failure
	}
	var told error
	if !errors.Is(failure, errNotOurs) {
		told = a.write(ctx, v1alpha1.BackupRunning, func(s *v1alpha1.MySQLBackupStatus) {
			s.Phase, s.Reason, s.Message, s.Progress = v1alpha1.BackupFailed, reasonOf(failure), text.Shorten(failure.Error(), statusMessage), nil
			if !left {
				s.Path, s.Location = "", "" // else the operator removes what is there, when that can be done
			}
			at := metav1.NewTime(a.w.clock.Now())
			s.CompletedAt = &at
		})
	}
	if told != nil && !errors.Is(told, errNotOurs) {
		return errors.Join(failure, told)
	}
	return fmt.Errorf("%w: %w", ErrFailed, failure)
}

// leaves takes back what was written, and says whether anything may be left of it.
func (a *attempt) leaves(ctx context.Context, failure error) bool {
	if a.folder == "" {
		return a.b.Status.Path != ""
	}
	err := a.w.place.Remove(ctx, a.folder)
	if err == nil {
		return false
	}
	a.w.log.Info("what was written could not be removed", "error", err.Error())
	// A store that let nobody in from the beginning holds nothing.
	begun := a.stored.Load() || a.b.Status.Progress != nil && a.b.Status.Progress.Bytes > 0
	return begun || !refused(failure) || !refused(err)
}

// refused says whether a store let nobody in.
func refused(err error) bool {
	return errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNoBucket)
}

// human writes a number of bytes as people read it.
func human(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

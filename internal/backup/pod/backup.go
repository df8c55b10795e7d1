package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// attempts is how often a dump is tried, each time from the member that suits best then.
	attempts = 3
	// attemptPause is the pause between two.
	attemptPause = 10 * time.Second
	// progressEvery is how often progress is written to the object.
	progressEvery = 5 * time.Second
	// snapshotPoll is how often a pod looks whether the operator has finished a snapshot.
	snapshotPoll = 5 * time.Second
	// statusGTIDs and statusMessage bound what the status takes.
	statusGTIDs   = 16384
	statusMessage = 4000
	bytesPerMiB   = 1 << 20
)

// backup takes one backup and reports it in its MySQLBackup.
func (w *worker) backup(ctx context.Context) error {
	b, err := w.claim(ctx)
	if err != nil {
		return err
	}
	if b.Done() {
		return outcome(b)
	}
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		return w.awaitOperator(ctx, b)
	}
	if err := w.begin(ctx, b); err != nil {
		return err
	}
	m, failure := w.dump(ctx, b)
	if failure != nil {
		return w.fail(ctx, b, failure)
	}
	if err := w.complete(ctx, b, m); err != nil {
		return err
	}
	return w.prune(ctx, b)
}

// claim gets the object to work on. A schedule's pod makes it, under the name of its Job: another pod of the same Job
// finds it again.
func (w *worker) claim(ctx context.Context) (*v1alpha1.MySQLBackup, error) {
	b := &v1alpha1.MySQLBackup{}
	key := client.ObjectKey{Namespace: w.task.Namespace, Name: w.task.Backup}
	if w.task.Backup == "" {
		key.Name = w.runner
		fresh := &v1alpha1.MySQLBackup{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: key.Name,
				Labels:      map[string]string{v1alpha1.LabelCluster: w.task.Cluster},
				Annotations: map[string]string{v1alpha1.AnnotationRunner: w.runner},
			},
			Spec: v1alpha1.MySQLBackupSpec{ClusterName: w.task.Cluster, Method: w.task.Method, Schedule: w.task.Schedule, DeletionPolicy: v1alpha1.BackupDeletionRetain},
		}
		if err := w.client.Create(ctx, fresh); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("make the MySQLBackup: %w", err)
		}
	}
	if err := w.client.Get(ctx, key, b); err != nil {
		return nil, fmt.Errorf("read the MySQLBackup: %w", err)
	}
	if b.Spec.ClusterName != w.task.Cluster {
		return nil, fmt.Errorf("%w: MySQLBackup %s is of another cluster", ErrFailed, b.Name)
	}
	return b, nil
}

// outcome is how the pod ends for a backup that has ended.
func outcome(b *v1alpha1.MySQLBackup) error {
	if b.Status.Phase == v1alpha1.BackupCompleted {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrFailed, b.Status.Reason, b.Status.Message)
}

// awaitOperator waits until the operator has taken the snapshot, so that the schedule's next one does not begin before.
func (w *worker) awaitOperator(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	err := wait.PollUntilContextCancel(ctx, snapshotPoll, true, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(b), b)
		if apierrors.IsNotFound(err) {
			return false, fmt.Errorf("%w: MySQLBackup %s was deleted", ErrFailed, b.Name)
		}
		return err == nil && b.Done(), nil
	})
	if err != nil {
		return err
	}
	return outcome(b)
}

// patch changes the object's status.
func (w *worker) patch(ctx context.Context, b *v1alpha1.MySQLBackup, change func(*v1alpha1.MySQLBackupStatus)) error {
	before := b.DeepCopy()
	change(&b.Status)
	if err := w.client.Status().Patch(ctx, b, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report in MySQLBackup %s: %w", b.Name, err)
	}
	return nil
}

// begin says that the backup runs. What an attempt before left behind is removed first: its pod may have been killed.
func (w *worker) begin(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	now := metav1.NewTime(w.clock.Now())
	folder := backup.FolderOf(now.Time, b.Name)
	if b.Status.Path != "" && b.Status.StartedAt != nil {
		if err := w.place.Remove(ctx, w.folder(b)); err != nil {
			return w.fail(ctx, b, err)
		}
	}
	return w.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		*s = v1alpha1.MySQLBackupStatus{
			Phase: v1alpha1.BackupRunning, Message: "choosing a member", Runner: w.runner, ClusterUID: w.task.ClusterUID, StartedAt: &now,
			Path: w.place.Folder(folder), Location: w.place.Store.URL(w.place.Folder(folder)), Destination: w.task.Destination,
			Progress: &v1alpha1.BackupProgress{At: now},
		}
	})
}

// folder is the backup's folder.
func (w *worker) folder(b *v1alpha1.MySQLBackup) string {
	return b.Status.Path[len(w.place.Folder("")):]
}

// dump tries members until one was dumped. Trouble with the store, and with the program, is the same from everywhere.
func (w *worker) dump(ctx context.Context, b *v1alpha1.MySQLBackup) (backup.Manifest, error) {
	var members []backup.Member
	for _, name := range w.task.Members {
		members = append(members, w.member(name, mysql.BackupUser))
	}
	var tried []string
	for attempt := 1; ; attempt++ {
		m, member, err := w.dumpOnce(ctx, b, members, tried)
		if err == nil {
			return m, nil
		}
		w.log.Error(err, "the dump failed", "attempt", attempt, "member", member)
		if attempt == attempts || !worthAnother(err) || ctx.Err() != nil {
			return backup.Manifest{}, err
		}
		tried = append(tried, member)
		if err := w.place.Remove(ctx, w.folder(b)); err != nil {
			return backup.Manifest{}, err
		}
		select {
		case <-ctx.Done():
			return backup.Manifest{}, context.Cause(ctx)
		case <-time.After(attemptPause):
		}
	}
}

func worthAnother(err error) bool {
	for _, final := range []error{store.ErrDenied, store.ErrNoBucket, store.ErrFull, store.ErrUnavailable, backup.ErrStalled} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

func (w *worker) dumpOnce(ctx context.Context, b *v1alpha1.MySQLBackup, members []backup.Member, tried []string) (backup.Manifest, string, error) {
	chosen, err := backup.Choose(ctx, members, tried...)
	if err != nil {
		return backup.Manifest{}, "", err
	}
	w.log.Info("dumping", "member", chosen.Name, "to", b.Status.Location)
	if err := w.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Member, s.Message = chosen.Name, "dumping "+chosen.Name
	}); err != nil {
		return backup.Manifest{}, chosen.Name, err
	}
	told := w.clock.Now()
	m, err := backup.Dump(ctx, backup.DumpOptions{
		Place: w.place, Folder: w.folder(b), Backup: b.Name, Schedule: b.Spec.Schedule,
		Namespace: w.task.Namespace, Cluster: w.task.Cluster, ClusterUID: w.task.ClusterUID,
		Member: chosen, Credentials: credentials(), StallTimeout: w.task.StallTimeout, Clock: w.clock,
		Progress: func(p backup.Progress) {
			if w.clock.Since(told) < progressEvery {
				return
			}
			told = w.clock.Now()
			w.report(ctx, b, p)
		},
	})
	return m, chosen.Name, err
}

// report writes the progress. A failure to write it is no failure of the backup.
func (w *worker) report(ctx context.Context, b *v1alpha1.MySQLBackup, p backup.Progress) {
	if err := w.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Progress = &v1alpha1.BackupProgress{Bytes: p.Bytes, Table: cut(p.Table, 260), At: metav1.NewTime(w.clock.Now())}
		if p.Estimate > 0 {
			s.Progress.Percent = int32(min(p.Bytes*100/p.Estimate, 99)) //nolint:gosec // at most 99
		}
	}); err != nil {
		w.log.Info("the progress was not reported", "error", err.Error())
	}
}

func cut(text string, length int) string {
	if len(text) > length {
		return text[:length]
	}
	return text
}

// complete says that the backup is in its place.
func (w *worker) complete(ctx context.Context, b *v1alpha1.MySQLBackup, m backup.Manifest) error {
	at := metav1.NewTime(m.CompletedAt)
	took := m.CompletedAt.Sub(m.StartedAt)
	stored := m.Dump.Stored() + m.Accounts.Stored()
	return w.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Phase, s.Reason, s.Message, s.Progress = v1alpha1.BackupCompleted, "", "", nil
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

// fail takes back what was written and says why the backup failed. A pod that is being ended leaves the rest to the next
// one of its Job.
func (w *worker) fail(ctx context.Context, b *v1alpha1.MySQLBackup, failure error) error {
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if b.Status.Path != "" {
		if err := w.place.Remove(ctx, w.folder(b)); err != nil {
			w.log.Info("what was written could not be removed", "error", err.Error())
		}
	}
	if ended {
		return failure
	}
	if err := w.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Phase, s.Reason, s.Message, s.Progress = v1alpha1.BackupFailed, reasonOf(failure), cut(failure.Error(), statusMessage), nil
		at := metav1.NewTime(w.clock.Now())
		s.CompletedAt = &at
	}); err != nil {
		return errors.Join(failure, err)
	}
	return fmt.Errorf("%w: %w", ErrFailed, failure)
}

// prune deletes what the schedule no longer keeps. That it could not is no failure of the backup.
func (w *worker) prune(ctx context.Context, b *v1alpha1.MySQLBackup) error {
	if b.Spec.Schedule == "" || w.task.Keep == 0 && w.task.KeepFor == 0 {
		return nil
	}
	pruned, err := w.place.Prune(ctx, b.Spec.Schedule, backup.Retention{Count: w.task.Keep, MaxAge: w.task.KeepFor}, w.clock.Now())
	if err != nil {
		w.log.Error(err, "old backups were not all deleted")
	}
	if len(pruned) == 0 && err == nil {
		return nil
	}
	return w.patch(ctx, b, func(s *v1alpha1.MySQLBackupStatus) {
		s.Pruned = pruned
		if err != nil {
			s.Message = cut("old backups were not all deleted: "+err.Error(), statusMessage)
		}
	})
}

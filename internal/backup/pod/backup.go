package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

const (
	// attempts is how often a dump is tried, each time from the member that suits best then.
	attempts = 3
	// maxLag is how far behind a replica may be that is dumped: a backup of what was long ago is not what its name says.
	maxLag = time.Hour
	// attemptPause is the pause between two: what made a member restart may pass meanwhile.
	attemptPause = 10 * time.Second
	// progressEvery is how often progress is written to the object.
	progressEvery = 5 * time.Second
	// snapshotPoll is how often a pod looks whether the operator has finished a snapshot.
	snapshotPoll = 5 * time.Second
	// garbagePercent is by how much the heap may grow before it is collected, in percent. A dump holds a few large buffers
	// for long and makes little garbage: at Go's own 100 the heap would become twice as large for nothing.
	garbagePercent = 20
)

// backup takes one backup and reports it in its MySQLBackup.
func (w *worker) backup(ctx context.Context) error {
	b, err := w.claim(ctx)
	if err != nil {
		return err
	}
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		return w.awaitOperator(ctx, b)
	}
	if b.Done() {
		// The pod before this one may have been lost before it was done with what the new backup made superfluous.
		return errors.Join(outcome(b), w.resume(b).prune(ctx))
	}
	a, finished, err := w.begin(ctx, b)
	if err != nil {
		return err
	}
	if finished == nil {
		m, failure := a.dump(ctx)
		if failure != nil {
			return a.fail(ctx, failure)
		}
		finished = &m
	}
	if err := a.complete(ctx, *finished); err != nil {
		return err
	}
	return a.prune(ctx)
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
	switch {
	case b.Spec.ClusterName != w.task.Cluster:
		return nil, fmt.Errorf("%w: MySQLBackup %s is of another cluster", ErrFailed, b.Name)
	case w.task.Backup == "" && (b.Annotations[v1alpha1.AnnotationRunner] != w.runner || b.Spec.Schedule != w.task.Schedule):
		return nil, fmt.Errorf("%w: MySQLBackup %s was not made by this Job", ErrFailed, b.Name)
	case b.Status.Runner != "" && b.Status.Runner != w.runner:
		return nil, fmt.Errorf("%w: MySQLBackup %s is the work of Job %s", ErrFailed, b.Name, b.Status.Runner)
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

// dump tries members until one was dumped: what one that is sick does not give, another may. Trouble with the store is the same
// from everywhere.
func (a *attempt) dump(ctx context.Context) (backup.Manifest, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var members []backup.Member
	for _, name := range a.w.task.Members {
		members = append(members, a.w.reach(name, mysql.BackupUser))
	}
	tried := map[string]error{}
	var before error // what came of the last attempt that had a member
	for try := 1; ; try++ {
		m, member, err := a.dumpOnce(ctx, giveUp, members, tried, before)
		if err == nil {
			return m, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return backup.Manifest{}, cause
		}
		switch {
		case !errors.Is(err, backup.ErrNoMember):
			before = err
		case before != nil:
			err = fmt.Errorf("%w; the attempt before: %w", err, before)
		}
		a.w.log.Error(err, "the dump failed", "attempt", try, "member", member)
		if try == attempts || !worthAnother(err) {
			return backup.Manifest{}, err
		}
		tried[member] = err
		if err := a.again(ctx, member, err); err != nil {
			return backup.Manifest{}, err
		}
		if err := a.w.place.Remove(ctx, a.folder); err != nil {
			return backup.Manifest{}, err
		}
		select {
		case <-ctx.Done():
			return backup.Manifest{}, context.Cause(ctx)
		case <-time.After(a.w.attemptPause):
		}
	}
}

// noting is a store that notes whether it may hold something.
type noting struct {
	store.Store
	stored *atomic.Bool
}

func (n noting) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	written, err := n.Store.Put(ctx, key, r)
	if !refused(err) {
		n.stored.Store(true)
	}
	return written, err
}

func (n noting) Create(ctx context.Context, key string, r io.Reader) error {
	err := n.Store.Create(ctx, key, r)
	if !refused(err) {
		n.stored.Store(true)
	}
	return err
}

// again says that another attempt follows. It is a sign of life too: one that stood still was silent for as long as it may be.
func (a *attempt) again(ctx context.Context, member string, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := a.write(ctx, v1alpha1.BackupRunning, func(s *v1alpha1.MySQLBackupStatus) {
		s.Message = text.Shorten(fmt.Sprintf("it is tried again: %v", failure), statusMessage)
		s.Progress = &v1alpha1.BackupProgress{At: metav1.NewTime(a.w.clock.Now())}
	})
	if errors.Is(err, errNotOurs) {
		return err
	}
	if err != nil {
		a.w.log.Info("that it is tried again was not reported", "member", member, "error", err.Error())
	}
	return nil
}

func worthAnother(err error) bool {
	final := []error{errNotOurs, store.ErrDenied, store.ErrNoBucket, store.ErrFull, store.ErrUnavailable, backup.ErrStalled}
	return backup.Sick(err) || errors.Is(err, mysql.ErrBlocked) || !slices.ContainsFunc(final, func(f error) bool { return errors.Is(err, f) })
}

// required is what the backup is to hold so that the archive can begin with it; empty for any other.
func (w *worker) required() gtid.Set {
	set, err := gtid.Parse(w.task.Required)
	if err != nil {
		w.log.Error(err, "what the backup is to hold cannot be read")
	}
	return set
}

func (a *attempt) dumpOnce(ctx context.Context, giveUp context.CancelCauseFunc, members []backup.Member, tried map[string]error, before error) (backup.Manifest, string, error) {
	w := a.w
	chosen, err := backup.Choose(ctx, members, maxLag, w.required(), tried)
	if err != nil {
		return backup.Manifest{}, "", err
	}
	w.log.Info("dumping", "member", chosen.Name, "to", a.b.Status.Location)
	if err := a.write(ctx, v1alpha1.BackupRunning, func(s *v1alpha1.MySQLBackupStatus) {
		s.Member, s.Message = chosen.Name, "dumping "+chosen.Name
		if before != nil {
			s.Message = text.Shorten(fmt.Sprintf("%s, because an attempt before failed: %v", s.Message, before), statusMessage)
		}
	}); err != nil {
		return backup.Manifest{}, chosen.Name, err
	}
	told, place := w.clock.Now(), w.place
	place.Store = noting{place.Store, &a.stored}
	m, err := backup.Dump(ctx, backup.DumpOptions{
		Place: place, Folder: a.folder, Backup: a.b.Name, Schedule: a.b.Spec.Schedule, Base: w.task.Base,
		Namespace: w.task.Namespace, Cluster: w.task.Cluster, ClusterUID: w.task.ClusterUID,
		Member: chosen, Credentials: w.credentials, Program: w.program, StallTimeout: w.task.StallTimeout, Clock: w.clock,
		Progress: func(p backup.Progress) {
			if w.clock.Since(told) < progressEvery {
				return
			}
			told = w.clock.Now()
			if err := a.report(ctx, p); errors.Is(err, errNotOurs) {
				giveUp(err)
			}
		},
		Confirm: a.confirm,
	})
	return m, chosen.Name, err
}

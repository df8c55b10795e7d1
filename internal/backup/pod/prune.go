package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// prune deletes what the schedule no longer keeps, once all that is known of verifications is in the folders. That it could not is no failure
// of the backup.
func (a *attempt) prune(ctx context.Context) error {
	w := a.w
	if a.b.Status.Phase != v1alpha1.BackupCompleted {
		return nil
	}
	err := w.recordVerdicts(ctx)
	if a.b.Spec.Schedule == "" || w.task.Keep == 0 && w.task.KeepFor == 0 {
		if err != nil {
			w.log.Error(err, "earlier verifications were not all recorded in the backups' folders")
		}
		return nil
	}
	unfinished := w.place.FinishRemovals(ctx, w.clock.Now())
	var surplus []backup.Surplus
	if err == nil {
		surplus, err = a.surplus(ctx)
	}
	if err == nil {
		surplus, err = w.unused(ctx, surplus)
	}
	if len(surplus) > 0 && err == nil {
		surplus = surplus[max(0, len(surplus)-statusPruned):] // the oldest first; the rest after the next backup
		// The operator is told before: an object whose data are gone must never stay for a backup.
		if err := a.write(ctx, v1alpha1.BackupCompleted, func(s *v1alpha1.MySQLBackupStatus) { s.Pruned = named(s.Pruned, surplus) }); err != nil {
			return err
		}
		for _, s := range surplus {
			err = errors.Join(err, w.place.RemoveUnused(ctx, s.Folder, w.clock.Now()))
		}
	}
	if err = errors.Join(unfinished, err); err == nil {
		return nil
	}
	w.log.Error(err, "old backups were not all deleted")
	return a.write(ctx, v1alpha1.BackupCompleted, func(s *v1alpha1.MySQLBackupStatus) {
		s.Message = text.Shorten("old backups were not all deleted: "+err.Error(), statusMessage)
	})
}

// recordVerdicts writes the results of verifications that are only in the status of MySQLBackups into the backups' folders, where retention,
// restores and the archive look for them: earlier versions of the operator wrote them nowhere else.
func (w *worker) recordVerdicts(ctx context.Context) error {
	for found, err := range w.place.Backups().NewestFirst(ctx) {
		if err != nil {
			return err
		}
		if found.Standing != backup.Complete {
			continue // damaged, or the folder says what a verification found
		}
		if err := w.recordVerdict(ctx, found.Folder); err != nil {
			return err
		}
	}
	return nil
}

// recordVerdict does so for one backup.
func (w *worker) recordVerdict(ctx context.Context, folder string) error {
	var b v1alpha1.MySQLBackup
	err := w.client.Get(ctx, client.ObjectKey{Namespace: w.task.Namespace, Name: backup.NameIn(folder)}, &b)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read MySQLBackup %s: %w", backup.NameIn(folder), err)
	case b.Status.Path != w.place.Folder(folder):
		return nil // it is of another folder
	case b.Refuted():
		v := b.Status.Verification
		return w.place.RecordVerdict(ctx, folder, fmt.Errorf("%w: %s", backup.ErrCorrupt, v.Message), v.At.Time)
	case b.Status.VerifiedAt != nil:
		return w.place.RecordVerdict(ctx, folder, nil, b.Status.VerifiedAt.Time)
	}
	return nil
}

// surplus lists what the schedule no longer keeps.
func (a *attempt) surplus(ctx context.Context) ([]backup.Surplus, error) {
	w := a.w
	pruning := backup.Pruning{Schedule: a.b.Spec.Schedule, Retention: backup.Retention{Count: w.task.Keep, MaxAge: w.task.KeepFor}, Bases: w.task.Bases, Now: w.clock.Now()}
	required, archived, err := archive.Folder{Place: w.place}.Required(ctx)
	if err != nil {
		return nil, err
	}
	if archived {
		pruning.Required = &required
	}
	return w.place.Surplus(ctx, pruning)
}

// unused leaves out what somebody restores from, or verifies: its turn comes after the next backup.
func (w *worker) unused(ctx context.Context, surplus []backup.Surplus) ([]backup.Surplus, error) {
	var free []backup.Surplus
	for _, s := range surplus {
		switch err := w.place.Unused(ctx, s.Folder, w.clock.Now()); {
		case errors.Is(err, backup.ErrInUse):
			w.log.Info("an old backup is kept, because it is in use", "backup", s.Backup)
		case err != nil:
			return nil, err
		default:
			free = append(free, s)
		}
	}
	return free, nil
}

// named adds the names of MySQLBackups to those that a pod before this one named.
func named(names []string, surplus []backup.Surplus) []string {
	names = slices.Clone(names)
	for _, s := range surplus {
		if !slices.Contains(names, s.Backup) {
			names = append(names, s.Backup)
		}
	}
	return names[max(0, len(names)-statusPruned):]
}

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// prune deletes what the schedule no longer keeps, once folders and MySQLBackups were compared. That it could not is no failure
// of the backup.
func (a *attempt) prune(ctx context.Context) error {
	w := a.w
	if a.b.Status.Phase != v1alpha1.BackupCompleted {
		return nil
	}
	err := w.compare(ctx)
	if a.b.Spec.Schedule == "" || w.task.Keep == 0 && w.task.KeepFor == 0 {
		if err != nil {
			w.log.Error(err, "earlier backups were not all compared with what is stored of them")
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

// compare brings together what the store holds of the cluster's dumps and what their MySQLBackups say. A status gets to know since when its
// dump is not whole any more, whoever deleted objects of it; nobody else looks at one again that is not the newest. The folder gets the result
// of a verification that only the status has, for retention, restores and the archive, which look there: earlier versions of the operator
// wrote it nowhere else.
func (w *worker) compare(ctx context.Context) error {
	// In this order: a dump is stored whole before its status calls it completed.
	var list v1alpha1.MySQLBackupList
	if err := w.client.List(ctx, &list, client.InNamespace(w.task.Namespace)); err != nil {
		return fmt.Errorf("list the MySQLBackups: %w", err)
	}
	stored := map[string]backup.Stored{} // by path; what is not there counts as damaged
	for found, err := range w.place.Backups().NewestFirst(ctx) {
		if err != nil {
			return err
		}
		stored[w.place.Folder(found.Folder)] = found
	}
	var errs error
	for i := range list.Items {
		if b := &list.Items[i]; w.wrote(b) {
			found := stored[b.Status.Path]
			vanished, err := w.vanished(ctx, b, found)
			if err == nil {
				err = errors.Join(w.recordVanished(ctx, b, vanished), w.recordVerdict(ctx, b, found))
			}
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// wrote says whether a MySQLBackup is a completed dump of the cluster at the place that the pod knows.
func (w *worker) wrote(b *v1alpha1.MySQLBackup) bool {
	_, here := w.place.FolderAt(b.Status.Path, b.Name)
	return here && b.Spec.ClusterName == w.task.Cluster && b.Spec.Method == v1alpha1.BackupMethodDump && b.Status.Phase == v1alpha1.BackupCompleted &&
		b.DeletionTimestamp.IsZero() && w.task.Destination.SamePlace(b.Status.Destination)
}

// vanished says whether a dump is not whole. It is looked at by itself then: a store's list may be older than its objects.
func (w *worker) vanished(ctx context.Context, b *v1alpha1.MySQLBackup, found backup.Stored) (bool, error) {
	if found.Standing != backup.Damaged {
		return false, nil
	}
	folder, _ := w.place.FolderAt(b.Status.Path, b.Name)
	_, err := w.place.Finished(ctx, folder)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, backup.ErrCorrupt) {
		return true, nil
	}
	return false, err
}

// recordVanished writes into a status since when the dump is not whole any more, and removes that of one that is whole again.
func (w *worker) recordVanished(ctx context.Context, b *v1alpha1.MySQLBackup, vanished bool) error {
	if vanished == (b.Status.VanishedAt != nil) {
		return nil
	}
	before := b.DeepCopy()
	b.Status.VanishedAt = nil
	if vanished {
		now := metav1.NewTime(w.clock.Now())
		b.Status.VanishedAt = &now
		w.log.Info("objects of a backup are missing", "backup", b.Name, "location", b.Status.Location)
	}
	if err := w.client.Status().Patch(ctx, b, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report in MySQLBackup %s: %w", b.Name, err)
	}
	return nil
}

// recordVerdict writes the result of a verification that only the status has into the folder of a dump that is complete.
func (w *worker) recordVerdict(ctx context.Context, b *v1alpha1.MySQLBackup, found backup.Stored) error {
	switch {
	case found.Standing != backup.Complete:
		return nil // damaged, or the folder says what a verification found
	case b.Refuted():
		v := b.Status.Verification
		return w.place.RecordVerdict(ctx, found.Folder, fmt.Errorf("%w: %s", backup.ErrCorrupt, v.Message), v.At.Time)
	case b.Status.VerifiedAt != nil:
		return w.place.RecordVerdict(ctx, found.Folder, nil, b.Status.VerifiedAt.Time)
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

package backups

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// PruneFailed deletes MySQLBackups that failed, but for the newest of each schedule: a schedule that fails every hour would
// otherwise fill the namespace. One that may have left data stays until those are removed.
func (r *Backups) PruneFailed(ctx context.Context, s *pass.Pass) error {
	limit := s.Cluster.Spec.Backup.EffectiveFailedHistory()
	kept := map[string]int{}
	var errs error
	for i := range s.Backup.All { // the newest first
		b := &s.Backup.All[i]
		maker := makerOf(b)
		if b.Status.Phase != v1alpha1.BackupFailed || !b.DeletionTimestamp.IsZero() || maker == "" {
			continue
		}
		if kept[maker]++; kept[maker] <= limit || LeavesData(b) || mayComplete(s, b) {
			continue
		}
		if err := r.Client.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}); client.IgnoreNotFound(err) != nil {
			errs = errors.Join(errs, fmt.Errorf("delete MySQLBackup %s, which failed: %w", b.Name, err))
		}
	}
	return errs
}

// makerOf is what made a backup: a schedule, or the archive of binary logs; "" for a person.
func makerOf(b *v1alpha1.MySQLBackup) string {
	if isBase(b) {
		return resources.ComponentArchive + "/" // no schedule can have that name
	}
	return b.Spec.Schedule
}

// isBase says whether the operator took a backup for the archive of binary logs to begin with.
func isBase(b *v1alpha1.MySQLBackup) bool {
	return b.Labels[v1alpha1.LabelComponent] == resources.ComponentArchive
}

// LeavesData says whether a backup that failed may have left something in the store that is not removed yet. A pod that ended by
// itself has taken back what it wrote and says so by an empty path, unless the store did not let it.
func LeavesData(b *v1alpha1.MySQLBackup) bool {
	return b.Spec.Method == v1alpha1.BackupMethodDump && b.Status.Path != ""
}

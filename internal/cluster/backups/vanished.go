package backups

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// snapshotShown is how long after its completion a snapshot may be missing in EC2's lists before it is taken for gone.
const snapshotShown = 10 * time.Minute

// recordVanished writes into the status of a completed backup since when EC2 has not shown its snapshot, and removes that once EC2 shows it
// again.
func (r *Snapshots) recordVanished(ctx context.Context, s *pass.Pass, b *v1alpha1.MySQLBackup) error {
	vanished, known := hasVanished(s, b)
	if !known || vanished == (b.Status.VanishedAt != nil) {
		return nil
	}
	return patchBackup(ctx, r.Client, b, func(st *v1alpha1.MySQLBackupStatus) {
		st.VanishedAt = nil
		if vanished {
			now := metav1.NewTime(r.Clock.Now())
			st.VanishedAt = &now
		}
	})
}

// hasVanished says whether EC2 has the snapshot of a completed backup no more, with the tags that a restore asks for. It is not known of a
// backup that is not completed, and while EC2 does not answer the list of snapshots.
func hasVanished(s *pass.Pass, b *v1alpha1.MySQLBackup) (vanished, known bool) {
	if b.Status.Phase != v1alpha1.BackupCompleted || b.Status.CompletedAt == nil {
		return false, false
	}
	if _, shown := s.SnapshotOf(b); shown {
		return false, true
	}
	vanished = s.SnapshotsListed(b.Status.CompletedAt.Add(snapshotShown))
	return vanished, vanished
}

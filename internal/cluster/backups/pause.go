package backups

import (
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/window"
)

// BackupsPaused says whether no backup is due: the cluster hibernates, is being restored, or somebody suspended them. After that they go on
// only when there is a primary again, because Kubernetes then starts at once what was missed.
func BackupsPaused(s *pass.Pass) bool {
	if s.Cluster.Spec.Hibernate || s.Cluster.Spec.Backup.Suspend || s.Recovering() {
		return true
	}
	known := s.Cluster.Status.Backup
	return (known == nil && s.Backup.Suspended || known != nil && known.PausedSince != nil) && !s.HasWritable()
}

// VerificationPaused says whether no verification is due. After a pause it goes on when the dumps are made that were missed, or a day
// later, so that it does not find what is of before.
func (r *Backups) VerificationPaused(s *pass.Pass) bool {
	known := s.Cluster.Status.Backup
	return BackupsPaused(s) || known != nil && known.PausedSince != nil || r.resumedWithin(s, MakeUpLimit) && r.missesDump(s)
}

// resumedWithin says whether backups went on not longer ago than that, after they had been paused.
func (r *Backups) resumedWithin(s *pass.Pass, d time.Duration) bool {
	known := s.Cluster.Status.Backup
	return known != nil && known.ResumedAt != nil && r.Clock.Since(known.ResumedAt.Time) < d
}

// missesDump says whether a schedule of dumps has no good one of its last slot.
func (r *Backups) missesDump(s *pass.Pass) bool {
	return slices.ContainsFunc(s.Cluster.Spec.Backup.Schedules, func(schedule v1alpha1.BackupSchedule) bool {
		since, known := s.Backup.Schedules[resources.ScheduleName(s.Cluster.Name, schedule.Name)]
		if schedule.Method == v1alpha1.BackupMethodSnapshot || !known {
			return false
		}
		when, err := window.Schedule(string(schedule.Cron), string(schedule.TimeZone))
		return err == nil && !when.Next(newestGood(s, schedule.Name, since)).After(r.Clock.Now())
	})
}

// MakeUpLimit is how long after a pause what was missed may take to be made up.
const MakeUpLimit = 24 * time.Hour

// isDump says whether a backup is a good dump.
func isDump(b v1alpha1.MySQLBackup) bool {
	return b.Spec.Method != v1alpha1.BackupMethodSnapshot && b.Good()
}

// OverdueGrace is how much longer than its schedule a backup may take before it counts as overdue.
const OverdueGrace = 2 * time.Hour

// newestGood is when the newest good backup of a schedule was begun, or since where that is later.
func newestGood(s *pass.Pass, schedule string, since time.Time) time.Time {
	for _, b := range s.Backup.All {
		if b.Spec.Schedule == schedule && b.Good() && b.CreationTimestamp.After(since) {
			since = b.CreationTimestamp.Time
		}
	}
	return since
}

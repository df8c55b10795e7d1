package controllers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// overdueGrace is how much longer than its schedule a backup may take before it counts as overdue.
const overdueGrace = 2 * time.Hour

// makeUpLimit is how long after a pause what was missed may take to be made up.
const makeUpLimit = 24 * time.Hour

// withoutNamespace says why nothing is backed up any more.
const withoutNamespace = "the namespace is being deleted, in which Kubernetes makes nothing new: no backup is taken any more. Delete the cluster with a final snapshot, or move what it holds to a cluster in another namespace"

// projectBackups tells in the status what backups there are, and whether they are as the spec promises.
func (r *backups) projectBackups(s *pass, c conditions) {
	st := &s.cluster.Status
	defer r.archive.projectArchive(s, c)
	if s.cluster.Spec.Backup == nil || s.deleting() {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionBackupHealthy)
		if s.cluster.Spec.Backup == nil {
			st.Backup = nil
			r.Metrics.forgetBackups(prometheus.Labels{"namespace": s.cluster.Namespace, "cluster": s.cluster.Name})
		}
		return
	}
	if !s.backup.known {
		projectUnread(s, c)
		return
	}
	summary := summarise(slices.DeleteFunc(slices.Clone(s.backup.all), func(b v1alpha1.MySQLBackup) bool { return vanished(s, b) }))
	r.projectPause(s, summary)
	st.Backup = summary
	verified := projectVerification(s, summary)
	if summary.PausedSince != nil && !s.cluster.Spec.Backup.Suspend {
		r.Metrics.pauseBackups(s.cluster)
	} else {
		r.Metrics.backups(s.cluster, summary, verified == v1alpha1.VerificationFailed)
	}
	failed, unverified := failedBackup(s), r.verificationOverdue(s)
	late, overdue := r.overdue(s)
	newest := "; the newest is " + cmp.Or(summary.LastGood, "none")
	switch {
	case s.cluster.Spec.Hibernate:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonHibernated,
			"the cluster hibernates: no backup is due until it wakes"+newest)
	case s.backup.credentialsMissing != "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonCredentialsMissing, s.backup.credentialsMissing)
	case failed != nil && failed.Status.Phase == v1alpha1.BackupCompleted:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupVanished,
			fmt.Sprintf("EC2 has no snapshot for %s any more, which was completed as %s: it was deleted, or lost its tags", failed.Name, failed.Status.SnapshotID))
	case failed != nil:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed,
			fmt.Sprintf("%s failed: %s: %s", failed.Name, failed.Status.Reason, failed.Status.Message))
	case overdue != "" && !r.resumedWithin(s, overdueGrace) && !r.makesUp(s, late):
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupOverdue, overdue)
	case verified == v1alpha1.VerificationFailed:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonVerificationFailed, strings.TrimSpace(
			fmt.Sprintf("verification of %s failed at %s: %s: %s", verifiedBackup(s), s.backup.verification[task.ReportAt], s.backup.verification[task.ReportReason], s.backup.verification[task.ReportMessage])))
	case unverified != "" && !r.verificationYoung(s):
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonVerificationOverdue, unverified)
	case summary.PausedSince != nil && s.cluster.Spec.Backup.Suspend:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonBackupsPaused, "spec.backup.suspend is set: no backup is due"+newest)
	case summary.PausedSince != nil:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonBackupsPaused, "backups go on when the cluster has a primary again"+newest)
	case overdue != "" || unverified != "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonBackupDue,
			"what was missed during a pause is made up now: "+cmp.Or(overdue, unverified))
	case summary.LastGood == "" && slices.ContainsFunc(s.backup.all, func(b v1alpha1.MySQLBackup) bool { return vanished(s, b) }):
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupVanished, "no backup is left: the snapshots of all that were taken were deleted in EC2, or lost their tags")
	case summary.LastGood == "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonNoBackupYet, "no backup has been taken yet")
	default:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "the newest backup is "+summary.LastGood)
	}
}

// projectUnread tells of backups that were not read in this pass what is known without: in a namespace that goes there are no more.
func projectUnread(s *pass, c conditions) {
	if s.keys.leaving {
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonDeletionProtected, withoutNamespace)
	}
}

// projectVerification tells what the last verification found, "" when there was none.
func projectVerification(s *pass, summary *v1alpha1.BackupSummary) v1alpha1.VerificationResult {
	if s.cluster.Spec.Backup.Verification == nil || s.backup.verification[task.ReportAt] == "" {
		return ""
	}
	if at, err := time.Parse(time.RFC3339, s.backup.verification[task.ReportPassedAt]); err == nil {
		moment := metav1.NewTime(at)
		summary.LastVerified, summary.LastVerifiedAt = s.backup.verification[task.ReportPassedBackup], &moment
	}
	return v1alpha1.VerificationResult(s.backup.verification[task.ReportState])
}

// verifiedBackup names what was verified last.
func verifiedBackup(s *pass) string {
	if name := s.backup.verification[task.ReportBackup]; name != "" {
		return name
	}
	return "the newest backup"
}

// verificationOverdue says that two verifications in a row did not end in any way, or returns "".
func (r *backups) verificationOverdue(s *pass) string {
	v := s.cluster.Spec.Backup.Verification
	since, known := s.backup.schedules[resources.VerifyName(s.cluster.Name)]
	if v == nil || !known || s.cluster.Status.Backup.PausedSince != nil {
		return ""
	}
	if at, err := time.Parse(time.RFC3339, s.backup.verification[task.ReportAt]); err == nil && at.After(since) {
		since = at
	}
	if r.missedTwo(v.Cron, v.TimeZone, since) {
		return "no backup was verified since " + since.UTC().Format(time.RFC3339)
	}
	return ""
}

// backupsPaused says whether no backup is due: the cluster hibernates, or somebody suspended them. After that they go on only when
// there is a primary again, because Kubernetes then starts at once what was missed.
func backupsPaused(s *pass) bool {
	if s.cluster.Spec.Hibernate || s.cluster.Spec.Backup.Suspend {
		return true
	}
	known := s.cluster.Status.Backup
	return (known == nil && s.backup.suspended || known != nil && known.PausedSince != nil) && !hasWritable(s)
}

// verificationPaused says whether no verification is due. After a pause it goes on when the dumps are made that were missed, or a day
// later, so that it does not find what is of before.
func (r *backups) verificationPaused(s *pass) bool {
	known := s.cluster.Status.Backup
	return backupsPaused(s) || known != nil && known.PausedSince != nil || r.resumedWithin(s, makeUpLimit) && r.missesDump(s)
}

// verificationYoung says whether the verification goes on after a pause only now, or yet has to.
func (r *backups) verificationYoung(s *pass) bool {
	if r.verificationPaused(s) || r.resumedWithin(s, 2*overdueGrace) {
		return true
	}
	resumed := s.cluster.Status.Backup.ResumedAt
	return resumed != nil && slices.ContainsFunc(s.backup.all, func(b v1alpha1.MySQLBackup) bool {
		return isDump(b) && !b.CreationTimestamp.Time.Before(resumed.Time) && b.Status.CompletedAt != nil && r.Clock.Since(b.Status.CompletedAt.Time) < 2*overdueGrace
	})
}

// missesDump says whether a schedule of dumps has no good one of its last slot.
func (r *backups) missesDump(s *pass) bool {
	return slices.ContainsFunc(s.cluster.Spec.Backup.Schedules, func(schedule v1alpha1.BackupSchedule) bool {
		since, known := s.backup.schedules[resources.ScheduleName(s.cluster.Name, schedule.Name)]
		if schedule.Method == v1alpha1.BackupMethodSnapshot || !known {
			return false
		}
		when, err := parseCron(schedule.Cron, schedule.TimeZone)
		return err == nil && !when.Next(newestGood(s, schedule.Name, since)).After(r.Clock.Now())
	})
}

// newestGood is when the newest good backup of a schedule was begun, or since where that is later.
func newestGood(s *pass, schedule string, since time.Time) time.Time {
	for _, b := range s.backup.all {
		if b.Spec.Schedule == schedule && b.Status.Phase == v1alpha1.BackupCompleted && b.CreationTimestamp.After(since) {
			since = b.CreationTimestamp.Time
		}
	}
	return since
}

// isDump says whether a backup is a good dump.
func isDump(b v1alpha1.MySQLBackup) bool {
	return b.Spec.Method != v1alpha1.BackupMethodSnapshot && b.Status.Phase == v1alpha1.BackupCompleted
}

// makesUp says whether a backup of a schedule is being made that was begun since backups went on after a pause.
func (r *backups) makesUp(s *pass, schedule string) bool {
	return r.resumedWithin(s, makeUpLimit) && slices.ContainsFunc(s.backup.all, func(b v1alpha1.MySQLBackup) bool {
		return b.Spec.Schedule == schedule && !b.Done() && b.DeletionTimestamp.IsZero() && !b.CreationTimestamp.Time.Before(s.cluster.Status.Backup.ResumedAt.Time)
	})
}

// hasWritable says whether the primary takes writes.
func hasWritable(s *pass) bool {
	m := s.observed.Members[s.plan.Primary]
	return m != nil && m.SQL.Access == topology.AccessVerified && m.SQL.Writable
}

// projectPause tells since when backups have been paused, or when they last went on.
func (r *backups) projectPause(s *pass, summary *v1alpha1.BackupSummary) {
	var since *metav1.Time
	if known := s.cluster.Status.Backup; known != nil {
		since, summary.ResumedAt = known.PausedSince, known.ResumedAt
	}
	now := metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	switch paused := backupsPaused(s); {
	case paused && since == nil:
		summary.PausedSince = &now
	case paused:
		summary.PausedSince = since
	case since != nil:
		summary.ResumedAt = &now
	}
}

// resumedWithin says whether backups went on not longer ago than that, after they had been paused.
func (r *backups) resumedWithin(s *pass, d time.Duration) bool {
	known := s.cluster.Status.Backup
	return known != nil && known.ResumedAt != nil && r.Clock.Since(known.ResumedAt.Time) < d
}

// missedTwo says whether what a schedule starts should have happened twice since a moment, and some time ago.
func (r *backups) missedTwo(when v1alpha1.CronExpression, zone v1alpha1.TimeZoneName, since time.Time) bool {
	schedule, err := parseCron(when, zone)
	if err != nil {
		return true // Kubernetes does not understand it either
	}
	due := schedule.Next(since)
	if !due.IsZero() {
		due = schedule.Next(due)
	}
	return due.IsZero() || r.Clock.Now().After(due.Add(overdueGrace))
}

func parseCron(when v1alpha1.CronExpression, zone v1alpha1.TimeZoneName) (cron.Schedule, error) {
	return cron.ParseStandard("CRON_TZ=" + string(zone) + " " + string(when))
}

// ended says whether a backup has an outcome that counts.
func ended(b *v1alpha1.MySQLBackup) bool { return b.Done() && b.DeletionTimestamp.IsZero() }

// summarise finds the newest good and the newest failed backup. The list is newest first.
func summarise(backups []v1alpha1.MySQLBackup) *v1alpha1.BackupSummary {
	summary := &v1alpha1.BackupSummary{}
	for i := range backups {
		b := &backups[i]
		switch {
		case !ended(b):
		case b.Status.Phase == v1alpha1.BackupFailed && summary.LastFailed == "":
			summary.LastFailed, summary.LastFailedAt = b.Name, b.Status.CompletedAt
		case b.Status.Phase == v1alpha1.BackupCompleted && summary.LastGood == "":
			summary.LastGood, summary.LastGoodAt = b.Name, b.Status.CompletedAt
		}
	}
	return summary
}

// vanished says whether a backup was a good snapshot that EC2 shows no more.
func vanished(s *pass, b v1alpha1.MySQLBackup) bool {
	if b.Spec.Method != v1alpha1.BackupMethodSnapshot || b.Status.Phase != v1alpha1.BackupCompleted || b.Status.CompletedAt == nil || !s.observed.CloudReachable {
		return false
	}
	_, shown := s.snapshotOf(&b)
	return !shown && s.seen.inventory.Taken.Sub(b.Status.CompletedAt.Time) > snapshotShown
}

// failedBackup is the newest of a schedule, when that failed or vanished: what another schedule does well does not make it good. One
// that a person asked for counts while it is the newest of all. It is nil when there is none.
func failedBackup(s *pass) *v1alpha1.MySQLBackup {
	isOf := func(schedule string) func(v1alpha1.MySQLBackup) bool {
		return func(b v1alpha1.MySQLBackup) bool { return ended(&b) && b.Spec.Schedule == schedule }
	}
	var newest []int
	for _, schedule := range s.cluster.Spec.Backup.Schedules {
		newest = append(newest, slices.IndexFunc(s.backup.all, isOf(schedule.Name)))
	}
	last := slices.IndexFunc(s.backup.all, func(b v1alpha1.MySQLBackup) bool { return ended(&b) })
	if last >= 0 && s.backup.all[last].Spec.Schedule == "" {
		newest = append(newest, last)
	}
	for _, i := range newest {
		if i >= 0 && (s.backup.all[i].Status.Phase == v1alpha1.BackupFailed || vanished(s, s.backup.all[i])) {
			return &s.backup.all[i]
		}
	}
	return nil
}

// overdue names the first schedule that has missed two backups in a row, and says so, or returns "".
func (r *backups) overdue(s *pass) (late, text string) {
	if s.cluster.Status.Backup.PausedSince != nil {
		return "", ""
	}
	for _, schedule := range s.cluster.Spec.Backup.Schedules {
		since, known := s.backup.schedules[resources.ScheduleName(s.cluster.Name, schedule.Name)]
		if !known {
			continue // the CronJob could not be made, which is told elsewhere
		}
		since = newestGood(s, schedule.Name, since)
		if r.missedTwo(schedule.Cron, schedule.TimeZone, since) {
			return schedule.Name, fmt.Sprintf("schedule %s has had no good backup since %s", schedule.Name, since.UTC().Format(time.RFC3339))
		}
	}
	return "", ""
}

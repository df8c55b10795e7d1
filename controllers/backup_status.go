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
)

// overdueGrace is how much longer than its schedule a backup may take before it counts as overdue.
const overdueGrace = 2 * time.Hour

// projectBackups tells in the status what backups there are, and whether they are as the spec promises.
func (r *MySQLClusterReconciler) projectBackups(s *scope, c conditions) {
	st := &s.cluster.Status
	defer r.projectArchive(s, c)
	if s.cluster.Spec.Backup == nil || s.deleting() {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionBackupHealthy)
		if s.cluster.Spec.Backup == nil {
			st.Backup = nil
			r.Metrics.forgetBackups(prometheus.Labels{"namespace": s.cluster.Namespace, "cluster": s.cluster.Name})
		}
		return
	}
	if !s.backupsKnown {
		return
	}
	summary := summarise(slices.DeleteFunc(slices.Clone(s.backups), s.vanished))
	summary.DueSince = r.dueSince(s)
	st.Backup = summary
	verified := s.projectVerification(summary)
	r.Metrics.backups(s.cluster, summary, verified == v1alpha1.VerificationFailed)
	failed, overdue, unverified := s.failedBackup(), r.overdue(s), r.verificationOverdue(s)
	switch {
	case s.cluster.Spec.Hibernate:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonHibernated,
			"the cluster hibernates: no backup is due until it wakes; the newest is "+cmp.Or(summary.LastGood, "none"))
	case s.credentialsMissing != "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonCredentialsMissing, s.credentialsMissing)
	case failed != nil && failed.Status.Phase == v1alpha1.BackupCompleted:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupVanished,
			fmt.Sprintf("EC2 has no snapshot for %s any more, which was completed as %s: it was deleted, or lost its tags", failed.Name, failed.Status.SnapshotID))
	case failed != nil:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed,
			fmt.Sprintf("%s failed: %s: %s", failed.Name, failed.Status.Reason, failed.Status.Message))
	case overdue != "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonBackupOverdue, overdue)
	case verified == v1alpha1.VerificationFailed:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonVerificationFailed, strings.TrimSpace(
			fmt.Sprintf("verification of %s failed at %s: %s: %s", s.verifiedBackup(), s.verification[task.ReportAt], s.verification[task.ReportReason], s.verification[task.ReportMessage])))
	case unverified != "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonVerificationOverdue, unverified)
	case summary.LastGood == "":
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionUnknown, v1alpha1.ReasonNoBackupYet, "no backup has been taken yet")
	default:
		c.set(v1alpha1.ConditionBackupHealthy, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "the newest backup is "+summary.LastGood)
	}
}

// projectVerification tells what the last verification found, "" when there was none.
func (s *scope) projectVerification(summary *v1alpha1.BackupSummary) v1alpha1.VerificationResult {
	if s.cluster.Spec.Backup.Verification == nil || s.verification[task.ReportAt] == "" {
		return ""
	}
	if at, err := time.Parse(time.RFC3339, s.verification[task.ReportPassedAt]); err == nil {
		moment := metav1.NewTime(at)
		summary.LastVerified, summary.LastVerifiedAt = s.verification[task.ReportPassedBackup], &moment
	}
	return v1alpha1.VerificationResult(s.verification[task.ReportState])
}

// verifiedBackup names what was verified last.
func (s *scope) verifiedBackup() string {
	if name := s.verification[task.ReportBackup]; name != "" {
		return name
	}
	return "the newest backup"
}

// verificationOverdue says that two verifications in a row did not end in any way, or returns "".
func (r *MySQLClusterReconciler) verificationOverdue(s *scope) string {
	v := s.cluster.Spec.Backup.Verification
	since, known := s.schedules[resources.VerifyName(s.cluster.Name)]
	due := s.cluster.Status.Backup.DueSince
	if v == nil || !known || due == nil {
		return ""
	}
	since = later(since, due.Time)
	if at, err := time.Parse(time.RFC3339, s.verification[task.ReportAt]); err == nil && at.After(since) {
		since = at
	}
	if r.missedTwo(v.Cron, v.TimeZone, since) {
		return "no backup was verified since " + since.UTC().Format(time.RFC3339)
	}
	return ""
}

// dueSince is since when backups have been due, nil while none is. It begins anew when the cluster wakes or its schedules go on.
func (r *MySQLClusterReconciler) dueSince(s *scope) *metav1.Time {
	if s.cluster.Spec.Hibernate || s.cluster.Spec.Backup.Suspend {
		return nil
	}
	if known := s.cluster.Status.Backup; known != nil && known.DueSince != nil {
		return known.DueSince
	}
	now := metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	return &now
}

// later is the later one of two moments.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// missedTwo says whether what a schedule starts should have happened twice since a moment, and some time ago.
func (r *MySQLClusterReconciler) missedTwo(when v1alpha1.CronExpression, zone v1alpha1.TimeZoneName, since time.Time) bool {
	schedule, err := cron.ParseStandard("CRON_TZ=" + string(zone) + " " + string(when))
	if err != nil {
		return true // Kubernetes does not understand it either
	}
	due := schedule.Next(since)
	if !due.IsZero() {
		due = schedule.Next(due)
	}
	return due.IsZero() || r.Clock.Now().After(due.Add(overdueGrace))
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
func (s *scope) vanished(b v1alpha1.MySQLBackup) bool {
	if b.Spec.Method != v1alpha1.BackupMethodSnapshot || b.Status.Phase != v1alpha1.BackupCompleted || b.Status.CompletedAt == nil || !s.observed.CloudReachable {
		return false
	}
	_, shown := s.snapshotOf(&b)
	return !shown && s.inventory.Taken.Sub(b.Status.CompletedAt.Time) > snapshotShown
}

// failedBackup is the newest of a schedule, when that failed or vanished: what another schedule does well does not make it good. One
// that a person asked for counts while it is the newest of all. It is nil when there is none.
func (s *scope) failedBackup() *v1alpha1.MySQLBackup {
	isOf := func(schedule string) func(v1alpha1.MySQLBackup) bool {
		return func(b v1alpha1.MySQLBackup) bool { return ended(&b) && b.Spec.Schedule == schedule }
	}
	var newest []int
	for _, schedule := range s.cluster.Spec.Backup.Schedules {
		newest = append(newest, slices.IndexFunc(s.backups, isOf(schedule.Name)))
	}
	last := slices.IndexFunc(s.backups, func(b v1alpha1.MySQLBackup) bool { return ended(&b) })
	if last >= 0 && s.backups[last].Spec.Schedule == "" {
		newest = append(newest, last)
	}
	for _, i := range newest {
		if i >= 0 && (s.backups[i].Status.Phase == v1alpha1.BackupFailed || s.vanished(s.backups[i])) {
			return &s.backups[i]
		}
	}
	return nil
}

// overdue names the first schedule that has missed two backups in a row, or returns "".
func (r *MySQLClusterReconciler) overdue(s *scope) string {
	due := s.cluster.Status.Backup.DueSince
	if due == nil {
		return ""
	}
	for _, schedule := range s.cluster.Spec.Backup.Schedules {
		since, known := s.schedules[resources.ScheduleName(s.cluster.Name, schedule.Name)]
		if !known {
			continue // the CronJob could not be made, which is told elsewhere
		}
		since = later(since, due.Time)
		for _, b := range s.backups {
			if b.Spec.Schedule == schedule.Name && b.Status.Phase == v1alpha1.BackupCompleted && b.CreationTimestamp.After(since) {
				since = b.CreationTimestamp.Time
			}
		}
		if r.missedTwo(schedule.Cron, schedule.TimeZone, since) {
			return fmt.Sprintf("schedule %s has had no good backup since %s", schedule.Name, since.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

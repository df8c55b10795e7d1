package backups

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/window"
)

// ProjectBackups tells in the status what backups there are, and whether they are as the spec promises.
func (r *Backups) ProjectBackups(s *pass.Pass, c pass.Conditions) {
	st := &s.Cluster.Status
	defer r.Archive.projectArchive(s, c)
	if s.Cluster.Spec.Backup == nil || s.Deleting() {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionBackupHealthy)
		if s.Cluster.Spec.Backup == nil {
			st.Backup = nil
			r.Metrics.ForgetBackups(prometheus.Labels{"namespace": s.Cluster.Namespace, "cluster": s.Cluster.Name})
		}
		return
	}
	if !s.Backup.Known {
		projectUnread(s, c)
		return
	}
	summary := summarise(s.Backup.All)
	r.projectPause(s, summary)
	if st.Backup != nil && !s.Backup.ArchiveRead && s.Cluster.Archives() {
		summary.FirstRecoverablePoint = st.Backup.FirstRecoverablePoint
	}
	st.Backup = summary
	verified := projectVerification(s, summary)
	if summary.PausedSince != nil && !s.Cluster.Spec.Backup.Suspend {
		r.Metrics.PauseBackups(s.Cluster)
	} else {
		r.Metrics.Backups(s.Cluster, summary, verified == v1alpha1.VerificationFailed)
	}
	status, reason, message := r.judge(s, summary, verified)
	c.Set(v1alpha1.ConditionBackupHealthy, status, reason, message)
}

// What conditions say of verifications, and of what a pause has delayed.
const (
	noneVerified = "no backup was verified since "
	madeUp       = "what was missed during a pause is made up now: "
)

// judge says how the backups of a cluster are.
func (r *Backups) judge(s *pass.Pass, summary *v1alpha1.BackupSummary, verified v1alpha1.VerificationResult) (status metav1.ConditionStatus, reason, message string) {
	since, unverified := r.verificationOverdue(s)
	late, overdue := r.overdue(s)
	newest := "; the newest is " + cmp.Or(summary.LastGood, "none")
	switch {
	case s.Cluster.Spec.Hibernate:
		return metav1.ConditionUnknown, v1alpha1.ReasonHibernated, "the cluster hibernates: no backup is due until it wakes" + newest
	case s.Backup.Blocked != nil:
		return metav1.ConditionFalse, s.Backup.Blocked.Reason, s.Backup.Blocked.Message
	case failedBackup(s) != nil:
		return judgeFailed(failedBackup(s))
	case overdue != "" && !r.resumedWithin(s, OverdueGrace) && !r.makesUp(s, late):
		return metav1.ConditionFalse, v1alpha1.ReasonBackupOverdue, overdue
	case verified == v1alpha1.VerificationFailed:
		report := s.Backup.Verification
		return metav1.ConditionFalse, v1alpha1.ReasonVerificationFailed, strings.TrimSpace(
			fmt.Sprintf("verification of %s failed at %s: %s: %s", verifiedBackup(s), report[task.ReportAt], report[task.ReportReason], report[task.ReportMessage]))
	case unverified && !r.verificationYoung(s):
		return metav1.ConditionFalse, v1alpha1.ReasonVerificationOverdue, noneVerified + since
	case summary.PausedSince != nil && s.Cluster.Spec.Backup.Suspend:
		return metav1.ConditionUnknown, v1alpha1.ReasonBackupsPaused, "spec.backup.suspend is set: no backup is due" + newest
	case summary.PausedSince != nil:
		return metav1.ConditionUnknown, v1alpha1.ReasonBackupsPaused, "no backup is due until the cluster has a primary" + newest
	case overdue != "":
		return metav1.ConditionUnknown, v1alpha1.ReasonBackupDue, madeUp + overdue
	case unverified:
		return metav1.ConditionUnknown, v1alpha1.ReasonBackupDue, madeUp + noneVerified + since
	}
	return judgeNewest(s, summary)
}

// judgeFailed says what is wrong with a backup that failed, or has vanished since.
func judgeFailed(failed *v1alpha1.MySQLBackup) (status metav1.ConditionStatus, reason, message string) {
	if failed.Standing() == v1alpha1.StandingVanished {
		return metav1.ConditionFalse, v1alpha1.ReasonBackupVanished, failed.Name + " was completed and is gone: " + whatVanished(failed)
	}
	return metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, fmt.Sprintf("%s failed: %s: %s", failed.Name, failed.Status.Reason, failed.Status.Message)
}

// judgeNewest says which backup is the newest good one when nothing is wrong but a schedule that never comes.
func judgeNewest(s *pass.Pass, summary *v1alpha1.BackupSummary) (status metav1.ConditionStatus, reason, message string) {
	unscheduled := window.CheckBackups(s.Cluster.Spec.Backup)
	switch {
	case unscheduled != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, unscheduled.Error()
	case summary.LastGood != "":
		message := "the newest backup is " + summary.LastGood
		if names := unpruned(s); len(names) > 0 {
			message += fmt.Sprintf("; backups that belong to no schedule any more stay (%d, such as %s); docs/backup.md says how to delete one with its data", len(names), strings.Join(names[:min(len(names), namedAtMost)], ", "))
		}
		return metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, message
	case slices.ContainsFunc(s.Backup.All, func(b v1alpha1.MySQLBackup) bool { return b.Standing() == v1alpha1.StandingVanished }):
		return metav1.ConditionFalse, v1alpha1.ReasonBackupVanished, "no backup is left: of all that were taken, the snapshots or objects were deleted since, or lost their tags"
	}
	return metav1.ConditionUnknown, v1alpha1.ReasonNoBackupYet, "no backup has been taken yet"
}

// namedAtMost is how many backups a message names.
const namedAtMost = 3

// unpruned names what schedules made that were removed, renamed or given another method since. It stays until a person deletes it.
func unpruned(s *pass.Pass) (names []string) {
	for _, b := range s.Backup.All {
		if b.Spec.Schedule != "" && b.Status.Phase == v1alpha1.BackupCompleted && b.DeletionTimestamp.IsZero() && !s.Cluster.Spec.Backup.Prunes(b.Spec.Schedule, b.Spec.Method) {
			names = append(names, b.Name)
		}
	}
	return names
}

// projectUnread tells of backups that were not read in this pass what is known without: in a namespace that goes there are no more.
func projectUnread(s *pass.Pass, c pass.Conditions) {
	if s.Keys.Leaving {
		c.Set(v1alpha1.ConditionBackupHealthy, metav1.ConditionFalse, v1alpha1.ReasonDeletionProtected, withoutNamespace)
	}
}

// projectVerification tells what the last verification found, "" when there was none.
func projectVerification(s *pass.Pass, summary *v1alpha1.BackupSummary) v1alpha1.VerificationResult {
	if s.Cluster.Spec.Backup.Verification == nil || s.Backup.Verification[task.ReportAt] == "" {
		return ""
	}
	if at, err := time.Parse(time.RFC3339, s.Backup.Verification[task.ReportPassedAt]); err == nil {
		moment := metav1.NewTime(at)
		summary.LastVerified, summary.LastVerifiedAt = s.Backup.Verification[task.ReportPassedBackup], &moment
	}
	return v1alpha1.VerificationResult(s.Backup.Verification[task.ReportState])
}

// verifiedBackup names what was verified last.
func verifiedBackup(s *pass.Pass) string {
	if name := s.Backup.Verification[task.ReportBackup]; name != "" {
		return name
	}
	return "the newest backup"
}

// verificationOverdue says whether two verifications in a row did not end in any way, and since when none was.
func (r *Backups) verificationOverdue(s *pass.Pass) (since string, overdue bool) {
	v := s.Cluster.Spec.Backup.Verification
	at, known := s.Backup.Schedules[resources.VerifyName(s.Cluster.Name)]
	if v == nil || !known || s.Cluster.Status.Backup.PausedSince != nil {
		return "", false
	}
	if reported, err := time.Parse(time.RFC3339, s.Backup.Verification[task.ReportAt]); err == nil && reported.After(at) {
		at = reported
	}
	return at.UTC().Format(time.RFC3339), r.missedTwo(v.Cron, v.TimeZone, at)
}

// verificationYoung says whether the verification goes on after a pause only now, or yet has to.
func (r *Backups) verificationYoung(s *pass.Pass) bool {
	if r.VerificationPaused(s) || r.resumedWithin(s, 2*OverdueGrace) {
		return true
	}
	resumed := s.Cluster.Status.Backup.ResumedAt
	return resumed != nil && slices.ContainsFunc(s.Backup.All, func(b v1alpha1.MySQLBackup) bool {
		return isDump(b) && !b.CreationTimestamp.Time.Before(resumed.Time) && b.Status.CompletedAt != nil && r.Clock.Since(b.Status.CompletedAt.Time) < 2*OverdueGrace
	})
}

// makesUp says whether a backup of a schedule is being made that was begun since backups went on after a pause.
func (r *Backups) makesUp(s *pass.Pass, schedule string) bool {
	return r.resumedWithin(s, MakeUpLimit) && slices.ContainsFunc(s.Backup.All, func(b v1alpha1.MySQLBackup) bool {
		return b.Spec.Schedule == schedule && !b.Done() && b.DeletionTimestamp.IsZero() && !b.CreationTimestamp.Time.Before(s.Cluster.Status.Backup.ResumedAt.Time)
	})
}

// projectPause tells since when backups have been paused, or when they last went on.
func (r *Backups) projectPause(s *pass.Pass, summary *v1alpha1.BackupSummary) {
	var since *metav1.Time
	if known := s.Cluster.Status.Backup; known != nil {
		since, summary.ResumedAt = known.PausedSince, known.ResumedAt
	}
	now := metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	switch paused := BackupsPaused(s); {
	case paused && since == nil:
		summary.PausedSince = &now
	case paused:
		summary.PausedSince = since
	case since != nil:
		summary.ResumedAt = &now
	}
}

// missedTwo says whether what a schedule starts should have happened twice since a moment, and some time ago.
func (r *Backups) missedTwo(when v1alpha1.CronExpression, zone v1alpha1.TimeZoneName, since time.Time) bool {
	schedule, err := window.Schedule(string(when), string(zone))
	if err != nil {
		return false // which is reported in its stead
	}
	due := schedule.Next(since)
	if !due.IsZero() {
		due = schedule.Next(due)
	}
	return !due.IsZero() && r.Clock.Now().After(due.Add(OverdueGrace))
}

// failedBackup is the newest of a schedule, when that failed or vanished: what another schedule does well does not make it good. One
// that a person asked for counts while it is the newest of all. It is nil when there is none.
func failedBackup(s *pass.Pass) *v1alpha1.MySQLBackup {
	isOf := func(schedule string) func(v1alpha1.MySQLBackup) bool {
		return func(b v1alpha1.MySQLBackup) bool { return ended(&b) && b.Spec.Schedule == schedule }
	}
	var newest []int
	for _, schedule := range s.Cluster.Spec.Backup.Schedules {
		newest = append(newest, slices.IndexFunc(s.Backup.All, isOf(schedule.Name)))
	}
	last := slices.IndexFunc(s.Backup.All, func(b v1alpha1.MySQLBackup) bool { return ended(&b) })
	if last >= 0 && s.Backup.All[last].Spec.Schedule == "" {
		newest = append(newest, last)
	}
	for _, i := range newest {
		if i < 0 {
			continue
		}
		if is := s.Backup.All[i].Standing(); is == v1alpha1.StandingFailed || is == v1alpha1.StandingVanished {
			return &s.Backup.All[i]
		}
	}
	return nil
}

// overdue names the first schedule that has missed two backups in a row, and says so, or returns "".
func (r *Backups) overdue(s *pass.Pass) (late, text string) {
	if s.Cluster.Status.Backup.PausedSince != nil {
		return "", ""
	}
	for _, schedule := range s.Cluster.Spec.Backup.Schedules {
		since, known := s.Backup.Schedules[resources.ScheduleName(s.Cluster.Name, schedule.Name)]
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

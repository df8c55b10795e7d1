package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

const (
	// ArchiveLate is how far the archive may be behind before it counts as unhealthy. Its pod reports twice a minute.
	ArchiveLate = 5 * time.Minute
	// archiveUnread is how long it may not be looked through: its pod tries that every five minutes.
	archiveUnread = 15 * time.Minute
	// aheadReported is how long a transaction is reported that says that it was committed after it was archived.
	aheadReported = time.Hour
	// basePause is the time between two attempts at a base of the archive, and baseFresh how long the archive's pod may take to
	// find a backup that is one.
	basePause = 30 * time.Minute
	baseFresh = 5 * time.Minute
	// baseInfix is in the names of the backups that the operator takes as bases. With the time after it, the longest name
	// of a cluster leaves room for what the names of Jobs have behind it.
	baseInfix, baseTime = "-base-", "20060102150405"
)

// Ensure keeps the archive of binary logs going, and gives it a backup to begin with where it has none.
func (r *Archive) Ensure(ctx context.Context, s *pass.Pass) error {
	want := s.Cluster.EffectiveArchive()
	if want == nil {
		return r.dropArchive(ctx, s)
	}
	if s.Recovering() {
		return nil // the pods' identity is that of the restore until then, and a pod keeps the one that it began with
	}
	report := resources.ArchiveReport(s.Cluster)
	if err := s.UnlessLeaving(r.Objects.Apply(ctx, s, report, *report.Name, &corev1.ConfigMap{})); err != nil {
		return err
	}
	image, err := r.Images.Operator()
	if err != nil {
		return err
	}
	ac, err := resources.Archive(s.Cluster, archiveTask(s.Cluster, *want.Storage), resources.Images{Operator: image, Proxy: r.Images.Proxy}, *want.Storage, want.StorageClassName)
	if err != nil {
		return err
	}
	var set appsv1.StatefulSet
	foreign := objects.OwnsForPod(ctx, r.Client, r.Reader, s.Cluster, ac.Spec.Template)
	var failure error
	if foreign != nil { // what is there goes on, and is read
		block(s, foreign)
		_, _, failure = r.Objects.Find(ctx, s, *ac.Name, &set)
	} else {
		failure = s.UnlessLeaving(r.Objects.Apply(ctx, s, ac, *ac.Name, &set))
	}
	s.Cache.Backups.OrphansSought = false
	s.Backup.ArchiveSince = set.CreationTimestamp.Time
	if s.Backup.Archived, err = r.archiveReport(ctx, s); err != nil {
		return err
	}
	s.Backup.ArchiveRead = true
	if foreign != nil {
		return errors.Join(foreign, failure)
	}
	if failure != nil {
		return r.replaceArchive(ctx, s, &set, want, failure)
	}
	return r.ensureBase(ctx, s)
}

// dropArchive ends the archive of a cluster that is no longer to have one. What is in the bucket stays.
func (r *Archive) dropArchive(ctx context.Context, s *pass.Pass) error {
	var set appsv1.StatefulSet
	key := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: resources.ArchiveName(s.Cluster.Name)}
	if err := r.Client.Get(ctx, key, &set); err != nil {
		if apierrors.IsNotFound(err) {
			_, err := r.gatherOrphans(ctx, s)
			return err
		}
		return fmt.Errorf("read StatefulSet %s: %w", key.Name, err)
	}
	if !pass.OwnedBy(&set, s.Cluster) || !set.DeletionTimestamp.IsZero() {
		return nil
	}
	if gathered, err := r.hasGathered(ctx, s, &set); err != nil || !gathered {
		return err
	}
	if err := r.Client.Delete(ctx, &set, client.Preconditions{UID: &set.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StatefulSet %s: %w", key.Name, err)
	}
	return nil
}

// ensureBase takes a backup for an archive that has none to begin with: at its start, and after a gap. The first schedule of
// dumps deletes it once it is older than all that it keeps: kept for ever, it would have all segments kept for ever.
func (r *Archive) ensureBase(ctx context.Context, s *pass.Pass) error {
	if s.Backup.Archived == nil || !s.Backup.Archived.BaseNeeded || s.Backup.Archived.Error != "" || s.Plan.Primary == "" {
		return nil
	}
	now, report := r.Clock.Now(), s.Backup.Archived
	if slices.ContainsFunc(s.Backup.All, func(b v1alpha1.MySQLBackup) bool { return mayBeBase(&b, report, now) }) {
		return nil
	}
	b := &v1alpha1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Cluster.Namespace, Name: s.Cluster.Name + baseInfix + now.UTC().Format(baseTime),
			Labels: resources.Labels(s.Cluster, resources.ComponentArchive),
		},
		Spec: v1alpha1.MySQLBackupSpec{
			ClusterName: s.Cluster.Name, Method: v1alpha1.BackupMethodDump, DeletionPolicy: v1alpha1.BackupDeletionRetain,
		},
	}
	if err := r.Client.Create(ctx, b, client.FieldOwner(v1alpha1.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("take a backup as the base of the archive: %w", err)
	}
	s.Log.Info("the archive of binary logs has no base: taking a backup", "backup", b.Name)
	return nil
}

// projectArchive tells in the status how the archive is. What this pass did not find out stays as it was.
func (r *Archive) projectArchive(s *pass.Pass, c pass.Conditions) {
	st := &s.Cluster.Status
	if !s.Cluster.Archives() || s.Deleting() {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionArchiveHealthy)
		r.Metrics.ForgetArchive(s.Cluster)
		return
	}
	began := s.Records().Established
	r.measureArchive(s, began)
	var v verdict
	switch known := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionArchiveHealthy) != nil; {
	case s.Cluster.Spec.Hibernate && (s.Backup.ArchiveRead || !known):
		v = judgeAsleep(s.Backup.Archived)
	case s.Keys.Leaving:
		v = *unhealthy(v1alpha1.ReasonDeletionProtected, withoutNamespace)
	case s.Planned && !began || !s.Backup.ArchiveRead && !known:
		v = verdict{metav1.ConditionUnknown, v1alpha1.ReasonArchiveStarting, "the archive begins when the cluster has its first primary"}
	case !s.Backup.ArchiveRead:
		return
	default:
		v = r.judgeArchive(s.Backup.Archived, s.Backup.ArchiveSince)
		if s.Backup.Blocked != nil && (s.Backup.Archived == nil || v.reason == v1alpha1.ReasonArchiveBehind) {
			v = *unhealthy(v1alpha1.ReasonArchiveBehind, v.message+"; "+s.Backup.Blocked.Message)
		}
	}
	c.Set(v1alpha1.ConditionArchiveHealthy, v.status, v.reason, v.message)
}

// measureArchive sets the archive's figures by what this pass read. There are none while the cluster hibernates, and until it began.
func (r *Archive) measureArchive(s *pass.Pass, began bool) {
	report := s.Backup.Archived
	switch {
	case s.Cluster.Spec.Hibernate || s.Planned && !began:
		r.Metrics.ForgetArchive(s.Cluster)
	case !s.Backup.ArchiveRead:
		return
	case report == nil:
		r.Metrics.Archive(s.Cluster, time.Time{}, 0)
	default:
		r.Metrics.Archive(s.Cluster, report.CoveredUntil, report.Segments)
	}
	if st := s.Cluster.Status.Backup; report != nil && st != nil && !report.FirstRecoverable.IsZero() {
		at := metav1.NewTime(report.FirstRecoverable.Truncate(time.Second).Add(time.Second))
		st.FirstRecoverablePoint = &at
	}
}

// judgeAsleep says how the archive of a cluster that hibernates is, by its pod's last report, nil for none.
func judgeAsleep(report *archive.Report) verdict {
	v := verdict{metav1.ConditionUnknown, v1alpha1.ReasonHibernated, "the cluster hibernates: nothing is archived until it wakes"}
	if report != nil && !report.CoveredUntil.IsZero() {
		v.message += "; what was written after " + report.CoveredUntil.UTC().Format(time.RFC3339) + " is on its volumes alone"
	}
	return v
}

// mayBeBase says whether a dump is, or may become, what the archive begins with. One that was taken before a gap is none, however new.
func mayBeBase(b *v1alpha1.MySQLBackup, report *archive.Report, now time.Time) bool {
	age, retryLater := time.Duration(-1), isBase(b) && now.Sub(b.CreationTimestamp.Time) < basePause
	if b.Status.CompletedAt != nil {
		age = now.Sub(b.Status.CompletedAt.Time)
	}
	switch {
	case b.Spec.Method != v1alpha1.BackupMethodDump || !b.DeletionTimestamp.IsZero():
		return false
	case !b.Done():
		return true
	case !b.Good():
		return retryLater
	case lacks(b, report.Required):
		// One of after the gap lacks it although it was to hold it: another at once would do no better.
		return isBase(b) && b.CreationTimestamp.After(report.AnchorAt) && age < basePause
	}
	return retryLater || age >= 0 && age < baseFresh
}

// lacks says whether a backup is known to lack some of a GTID set. A status without a set says nothing.
func lacks(b *v1alpha1.MySQLBackup, required string) bool {
	must, err := gtid.Parse(required)
	if err != nil || b.Status.GTIDSet == "" {
		return false
	}
	has, err := gtid.Parse(b.Status.GTIDSet)
	return err == nil && !has.Contains(must)
}

// verdict is what the condition ArchiveHealthy says.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func unhealthy(reason, message string) *verdict {
	return &verdict{metav1.ConditionFalse, reason, message}
}

// judgeArchive says how an archive is, by its pod's last report, nil for none, and since when there is a pod that could report.
func (r *Archive) judgeArchive(report *archive.Report, since time.Time) verdict {
	now := r.Clock.Now()
	if report == nil {
		if !since.IsZero() && now.Sub(since) > ArchiveLate {
			return *unhealthy(v1alpha1.ReasonArchiveBehind, "the archive's pod has not reported since its StatefulSet was made at "+since.UTC().Format(time.RFC3339))
		}
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonArchiveStarting, "the archive's pod has not reported yet"}
	}
	for _, judge := range []func(*archive.Report, time.Time) *verdict{judgeStandstill, judgeBase, judgeProgress} {
		if v := judge(report, now); v != nil {
			return *v
		}
	}
	message := "any moment from " + report.FirstRecoverable.UTC().Format(time.RFC3339) + " on can be restored"
	if report.Unreplayable != "" {
		message += ", unless what dumps do not carry was changed until then: " + report.Unreplayable + ". Move or alter it as the newest MySQLBackup says"
	}
	if report.Kept != "" {
		message += "; old segments stay: " + report.Kept
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonArchiving, message}
}

// judgeStandstill returns what keeps the archive from growing, nil for nothing.
func judgeStandstill(report *archive.Report, now time.Time) *verdict {
	switch {
	case report.CoveredUntil.IsZero() && report.Error != "":
		return unhealthy(v1alpha1.ReasonArchiveBehind, fmt.Sprintf("nothing is archived yet: %s: %s", report.Reason, report.Error))
	case now.Sub(report.At) > ArchiveLate:
		return unhealthy(v1alpha1.ReasonArchiveBehind, "the archive's pod has not reported since "+report.At.UTC().Format(time.RFC3339))
	case now.Sub(report.CoveredUntil) > ArchiveLate && report.Error != "":
		return unhealthy(v1alpha1.ReasonArchiveBehind, fmt.Sprintf("what was written after %s is not archived: %s: %s", report.CoveredUntil.UTC().Format(time.RFC3339), report.Reason, report.Error))
	}
	return nil
}

// judgeBase returns what an archive lacks that has no backup to begin with, nil for one that has.
func judgeBase(report *archive.Report, _ time.Time) *verdict {
	if !report.BaseNeeded {
		return nil
	}
	if missing := breaks(report); len(missing) > 0 {
		return unhealthy(v1alpha1.ReasonArchiveGap, "the archive has a break, over which nothing can be restored until the next backup; "+strings.Join(missing, "; "))
	}
	return unhealthy(v1alpha1.ReasonArchiveBaseNeeded, "the archive has no backup to begin with yet")
}

// judgeProgress returns how far an archive that grows is behind or not looked through, nil for one of which everything is known.
func judgeProgress(report *archive.Report, now time.Time) *verdict {
	switch {
	case now.Sub(report.CoveredUntil) > ArchiveLate:
		return unhealthy(v1alpha1.ReasonArchiveBehind, "what was written after "+report.CoveredUntil.UTC().Format(time.RFC3339)+" is not archived yet")
	case report.Unread != "" && now.Sub(report.UnreadSince) > archiveUnread:
		return unhealthy(v1alpha1.ReasonArchiveUnread, fmt.Sprintf("whether segments are missing is not known since %s: %s", report.UnreadSince.UTC().Format(time.RFC3339), report.Unread))
	case report.Ahead != "" && now.Sub(report.AheadSince) < aheadReported:
		return unhealthy(v1alpha1.ReasonArchiveTimeAhead, report.Ahead+". To restore to a time near it, name a gtid instead; check the clocks of the instances, and who sets original_commit_timestamp")
	case report.FirstRecoverable.IsZero():
		return &verdict{metav1.ConditionUnknown, v1alpha1.ReasonArchiveStarting, "the archive is being looked through"}
	}
	return nil
}

// breaks are the ways in which the archive has a break.
func breaks(report *archive.Report) (missing []string) {
	if report.Gap != "" {
		missing = append(missing, "purged before they were archived: "+report.Gap)
	}
	if report.Lost != "" {
		missing = append(missing, "archived, and lost by the cluster: "+report.Lost)
	}
	if report.Missing != "" {
		missing = append(missing, "archived, and no longer in the bucket: "+report.Missing)
	}
	return missing
}

package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// archive keeps the pod that archives binary logs, and ends it.
type archive struct {
	*Ports
	objects *objects
}

const (
	// archiveLate is how far the archive may be behind before it counts as unhealthy. Its pod reports twice a minute.
	archiveLate = 5 * time.Minute
	// archiveUnread is how long it may not be looked through: its pod tries that every five minutes.
	archiveUnread = 15 * time.Minute
	// basePause is the time between two attempts at a base of the archive, and baseFresh how long after a backup the
	// archive's pod is waited for to take note of it.
	basePause = 30 * time.Minute
	baseFresh = 5 * time.Minute
	// baseInfix is in the names of the backups that the operator takes as bases. With the time after it, the longest name
	// of a cluster leaves room for what the names of Jobs have behind it.
	baseInfix, baseTime = "-base-", "20060102150405"
)

// archiveReport is what the archive's pod reports (archive.Report).
type archiveReport struct {
	At               time.Time `json:"at"`
	Segments         uint64    `json:"segments"`
	CoveredUntil     time.Time `json:"coveredUntil"`
	BaseNeeded       bool      `json:"baseNeeded"`
	FirstRecoverable time.Time `json:"firstRecoverable"`
	Gap              string    `json:"gap"`
	Lost             string    `json:"lost"`
	Missing          string    `json:"missing"`
	Kept             string    `json:"kept"`
	Unread           string    `json:"unread"`
	UnreadSince      time.Time `json:"unreadSince"`
	Error            string    `json:"error"`
	Reason           string    `json:"reason"`
	Ended            bool      `json:"ended"`
}

// archive keeps the archive of binary logs going, and gives it a backup to begin with where it has none.
func (r *archive) archive(ctx context.Context, s *pass) error {
	want := s.cluster.EffectiveArchive()
	if want == nil {
		return r.dropArchive(ctx, s)
	}
	if s.recovering() {
		return nil // the pods' identity is that of the restore until then, and a pod keeps the one that it began with
	}
	report := resources.ArchiveReport(s.cluster)
	if err := s.unlessLeaving(r.objects.apply(ctx, s, report, *report.Name, &corev1.ConfigMap{})); err != nil {
		return err
	}
	image, err := r.Images.Operator(ctx)
	if err != nil {
		return err
	}
	ac, err := resources.Archive(s.cluster, archiveTask(s.cluster, *want.Storage), resources.Images{Operator: image, Proxy: r.Images.Proxy}, *want.Storage, want.StorageClassName)
	if err != nil {
		return err
	}
	var set appsv1.StatefulSet
	failure := s.unlessLeaving(r.objects.apply(ctx, s, ac, *ac.Name, &set))
	s.cache.backups.orphansSought = false
	s.backup.archiveSince = set.CreationTimestamp.Time
	if s.backup.archived, err = r.archiveReport(ctx, s); err != nil {
		return err
	}
	if failure != nil {
		return r.replaceArchive(ctx, s, &set, want, failure)
	}
	return r.ensureBase(ctx, s)
}

// archiveTask is what the archive's pod does.
func archiveTask(c *v1alpha1.MySQLCluster, storage resource.Quantity) task.Task {
	t := backupTask(c)
	t.Members = nil // their number may change, and the pod need not begin again for that
	t.Primary, t.Report, t.SpoolBytes = resources.PrimaryHost(c), resources.ArchiveName(c.Name), storage.Value()
	return t
}

// dropArchive ends the archive of a cluster that is no longer to have one. What is in the bucket stays.
func (r *archive) dropArchive(ctx context.Context, s *pass) error {
	var set appsv1.StatefulSet
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: resources.ArchiveName(s.cluster.Name)}
	if err := r.Client.Get(ctx, key, &set); err != nil {
		if apierrors.IsNotFound(err) {
			_, err := r.gatherOrphans(ctx, s)
			return err
		}
		return fmt.Errorf("read StatefulSet %s: %w", key.Name, err)
	}
	if !ownedBy(&set, s.cluster) || !set.DeletionTimestamp.IsZero() {
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

// archiveReport reads what the archive's pod said last; nil before it said anything.
func (r *archive) archiveReport(ctx context.Context, s *pass) (*archiveReport, error) {
	var cm corev1.ConfigMap
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: resources.ArchiveName(s.cluster.Name)}
	if err := r.Client.Get(ctx, key, &cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	text := cm.Data[task.ReportArchive]
	if text == "" {
		return nil, nil //nolint:nilnil // there is none yet
	}
	var report archiveReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key.Name, err)
	}
	if report.At.Before(s.backup.archiveSince) {
		return nil, nil //nolint:nilnil // it is of an archive that was switched off since
	}
	return &report, nil
}

// ensureBase takes a backup for an archive that has none to begin with: at its start, and after a gap. The first schedule of
// dumps deletes it once it is older than all that it keeps: kept for ever, it would have all segments kept for ever.
func (r *archive) ensureBase(ctx context.Context, s *pass) error {
	if s.backup.archived == nil || !s.backup.archived.BaseNeeded || s.backup.archived.Error != "" || s.plan.Primary == "" {
		return nil
	}
	now := r.Clock.Now()
	for i := range s.backup.all {
		b := &s.backup.all[i]
		switch {
		case b.Spec.Method != v1alpha1.BackupMethodDump || !b.DeletionTimestamp.IsZero():
		case !b.Done(): // it may become the base
			return nil
		case isBase(b) && now.Sub(b.CreationTimestamp.Time) < basePause,
			b.Status.Phase == v1alpha1.BackupCompleted && b.Status.CompletedAt != nil && now.Sub(b.Status.CompletedAt.Time) < baseFresh:
			return nil
		}
	}
	keeper := ""
	if i := slices.IndexFunc(s.cluster.Spec.Backup.Schedules, func(s v1alpha1.BackupSchedule) bool { return s.Method == v1alpha1.BackupMethodDump }); i >= 0 {
		keeper = s.cluster.Spec.Backup.Schedules[i].Name
	}
	b := &v1alpha1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.cluster.Namespace, Name: s.cluster.Name + baseInfix + now.UTC().Format(baseTime),
			Labels: resources.Labels(s.cluster, resources.ComponentArchive),
		},
		Spec: v1alpha1.MySQLBackupSpec{
			ClusterName: s.cluster.Name, Method: v1alpha1.BackupMethodDump, DeletionPolicy: v1alpha1.BackupDeletionRetain, Schedule: keeper,
		},
	}
	if err := r.Client.Create(ctx, b, client.FieldOwner(v1alpha1.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("take a backup as the base of the archive: %w", err)
	}
	s.log.Info("the archive of binary logs has no base: taking a backup", "backup", b.Name)
	return nil
}

// projectArchive tells in the status how the archive is.
func (r *archive) projectArchive(s *pass, c conditions) {
	st := &s.cluster.Status
	if !s.cluster.Archives() || s.deleting() {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionArchiveHealthy)
		r.Metrics.forgetArchive(s.cluster)
		return
	}
	report := s.backup.archived
	if s.cluster.Spec.Hibernate {
		r.Metrics.forgetArchive(s.cluster)
	} else {
		r.Metrics.archive(s.cluster, report)
	}
	if report != nil && st.Backup != nil && !report.FirstRecoverable.IsZero() {
		at := metav1.NewTime(report.FirstRecoverable.Truncate(time.Second).Add(time.Second))
		st.Backup.FirstRecoverablePoint = &at
	}
	status, reason, message := r.judgeArchive(report, s.backup.archiveSince)
	if s.backup.credentialsMissing != "" && (report == nil || reason == v1alpha1.ReasonArchiveBehind) {
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, message+"; "+s.backup.credentialsMissing
	}
	if s.keys.leaving {
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonDeletionProtected, withoutNamespace
	}
	if s.cluster.Spec.Hibernate {
		status, reason, message = metav1.ConditionUnknown, v1alpha1.ReasonHibernated, "the cluster hibernates: nothing is archived until it wakes"
		if report != nil && !report.CoveredUntil.IsZero() {
			message += "; what was written after " + report.CoveredUntil.UTC().Format(time.RFC3339) + " is on its volumes alone"
		}
	}
	c.set(v1alpha1.ConditionArchiveHealthy, status, reason, message)
}

// judgeArchive says in the condition's words how an archive is.
func (r *archive) judgeArchive(report *archiveReport, since time.Time) (metav1.ConditionStatus, string, string) {
	now := r.Clock.Now()
	switch {
	case report == nil && !since.IsZero() && now.Sub(since) > archiveLate:
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "the archive's pod has not reported since its StatefulSet was made at " + since.UTC().Format(time.RFC3339)
	case report == nil:
		return metav1.ConditionUnknown, v1alpha1.ReasonArchiveStarting, "the archive's pod has not reported yet"
	case report.CoveredUntil.IsZero() && report.Error != "":
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, fmt.Sprintf("nothing is archived yet: %s: %s", report.Reason, report.Error)
	}
	missing := ""
	if report.Gap != "" {
		missing += "; purged before they were archived: " + report.Gap
	}
	if report.Lost != "" {
		missing += "; archived, and lost by the cluster: " + report.Lost
	}
	if report.Missing != "" {
		missing += "; archived, and no longer in the bucket: " + report.Missing
	}
	switch {
	case now.Sub(report.At) > archiveLate:
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "the archive's pod has not reported since " + report.At.UTC().Format(time.RFC3339)
	case now.Sub(report.CoveredUntil) > archiveLate && report.Error != "":
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, fmt.Sprintf("what was written after %s is not archived: %s: %s", report.CoveredUntil.UTC().Format(time.RFC3339), report.Reason, report.Error)
	case report.BaseNeeded && missing != "":
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveGap, "the archive has a break, over which nothing can be restored until the next backup" + missing
	case report.BaseNeeded:
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveBaseNeeded, "the archive has no backup to begin with yet"
	case now.Sub(report.CoveredUntil) > archiveLate:
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "what was written after " + report.CoveredUntil.UTC().Format(time.RFC3339) + " is not archived yet"
	}
	if report.Unread != "" && now.Sub(report.UnreadSince) > archiveUnread {
		return metav1.ConditionFalse, v1alpha1.ReasonArchiveUnread, fmt.Sprintf("whether segments are missing is not known since %s: %s", report.UnreadSince.UTC().Format(time.RFC3339), report.Unread)
	}
	if report.FirstRecoverable.IsZero() {
		return metav1.ConditionUnknown, v1alpha1.ReasonArchiveStarting, "the archive is being looked through"
	}
	message := "any moment from " + report.FirstRecoverable.UTC().Format(time.RFC3339) + " on can be restored"
	if report.Kept != "" {
		message += "; old segments stay: " + report.Kept
	}
	return metav1.ConditionTrue, v1alpha1.ReasonArchiving, message
}

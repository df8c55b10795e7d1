package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/podlogin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/restore"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// Ensure makes what backups need: the pods' certificate and account, who they are in Kubernetes, and a CronJob for each
// schedule. Trouble with it is told, and holds nothing else up.
func (r *Backups) Ensure(ctx context.Context, s *pass.Pass) error {
	r.Restorer.LookAtRecovery(ctx, s)
	if s.Deleting() && !s.Keys.Leaving {
		if err := r.Snapshots.SettleSnapshots(ctx, s); err != nil {
			s.Backup.Unsettled = true
			s.ReportBackup("", err)
		}
	}
	if s.Deleting() || s.Keys.Leaving || s.Keys.Root == nil {
		return nil
	}
	var err error
	if s.Backup.All, err = r.Snapshots.List(ctx, s); err != nil {
		s.ReportBackup("", err)
		return nil
	}
	s.Backup.Known = true
	r.ensureBackup(ctx, s)
	r.Snapshots.Advance(ctx, s)
	s.ReportBackup("", r.PruneFailed(ctx, s))
	s.ReportBackup("archive: ", r.Archive.Ensure(ctx, s))
	return nil
}

// ensureBackup makes what the pods need. What fails holds nothing else up: a schedule does not wait for a primary that
// makes no account at the moment.
func (r *Backups) ensureBackup(ctx context.Context, s *pass.Pass) {
	spec := s.Cluster.Spec.Backup
	if spec != nil || s.Cluster.Recovery() != nil && !restore.RecoversCopy(s) {
		s.ReportBackup("", r.Restorer.EnsurePodIdentity(ctx, s))
	}
	if spec != nil {
		s.ReportBackup("", r.LookAtDestination(ctx, s))
		s.ReportBackup("", r.Logins.Certificate(ctx, s, podlogin.Backup))
		s.ReportBackup("", r.EnsureSchedules(ctx, s))
		s.ReportBackup("", r.endStuck(ctx, s))
		s.ReportBackup("", r.Logins.Account(ctx, s, podlogin.Backup, summarise(s.Backup.All).LastFailed))
	}
	s.ReportBackup("", r.dropSchedules(ctx, s))
}

// EnsureSchedules makes the CronJobs. Trouble with one holds no other up, nor the verification.
func (r *Backups) EnsureSchedules(ctx context.Context, s *pass.Pass) error {
	spec := s.Cluster.Spec.Backup
	images, err := r.Objects.PodImages(s.Cluster, spec.Image)
	if err != nil {
		return err
	}
	if s.Backup.Suspended, err = r.suspendedAlready(ctx, s); err != nil {
		return err
	}
	s.Backup.Schedules = map[string]time.Time{}
	for _, schedule := range spec.Schedules {
		s.ReportBackup("schedule "+schedule.Name+": ", r.ensureSchedule(ctx, s, schedule, images))
	}
	if spec.Verification == nil {
		return nil
	}
	return r.ensureVerification(ctx, s, images)
}

// suspendedAlready says whether a schedule is suspended of which the status tells nothing: somebody took that away.
func (r *Backups) suspendedAlready(ctx context.Context, s *pass.Pass) (bool, error) {
	if s.Cluster.Status.Backup != nil || len(s.Cluster.Spec.Backup.Schedules) == 0 {
		return false, nil
	}
	var current batchv1.CronJob
	name := resources.ScheduleName(s.Cluster.Name, s.Cluster.Spec.Backup.Schedules[0].Name)
	if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &current)); err != nil {
		return false, fmt.Errorf("read CronJob %s: %w", name, err)
	}
	return ptr.Deref(current.Spec.Suspend, false), nil
}

func (r *Backups) ensureSchedule(ctx context.Context, s *pass.Pass, schedule v1alpha1.BackupSchedule, images resources.Images) error {
	cron, err := resources.Schedule(s.Cluster, schedule, scheduleTask(s.Cluster, schedule), BackupsPaused(s), images)
	if err != nil {
		return err
	}
	return r.applySchedule(ctx, s, cron)
}

// applyCronJob makes a CronJob. One whose pods would have an account or a Secret of somebody else's is not made, one that is there is
// suspended, and backups are blocked.
func (r *Backups) applyCronJob(ctx context.Context, s *pass.Pass, cron *batchv1ac.CronJobApplyConfiguration, current *batchv1.CronJob) error {
	foreign := objects.OwnsForPod(ctx, r.Client, r.Reader, s.Cluster, cron.Spec.JobTemplate.Spec.Template)
	if foreign == nil {
		return s.UnlessLeaving(r.Objects.Apply(ctx, s, cron, *cron.Name, current))
	}
	_, exists, err := r.Objects.Find(ctx, s, *cron.Name, current)
	if block(s, foreign) && err == nil && exists {
		cron.Spec.WithSuspend(true)
		err = s.UnlessLeaving(r.Objects.Apply(ctx, s, cron, *cron.Name, current))
	}
	return errors.Join(foreign, err)
}

// applySchedule makes a CronJob, and notes since when it is there, also of one that cannot be written as it is to be: what it has to bring about
// is due all the same.
func (r *Backups) applySchedule(ctx context.Context, s *pass.Pass, cron *batchv1ac.CronJobApplyConfiguration) error {
	var current batchv1.CronJob
	err := r.applyCronJob(ctx, s, cron, &current)
	if err != nil && !pass.OwnedBy(&current, s.Cluster) {
		return err
	}
	since := current.CreationTimestamp.Time
	if since.IsZero() {
		since = r.Clock.Now()
	}
	s.Backup.Schedules[*cron.Name] = since
	return err
}

// ensureVerification makes the CronJob that verifies backups, and reads what its pods reported last.
func (r *Backups) ensureVerification(ctx context.Context, s *pass.Pass, images resources.Images) error {
	report := resources.VerificationReport(s.Cluster)
	var current corev1.ConfigMap
	err := s.UnlessLeaving(r.Objects.Apply(ctx, s, report, *report.Name, &current))
	if err == nil || pass.OwnedBy(&current, s.Cluster) {
		s.Backup.Verification = current.Data // what is reported there holds, whether the object can be written or not
	}
	if err != nil {
		return err
	}
	t := backupTask(s.Cluster)
	t.Members, t.MaxAge, t.Report = nil, s.Cluster.Spec.Backup.Verification.EffectiveMaxAge(), *report.Name
	t.Settings = s.Cluster.Spec.Settings()
	cron, err := resources.Verification(s.Cluster, t, r.VerificationPaused(s), images)
	if err != nil {
		return err
	}
	return r.applySchedule(ctx, s, cron)
}

// scheduleTask is what the pods of a schedule do.
func scheduleTask(c *v1alpha1.MySQLCluster, s v1alpha1.BackupSchedule) task.Task {
	t := backupTask(c)
	t.Schedule, t.Method = s.Name, s.Method
	if s.Retention.Count != nil {
		t.Keep = int(*s.Retention.Count)
	}
	if s.Retention.MaxAge != nil {
		t.KeepFor = s.Retention.MaxAge.Duration
	}
	t.Bases = basesPruner(c) == s.Name
	return t
}

// basesPruner returns the name of the schedule whose retention deletes the archive's bases: the first one of dumps, "" without one. A base
// that was taken under a schedule is that schedule's alone.
func basesPruner(c *v1alpha1.MySQLCluster) string {
	if c.Spec.Backup == nil {
		return ""
	}
	for _, s := range c.Spec.Backup.Schedules {
		if s.Method == v1alpha1.BackupMethodDump {
			return s.Name
		}
	}
	return ""
}

// dropSchedules deletes the CronJobs of schedules that are no longer in the spec. Their backups stay.
func (r *Backups) dropSchedules(ctx context.Context, s *pass.Pass) error {
	var wanted []string
	if spec := s.Cluster.Spec.Backup; spec != nil {
		for _, schedule := range spec.Schedules {
			wanted = append(wanted, resources.ScheduleName(s.Cluster.Name, schedule.Name))
		}
		if spec.Verification != nil {
			wanted = append(wanted, resources.VerifyName(s.Cluster.Name))
		}
	}
	var list batchv1.CronJobList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.Cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.Cluster.Name}); err != nil {
		return fmt.Errorf("list the schedules: %w", err)
	}
	for i := range list.Items {
		cron := &list.Items[i]
		if slices.Contains(wanted, cron.Name) || !pass.OwnedBy(cron, s.Cluster) {
			continue
		}
		// What runs at the moment is ended with it: nobody would wait for it any more.
		if err := r.Client.Delete(ctx, cron, client.PropagationPolicy("Background")); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete schedule %s: %w", cron.Name, err)
		}
	}
	return nil
}

// Package restore begins a cluster with a backup, a snapshot or a volume.
package restore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Restorer brings a cluster the data that it is to begin with.
type Restorer struct {
	*pass.Ports
	Objects *objects.Objects
}

// Recover keeps the Job going that restores into a member, and remembers when it is done. The Job itself makes sure that
// nothing is overwritten, and begins an attempt again that was cut off. One for a copy that was lost is ended first.
func (r *Restorer) Recover(ctx context.Context, s *pass.Pass, a topology.Recover) error {
	name := resources.NamesOf(s.Cluster.Name).Recovery
	var job batchv1.Job
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &job)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &job)
	}
	switch {
	case apierrors.IsNotFound(err): // a Job that was begun knows itself what it restores, also when the MySQLBackup is gone
		if err := r.forgetFailure(ctx, s); err != nil {
			return err
		}
		t, err := r.RecoveryTask(ctx, s, a)
		if err != nil {
			return err
		}
		missing, err := jobs.Missing(ctx, r.Reader, s.Cluster.Namespace, t.Destination)
		if err != nil {
			return err
		}
		if missing != nil {
			missing.Message = "spec.bootstrap.recovery: " + missing.Message
			return missing
		}
		return r.startRecovery(ctx, s, t)
	case err != nil:
		return fmt.Errorf("read Job %s: %w", name, err)
	case !pass.OwnedBy(&job, s.Cluster):
		return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, Message: "Job " + name + " exists and does not belong to this cluster; rename or delete it", After: engine.AfterPerson}
	case resources.TaskOf(&job).Copy != a.Copy:
		return r.giveUp(ctx, s, &job)
	}
	s.Backup.Recovery = r.recoveryReport(ctx, s)
	return r.follow(ctx, s, &job, a)
}

// giveUp ends a Job whose copy is no longer what the cluster is to begin with. What it reported is of that copy.
func (r *Restorer) giveUp(ctx context.Context, s *pass.Pass, job *batchv1.Job) error {
	if err := r.forget(ctx, s, func(map[string]string) bool { return true }); err != nil {
		return err
	}
	s.Backup.Recovery = map[string]string{task.ReportMessage: fmt.Sprintf("the copy before this one was lost; waiting until the pod of Job %s ends, which replayed into it", job.Name)}
	if jobs.EndsInVain(job, r.Clock.Now()) {
		return stuck(job, job.DeletionTimestamp.Time)
	}
	return jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationForeground)
}

// stuck is the problem of a pod that does not end.
func stuck(job *batchv1.Job, since time.Time) error {
	return &engine.Problem{Reason: v1alpha1.ReasonRecoveryStuck, After: engine.AfterPerson, Message: fmt.Sprintf(
		"the pod of Job %s was to end at %s and has not, as on a node that does not answer; another beside it would restore into the same server. When it surely runs no more, delete its node or, with --force, the pod",
		job.Name, since.UTC().Format(time.RFC3339))}
}

// follow takes how the restoring Job is.
func (r *Restorer) follow(ctx context.Context, s *pass.Pass, job *batchv1.Job, a topology.Recover) error {
	if !jobs.OnlyFades(job) {
		s.Cache.Backups.RecoveryFades = time.Time{}
	}
	switch {
	case jobs.Succeeded(job):
		return s.Stored.Save(ctx, func(records *topology.ClusterRecord) { records.Replayed, records.Recovered = a.Copy, a.Copy == "" })
	case jobs.Ended(job) != "":
		message := s.Restorer()
		if message == "" {
			message = jobs.Ended(job)
		}
		return &engine.Problem{Reason: v1alpha1.ReasonRecoveryFailed, After: engine.AfterPerson,
			Message: fmt.Sprintf("%s; put that right and delete Job %s to try again", message, job.Name)}
	case jobs.OnlyFades(job):
		if s.Cache.Backups.RecoveryFades.IsZero() {
			s.Cache.Backups.RecoveryFades = r.Clock.Now()
		}
		if r.Clock.Since(s.Cache.Backups.RecoveryFades) < jobs.EndPatience {
			return nil
		}
		return stuck(job, s.Cache.Backups.RecoveryFades)
	case jobs.NeverRan(job, r.Clock.Now()) && !reportedBy(s, job):
		// The next one is as the spec has it by then. There are never two: this one is gone when its pod is.
		if err := jobs.Delete(ctx, r.Client, job, metav1.DeletePropagationForeground); err != nil {
			return err
		}
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.EventRecoveryNotStarted, announce.Act,
			"%s. It is tried again as the spec is by now", jobs.NotStarted(job.Name))
	case s.Backup.Recovery[task.ReportFailure] != "" && reportedBy(s, job):
		return &engine.Problem{Reason: v1alpha1.ReasonRecoveryFailed, After: engine.AfterWaiting,
			Message: fmt.Sprintf("Job %s failed to restore and tries again: %s", job.Name, s.Backup.Recovery[task.ReportFailure])}
	case len(s.Backup.Recovery) == 0:
		s.Backup.Recovery = map[string]string{task.ReportMessage: fmt.Sprintf("the pod of Job %s is being started. %s", job.Name, jobs.WhereToLook(job.Name))}
	}
	return nil
}

// RecoveryTask says what is restored from where.
func (r *Restorer) RecoveryTask(ctx context.Context, s *pass.Pass, a topology.Recover) (task.Task, error) {
	recovery := s.Cluster.Recovery()
	t := task.Task{
		Namespace: s.Cluster.Namespace, Cluster: s.Cluster.Name, ClusterUID: s.UID(), Region: s.Cluster.Spec.AWS.Region, Recovery: task.Recovery{Target: a.Member, Copy: a.Copy},
		StallTimeout: s.Cluster.Spec.Backup.EffectiveStallTimeout(),
	}
	t.Report = resources.NamesOf(s.Cluster.Name).Recovery
	if point := recovery.PointInTime; point != nil {
		t.UntilGTID = point.GTID
		if point.Time != "" {
			at, err := time.Parse(time.RFC3339Nano, point.Time)
			if err != nil {
				return t, &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, After: engine.AfterPerson, Message: "spec.bootstrap.recovery.pointInTime.time: " + err.Error()}
			}
			t.UntilTime = &at
		}
	}
	if archive := s.Records().SourceArchive; archive != nil {
		t.Destination, t.Path = &archive.Destination, archive.Path
		return t, nil
	}
	if recovery.ObjectStore != nil {
		t.Destination, t.Path = &recovery.ObjectStore.Destination, recovery.ObjectStore.Path
		return t, nil
	}
	b, err := r.backupToRestore(ctx, s)
	switch {
	case err != nil:
		return t, err
	case b.Spec.Method == v1alpha1.BackupMethodSnapshot:
		return t, &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "MySQLBackup " + b.Name + " is a snapshot, and no pod restores one", After: engine.AfterPerson}
	}
	t.Destination, t.Path, err = dumpOf(ctx, r.Marker(), s, b)
	return t, err
}

// backupToRestore reads the MySQLBackup that the spec names, and makes sure that it was completed. Whether its data are there is seen where
// they are: nobody keeps the status of a backup whose cluster is gone.
func (r *Restorer) backupToRestore(ctx context.Context, s *pass.Pass) (*v1alpha1.MySQLBackup, error) {
	name := s.Cluster.Recovery().BackupName
	var b v1alpha1.MySQLBackup
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &b)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, Message: "spec.bootstrap.recovery: there is no MySQLBackup " + name + " in this namespace", After: engine.AfterWaiting}
	case err != nil:
		return nil, fmt.Errorf("read MySQLBackup %s: %w", name, err)
	case b.Standing() == v1alpha1.StandingFailed:
		return nil, &engine.Problem{Reason: v1alpha1.ReasonRecoveryFailed, After: engine.AfterPerson,
			Message: fmt.Sprintf("spec.bootstrap.recovery: MySQLBackup %s failed, so there is nothing to restore; delete this cluster, and restore another backup into a new one", b.Name)}
	case b.Standing() == v1alpha1.StandingUnfinished:
		return nil, &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, Message: fmt.Sprintf("spec.bootstrap.recovery: MySQLBackup %s is %s and not Completed", b.Name, cmp.Or(b.Status.Phase, v1alpha1.BackupPending)), After: engine.AfterWaiting}
	}
	return &b, nil
}

// startRecovery makes the Job and the ConfigMap in which it reports.
func (r *Restorer) startRecovery(ctx context.Context, s *pass.Pass, t task.Task) error {
	recovery, image := s.Cluster.Recovery(), ""
	if image = recovery.Image; image == "" && s.Cluster.Spec.Backup != nil {
		image = s.Cluster.Spec.Backup.Image
	}
	images, err := r.Objects.PodImages(s.Cluster, image)
	if err != nil {
		return err
	}
	if err := r.EnsurePodIdentity(ctx, s); err != nil {
		return err
	}
	ac, err := resources.RecoveryJob(s.Cluster, t, images)
	if err != nil {
		return err
	}
	if err := objects.OwnsForPod(ctx, r.Client, r.Objects.Reader, s.Cluster, ac.Spec.Template); err != nil {
		return err
	}
	report := resources.RecoveryReport(s.Cluster)
	if err := r.Objects.Apply(ctx, s, report, *report.Name, &corev1.ConfigMap{}); err != nil {
		return err
	}
	var job batchv1.Job
	if err := pass.Convert(ac, &job); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &job, client.FieldOwner(v1alpha1.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the Job that restores: %w", err)
	}
	return nil
}

// recoveryReport reads what the restoring pod said last, unless that was of a copy in whose place there is another.
func (r *Restorer) recoveryReport(ctx context.Context, s *pass.Pass) map[string]string {
	name := resources.NamesOf(s.Cluster.Name).Recovery
	var cm corev1.ConfigMap
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &cm); err != nil {
		return nil
	}
	first := s.Records().Members[s.Desired.MemberName(0)]
	if of := cm.Data[task.ReportCopy]; of != "" && of != first.VolumeID {
		return nil
	}
	return cm.Data
}

// EnsurePodIdentity makes the pods' service account and what it may do.
func (r *Restorer) EnsurePodIdentity(ctx context.Context, s *pass.Pass) error {
	role := ""
	if d := r.podDestination(ctx, s); d != nil && d.S3 != nil {
		role = d.S3.RoleARN
	}
	account := resources.BackupServiceAccount(s.Cluster, role)
	if err := s.UnlessLeaving(r.Objects.Apply(ctx, s, account, *account.Name, &corev1.ServiceAccount{})); err != nil {
		return err
	}
	may := resources.BackupRole(s.Cluster)
	if err := s.UnlessLeaving(r.Objects.Apply(ctx, s, may, *may.Name, &rbacv1.Role{})); err != nil {
		return err
	}
	binding := resources.BackupRoleBinding(s.Cluster)
	return s.UnlessLeaving(r.Objects.Apply(ctx, s, binding, *binding.Name, &rbacv1.RoleBinding{}))
}

// podDestination is where the cluster's pods keep backups, or, for one that is yet to be restored, read them from.
func (r *Restorer) podDestination(ctx context.Context, s *pass.Pass) *v1alpha1.BackupDestination {
	if s.Recovering() {
		if t, err := r.RecoveryTask(ctx, s, topology.Recover{}); err == nil {
			return t.Destination
		}
	}
	if s.Cluster.Spec.Backup != nil {
		return s.Cluster.Spec.Backup.Destination
	}
	return nil
}

// forgetFailure empties the report of a restore that failed and whose Job is gone: it says nothing of the next attempt.
func (r *Restorer) forgetFailure(ctx context.Context, s *pass.Pass) error {
	return r.forget(ctx, s, func(said map[string]string) bool {
		return said[task.ReportState] == pass.RestoreFailed || said[task.ReportFailure] != ""
	})
}

// forget empties the cluster's report of a restore when what it says is out of date.
func (r *Restorer) forget(ctx context.Context, s *pass.Pass, outdated func(said map[string]string) bool) error {
	name := resources.NamesOf(s.Cluster.Name).Recovery
	var report corev1.ConfigMap
	if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &report)); err != nil {
		return fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	if !pass.OwnedBy(&report, s.Cluster) || len(report.Data) == 0 || !outdated(report.Data) {
		return nil // nor is one that is not there
	}
	before := report.DeepCopy()
	report.Data, s.Backup.Recovery = nil, map[string]string{}
	if err := r.Client.Patch(ctx, &report, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("empty the report of the attempt before: %w", err)
	}
	return nil
}

// reportedBy says whether a pod of a Job has reported: it ran, though Kubernetes may not see it at the moment, because its node
// does not answer. Another beside it would restore into the same server.
func reportedBy(s *pass.Pass, job *batchv1.Job) bool {
	return s.Backup.Recovery[task.ReportJob] == string(job.UID)
}

// LookAtRecovery reads what the restoring pod said, also when it is done: what it left out is shown for as long as the cluster
// says that it was restored.
func (r *Restorer) LookAtRecovery(ctx context.Context, s *pass.Pass) {
	if s.Backup.Recovery == nil && s.Cluster.Recovery() != nil {
		s.Backup.Recovery = r.recoveryReport(ctx, s)
	}
}

package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// restorer brings a cluster the data that it is to begin with.
type restorer struct {
	*Ports
	objects *objects
}

// restoreFailed is what a restoring pod reports as its state once it has given up.
const restoreFailed = "Failed"

// recover keeps the Job going that restores into a member, and remembers when it is done. The Job itself makes sure that
// nothing is overwritten, and begins an attempt again that was cut off.
func (r *restorer) recover(ctx context.Context, s *pass, a topology.Recover) error {
	name := resources.NamesOf(s.cluster.Name).Recovery
	var job batchv1.Job
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &job)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &job)
	}
	switch {
	case apierrors.IsNotFound(err): // a Job that was begun knows itself what it restores, also when the MySQLBackup is gone
		if err := r.forgetFailure(ctx, s); err != nil {
			return err
		}
		t, err := r.recoveryTask(ctx, s, a.Member)
		if err != nil {
			return err
		}
		return r.startRecovery(ctx, s, t)
	case err != nil:
		return fmt.Errorf("read Job %s: %w", name, err)
	case !ownedBy(&job, s.cluster):
		return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, Message: "Job " + name + " exists and does not belong to this cluster; rename or delete it", After: engine.AfterPerson}
	}
	s.backup.recovery = r.recoveryReport(ctx, s)
	if !onlyFades(&job) {
		s.cache.backups.recoveryFades = time.Time{}
	}
	switch {
	case jobSucceeded(&job):
		return s.stored.Save(ctx, func(records *topology.Records) { records.Recovered = true })
	case jobEnded(&job) != "":
		message := s.restorer()
		if message == "" {
			message = jobEnded(&job)
		}
		return &engine.Problem{Reason: v1alpha1.ReasonRecoveryFailed, After: engine.AfterPerson,
			Message: fmt.Sprintf("%s; put that right and delete Job %s to try again", message, name)}
	case onlyFades(&job):
		if s.cache.backups.recoveryFades.IsZero() {
			s.cache.backups.recoveryFades = r.Clock.Now()
		}
		if r.Clock.Since(s.cache.backups.recoveryFades) < endPatience {
			return nil
		}
		return &engine.Problem{Reason: v1alpha1.ReasonRecoveryStuck, After: engine.AfterPerson, Message: fmt.Sprintf(
			"the pod of Job %s was to end at %s and has not, as on a node that does not answer; another beside it would restore into the same server. When it surely runs no more, delete its node or, with --force, the pod",
			name, s.cache.backups.recoveryFades.UTC().Format(time.RFC3339))}
	case neverRan(&job, r.Clock.Now()) && !reportedBy(s, &job):
		// The next one is as the spec has it by then. There are never two: this one is gone when its pod is.
		if err := deleteJob(ctx, r.Client, &job, metav1.DeletePropagationForeground); err != nil {
			return err
		}
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.EventRecoveryNotStarted, actionAct,
			"The pod of Job %s did not run within %s; it is tried again as the spec is by now", name, startPatience)
	}
	return nil
}

// recovering says whether the cluster has yet to be given what it begins with.
func (s *pass) recovering() bool {
	return s.cluster.Recovery() != nil && !s.records().Recovered && !s.records().Established && s.records().Bootstrapped == ""
}

// recoveryTask says what is restored from where.
func (r *restorer) recoveryTask(ctx context.Context, s *pass, member string) (task.Task, error) {
	recovery := s.cluster.Recovery()
	t := task.Task{
		Namespace: s.cluster.Namespace, Cluster: s.cluster.Name, ClusterUID: s.uid(), Region: s.cluster.Spec.AWS.Region, Target: member,
		StallTimeout: s.cluster.Spec.Backup.EffectiveStallTimeout(),
	}
	t.Report = resources.NamesOf(s.cluster.Name).Recovery
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
	case b.Status.Destination == nil || !strings.HasPrefix(b.Status.Path, b.Namespace+"/"+b.Spec.ClusterName+"/") || !strings.Contains(b.Status.Path, "/backups/"):
		return t, &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "MySQLBackup " + b.Name + " does not say where its data are; use recovery.objectStore", After: engine.AfterPerson}
	}
	t.Destination, t.Path = b.Status.Destination, b.Status.Path
	return t, nil
}

// backupToRestore reads the MySQLBackup that the spec names, and makes sure that it is complete.
func (r *restorer) backupToRestore(ctx context.Context, s *pass) (*v1alpha1.MySQLBackup, error) {
	name := s.cluster.Recovery().BackupName
	var b v1alpha1.MySQLBackup
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &b)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, Message: "spec.bootstrap.recovery: there is no MySQLBackup " + name + " in this namespace", After: engine.AfterWaiting}
	case err != nil:
		return nil, fmt.Errorf("read MySQLBackup %s: %w", name, err)
	case b.Status.Phase != v1alpha1.BackupCompleted:
		return nil, &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, Message: fmt.Sprintf("spec.bootstrap.recovery: MySQLBackup %s is %s and not Completed", b.Name, b.Status.Phase), After: engine.AfterWaiting}
	}
	return &b, nil
}

// startRecovery makes the Job and the ConfigMap in which it reports.
func (r *restorer) startRecovery(ctx context.Context, s *pass, t task.Task) error {
	recovery, image := s.cluster.Recovery(), ""
	if image = recovery.Image; image == "" && s.cluster.Spec.Backup != nil {
		image = s.cluster.Spec.Backup.Image
	}
	images, err := r.objects.images(ctx, s.cluster, image)
	if err != nil {
		return err
	}
	if err := r.ensurePodIdentity(ctx, s); err != nil {
		return err
	}
	report := resources.RecoveryReport(s.cluster)
	if err := r.objects.apply(ctx, s, report, *report.Name, &corev1.ConfigMap{}); err != nil {
		return err
	}
	ac, err := resources.RecoveryJob(s.cluster, t, images)
	if err != nil {
		return err
	}
	var job batchv1.Job
	if err := convert(ac, &job); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &job, client.FieldOwner(v1alpha1.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the Job that restores: %w", err)
	}
	return nil
}

// recoveryReport reads what the restoring pod said last.
func (r *restorer) recoveryReport(ctx context.Context, s *pass) map[string]string {
	name := resources.NamesOf(s.cluster.Name).Recovery
	var cm corev1.ConfigMap
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &cm); err != nil {
		return nil
	}
	return cm.Data
}

// restorer is what the restoring pod says: how far it is, or the reason for which it failed, by its name in the documentation, and
// what happened.
func (s *pass) restorer() string {
	message := s.backup.recovery[task.ReportMessage]
	if reason := s.backup.recovery[task.ReportReason]; reason != "" {
		return reason + ": " + message
	}
	return message
}

// setRecovered tells how the recovery goes.
func (c conditions) setRecovered(s *pass) {
	if s.cluster.Recovery() == nil || !s.planned {
		return
	}
	message := s.restorer()
	switch {
	case s.records().Recovered || s.plan.Records.Recovered, !s.plan.Records.RebuiltAt.IsZero() && s.plan.Records.Established:
		c.set(v1alpha1.ConditionRecovered, metav1.ConditionTrue, v1alpha1.ReasonRecovered, "the cluster began with what spec.bootstrap.recovery names"+s.leftOut())
	case s.backup.recovery[task.ReportState] == restoreFailed:
		c.set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecoveryFailed, message)
	case s.backup.unadoptable != "":
		c.set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecoveryFailed, s.backup.unadoptable)
	case s.observed.Source.Final:
		c.set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecoveryFailed, s.observed.Source.Why.Message)
	default:
		if message == "" {
			message = s.plan.Waiting.Message
		}
		c.set(v1alpha1.ConditionRecovered, metav1.ConditionFalse, v1alpha1.ReasonRecovering, message)
	}
}

// ensurePodIdentity makes the pods' service account and what it may do.
func (r *restorer) ensurePodIdentity(ctx context.Context, s *pass) error {
	role := ""
	if d := r.podDestination(ctx, s); d != nil && d.S3 != nil {
		role = d.S3.RoleARN
	}
	account := resources.BackupServiceAccount(s.cluster, role)
	if err := s.unlessLeaving(r.objects.apply(ctx, s, account, *account.Name, &corev1.ServiceAccount{})); err != nil {
		return err
	}
	may := resources.BackupRole(s.cluster)
	if err := s.unlessLeaving(r.objects.apply(ctx, s, may, *may.Name, &rbacv1.Role{})); err != nil {
		return err
	}
	binding := resources.BackupRoleBinding(s.cluster)
	return s.unlessLeaving(r.objects.apply(ctx, s, binding, *binding.Name, &rbacv1.RoleBinding{}))
}

// podDestination is where the cluster's pods keep backups, or, for one that is yet to be restored, read them from.
func (r *restorer) podDestination(ctx context.Context, s *pass) *v1alpha1.BackupDestination {
	if s.recovering() {
		if t, err := r.recoveryTask(ctx, s, ""); err == nil {
			return t.Destination
		}
	}
	if s.cluster.Spec.Backup != nil {
		return s.cluster.Spec.Backup.Destination
	}
	return nil
}

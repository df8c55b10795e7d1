package controllers

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// backups keeps the schedules of a cluster, and says how its backups are.
type backups struct {
	*Ports
	objects       *objects
	identities    *identities
	mysqlObserver *mysqlObserver
	archive       *archive
	restorer      *restorer
	snapshots     *snapshots
}

// accountLook is how often the account of the backup pods is looked at anew: a person may have dropped or changed it.
const accountLook = 10 * time.Minute

// backup makes what backups need: the pods' certificate and account, who they are in Kubernetes, and a CronJob for each
// schedule. Trouble with it is told, and holds nothing else up.
func (r *backups) backup(ctx context.Context, s *pass) error {
	r.restorer.lookAtRecovery(ctx, s)
	if s.deleting() && !s.keys.leaving {
		if err := r.snapshots.settleSnapshots(ctx, s); err != nil {
			s.backup.unsettled = true
			s.tellBackup("", err)
		}
	}
	if s.deleting() || s.keys.leaving || s.keys.authority == nil {
		return nil
	}
	var err error
	if s.backup.all, err = r.snapshots.backups(ctx, s); err != nil {
		s.tellBackup("", err)
		return nil
	}
	s.backup.known = true
	r.ensureBackup(ctx, s)
	r.snapshots.snapshots(ctx, s)
	s.tellBackup("", r.pruneFailed(ctx, s))
	s.tellBackup("archive: ", r.archive.archive(ctx, s))
	return nil
}

// tellBackup notes trouble with backups for the conditions, and for when to try again.
func (s *pass) tellBackup(what string, err error) {
	if p := asProblem(err); p != nil {
		s.result.problems = append(s.result.problems, &engine.Problem{Reason: p.Reason, Message: "backup: " + what + p.Message, After: p.After, Aside: true, Cause: p})
	}
}

// ensureBackup makes what the pods need. What fails holds nothing else up: a schedule does not wait for a primary that
// makes no account at the moment.
func (r *backups) ensureBackup(ctx context.Context, s *pass) {
	spec := s.cluster.Spec.Backup
	if spec != nil || s.cluster.Recovery() != nil && !recoversCopy(s) {
		s.tellBackup("", r.restorer.ensurePodIdentity(ctx, s))
	}
	if spec != nil {
		s.tellBackup("", r.lookAtBucketKeys(ctx, s))
		s.tellBackup("", r.ensureBackupCertificate(ctx, s))
		s.tellBackup("", r.ensureSchedules(ctx, s))
		s.tellBackup("", r.endStuck(ctx, s))
		s.tellBackup("", r.ensureBackupAccount(ctx, s))
	}
	s.tellBackup("", r.dropSchedules(ctx, s))
}

// ensureSchedules makes the CronJobs. Trouble with one holds no other up, nor the verification.
func (r *backups) ensureSchedules(ctx context.Context, s *pass) error {
	spec := s.cluster.Spec.Backup
	images, err := r.objects.images(ctx, s.cluster, spec.Image)
	if err != nil {
		return err
	}
	if s.backup.suspended, err = r.suspendedAlready(ctx, s); err != nil {
		return err
	}
	s.backup.schedules = map[string]time.Time{}
	for _, schedule := range spec.Schedules {
		s.tellBackup("schedule "+schedule.Name+": ", r.ensureSchedule(ctx, s, schedule, images))
	}
	if spec.Verification == nil {
		return nil
	}
	return r.ensureVerification(ctx, s, images)
}

// suspendedAlready says whether a schedule is suspended of which the status tells nothing: somebody took that away.
func (r *backups) suspendedAlready(ctx context.Context, s *pass) (bool, error) {
	if s.cluster.Status.Backup != nil || len(s.cluster.Spec.Backup.Schedules) == 0 {
		return false, nil
	}
	var current batchv1.CronJob
	name := resources.ScheduleName(s.cluster.Name, s.cluster.Spec.Backup.Schedules[0].Name)
	if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &current)); err != nil {
		return false, fmt.Errorf("read CronJob %s: %w", name, err)
	}
	return ptr.Deref(current.Spec.Suspend, false), nil
}

func (r *backups) ensureSchedule(ctx context.Context, s *pass, schedule v1alpha1.BackupSchedule, images resources.Images) error {
	cron, err := resources.Schedule(s.cluster, schedule, scheduleTask(s.cluster, schedule), backupsPaused(s), images)
	if err != nil {
		return err
	}
	return r.applySchedule(ctx, s, cron)
}

// applySchedule makes a CronJob, and notes since when it is there.
func (r *backups) applySchedule(ctx context.Context, s *pass, cron *batchv1ac.CronJobApplyConfiguration) error {
	var current batchv1.CronJob
	if err := s.unlessLeaving(r.objects.apply(ctx, s, cron, *cron.Name, &current)); err != nil {
		return err
	}
	since := current.CreationTimestamp.Time
	if since.IsZero() {
		since = r.Clock.Now()
	}
	s.backup.schedules[*cron.Name] = since
	return nil
}

// ensureVerification makes the CronJob that verifies backups, and reads what its pods reported last.
func (r *backups) ensureVerification(ctx context.Context, s *pass, images resources.Images) error {
	report := resources.VerificationReport(s.cluster)
	var current corev1.ConfigMap
	if err := s.unlessLeaving(r.objects.apply(ctx, s, report, *report.Name, &current)); err != nil {
		return err
	}
	s.backup.verification = current.Data
	t := backupTask(s.cluster)
	t.Members, t.MaxAge, t.Report = nil, s.cluster.Spec.Backup.Verification.EffectiveMaxAge(), *report.Name
	cron, err := resources.Verification(s.cluster, t, r.verificationPaused(s), images)
	if err != nil {
		return err
	}
	return r.applySchedule(ctx, s, cron)
}

// ensureBackupCertificate makes and renews the certificate of the backup pods.
func (r *backups) ensureBackupCertificate(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).BackupTLS
	secret, err := r.identities.ownedSecret(ctx, s, name)
	if err != nil {
		return err
	}
	ca, now := s.keys.authority.CertificatePEM(), r.Clock.Now()
	if secret != nil && bytes.Equal(secret.Data[resources.KeyCA], ca) && s.keys.authority.IsBackups(secret.Data[resources.KeyCertificate], secret.Data[resources.KeyPrivateKey], now) &&
		!pki.NeedsRenewal(secret.Data[resources.KeyCertificate], now) {
		return nil
	}
	cert, key, err := s.keys.authority.IssueBackup(now)
	if err != nil {
		return fmt.Errorf("issue the backup pods' certificate: %w", err)
	}
	ac := resources.BackupTLSSecret(s.cluster, cert, key, ca)
	if secret == nil {
		return s.unlessLeaving(r.identities.createSecret(ctx, ac))
	}
	return r.identities.applySecret(ctx, ac)
}

// ensureBackupAccount makes the account of the backup pods, through the primary that was led by when this pass began, unless that has
// answered no commit since the pass before.
func (r *backups) ensureBackupAccount(ctx context.Context, s *pass) error {
	m := s.observed.Members[s.plan.Primary]
	wanted := s.plan.Primary + s.keys.authority.IssuerDN() + s.keys.authority.BackupDN() + r.accountPeriod(s)
	if !hasWritable(s) || !m.StalledSince.IsZero() && m.StalledSince.Before(s.observed.Now) || s.cache.backups.account == wanted {
		return nil
	}
	handle, err := r.mysqlObserver.member(ctx, s, m.Name)
	if err != nil {
		return err
	}
	changed, err := handle.EnsureBackupAccount(ctx, s.keys.authority.IssuerDN(), s.keys.authority.BackupDN())
	if err != nil {
		return err
	}
	s.cache.backups.account = wanted
	if changed {
		s.log.Info("made the account of the backup pods")
	}
	return nil
}

// accountPeriod is another one as often as the account of the backup pods is looked at anew: every accountLook, for each cluster
// at its own time, and when one more backup has failed.
func (r *backups) accountPeriod(s *pass) string {
	period := r.Clock.Since(s.cluster.CreationTimestamp.Time) / accountLook
	return fmt.Sprintf("/%d/%s", period, summarise(s.backup.all).LastFailed)
}

// Images says which images pods run.
type Images struct {
	// Reader reads the operator's own pod. PodNamespace and PodName are that pod's.
	Reader                client.Reader
	PodNamespace, PodName string
	// Own is the operator's image, for an operator that is no pod.
	Own string
	// Client is the image with MySQL's programs where a spec names none; {version} in it stands for the cluster's version.
	Client string
	// Proxy are the variables of an HTTP proxy that the pods are to use as the operator does.
	Proxy map[string]string

	// own is the operator's image once it is known: it stays the same as long as this process lives.
	mu  sync.Mutex
	own string
}

// DefaultClientImage is what Client is unless an administrator chose another.
const DefaultClientImage = "docker.io/library/mysql:{version}"

// Operator returns the operator's own image, as its own pod says it.
func (i *Images) Operator(ctx context.Context) (string, error) {
	if i.Own != "" {
		return i.Own, nil
	}
	if i.PodName == "" {
		return "", &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, After: engine.AfterPerson,
			Message: "the operator does not run in a pod, so that nothing can be copied from its image; set --pod-image"}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.own != "" {
		return i.own, nil
	}
	var pod corev1.Pod
	if err := i.Reader.Get(ctx, client.ObjectKey{Namespace: i.PodNamespace, Name: i.PodName}, &pod); err != nil {
		return "", fmt.Errorf("read the operator's own pod: %w", err)
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == "manager" {
			i.own = container.Image
			return i.own, nil
		}
	}
	return "", fmt.Errorf("pod %s has no container manager", i.PodName)
}

// MySQL returns the image with MySQL's programs.
func (i *Images) MySQL(c *v1alpha1.MySQLCluster, image string) string {
	if image != "" {
		return image
	}
	return strings.ReplaceAll(i.Client, "{version}", c.Spec.Version)
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
	return t
}

// backupTask is what all backup pods of a cluster know.
func backupTask(c *v1alpha1.MySQLCluster) task.Task {
	t := task.Task{
		Namespace: c.Namespace, Cluster: c.Name, ClusterUID: string(c.UID), Region: c.Spec.AWS.Region,
		StallTimeout: c.Spec.Backup.EffectiveStallTimeout(),
	}
	for ordinal := range c.ReplicaCount() {
		t.Members = append(t.Members, c.Name+"-"+strconv.Itoa(int(ordinal)))
	}
	if c.Spec.Backup != nil && c.Spec.Backup.Destination != nil {
		// With the region, so that what a status says of it leads there from everywhere.
		if t.Destination = c.Spec.Backup.Destination.DeepCopy(); t.Destination.S3 != nil && t.Destination.S3.Region == "" {
			t.Destination.S3.Region = c.Spec.AWS.Region
		}
	}
	return t
}

// dropSchedules deletes the CronJobs of schedules that are no longer in the spec. Their backups stay.
func (r *backups) dropSchedules(ctx context.Context, s *pass) error {
	var wanted []string
	if spec := s.cluster.Spec.Backup; spec != nil {
		for _, schedule := range spec.Schedules {
			wanted = append(wanted, resources.ScheduleName(s.cluster.Name, schedule.Name))
		}
		if spec.Verification != nil {
			wanted = append(wanted, resources.VerifyName(s.cluster.Name))
		}
	}
	var list batchv1.CronJobList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.cluster.Name}); err != nil {
		return fmt.Errorf("list the schedules: %w", err)
	}
	for i := range list.Items {
		cron := &list.Items[i]
		if slices.Contains(wanted, cron.Name) || !ownedBy(cron, s.cluster) {
			continue
		}
		// What runs at the moment is ended with it: nobody would wait for it any more.
		if err := r.Client.Delete(ctx, cron, client.PropagationPolicy("Background")); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete schedule %s: %w", cron.Name, err)
		}
	}
	return nil
}

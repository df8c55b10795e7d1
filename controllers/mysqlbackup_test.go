package controllers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// shelf is a namespace with a cluster that has a destination, and the reconciler of its backups. No pod ever runs here:
// the tests play what a pod, and what Kubernetes' Job controller, would write.
type shelf struct {
	t         *testing.T
	r         *backups.Supervisor
	clock     *clocktesting.FakePassiveClock
	namespace string
	cluster   *v1alpha1.MySQLCluster
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), namespace: fmt.Sprintf("shelf-%d", serial.Add(1))}
	must(t, kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	s.r = &backups.Supervisor{Client: shared.cached, Reader: shared.operator, Events: events.NewFakeRecorder(1000), Clock: s.clock,
		Images: &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}, SystemNamespace: s.namespace}
	s.r.Hearing.Begin(s.clock.Now())
	s.cluster = &v1alpha1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "orders"},
		Spec: v1alpha1.MySQLClusterSpec{
			Version: "9.7.4",
			AWS:     v1alpha1.AWSSpec{Region: "us-east-1", InstanceType: "m6i.large", SubnetIDs: []string{"subnet-01234567"}, ClientCIDRs: []string{"10.0.0.0/8"}},
			Backup:  &v1alpha1.BackupSpec{Destination: &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "s3"}}}},
		},
	}
	must(t, kube.Create(t.Context(), s.cluster))
	s.secret(map[string]string{"accessKeyID": "AKIA", "secretAccessKey": "x"})
	return s
}

// secret makes the Secret of the destination anew, nil for none.
func (s *shelf) secret(keys map[string]string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "s3"}, StringData: keys}
	must(s.t, client.IgnoreNotFound(kube.Delete(s.t.Context(), secret.DeepCopy())))
	if keys != nil {
		must(s.t, kube.Create(s.t.Context(), secret))
	}
}

// put makes a MySQLBackup.
func (s *shelf) put(name string, change func(*v1alpha1.MySQLBackup)) *v1alpha1.MySQLBackup {
	s.t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders"}}
	if change != nil {
		change(b)
	}
	must(s.t, kube.Create(s.t.Context(), b))
	return b
}

// look reconciles a backup and reads it again; nil when it is gone.
func (s *shelf) look(name string) *v1alpha1.MySQLBackup {
	s.t.Helper()
	key := client.ObjectKey{Namespace: s.namespace, Name: name}
	for range 3 {
		if _, err := s.r.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			s.t.Fatal(err)
		}
	}
	var b v1alpha1.MySQLBackup
	if err := kube.Get(s.t.Context(), key, &b); err != nil {
		must(s.t, client.IgnoreNotFound(err))
		return nil
	}
	(&statuses{t: s.t}).see(&b)
	return &b
}

// report writes a status as a pod does.
func (s *shelf) report(name string, change func(*v1alpha1.MySQLBackupStatus)) {
	s.t.Helper()
	var b v1alpha1.MySQLBackup
	must(s.t, kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &b))
	change(&b.Status)
	must(s.t, kube.Status().Update(s.t.Context(), &b))
}

// get reads a backup that is there.
func (s *shelf) get(name string) *v1alpha1.MySQLBackup {
	s.t.Helper()
	var b v1alpha1.MySQLBackup
	must(s.t, kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &b))
	return &b
}

// runner and remover are the Jobs of a backup, nil when there is none.
func (s *shelf) runner(name string) *batchv1.Job {
	s.t.Helper()
	return s.job(backups.RunnerOf(s.get(name)))
}
func (s *shelf) remover(name string) *batchv1.Job {
	s.t.Helper()
	return s.job(backups.JobName(s.get(name), backups.Removing))
}

func (s *shelf) job(name string) *batchv1.Job {
	s.t.Helper()
	var job batchv1.Job
	if err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &job); err != nil {
		must(s.t, client.IgnoreNotFound(err))
		return nil
	}
	return &job
}

// end writes what the Job controller does when a Job has ended.
func (s *shelf) end(job *batchv1.Job, how batchv1.JobConditionType) {
	s.t.Helper()
	if job == nil {
		s.t.Fatal("there is no Job")
	}
	endJob(s.t, s.namespace, job.Name, how)
}

// collect does what the garbage collector does when the pods of a deleted Job have ended.
func collect(t *testing.T, job *batchv1.Job) {
	t.Helper()
	if job == nil || job.DeletionTimestamp.IsZero() {
		t.Fatalf("it is not deleted, or not in the foreground: %+v", job)
	}
	job.Finalizers = nil
	must(t, kube.Update(t.Context(), job))
}

// drop deletes a Job, as a person does or the TTL.
func (s *shelf) drop(job *batchv1.Job) {
	s.t.Helper()
	must(s.t, client.IgnoreNotFound(kube.Delete(s.t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))))
}

// dropCluster deletes the cluster.
func (s *shelf) dropCluster() {
	s.t.Helper()
	must(s.t, kube.Delete(s.t.Context(), s.cluster.DeepCopy()))
}

// events are what was said of backups since the last call.
func (s *shelf) events() string {
	var all []string
	for said := s.r.Events.(*events.FakeRecorder).Events; len(said) > 0; {
		all = append(all, <-said)
	}
	return strings.Join(all, "\n")
}

// later lets time pass, by the shelf's clock and by that of the API server, which stamps what is made: on a busy machine what was
// made just now may be seconds younger than the shelf.
func (s *shelf) later(d time.Duration) {
	now := s.clock.Now()
	if stamp := time.Now(); stamp.After(now) {
		now = stamp
	}
	s.clock.SetTime(now.Add(d))
}

func endJob(t *testing.T, namespace, name string, how batchv1.JobConditionType) {
	t.Helper()
	var job batchv1.Job
	must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &job))
	now := metav1.Now()
	job.Status.StartTime = &now
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: how, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "Played", Message: "as the test wants it"}}
	if how == batchv1.JobComplete {
		job.Status.CompletionTime = &now
	} else {
		job.Status.Conditions[0].Type = batchv1.JobFailureTarget
	}
	must(t, kube.Status().Update(t.Context(), &job))
}

// folder is where a pod writes a backup.
func (s *shelf) folder(name string) string {
	return fmt.Sprintf("%s/orders/%s/backups/20261121T033000Z-%s", s.namespace, s.cluster.UID, name)
}

func (s *shelf) running(name string) {
	s.report(name, func(st *v1alpha1.MySQLBackupStatus) {
		now := metav1.NewTime(s.clock.Now())
		st.Phase, st.StartedAt, st.Path, st.Location = v1alpha1.BackupRunning, &now, s.folder(name), "s3://my-backups/x"
		st.ClusterUID = string(s.cluster.UID)
		st.Destination = &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups"}}
		st.Progress = &v1alpha1.BackupProgress{At: now}
	})
}

func wantFailed(t *testing.T, b *v1alpha1.MySQLBackup, reason string) {
	t.Helper()
	if b == nil || b.Status.Phase != v1alpha1.BackupFailed || b.Status.Reason != reason || b.Status.Message == "" || b.Status.CompletedAt == nil {
		t.Fatalf("not failed with %s: %+v", reason, b)
	}
}

func TestAPersonsBackupGetsAJob(t *testing.T) {
	s := newShelf(t)
	s.put("now", nil)
	if b := s.look("now"); b.Status.Phase != v1alpha1.BackupPending {
		t.Errorf("status %+v", b.Status)
	}
	job := s.runner("now")
	if job == nil {
		t.Fatal("there is no Job")
	}
	pod := job.Spec.Template.Spec
	main := pod.Containers[0]
	told, err := task.Decode(main.Env[0].Value)
	must(t, err)
	if told.Backup != "now" || told.Cluster != "orders" || strings.Join(told.Members, " ") != "orders-0 orders-1 orders-2" || told.Destination.S3.Bucket != "my-backups" || told.Region != "us-east-1" || told.StallTimeout != 10*time.Minute {
		t.Errorf("the pod is told %+v", told)
	}
	if pod.InitContainers[0].Image != "operator:1" || main.Image != "docker.io/library/mysql:9.7.4" || pod.ServiceAccountName != "orders-backup" {
		t.Errorf("images %s, %s, account %s", pod.InitContainers[0].Image, main.Image, pod.ServiceAccountName)
	}
	for _, c := range append(pod.InitContainers, main) {
		if x := c.SecurityContext; x == nil || !*x.ReadOnlyRootFilesystem || *x.AllowPrivilegeEscalation || fmt.Sprint(x.Capabilities.Drop) != "[ALL]" {
			t.Errorf("%s is not hardened: %+v", c.Name, x)
		}
	}
	if !metav1.IsControlledBy(job, s.look("now")) {
		t.Error("the backup does not own its Job")
	}
}

// noJobs has a quota, called small, leave no room for a Job.
func (s *shelf) noJobs() *corev1.ResourceQuota {
	s.t.Helper()
	none := corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	must(s.t, kube.Create(s.t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	must(s.t, kube.Status().Update(s.t.Context(), quota))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "probe"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	admits(s.t, job, false)
	return quota
}

// A quota leaves no room for its Job: the backup waits, and says for what.
func TestAJobThatIsRefused(t *testing.T) {
	s := newShelf(t)
	quota := s.noJobs()
	s.put("now", nil)
	if b := s.look("now"); b.Status.Phase != v1alpha1.BackupPending || !strings.Contains(b.Status.Message, "exceeded quota: small") {
		t.Errorf("status %+v", b.Status)
	}
	must(t, kube.Delete(t.Context(), quota))
	for deadline := time.Now().Add(patience); s.runner("now") == nil; time.Sleep(watchPause) {
		if s.look("now"); time.Now().After(deadline) {
			t.Fatal("there is no Job")
		}
	}
	if b := s.look("now"); strings.Contains(b.Status.Message, "quota") {
		t.Errorf("status %+v", b.Status)
	}
}

func TestABackupOfNobody(t *testing.T) {
	s := newShelf(t)
	s.put("early", func(b *v1alpha1.MySQLBackup) { b.Spec.ClusterName = "missing" })
	if b := s.look("early"); b.Status.Phase != v1alpha1.BackupPending || !strings.Contains(b.Status.Message, "missing") {
		t.Errorf("status %+v", b.Status)
	}
	s.later(backups.ClusterGrace + time.Second)
	wantFailed(t, s.look("early"), v1alpha1.BackupReasonNoCluster)

	other := newShelf(t) // a cluster of this name in another namespace is not meant
	other.dropCluster()
	other.put("foreign", nil)
	other.later(backups.ClusterGrace + time.Second)
	wantFailed(t, other.look("foreign"), v1alpha1.BackupReasonNoCluster)
}

// TestTheSamplesWorkTogether: a catalog offers both as examples, and the backup is of that cluster.
func TestTheSamplesWorkTogether(t *testing.T) {
	s := newShelf(t)
	sample := func(kind string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", "config", "samples", "mysql_v1alpha1_"+kind+".yaml"))
		must(t, err)
		must(t, yaml.UnmarshalStrict(text, into))
	}
	var cluster v1alpha1.MySQLCluster
	var backup v1alpha1.MySQLBackup
	sample("mysqlcluster", &cluster)
	sample("mysqlbackup", &backup)
	if backup.Spec.ClusterName != cluster.Name {
		t.Fatalf("the backup is of %s, the cluster is %s", backup.Spec.ClusterName, cluster.Name)
	}
	must(t, kube.Delete(t.Context(), s.cluster))
	cluster.Namespace, s.cluster = s.namespace, &cluster
	must(t, kube.Create(t.Context(), s.cluster))
	s.put(backup.Name, func(b *v1alpha1.MySQLBackup) { b.Spec = backup.Spec })
	if b := s.look(backup.Name); b.Done() {
		t.Errorf("the backup ends at once: %+v", b.Status)
	}
}

func TestABackupToNowhere(t *testing.T) {
	s := newShelf(t)
	s.cluster.Spec.Backup = nil
	must(t, kube.Update(t.Context(), s.cluster))
	s.put("now", nil)
	wantFailed(t, s.look("now"), v1alpha1.BackupReasonNoDestination)
	if s.runner("now") != nil {
		t.Error("a pod is started")
	}
}

// TestAStalledBackupIsFailed by its progress, however long it has been running, and not before its pod is gone: until
// then it may yet complete.
func TestAStalledBackupIsFailed(t *testing.T) {
	s := newShelf(t)
	stall := func(name string) {
		s.put(name, nil)
		s.look(name)
		s.running(name)
		for range 10 {
			s.later(9 * time.Minute)
			s.report(name, func(st *v1alpha1.MySQLBackupStatus) { st.Progress.At = metav1.NewTime(s.clock.Now()) })
			if b := s.look(name); b.Status.Phase != v1alpha1.BackupRunning {
				t.Fatalf("it makes progress, and is %+v", b.Status)
			}
		}
		s.later(10*time.Minute + backups.ReportGrace + time.Second)
		if b := s.look(name); b.Status.Phase != v1alpha1.BackupRunning {
			t.Fatalf("its pod may still write, and it is %+v", b.Status)
		}
	}
	stall("now")
	collect(t, s.runner("now"))
	wantFailed(t, s.look("now"), v1alpha1.BackupReasonStalled)

	stall("cut-off") // its node does not answer, and its pod does not end
	s.later(jobs.EndPatience)
	wantFailed(t, s.look("cut-off"), v1alpha1.BackupReasonStalled)
	if s.runner("cut-off") != nil {
		t.Error("its Job waits for a pod that does not end")
	}

	stall("late")
	s.report("late", func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted })
	collect(t, s.runner("late"))
	s.later(time.Hour)
	if b := s.look("late"); b.Status.Phase != v1alpha1.BackupCompleted {
		t.Errorf("it completed in its last moment, and is %+v", b.Status)
	}
}

// TestADecisionOnOldNewsIsNone: what the pod wrote meanwhile is not overwritten.
func TestADecisionOnOldNewsIsNone(t *testing.T) {
	s := newShelf(t)
	s.put("now", nil)
	s.look("now")
	s.running("now")
	old := s.get("now")
	s.report("now", func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted })
	if err := s.r.Fail(t.Context(), old, v1alpha1.BackupReasonStalled, "from an old cache"); !apierrors.IsConflict(err) {
		t.Errorf("it was written: %v", err)
	}
	if b := s.get("now"); b.Status.Phase != v1alpha1.BackupCompleted {
		t.Errorf("status %+v", b.Status)
	}
}

// TestAPodThatNeverRan fails its backup: no such image, no node with room.
func TestAPodThatNeverRan(t *testing.T) {
	s := newShelf(t)
	for _, name := range []string{"stuck", "slow"} {
		s.put(name, nil)
		s.look(name)
	}
	ready := s.runner("slow")
	ready.Status.Active, ready.Status.Ready = 1, ptr.To(int32(1))
	must(t, kube.Status().Update(t.Context(), ready))
	s.later(jobs.StartPatience - time.Minute)
	if b := s.look("stuck"); b.Status.Phase != v1alpha1.BackupPending {
		t.Errorf("it may yet begin, and is %+v", b.Status)
	}
	s.later(2 * time.Minute)
	wantFailed(t, s.look("stuck"), v1alpha1.BackupReasonNotStarted)
	if job := s.runner("stuck"); job != nil && job.DeletionTimestamp.IsZero() {
		t.Error("its Job goes on")
	}
	if b := s.look("slow"); b.Status.Phase != v1alpha1.BackupPending || !s.runner("slow").DeletionTimestamp.IsZero() {
		t.Errorf("its pod runs, and it is %+v", b.Status)
	}
}

// TestAPodWithoutItsKeys does not start, which is said at once, and taken back when the Secret is there.
func TestAPodWithoutItsKeys(t *testing.T) {
	s := newShelf(t)
	says := func(text string) {
		t.Helper()
		if b := s.look("now"); b.Status.Phase != v1alpha1.BackupPending || !strings.Contains(b.Status.Message, text) {
			t.Errorf("it is %s: %s; not %s", b.Status.Phase, b.Status.Message, text)
		}
	}
	s.put("now", nil)
	s.secret(nil)
	says("no Secret s3")
	if s.runner("now") == nil {
		t.Error("it has no Job that would go on by itself")
	}
	s.secret(map[string]string{"accessKeyID": "AKIA", "secret_access_key": "x"})
	says("Secret s3 has no key secretAccessKey")
	s.secret(map[string]string{"accessKeyID": "AKIA", "secretAccessKey": "x"})
	says("its pod is being started. What keeps it, such as an image that cannot be pulled, is in its events: kubectl describe pods --selector job-name=now-")
	s.secret(map[string]string{"accessKeyID": "", "secretAccessKey": "x"})
	says("no key accessKeyID")
	s.later(jobs.StartPatience + time.Minute)
	b := s.look("now")
	wantFailed(t, b, v1alpha1.BackupReasonNotStarted)
	if !strings.Contains(b.Status.Message, "no key accessKeyID") {
		t.Errorf("it failed with %s", b.Status.Message)
	}
}

// TestAPodWithoutItsClaim does not start, which is said at once. Where nothing is known to be missing, the message says where to look.
func TestAPodWithoutItsClaim(t *testing.T) {
	s := newShelf(t)
	s.cluster.Spec.Backup.Destination = &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: "nas"}}
	must(t, kube.Update(t.Context(), s.cluster))
	s.put("now", nil)
	if b := s.look("now"); b.Status.Phase != v1alpha1.BackupPending || !strings.Contains(b.Status.Message, "there is no PersistentVolumeClaim nas") {
		t.Errorf("it is %s: %s", b.Status.Phase, b.Status.Message)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nas"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	must(t, kube.Create(t.Context(), claim))
	s.later(jobs.StartPatience + time.Minute)
	b := s.look("now")
	wantFailed(t, b, v1alpha1.BackupReasonNotStarted)
	if !strings.Contains(b.Status.Message, "What keeps it, such as an image that cannot be pulled, is in its events: kubectl describe pods --selector job-name=now-") {
		t.Errorf("it failed with %s", b.Status.Message)
	}
}

// TestWhatAFailedBackupLeftIsRemoved, also when its pod ended by itself and the store did not let it take that back; and the longer
// that goes on the less often it is tried.
func TestWhatAFailedBackupLeftIsRemoved(t *testing.T) {
	s := newShelf(t)
	for name, left := range map[string]bool{"left": true, "clean": false} {
		s.put(name, nil)
		s.look(name)
		s.running(name)
		s.report(name, func(st *v1alpha1.MySQLBackupStatus) {
			at := metav1.NewTime(s.clock.Now())
			st.Phase, st.Reason, st.Message, st.CompletedAt = v1alpha1.BackupFailed, v1alpha1.BackupReasonStoreUnavailable, "x", &at
			if !left {
				st.Path, st.Location = "", ""
			}
		})
		s.end(s.runner(name), batchv1.JobFailed)
		s.look(name)
	}
	if s.remover("clean") != nil {
		t.Error("a pod removes what is not there")
	}
	s.end(s.remover("left"), batchv1.JobFailed)
	first := s.remover("left").UID
	s.later(backups.RemovalPause + time.Minute)
	if s.look("left"); s.remover("left").UID == first {
		t.Error("it is not tried again")
	}
	s.later(24 * time.Hour)
	if pause := s.r.PauseOf(s.get("left")); pause < 5*time.Hour {
		t.Errorf("after a day it is tried again every %s", pause)
	}
	s.end(s.remover("left"), batchv1.JobComplete)
	if b := s.look("left"); b.Status.Path != "" {
		t.Errorf("it is not known to be gone: %+v", b.Status)
	}
}

// TestAJobOfSomebodyElse is neither believed nor deleted, whatever it is called and whatever an annotation says.
func TestAJobOfSomebodyElse(t *testing.T) {
	s := newShelf(t)
	foreign := func(name string, owner *metav1.OwnerReference) *batchv1.Job {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
		if owner != nil {
			job.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		must(t, kube.Create(t.Context(), job))
		return job
	}
	cron := func(name string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: name, UID: "1", Controller: ptr.To(true)}
	}
	annotated := func(b *v1alpha1.MySQLBackup) {
		b.Spec.Schedule, b.Annotations = "daily", map[string]string{v1alpha1.AnnotationRunner: b.Name}
	}
	for name, owner := range map[string]*metav1.OwnerReference{"nobodys": nil, "anothers": cron("wares-daily"), "hourlys": cron("orders-hourly")} {
		foreign(name, owner)
		s.put(name, annotated)
		s.running(name)
	}
	foreign("orders-daily-1", cron("orders-daily"))
	s.put("orders-daily-1", annotated)
	s.running("orders-daily-1")
	s.later(backups.RunnerGrace + time.Second)
	for _, name := range []string{"nobodys", "anothers", "hourlys"} {
		wantFailed(t, s.look(name), v1alpha1.BackupReasonRunnerLost)
		if job := s.job(name); job == nil || !job.DeletionTimestamp.IsZero() {
			t.Errorf("the Job %s was deleted", name)
		}
	}
	if b := s.look("orders-daily-1"); b.Status.Phase != v1alpha1.BackupRunning {
		t.Errorf("its own schedule's Job is there, and it is %+v", b.Status)
	}
}

// TestNamesOfJobsNeverMeet, however alike those of their backups are, and are names.
func TestNamesOfJobsNeverMeet(t *testing.T) {
	long := strings.Repeat("b", 63)
	seen := map[string]string{}
	for i, name := range []string{"x", "x-rm", "x-rm-rm", long, long[:61] + "-c", long[:51] + ".-.-.-.-.-.c"} {
		b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%08d-2222-3333-4444-555555555555", i))}}
		for _, what := range []string{"", backups.Removing} {
			job := backups.JobName(b, what)
			if problems := validation.IsDNS1123Subdomain(job); len(problems) > 0 || len(job) > backups.JobNameLimit || seen[job] != "" {
				t.Errorf("%s of %s is %s (%v), as that of %s", what, name, job, problems, seen[job])
			}
			seen[job] = name
		}
	}
}

// TestASnapshotThatDoesNotGetOn fails: no member is fit for it, EC2 takes none, or EC2 copies without an end.
func TestASnapshotThatDoesNotGetOn(t *testing.T) {
	s := newShelf(t)
	snap := func(b *v1alpha1.MySQLBackup) { b.Spec.Method = v1alpha1.BackupMethodSnapshot }
	s.put("copies", snap)
	s.put("waits", snap)
	copied := func(percent int32) {
		s.report("copies", func(st *v1alpha1.MySQLBackupStatus) {
			now := metav1.NewTime(s.clock.Now())
			st.Phase, st.ClusterUID, st.SnapshotID, st.Message = v1alpha1.BackupRunning, string(s.cluster.UID), "snap-1", "EC2 copies"
			st.Progress = &v1alpha1.BackupProgress{Percent: percent, At: now}
		})
	}
	copied(1)
	s.later(13 * time.Minute)
	wantFailed(t, s.look("waits"), v1alpha1.BackupReasonStalled)
	for percent := range int32(3) {
		copied(percent + 2)
		s.later(backups.SnapshotPatience - time.Minute)
		if b := s.look("copies"); b.Status.Phase != v1alpha1.BackupRunning {
			t.Fatalf("it gets on, and is %+v", b.Status)
		}
	}
	s.later(2 * time.Minute)
	wantFailed(t, s.look("copies"), v1alpha1.BackupReasonStalled)
	s.put("orphan", snap)
	s.report("orphan", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.ClusterUID, st.SnapshotID = v1alpha1.BackupRunning, string(s.cluster.UID), "snap-2"
	})
	s.dropCluster()
	s.later(backups.ClusterGrace)
	wantFailed(t, s.look("orphan"), v1alpha1.BackupReasonNoCluster)
}

// TestALostRunner: the Job ends without a word, or is gone. What it may have stored is removed.
func TestALostRunner(t *testing.T) {
	for name, lose := range map[string]func(*shelf){
		"it failed without a word":    func(s *shelf) { s.end(s.runner("now"), batchv1.JobFailed) },
		"it succeeded without a word": func(s *shelf) { s.end(s.runner("now"), batchv1.JobComplete) },
		"it is gone": func(s *shelf) {
			must(s.t, kube.Delete(s.t.Context(), s.runner("now"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			s.later(backups.RunnerGrace + time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			s.put("now", nil)
			s.look("now")
			s.running("now")
			lose(s)
			wantFailed(t, s.look("now"), v1alpha1.BackupReasonRunnerLost)
			job := s.remover("now")
			if job == nil {
				t.Fatal("nobody removes what it left")
			}
			told, err := task.Decode(job.Spec.Template.Spec.Containers[0].Env[0].Value)
			if err != nil || told.Path != s.folder("now") || told.Destination == nil || told.Destination.S3.Bucket != "my-backups" {
				t.Errorf("the pod is told %+v, %v", told, err)
			}
			// Once that is done it is done: the Job's TTL does not bring another.
			s.end(job, batchv1.JobComplete)
			if b := s.look("now"); b.Status.Path != "" || b.Status.Phase != v1alpha1.BackupFailed {
				t.Errorf("status %+v", b.Status)
			}
			s.drop(job)
			if s.look("now"); s.remover("now") != nil {
				t.Error("it is removed again")
			}
		})
	}
}

// TestWhatThePodReportedStays: the Job ended well and the pod has said so.
func TestWhatThePodReportedStays(t *testing.T) {
	s := newShelf(t)
	s.put("now", nil)
	s.look("now")
	s.running("now")
	s.report("now", func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted })
	s.end(s.runner("now"), batchv1.JobComplete)
	s.later(24 * time.Hour)
	if b := s.look("now"); b.Status.Phase != v1alpha1.BackupCompleted {
		t.Errorf("status %+v", b.Status)
	}
}

// TestAScheduledBackupHasItsRunner: nobody starts a second one for it.
func TestAScheduledBackupHasItsRunner(t *testing.T) {
	s := newShelf(t)
	s.put("orders-daily-1", func(b *v1alpha1.MySQLBackup) {
		b.Spec.Schedule, b.Annotations = "daily", map[string]string{v1alpha1.AnnotationRunner: "orders-daily-1"}
	})
	s.look("orders-daily-1")
	if s.job("orders-daily-1") != nil {
		t.Error("a second runner was started")
	}
	s.later(backups.RunnerGrace + time.Minute)
	wantFailed(t, s.look("orders-daily-1"), v1alpha1.BackupReasonRunnerLost)
}

// completed makes a backup whose data go with it, and has it completed.
func (s *shelf) completed(name string, policy v1alpha1.BackupDeletionPolicy) *v1alpha1.MySQLBackup {
	s.t.Helper()
	s.put(name, func(b *v1alpha1.MySQLBackup) { b.Spec.DeletionPolicy = policy })
	s.look(name)
	s.running(name)
	s.report(name, func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted })
	s.end(s.runner(name), batchv1.JobComplete)
	return s.look(name)
}

// TestDeletion: data go only where the policy says so, and before the object.
func TestDeletionOfABackup(t *testing.T) {
	s := newShelf(t)
	kept := s.completed("kept", v1alpha1.BackupDeletionRetain)
	must(t, kube.Delete(t.Context(), kept))
	if s.look("kept") != nil || s.job(backups.JobName(kept, backups.Removing)) != nil {
		t.Error("a kept backup's object stays, or its data are removed")
	}
	must(t, kube.Delete(t.Context(), s.completed("gone", v1alpha1.BackupDeletionDelete)))
	if s.look("gone") == nil {
		t.Fatal("the object went before its data")
	}
	first := s.remover("gone")
	for _, v := range first.Spec.Template.Spec.Volumes {
		if v.Secret != nil && v.Secret.SecretName == "orders-backup-tls" {
			t.Error("its pod needs a certificate")
		}
	}
	if image := first.Spec.Template.Spec.Containers[0].Image; image != "operator:1" {
		t.Errorf("it needs the image %s", image)
	}
	s.end(first, batchv1.JobFailed)
	s.look("gone")
	if job := s.remover("gone"); job == nil || job.UID != first.UID || !strings.Contains(s.events(), "RemovalFailed") {
		t.Fatal("it is tried again without a pause, or nobody is told")
	}
	s.later(backups.RemovalPause + time.Minute)
	s.look("gone")
	if job := s.remover("gone"); job == nil || job.UID == first.UID {
		t.Fatal("it is not tried again, or the object went although its data could not be removed")
	}
	s.end(s.remover("gone"), batchv1.JobComplete)
	if s.look("gone") != nil {
		t.Error("the object stays although its data are gone")
	}
}

// TestARemovalThatIsRefused: an event says why, and the message of a backup that failed stays; that of a deleted one says what it waits for.
func TestARemovalThatIsRefused(t *testing.T) {
	s := newShelf(t)
	s.put("failed", nil)
	s.look("failed")
	s.running("failed")
	b := s.completed("gone", v1alpha1.BackupDeletionDelete)
	s.noJobs()
	s.report("failed", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.Reason, st.Message, st.CompletedAt = v1alpha1.BackupFailed, v1alpha1.BackupReasonStoreUnavailable, "the bucket is away", ptr.To(metav1.NewTime(s.clock.Now()))
	})
	s.end(s.runner("failed"), batchv1.JobFailed)
	if b := s.look("failed"); b.Status.Message != "the bucket is away" {
		t.Errorf("why it failed is lost: %s", b.Status.Message)
	}
	if said := s.events(); !strings.Contains(said, "RemovalFailed") || !strings.Contains(said, "exceeded quota: small") {
		t.Errorf("no event says that its data stay: %s", said)
	}
	must(t, kube.Delete(t.Context(), b))
	if b := s.look("gone"); b == nil || !strings.Contains(b.Status.Message, "exceeded quota: small") {
		t.Errorf("it is gone, or does not say what it waits for: %+v", b)
	}
	if said := s.events(); !strings.Contains(said, "RemovalFailed") {
		t.Errorf("no event says that the data of a deleted backup stay: %s", said)
	}
}

// TestARemovalNeedsNoCertificate, so that a Secret of somebody else's with the name of the backup pods' does not hold it up; a backup waits for that.
// An account of somebody else's holds up both.
func TestARemovalNeedsNoCertificate(t *testing.T) {
	for name, foreign := range map[string]client.Object{
		"Secret":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: resources.NamesOf("orders").BackupTLS}},
		"ServiceAccount": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: resources.NamesOf("orders").BackupAccount}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			b := s.completed("gone", v1alpha1.BackupDeletionDelete)
			foreign.SetNamespace(s.namespace)
			must(t, kube.Create(t.Context(), foreign))
			s.put("now", nil)
			if b := s.look("now"); s.runner("now") != nil || !strings.Contains(b.Status.Message, foreign.GetName()+" exists and does not belong to this cluster") {
				t.Errorf("a backup gets it: %+v", b.Status)
			}
			must(t, kube.Delete(t.Context(), b))
			if s.look("gone"); (s.remover("gone") != nil) != (name == "Secret") {
				t.Errorf("the Job that removes is %+v", s.remover("gone"))
			}
		})
	}
}

// TestABackupIsLetGoWhenNobodyCanRemoveItsData, and nobody removes what a status only claims to be the backup's.
func TestABackupIsLetGoWhenNobodyCanRemoveItsData(t *testing.T) {
	for name, lose := range map[string]func(*shelf){
		"the cluster is gone": (*shelf).dropCluster,
		"another cluster has its name": func(s *shelf) {
			s.dropCluster()
			time.Sleep(1100 * time.Millisecond) // creation times have seconds
			s.cluster.ResourceVersion, s.cluster.UID = "", ""
			must(s.t, kube.Create(s.t.Context(), s.cluster))
		},
		"the namespace goes": func(s *shelf) {
			must(s.t, kube.Delete(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
		},
		"backups are elsewhere by now": func(s *shelf) {
			s.cluster.Spec.Backup.Destination.S3.Bucket = "another"
			must(s.t, kube.Update(s.t.Context(), s.cluster))
		},
		"it says another bucket": func(s *shelf) {
			s.report("gone", func(st *v1alpha1.MySQLBackupStatus) { st.Destination.S3.Bucket = "another" })
		},
		"it says the folder of another cluster": func(s *shelf) {
			s.report("gone", func(st *v1alpha1.MySQLBackupStatus) { st.Path = "shop/wares/uid/backups/20261121T033000Z-gone" })
		},
		"it says the folder of another backup": func(s *shelf) {
			s.report("gone", func(st *v1alpha1.MySQLBackupStatus) { st.Path = s.folder("other") })
		},
		"it says the folder of a backup whose name ends alike": func(s *shelf) {
			s.report("gone", func(st *v1alpha1.MySQLBackupStatus) { st.Path = s.folder("all-gone") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			b := s.completed("gone", v1alpha1.BackupDeletionDelete)
			lose(s)
			must(t, client.IgnoreNotFound(kube.Delete(t.Context(), b)))
			if s.look("gone") != nil {
				t.Error("it stays for ever")
			}
			if s.job(backups.JobName(b, backups.Removing)) != nil {
				t.Error("a pod removes something")
			}
			if said := s.events(); !strings.Contains(said, "BackupDataLeft") || !strings.Contains(said, "s3://my-backups/x") {
				t.Errorf("nobody is told what is left: %s", said)
			}
		})
	}
	s := newShelf(t) // what a failed one left is told as well, and keeps it no longer than others that failed
	s.completed("gone", v1alpha1.BackupDeletionRetain)
	s.report("gone", func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupFailed })
	s.cluster.Spec.Backup.Destination.S3.Bucket = "another"
	must(t, kube.Update(t.Context(), s.cluster))
	if b := s.look("gone"); b.Status.Path != "" || b.Status.Location == "" || backups.LeavesData(b) || !strings.Contains(s.events(), "BackupDataLeft") {
		t.Errorf("nobody is told what a failed backup left, or it is tried for ever: %+v", b.Status)
	}
	if s.look("gone"); strings.Contains(s.events(), "BackupDataLeft") {
		t.Error("that is told again")
	}
}

// TestNothingHoldsABackupWhoseClusterIsGone: nobody could remove what it still has, which an event names, and the operator may go next.
func TestNothingHoldsABackupWhoseClusterIsGone(t *testing.T) {
	for name, drop := range map[string]func(*shelf){
		"no other has its name": (*shelf).dropCluster,
		"another has its name": func(s *shelf) {
			s.dropCluster()
			time.Sleep(1100 * time.Millisecond) // creation times have seconds
			s.cluster.ResourceVersion, s.cluster.UID = "", ""
			must(s.t, kube.Create(s.t.Context(), s.cluster))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			type row struct {
				method v1alpha1.BackupMethod
				policy v1alpha1.BackupDeletionPolicy
				phase  v1alpha1.BackupPhase
			}
			all := map[string]row{}
			for _, method := range []v1alpha1.BackupMethod{v1alpha1.BackupMethodDump, v1alpha1.BackupMethodSnapshot} {
				for _, policy := range []v1alpha1.BackupDeletionPolicy{v1alpha1.BackupDeletionRetain, v1alpha1.BackupDeletionDelete} {
					for _, phase := range []v1alpha1.BackupPhase{"", v1alpha1.BackupPending, v1alpha1.BackupRunning, v1alpha1.BackupCompleted, v1alpha1.BackupFailed} {
						one := strings.ToLower(strings.Join([]string{string(method), string(policy), "p" + string(phase)}, "-"))
						all[one] = row{method, policy, phase}
						s.put(one, func(b *v1alpha1.MySQLBackup) {
							b.Spec.Method, b.Spec.DeletionPolicy, b.Finalizers = method, policy, []string{v1alpha1.Finalizer}
						})
						s.report(one, func(st *v1alpha1.MySQLBackupStatus) {
							st.Phase, st.ClusterUID, st.Location = phase, string(s.cluster.UID), "ebs://snap-"+one
						})
					}
				}
			}
			drop(s)
			s.later(backups.ClusterGrace + time.Minute)
			var cluster client.Object = s.cluster
			if woken := s.r.BackupsOf(t.Context(), cluster); len(woken) != len(all) {
				t.Errorf("the end of the cluster wakes %v", woken)
			}
			for one, of := range all {
				b := s.look(one)
				if of.phase == v1alpha1.BackupRunning && of.method == v1alpha1.BackupMethodDump {
					s.later(time.Hour) // its pod may still end
					b = s.look(one)
				}
				if b == nil || len(b.Finalizers) > 0 {
					t.Errorf("%s is held: %+v", one, b)
				}
				left := of.policy == v1alpha1.BackupDeletionDelete || of.method == v1alpha1.BackupMethodSnapshot && of.phase != v1alpha1.BackupCompleted
				if said := s.events(); strings.Contains(said, "ebs://snap-"+one+" is left: the cluster is gone") != left {
					t.Errorf("of %s is said: %s", one, said)
				}
			}
		})
	}
}

// TestPrunedBackupsGo, but only those of the same schedule and cluster, whatever a status says.
func TestPrunedBackupsGo(t *testing.T) {
	s := newShelf(t)
	of := func(schedule string) func(*v1alpha1.MySQLBackup) {
		return func(b *v1alpha1.MySQLBackup) {
			b.Spec.Schedule, b.Annotations = schedule, map[string]string{v1alpha1.AnnotationRunner: b.Name}
		}
	}
	s.put("old", of("daily"))
	s.put("hourly-old", of("hourly"))
	s.put("mine", nil)
	s.put("new", of("daily"))
	s.report("new", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.Pruned = v1alpha1.BackupCompleted, []string{"old", "hourly-old", "mine", "new", "is-not-there"}
	})
	s.look("new")
	var list v1alpha1.MySQLBackupList
	must(t, kube.List(t.Context(), &list, client.InNamespace(s.namespace)))
	var names []string
	for _, b := range list.Items {
		names = append(names, b.Name)
	}
	if strings.Join(names, " ") != "hourly-old mine new" {
		t.Errorf("left are %v", names)
	}
	// The first schedule of dumps prunes the archive's bases that no schedule owns, and nothing that another schedule made.
	s.put("left", of("gone"))
	s.put("base", func(b *v1alpha1.MySQLBackup) {
		b.Labels = map[string]string{v1alpha1.LabelComponent: resources.ComponentArchive}
	})
	must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(s.cluster), s.cluster))
	s.cluster.Spec.Backup.Schedules = []v1alpha1.BackupSchedule{{Name: "daily", Cron: "30 3 * * *"}, {Name: "hourly", Cron: "0 * * * *"}}
	must(t, kube.Update(t.Context(), s.cluster))
	s.report("new", func(st *v1alpha1.MySQLBackupStatus) { st.Pruned = []string{"left", "base", "hourly-old", "mine"} })
	names = nil
	for deadline := time.Now().Add(patience); len(names) != 4 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		s.look("new")
		must(t, kube.List(t.Context(), &list, client.InNamespace(s.namespace)))
		names = nil
		for _, b := range list.Items {
			names = append(names, b.Name)
		}
	}
	if strings.Join(names, " ") != "hourly-old left mine new" {
		t.Errorf("left are %v", names)
	}
}

// TestForeignConditionsHoldNothingUp: somebody has filled the list of conditions, which holds 8.
func TestForeignConditionsHoldNothingUp(t *testing.T) {
	s := newShelf(t)
	s.put("full", func(b *v1alpha1.MySQLBackup) { b.Spec.Method = v1alpha1.BackupMethodSnapshot })
	s.report("full", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase = v1alpha1.BackupPending
		for i := range 8 {
			st.Conditions = append(st.Conditions, metav1.Condition{Type: fmt.Sprint("Foreign", i), Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(s.clock.Now())})
		}
	})
	s.later(13 * time.Minute)
	b := s.look("full")
	wantFailed(t, b, v1alpha1.BackupReasonStalled)
	if len(b.Status.Conditions) != 2 {
		t.Errorf("the conditions are %+v", b.Status.Conditions)
	}
}

// TestALongMessageKeepsNoBackupFromFailing: what was said before is as long as a message may be, and is said again.
func TestALongMessageKeepsNoBackupFromFailing(t *testing.T) {
	s := newShelf(t)
	s.put("long", func(b *v1alpha1.MySQLBackup) { b.Spec.Method = v1alpha1.BackupMethodSnapshot })
	s.report("long", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.Message = v1alpha1.BackupPending, strings.Repeat("ö", backups.MessageLimit)
	})
	s.later(13 * time.Minute)
	b := s.look("long")
	wantFailed(t, b, v1alpha1.BackupReasonStalled)
	if !strings.HasPrefix(b.Status.Message, "the snapshot made no progress") || !strings.HasSuffix(b.Status.Message, "ö…") {
		t.Errorf("the message is %.60s", b.Status.Message)
	}
}

// TestASnapshotDoesNotWaitForItsTurnForEver.
func TestASnapshotDoesNotWaitForItsTurnForEver(t *testing.T) {
	s := newShelf(t)
	s.put("queued", func(b *v1alpha1.MySQLBackup) { b.Spec.Method = v1alpha1.BackupMethodSnapshot })
	s.report("queued", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.Reason = v1alpha1.BackupPending, v1alpha1.BackupReasonQueued
	})
	s.later(backups.QueuePatience - time.Minute)
	if b := s.look("queued"); b.Status.Phase != v1alpha1.BackupPending {
		t.Fatalf("it is %+v", b.Status)
	}
	s.later(2 * time.Minute)
	wantFailed(t, s.look("queued"), v1alpha1.BackupReasonStalled)
}

// TestADeletedSnapshotSaysWhatItWaitsFor, when its cluster does not get to it.
func TestADeletedSnapshotSaysWhatItWaitsFor(t *testing.T) {
	s := newShelf(t)
	s.put("held", func(b *v1alpha1.MySQLBackup) {
		b.Spec.Method, b.Spec.DeletionPolicy, b.Finalizers = v1alpha1.BackupMethodSnapshot, v1alpha1.BackupDeletionDelete, []string{v1alpha1.Finalizer}
	})
	must(t, kube.Delete(t.Context(), s.get("held")))
	if b := s.look("held"); b == nil || b.Status.Message != "" {
		t.Fatalf("at once it is %+v", b)
	}
	s.later(backups.HeldGrace + time.Minute)
	if b := s.look("held"); !strings.Contains(b.Status.Message, "waiting until the operator has looked after MySQLCluster orders in EC2") {
		t.Errorf("its message is %q", b.Status.Message)
	}
	s.cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCloudReachable, Status: metav1.ConditionFalse, Reason: "CredentialsInvalid", Message: "no such key", LastTransitionTime: metav1.Now()}}
	must(t, kube.Status().Update(t.Context(), s.cluster.DeepCopy()))
	if b := s.look("held"); !strings.HasSuffix(b.Status.Message, "; its condition CloudReachable is False: CredentialsInvalid: no such key") {
		t.Errorf("its message is %q", b.Status.Message)
	}
}

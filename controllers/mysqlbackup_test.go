package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// shelf is a namespace with a cluster that has a destination, and the reconciler of its backups. No pod ever runs here:
// the tests play what a pod, and what Kubernetes' Job controller, would write.
type shelf struct {
	t         *testing.T
	r         *MySQLBackupReconciler
	clock     *clocktesting.FakePassiveClock
	namespace string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), namespace: fmt.Sprintf("shelf-%d", serial.Add(1))}
	must(t, kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	s.r = &MySQLBackupReconciler{Client: kube, Reader: kube, Events: events.NewFakeRecorder(1000), Clock: s.clock,
		Images: &Images{Own: "operator:1", Client: DefaultClientImage}}
	must(t, kube.Create(t.Context(), &v1alpha1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "orders"},
		Spec: v1alpha1.MySQLClusterSpec{
			Version: "9.7.4",
			AWS:     v1alpha1.AWSSpec{Region: "us-east-1", InstanceType: "m6i.large", SubnetIDs: []string{"subnet-01234567"}, ClientCIDRs: []string{"10.0.0.0/8"}},
			Backup:  &v1alpha1.BackupSpec{Destination: &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "s3"}}}},
		},
	}))
	return s
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
func (s *shelf) end(name string, how batchv1.JobConditionType) {
	s.t.Helper()
	endJob(s.t, s.namespace, name, how)
}

func endJob(t *testing.T, namespace, name string, how batchv1.JobConditionType) {
	t.Helper()
	var job batchv1.Job
	must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &job))
	now := metav1.Now()
	job.Status.StartTime = &now
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: how, Status: corev1.ConditionTrue, Reason: "Played", Message: "as the test wants it"}}
	if how == batchv1.JobComplete {
		job.Status.CompletionTime = &now
	} else {
		job.Status.Conditions[0].Type = batchv1.JobFailureTarget
	}
	must(t, kube.Status().Update(t.Context(), &job))
}

func (s *shelf) running(name string) {
	s.report(name, func(st *v1alpha1.MySQLBackupStatus) {
		now := metav1.NewTime(s.clock.Now())
		st.Phase, st.StartedAt, st.Path, st.Location = v1alpha1.BackupRunning, &now, "shop/orders/uid/backups/x-"+name, "s3://my-backups/x"
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
	job := s.job("now")
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

func TestABackupOfNobody(t *testing.T) {
	s := newShelf(t)
	s.put("early", func(b *v1alpha1.MySQLBackup) { b.Spec.ClusterName = "missing" })
	if b := s.look("early"); b.Status.Phase != v1alpha1.BackupPending || !strings.Contains(b.Status.Message, "missing") {
		t.Errorf("status %+v", b.Status)
	}
	s.clock.SetTime(s.clock.Now().Add(clusterGrace + time.Second))
	wantFailed(t, s.look("early"), v1alpha1.BackupReasonNoCluster)

	other := newShelf(t) // a cluster of this name in another namespace is not meant
	must(t, kube.Delete(t.Context(), &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: other.namespace, Name: "orders"}}))
	other.put("foreign", nil)
	other.clock.SetTime(other.clock.Now().Add(clusterGrace + time.Second))
	wantFailed(t, other.look("foreign"), v1alpha1.BackupReasonNoCluster)
}

func TestABackupToNowhere(t *testing.T) {
	s := newShelf(t)
	var c v1alpha1.MySQLCluster
	must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "orders"}, &c))
	c.Spec.Backup = nil
	must(t, kube.Update(t.Context(), &c))
	s.put("now", nil)
	wantFailed(t, s.look("now"), v1alpha1.BackupReasonNoDestination)
	if s.job("now") != nil {
		t.Error("a pod is started")
	}
}

// TestAStalledBackupIsFailed by its progress, however long it has been running, and its Job is ended.
func TestAStalledBackupIsFailed(t *testing.T) {
	s := newShelf(t)
	s.put("now", nil)
	s.look("now")
	s.running("now")
	for range 10 {
		s.clock.SetTime(s.clock.Now().Add(9 * time.Minute))
		s.report("now", func(st *v1alpha1.MySQLBackupStatus) { st.Progress.At = metav1.NewTime(s.clock.Now()) })
		if b := s.look("now"); b.Status.Phase != v1alpha1.BackupRunning {
			t.Fatalf("it makes progress, and is %+v", b.Status)
		}
	}
	s.clock.SetTime(s.clock.Now().Add(10*time.Minute + reportGrace + time.Second))
	wantFailed(t, s.look("now"), v1alpha1.BackupReasonStalled)
	if job := s.job("now"); job != nil && job.DeletionTimestamp.IsZero() {
		t.Error("its Job goes on")
	}
}

// TestALostRunner: the Job ends without a word, or is gone. What it may have stored is removed.
func TestALostRunner(t *testing.T) {
	for name, lose := range map[string]func(*shelf){
		"it failed without a word":    func(s *shelf) { s.end("now", batchv1.JobFailed) },
		"it succeeded without a word": func(s *shelf) { s.end("now", batchv1.JobComplete) },
		"it is gone": func(s *shelf) {
			must(s.t, kube.Delete(s.t.Context(), s.job("now"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			s.clock.SetTime(s.clock.Now().Add(runnerGrace + time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			s.put("now", nil)
			s.look("now")
			s.running("now")
			lose(s)
			wantFailed(t, s.look("now"), v1alpha1.BackupReasonRunnerLost)
			job := s.job("now" + removeSuffix)
			if job == nil {
				t.Fatal("nobody removes what it left")
			}
			told, err := task.Decode(job.Spec.Template.Spec.Containers[0].Env[0].Value)
			if err != nil || told.Path != "shop/orders/uid/backups/x-now" || told.Destination == nil {
				t.Errorf("the pod is told %+v, %v", told, err)
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
	s.end("now", batchv1.JobComplete)
	s.clock.SetTime(s.clock.Now().Add(24 * time.Hour))
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
	s.clock.SetTime(s.clock.Now().Add(runnerGrace + time.Minute))
	wantFailed(t, s.look("orders-daily-1"), v1alpha1.BackupReasonRunnerLost)
}

// TestDeletion: data go only where the policy says so, and before the object.
func TestDeletionOfABackup(t *testing.T) {
	s := newShelf(t)
	s.put("kept", nil)
	s.put("gone", func(b *v1alpha1.MySQLBackup) { b.Spec.DeletionPolicy = v1alpha1.BackupDeletionDelete })
	for _, name := range []string{"kept", "gone"} {
		s.look(name)
		s.running(name)
		s.report(name, func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted })
		s.end(name, batchv1.JobComplete)
		b := s.look(name)
		must(t, kube.Delete(t.Context(), b))
	}
	if s.look("kept") != nil || s.job("kept"+removeSuffix) != nil {
		t.Error("a kept backup's object stays, or its data are removed")
	}
	if s.look("gone") == nil {
		t.Fatal("the object went before its data")
	}
	s.end("gone"+removeSuffix, batchv1.JobFailed)
	if s.look("gone") == nil {
		t.Fatal("the object went although its data could not be removed")
	}
	if job := s.job("gone" + removeSuffix); job != nil && jobEnded(job) != "" {
		must(t, kube.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		s.look("gone")
	}
	s.end("gone"+removeSuffix, batchv1.JobComplete)
	if s.look("gone") != nil {
		t.Error("the object stays although its data are gone")
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
}

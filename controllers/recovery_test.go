package controllers

import (
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestARecoveryWhosePodNeverRan is made anew, as the spec is by then, and never twice at a time.
func TestARecoveryWhosePodNeverRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recovers)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	name := resources.NamesOf("orders").Recovery
	read := func() *batchv1.Job {
		t.Helper()
		var job batchv1.Job
		must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, &job))
		return &job
	}
	goOn := func() {
		t.Helper()
		must(t, o.restorer.Recover(t.Context(), w.seen(o), topology.Recover{Member: "orders-0"}))
	}
	goOn()
	first := read()
	goOn()
	if again := read(); again.UID != first.UID || !again.DeletionTimestamp.IsZero() {
		t.Fatal("it was not given the time to begin")
	}
	w.wait(jobs.StartPatience + time.Minute)
	running := first.DeepCopy()
	running.Status.Active, running.Status.Ready = 1, ptr.To(int32(1))
	must(t, kube.Status().Update(t.Context(), running))
	goOn()
	if running = read(); !running.DeletionTimestamp.IsZero() {
		t.Fatal("a Job whose pod runs was deleted")
	}
	running.Status.Ready = ptr.To(int32(0))
	must(t, kube.Status().Update(t.Context(), running))
	must(t, kube.Patch(t.Context(), w.cluster.DeepCopy(), client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"backup":{"image":"mended:1"}}}`))))
	goOn()
	goOn()
	if stuck := read(); stuck.UID != first.UID {
		t.Fatal("there were two at a time")
	}
	collect(t, read())
	goOn()
	if second := read(); second.UID == first.UID || second.Spec.Template.Spec.Containers[0].Image != "mended:1" {
		t.Errorf("the next one is %s with %s", second.UID, second.Spec.Template.Spec.Containers[0].Image)
	}
	said := ""
	for all := o.Events.(*events.FakeRecorder).Events; len(all) > 0; {
		said += <-all + "\n"
	}
	if strings.Count(said, "RecoveryNotStarted") != 1 {
		t.Errorf("told is %s", said)
	}
}

// TestARecoveryThatMissesWhatItsPodNeeds starts none, and says what is missing.
func TestARecoveryThatMissesWhatItsPodNeeds(t *testing.T) {
	t.Parallel()
	secret := func(keys map[string]string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s3"}, StringData: keys}
	}
	keys := func(id string) map[string]string { return map[string]string{"accessKeyID": id, "secretAccessKey": "x"} }
	bucket := v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "s3"}}}
	claim := v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: "nas"}}
	for name, row := range map[string]struct {
		from         v1alpha1.BackupDestination
		there        client.Object
		reason, says string
	}{
		"no Secret":          {bucket, nil, v1alpha1.ReasonCredentialsMissing, "there is no Secret s3"},
		"half a Secret":      {bucket, secret(map[string]string{"accessKeyID": "AKIA"}), v1alpha1.ReasonCredentialsMissing, "Secret s3 has no key secretAccessKey"},
		"a file in a Secret": {bucket, secret(keys("[default]\naws_access_key_id = AKIA")), v1alpha1.ReasonCredentialsInvalid, "Secret s3 has in accessKeyID a space, a line break"},
		"a Secret":           {bucket, secret(keys("AKIA\n")), "", ""},
		"no claim":           {claim, nil, v1alpha1.ReasonWaitingForDependency, "there is no PersistentVolumeClaim nas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
				recovers(c)
				c.Spec.Bootstrap.Recovery.ObjectStore.Destination = row.from
			})
			o := w.newOperator(nil)
			o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
			if row.there != nil {
				row.there.SetNamespace(w.cluster.Namespace)
				must(t, kube.Create(t.Context(), row.there))
			}
			p := pass.AsProblem(o.restorer.Recover(t.Context(), w.seen(o), topology.Recover{Member: "orders-0"}))
			var made batchv1.JobList
			must(t, kube.List(t.Context(), &made, client.InNamespace(w.cluster.Namespace)))
			if (p == nil) != (row.reason == "") || p != nil && (p.Reason != row.reason || !strings.Contains(p.Message, row.says)) || (len(made.Items) == 1) != (row.reason == "") {
				t.Errorf("%v, with %d Jobs", p, len(made.Items))
			}
		})
	}
}

// TestAFailedBackupIsNotRestored: nothing is waited for, because it never completes.
func TestAFailedBackupIsNotRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{BackupName: "b"}}
	})
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "b"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "wares"}}
	must(t, kube.Create(t.Context(), b))
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/WaitingForDependency", "MySQLBackup b is Pending and not Completed"))
	b.Status = v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupFailed}
	must(t, kube.Status().Update(t.Context(), b))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionRecovered, "False/RecoveryFailed", "MySQLBackup b failed, so there is nothing to restore; delete this cluster"))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionStalled, "True/"))
}

// TestARestoringPodThatDoesNotEnd: no other is started beside it, and somebody is told.
func TestARestoringPodThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recovers)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	goOn := func() *engine.Problem {
		t.Helper()
		return pass.AsProblem(o.restorer.Recover(t.Context(), w.seen(o), topology.Recover{Member: "orders-0"}))
	}
	if p := goOn(); p != nil {
		t.Fatal(p)
	}
	set := func(status batchv1.JobStatus) {
		t.Helper()
		var job batchv1.Job
		must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: resources.NamesOf("orders").Recovery}, &job))
		job.Status = status
		must(t, kube.Status().Update(t.Context(), &job))
	}
	fades, runs := batchv1.JobStatus{Terminating: ptr.To(int32(1))}, batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(1))}
	set(fades)
	for _, then := range []struct {
		after time.Duration
		as    batchv1.JobStatus
		told  bool
	}{{0, fades, false}, {jobs.EndPatience - time.Minute, fades, false}, {2 * time.Minute, fades, true}, {0, runs, false}, {0, fades, false}, {jobs.EndPatience + time.Minute, fades, true}} {
		set(then.as)
		w.wait(then.after)
		p := goOn()
		if told := p != nil && p.Reason == v1alpha1.ReasonRecoveryStuck; told != then.told {
			t.Errorf("after another %s: %v, want %v", then.after, p, then.told)
		}
	}
}

// TestAFailedAttemptIsReported as long as the Job that made it tries again; not a failure of a Job that is gone.
func TestAFailedAttemptIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recovers)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	goOn := func() *engine.Problem {
		t.Helper()
		return pass.AsProblem(o.restorer.Recover(t.Context(), w.seen(o), topology.Recover{Member: "orders-0"}))
	}
	if p := goOn(); p != nil {
		t.Fatal(p)
	}
	key := client.ObjectKey{Namespace: w.cluster.Namespace, Name: resources.NamesOf("orders").Recovery}
	var job batchv1.Job
	must(t, kube.Get(t.Context(), key, &job))
	job.Status = batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(1))}
	must(t, kube.Status().Update(t.Context(), &job))
	for _, row := range []struct {
		what     string
		data     map[string]string
		reported bool
	}{
		{"nothing failed", map[string]string{task.ReportState: "Running", task.ReportJob: string(job.UID)}, false},
		{"an attempt failed", map[string]string{task.ReportState: pass.RestoreFailed, task.ReportFailure: "LoadRejected: ERROR 1449", task.ReportJob: string(job.UID)}, true},
		{"the next one runs", map[string]string{task.ReportState: "Running", task.ReportFailure: "LoadRejected: ERROR 1449", task.ReportJob: string(job.UID)}, true},
		{"it was another Job", map[string]string{task.ReportState: "Running", task.ReportFailure: "LoadRejected: ERROR 1449", task.ReportJob: "gone"}, false},
	} {
		var report corev1.ConfigMap
		must(t, kube.Get(t.Context(), key, &report))
		report.Data = row.data
		must(t, kube.Update(t.Context(), &report))
		p := goOn()
		if reported := p != nil && p.Reason == v1alpha1.ReasonRecoveryFailed && strings.Contains(p.Message, "1449"); reported != row.reported {
			t.Errorf("%s: %v, want it reported: %t", row.what, p, row.reported)
		}
	}
}

// TestAnArchiveIsReplayedIntoACopy by a pod that is given the copy, the archive and the point. That it is done is remembered of that copy
// alone: for one that takes its place, the Job and its report are given up, and another begins.
func TestAnArchiveIsReplayedIntoACopy(t *testing.T) {
	t.Parallel()
	archive := v1alpha1.ArchiveSource{Destination: v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups"}}, Path: "shop/gone/7d1c3e4f"}
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{
			SnapshotID: "snap-0a1b2c3d4e5f60718", PointInTime: &v1alpha1.PointInTimeSpec{Time: "2026-01-02T03:04:05.6Z"}, Archive: &archive}}
	})
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	must(t, w.seen(o).Stored.Save(t.Context(), func(r *topology.ClusterRecord) { r.SourceArchive = &archive }))
	key := client.ObjectKey{Namespace: w.cluster.Namespace, Name: resources.NamesOf("orders").Recovery}
	goOn := func(volume string) *topology.ClusterRecord {
		t.Helper()
		s := w.seen(o)
		must(t, o.restorer.Recover(t.Context(), s, topology.Recover{Member: "orders-0", Copy: volume}))
		records := s.Records()
		return &records
	}
	read := func() *batchv1.Job {
		t.Helper()
		var job batchv1.Job
		must(t, kube.Get(t.Context(), key, &job))
		return &job
	}
	goOn("vol-1")
	s := w.seen(o)
	must(t, o.restorer.Recover(t.Context(), s, topology.Recover{Member: "orders-0", Copy: "vol-1"}))
	if text := s.Restorer(); !strings.Contains(text, "is being started. What keeps it") {
		t.Errorf("while its pod is on its way, it is said %q", text)
	}
	told := resources.TaskOf(read())
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	if told.Copy != "vol-1" || told.Target != "orders-0" || told.Path != archive.Path || told.Destination.S3.Bucket != "my-backups" || told.UntilTime == nil || !told.UntilTime.Equal(at) {
		t.Errorf("the pod is told %+v", told)
	}
	var report corev1.ConfigMap
	must(t, kube.Get(t.Context(), key, &report))
	report.Data = map[string]string{task.ReportState: "Done", task.ReportMessage: "replayed", task.ReportSkipped: "left out"}
	must(t, kube.Update(t.Context(), &report))
	endJob(t, key.Namespace, key.Name, batchv1.JobComplete)
	if r := goOn("vol-2"); r.Replayed != "" || r.Recovered {
		t.Errorf("what was replayed into another copy counts: %+v", r)
	}
	must(t, kube.Get(t.Context(), key, &report))
	if len(report.Data) > 0 {
		t.Errorf("of the lost copy it is still said %v", report.Data)
	}
	w.wait(jobs.EndPatience + time.Minute)
	if p := pass.AsProblem(o.restorer.Recover(t.Context(), w.seen(o), topology.Recover{Member: "orders-0", Copy: "vol-2"})); p == nil || p.Reason != v1alpha1.ReasonRecoveryStuck {
		t.Errorf("of a pod that does not end it is said %v", p)
	}
	collect(t, read())
	goOn("vol-2")
	if told := resources.TaskOf(read()); told.Copy != "vol-2" {
		t.Errorf("the next pod is told %+v", told)
	}
	endJob(t, key.Namespace, key.Name, batchv1.JobComplete)
	if r := goOn("vol-2"); r.Replayed != "vol-2" || r.Recovered {
		t.Errorf("when it is done, remembered is %+v", r)
	}
}

// TestARestoringPodReadsWhereTheBackupIs: with IRSA it is given the role of that place until it is done, and then the one
// of the cluster's own backups.
func TestARestoringPodReadsWhereTheBackupIs(t *testing.T) {
	t.Parallel()
	const from, own = "arn:aws:iam::111122223333:role/from", "arn:aws:iam::111122223333:role/own"
	at := func(role string) *v1alpha1.BackupDestination {
		return &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups", RoleARN: role}}
	}
	for name, recovery := range map[string]*v1alpha1.RecoverySpec{
		"by name":  {BackupName: "b"},
		"by place": {ObjectStore: &v1alpha1.ObjectStoreSource{Destination: *at(from), Path: "shop/wares/7d1c3e4f"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
				c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: recovery}
				c.Spec.Backup = &v1alpha1.BackupSpec{Destination: at(own)}
			})
			o := w.newOperator(nil)
			b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "b"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "wares"}}
			must(t, kube.Create(t.Context(), b))
			recordPlace(t, w.system, b, v1alpha1.ObjectStoreSource{Destination: *at(from), Path: w.cluster.Namespace + "/wares/7d1c3e4f"})
			b.Status = v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupCompleted, Path: w.cluster.Namespace + "/wares/7d1c3e4f/backups/20260102T030405Z-b", Destination: at(from)}
			must(t, kube.Status().Update(t.Context(), b))
			role := func(s *pass.Pass) string {
				t.Helper()
				must(t, o.restorer.EnsurePodIdentity(t.Context(), s))
				account := resources.NamesOf("orders").BackupAccount
				var sa corev1.ServiceAccount
				must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: account}, &sa))
				return sa.Annotations["eks.amazonaws.com/role-arn"]
			}
			s := w.seen(o)
			if got := role(s); got != from {
				t.Errorf("while it is restored: %s", got)
			}
			amend(s, func(records *topology.ClusterRecord) { records.Recovered = true })
			if got := role(s); got != own {
				t.Errorf("when it is restored: %s", got)
			}
			s.Cluster.Spec.Backup = nil
			if got := role(s); got != "" {
				t.Errorf("when there is nothing left to reach: %s", got)
			}
		})
	}
}

// TestWithoutTheOwnImageAPersonIsAsked: nothing can be copied from an image that is not known.
func TestWithoutTheOwnImageAPersonIsAsked(t *testing.T) {
	t.Parallel()
	var problem *engine.Problem
	if image, err := (&pass.Images{}).Operator(); !errors.As(err, &problem) || problem.After != engine.AfterPerson {
		t.Errorf("%q, %v", image, err)
	}
}

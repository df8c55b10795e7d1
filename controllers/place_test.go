package controllers

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/mark"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

func marker(system string) mark.Marker {
	return mark.Marker{Client: shared.cached, Reader: shared.operator, Namespace: system}
}

// recordPlace records where a backup is, as the operator does.
func recordPlace(t *testing.T, system string, b *v1alpha1.MySQLBackup, place v1alpha1.ObjectStoreSource) {
	t.Helper()
	must(t, marker(system).SetPlace(t.Context(), b, place))
}

// placeOf is what the operator recorded.
func placeOf(t *testing.T, system string, b *v1alpha1.MySQLBackup) *v1alpha1.ObjectStoreSource {
	t.Helper()
	place, err := marker(system).PlaceOf(t.Context(), b)
	must(t, err)
	return place
}

// backupPod is a client with the rights of a cluster's backup pods, and no others.
func backupPod(t *testing.T, c *v1alpha1.MySQLCluster) client.Client {
	t.Helper()
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	must(t, pass.Convert(resources.BackupRole(c), &role))
	must(t, pass.Convert(resources.BackupRoleBinding(c), &binding))
	must(t, kube.Create(t.Context(), &role))
	must(t, kube.Create(t.Context(), &binding))
	config := rest.CopyConfig(shared.env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + c.Namespace + ":" + resources.NamesOf(c.Name).BackupAccount}
	pod, err := client.New(config, client.Options{Scheme: testScheme()})
	must(t, err)
	return pod
}

const (
	waresFolder = "20260102T030405Z-"
	otherFolder = "20260102T030405Z-other"
)

// depot is a namespace in which cluster orders is to be restored from a backup of cluster wares.
type depot struct {
	*world
	o     *operator
	r     *backups.Supervisor
	wares *v1alpha1.MySQLCluster
	pod   client.Client
}

func waresDestination() *v1alpha1.BackupDestination {
	return &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups", Prefix: "mysql", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "s3"}}}
}

func newDepot(t *testing.T) *depot {
	t.Helper()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{BackupName: "nightly"}}
	})
	d := &depot{world: w, o: w.newOperator(nil)}
	d.r = &backups.Supervisor{Client: shared.cached, Reader: shared.operator, Events: events.NewFakeRecorder(1000), Clock: w.clock,
		Images: &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}, SystemNamespace: w.system}
	d.wares = &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "wares"}, Spec: *w.cluster.Spec.DeepCopy()}
	d.wares.Spec.Bootstrap, d.wares.Spec.Backup = nil, &v1alpha1.BackupSpec{Destination: waresDestination()}
	must(t, kube.Create(t.Context(), d.wares))
	d.pod = backupPod(t, d.wares)
	return d
}

// put makes a MySQLBackup of wares by somebody's rights.
func (d *depot) put(by client.Client, name string, change func(*v1alpha1.MySQLBackup)) {
	d.t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: d.wares.Namespace, Name: name}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "wares"}}
	if change != nil {
		change(b)
	}
	must(d.t, by.Create(d.t.Context(), b))
}

func (d *depot) get(name string) *v1alpha1.MySQLBackup {
	d.t.Helper()
	var b v1alpha1.MySQLBackup
	must(d.t, kube.Get(d.t.Context(), client.ObjectKey{Namespace: d.wares.Namespace, Name: name}, &b))
	return &b
}

// look has the operator look at a backup.
func (d *depot) look(name string) {
	d.t.Helper()
	_, err := d.r.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: d.wares.Namespace, Name: name}})
	must(d.t, err)
}

// report has a backup pod write into a status.
func (d *depot) report(name string, change func(*v1alpha1.MySQLBackupStatus)) {
	d.t.Helper()
	b := d.get(name)
	before := b.DeepCopy()
	change(&b.Status)
	must(d.t, d.pod.Status().Patch(d.t.Context(), b, client.MergeFrom(before)))
}

// root is the folder of wares.
func (d *depot) root() string { return d.wares.Namespace + "/wares/" + string(d.wares.UID) }

// complete has a backup pod report what a dump of wares reports.
func (d *depot) complete(name string) {
	d.t.Helper()
	d.report(name, func(st *v1alpha1.MySQLBackupStatus) {
		at := metav1.NewTime(d.clock.Now().Truncate(time.Second))
		st.Phase, st.StartedAt, st.CompletedAt, st.ClusterUID = v1alpha1.BackupCompleted, &at, &at, string(d.wares.UID)
		st.Path, st.Destination = d.root()+"/backups/"+waresFolder+name, waresDestination()
	})
}

// vanish ends what is there of wares, and of its Jobs.
func (d *depot) vanish() {
	d.t.Helper()
	must(d.t, kube.DeleteAllOf(d.t.Context(), &batchv1.Job{}, client.InNamespace(d.wares.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	must(d.t, kube.Delete(d.t.Context(), d.wares))
}

// restores is what the pod that restores a backup is given, and the message of why none is started.
func (d *depot) restores(name string, change func(*v1alpha1.MySQLCluster)) (task.Task, string) {
	d.t.Helper()
	s := d.seen(d.o)
	s.Cluster.Spec.Bootstrap.Recovery.BackupName = name
	if change != nil {
		change(s.Cluster)
	}
	given, err := d.o.restorer.RecoveryTask(d.t.Context(), s, topology.Recover{Member: "orders-0"})
	if err != nil {
		return given, pass.AsProblem(err).Message
	}
	return given, ""
}

// TestABackupPodSendsNoRestoreElsewhere, whatever it writes where its rights let it: a restore reads from where the operator had the backup
// written, also when its cluster and its Job are gone.
func TestABackupPodSendsNoRestoreElsewhere(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	d.put(kube, "nightly", nil)
	d.look("nightly") // makes the Job
	d.look("nightly")
	d.complete("nightly")
	d.look("nightly")
	recorded := d.get("nightly").Annotations[v1alpha1.AnnotationPlace]
	forged := d.get("nightly")
	metav1.SetMetaDataAnnotation(&forged.ObjectMeta, v1alpha1.AnnotationPlace, "forged")
	if err := d.pod.Patch(t.Context(), forged, client.MergeFrom(d.get("nightly"))); !apierrors.IsForbidden(err) {
		t.Errorf("a backup pod writes annotations: %v", err)
	}
	d.put(d.pod, "copied", func(b *v1alpha1.MySQLBackup) {
		b.Annotations = map[string]string{v1alpha1.AnnotationPlace: recorded}
	})
	d.put(d.pod, "made-up", func(b *v1alpha1.MySQLBackup) {
		b.Annotations = map[string]string{v1alpha1.AnnotationPlace: strings.Repeat("0", 64) + ` {"destination":{"s3":{"bucket":"theirs"}},"path":"` + d.root() + `"}`}
	})
	d.vanish()
	elsewhere := &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "theirs", Endpoint: "http://theirs.example.com", KMSKeyID: "alias/theirs", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "anothers"}}}
	whole := d.root() + "/backups/" + waresFolder + "nightly"
	for name, row := range map[string]struct {
		lie  func(*v1alpha1.MySQLBackupStatus)
		says string
	}{
		"the truth":      {func(*v1alpha1.MySQLBackupStatus) {}, ""},
		"another bucket": {func(st *v1alpha1.MySQLBackupStatus) { st.Destination = elsewhere }, ""},
		"a role": {func(st *v1alpha1.MySQLBackupStatus) {
			st.Destination = elsewhere.DeepCopy()
			st.Destination.S3.CredentialsSecretRef, st.Destination.S3.RoleARN = nil, "arn:aws:iam::111122223333:role/theirs"
		}, ""},
		"a claim": {func(st *v1alpha1.MySQLBackupStatus) {
			st.Destination = &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: "anothers"}}
		}, ""},
		"no destination": {func(st *v1alpha1.MySQLBackupStatus) { st.Destination = nil }, ""},
		"another UID":    {func(st *v1alpha1.MySQLBackupStatus) { st.ClusterUID = "../other/uid" }, ""},
		"another cluster's folder": {func(st *v1alpha1.MySQLBackupStatus) {
			st.Path = d.wares.Namespace + "/other/uid/backups/" + waresFolder + "nightly"
		}, "names no folder of it"},
		"another backup's folder": {func(st *v1alpha1.MySQLBackupStatus) { st.Path = d.root() + "/backups/" + otherFolder }, "names no folder of it"},
		"a way up": {func(st *v1alpha1.MySQLBackupStatus) {
			st.Path = d.root() + "/backups/../../../other/uid/backups/" + waresFolder + "nightly"
		}, "names no folder of it"},
	} {
		d.complete("nightly")
		d.report("nightly", row.lie)
		d.look("nightly")
		given, says := d.restores("nightly", nil)
		if row.says != "" {
			if !strings.Contains(says, row.says) {
				t.Errorf("%s: %q, given %+v", name, says, given)
			}
			continue
		}
		want := waresDestination()
		if want.S3.Region = "us-east-1"; says != "" || given.Path != whole || given.Destination == nil || given.Destination.S3 == nil || given.Destination.S3.Bucket != "my-backups" ||
			given.Destination.S3.Prefix != "mysql" || given.Destination.S3.Endpoint+given.Destination.S3.KMSKeyID+given.Destination.S3.RoleARN != "" || given.Destination.S3.CredentialsSecretRef == nil || given.Destination.S3.CredentialsSecretRef.Name != "s3" {
			t.Errorf("%s: %q, given %+v and %s", name, says, given.Destination, given.Path)
		}
		s := d.seen(d.o)
		must(t, d.o.restorer.EnsurePodIdentity(t.Context(), s))
		var account corev1.ServiceAccount
		must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: d.cluster.Namespace, Name: resources.NamesOf("orders").BackupAccount}, &account))
		if role := account.Annotations["eks.amazonaws.com/role-arn"]; role != "" {
			t.Errorf("%s: the pods are given role %s", name, role)
		}
	}
	for _, name := range []string{"copied", "made-up"} {
		d.complete(name)
		d.report(name, func(st *v1alpha1.MySQLBackupStatus) { st.Destination = elsewhere })
		d.look(name)
		if given, says := d.restores(name, nil); !strings.Contains(says, "nothing proves where MySQLBackup "+name+" is stored") {
			t.Errorf("%s: %q, given %+v", name, says, given.Destination)
		}
	}
}

// TestABackupWithoutARecordedPlaceRestores, as those of an older operator: from where the spec of its cluster, or that of the new one, has backups.
func TestABackupWithoutARecordedPlaceRestores(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		then func(*depot)
		spec func(*v1alpha1.MySQLCluster)
		says string
		with string // the Secret
	}{
		"its cluster is there": {then: func(d *depot) { d.look("nightly"); d.vanish() }, with: "s3"},
		"the new cluster has backups there": {then: (*depot).vanish, with: "new", spec: func(c *v1alpha1.MySQLCluster) {
			c.Spec.Backup = &v1alpha1.BackupSpec{Destination: waresDestination()}
			c.Spec.Backup.Destination.S3.CredentialsSecretRef.Name = "new"
		}},
		"the new cluster has backups elsewhere": {then: (*depot).vanish, says: "nothing proves where MySQLBackup nightly is stored", spec: func(c *v1alpha1.MySQLCluster) {
			c.Spec.Backup = &v1alpha1.BackupSpec{Destination: waresDestination()}
			c.Spec.Backup.Destination.S3.Prefix = "elsewhere"
		}},
		"nobody has backups there": {then: (*depot).vanish, says: "restore them with objectStore"},
		"its cluster has backups elsewhere": {says: "nothing proves where", then: func(d *depot) {
			d.report("nightly", func(st *v1alpha1.MySQLBackupStatus) { st.Destination.S3.Bucket = "theirs" })
			d.look("nightly")
		}},
		"no UID": {says: "nothing proves where", then: func(d *depot) {
			d.vanish()
			d.report("nightly", func(st *v1alpha1.MySQLBackupStatus) { st.ClusterUID = ".." })
		}, spec: func(c *v1alpha1.MySQLCluster) { c.Spec.Backup = &v1alpha1.BackupSpec{Destination: waresDestination()} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDepot(t)
			d.put(kube, "nightly", nil)
			d.complete("nightly")
			row.then(d)
			given, says := d.restores("nightly", row.spec)
			switch {
			case row.says != "":
				if !strings.Contains(says, row.says) {
					t.Errorf("%q, given %+v", says, given.Destination)
				}
			case says != "" || given.Path != d.root()+"/backups/"+waresFolder+"nightly" || given.Destination.S3.Bucket != "my-backups" || given.Destination.S3.CredentialsSecretRef.Name != row.with:
				t.Errorf("%q, given %+v and %s", says, given.Destination, given.Path)
			}
		})
	}
}

// TestThePlaceOfAScheduledBackupIsThatOfItsJob, also when the cluster's spec names another since.
func TestThePlaceOfAScheduledBackupIsThatOfItsJob(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	schedule := v1alpha1.BackupSchedule{Name: "daily", Cron: "30 3 * * *", TimeZone: "Etc/UTC", Method: v1alpha1.BackupMethodDump}
	ac, err := resources.Schedule(d.wares, schedule, task.Task{
		Namespace: d.wares.Namespace, Cluster: "wares", ClusterUID: string(d.wares.UID), Destination: waresDestination(), Schedule: "daily", Method: v1alpha1.BackupMethodDump,
	}, false, resources.Images{Operator: "operator:1", MySQL: "mysql:1"})
	must(t, err)
	var cron batchv1.CronJob
	must(t, pass.Convert(ac, &cron))
	must(t, kube.Create(t.Context(), &cron))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: d.wares.Namespace, Name: "wares-daily-29384756"}, Spec: cron.Spec.JobTemplate.Spec}
	must(t, ctrl.SetControllerReference(&cron, job, testScheme()))
	must(t, kube.Create(t.Context(), job))
	d.wares.Spec.Backup.Destination.S3.Bucket = "later"
	must(t, kube.Update(t.Context(), d.wares))
	d.put(d.pod, job.Name, func(b *v1alpha1.MySQLBackup) {
		b.Spec.Schedule, b.Annotations = "daily", map[string]string{v1alpha1.AnnotationRunner: job.Name}
	})
	d.complete(job.Name)
	d.look(job.Name)
	if place := placeOf(t, d.system, d.get(job.Name)); place == nil || place.Destination.S3.Bucket != "my-backups" || place.Path != d.root() {
		t.Errorf("recorded is %+v", place)
	}
}

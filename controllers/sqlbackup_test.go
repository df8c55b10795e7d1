package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"

	batchv1 "k8s.io/api/batch/v1"

	corev1 "k8s.io/api/core/v1"

	rbacv1 "k8s.io/api/rbac/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestBackupsWithServers runs clusters of real servers whose pods the tests play: no node is behind this API server.
func TestBackupsWithServers(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	t.Run("schedules and snapshots", func(t *testing.T) {
		t.Parallel()
		w := &shop{newSQLWorld(t, farm, func(c *v1alpha1.MySQLCluster) {
			makeOlder(t, c)
			backedUp(c)
		}), nil}
		var accepts, asked atomic.Bool
		w.o = w.newSQLOperator(&operator{}, func(op, phase string) error {
			if strings.HasPrefix(op, "pod-account/") && phase == "before" && !accepts.Load() {
				asked.Store(true)
				return errors.New("as the test wants it")
			}
			return nil
		})
		w.o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
		// A primary that makes no account at the moment holds no schedule up.
		w.drive(w.o, sqlPatience, w.phaseIs(v1alpha1.PhaseReady))
		w.drive(w.o, sqlPatience, asked.Load)
		if !w.read("orders-daily", &batchv1.CronJob{}) || !w.read(resources.VerifyName("orders"), &batchv1.CronJob{}) {
			t.Error("there are no CronJobs")
		}
		accepts.Store(true)
		w.drive(w.o, sqlPatience, func() bool {
			return w.o.Caches.Of(client.ObjectKeyFromObject(w.cluster), pass.KeyOf(w.cluster.UID)).Logins[mysql.BackupUser] != ""
		})
		w.whatBackupsNeed()
		w.metricsAreRead()
		w.health()
		w.accountReturns()
		w.snapshots()
		w.schedulesChange()
	})
	t.Run("a recovery", func(t *testing.T) {
		t.Parallel()
		w := &shop{newSQLWorld(t, farm, recovers), nil}
		w.o = w.newSQLOperator(&operator{}, nil)
		w.o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
		w.recovery()
	})
}

// shop is a cluster of real servers with backups, and its operator.
type shop struct {
	*sqlWorld
	o *operator
}

// makeOlder makes a failed backup of an older cluster that had the name of one that is about to be created.
func makeOlder(t *testing.T, c *v1alpha1.MySQLCluster) {
	t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "old"},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: c.Name, Schedule: "daily", Method: v1alpha1.BackupMethodDump}}
	must(t, kube.Create(t.Context(), b))
	b.Status = v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupFailed, Reason: "Error", CompletedAt: ptr.To(metav1.Now()), ClusterUID: "another"}
	must(t, kube.Status().Update(t.Context(), b))
	time.Sleep(1100 * time.Millisecond) // creation times have seconds
}

func backedUp(c *v1alpha1.MySQLCluster) {
	c.Spec.Backup = &v1alpha1.BackupSpec{
		Schedules: []v1alpha1.BackupSchedule{
			{Name: "daily", Cron: "30 3 * * *", TimeZone: "Africa/Nairobi", Method: v1alpha1.BackupMethodDump},
			{Name: "hourly", Cron: "0 * * * *", Method: v1alpha1.BackupMethodSnapshot, Retention: v1alpha1.RetentionSpec{Count: ptr.To(int32(2))}},
		},
		Destination:   &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups", RoleARN: "arn:aws:iam::111122223333:role/backups"}},
		Verification:  &v1alpha1.VerificationSpec{Cron: "0 5 * * 0"},
		BinlogArchive: &v1alpha1.BinlogArchiveSpec{Enabled: false}, // archive_test.go is about it
	}
}

func recovers(c *v1alpha1.MySQLCluster) {
	c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{ObjectStore: &v1alpha1.ObjectStoreSource{
		Destination: v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups"}}, Path: "shop/orders/7d1c3e4f-0123-4567-89ab-0123456789ab",
	}}}
}

// read reads an object of the namespace, and says whether it is there.
func (w *shop) read(name string, into client.Object) bool {
	w.t.Helper()
	err := kube.Get(w.t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, into)
	must(w.t, client.IgnoreNotFound(err))
	return err == nil
}

// settle runs passes until a condition holds.
func (w *shop) settle(kind string, parts ...string) {
	w.t.Helper()
	w.drive(w.o, sqlPatience, w.conditionHas(kind, parts...))
}

// make makes a MySQLBackup, and report writes its status as a pod does.
func (w *shop) make(name, schedule string, method v1alpha1.BackupMethod, policy v1alpha1.BackupDeletionPolicy) {
	w.t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Schedule: schedule, Method: method, DeletionPolicy: policy}}
	if policy == v1alpha1.BackupDeletionDelete {
		b.Finalizers = []string{v1alpha1.Finalizer} // which the reconciler of MySQLBackups sets
	}
	must(w.t, kube.Create(w.t.Context(), b))
}

func (w *shop) report(name string, change func(*v1alpha1.MySQLBackupStatus)) {
	w.t.Helper()
	var b v1alpha1.MySQLBackup
	if !w.read(name, &b) {
		w.t.Fatalf("there is no MySQLBackup %s", name)
	}
	change(&b.Status)
	must(w.t, kube.Status().Update(w.t.Context(), &b))
}

// whatBackupsNeed: who the pods are in Kubernetes and in MySQL, and when they run.
func (w *shop) whatBackupsNeed() {
	t := w.t
	var cron batchv1.CronJob
	if !w.read("orders-daily", &cron) {
		t.Fatal("there is no CronJob")
	}
	if cron.Spec.Schedule != "30 3 * * *" || *cron.Spec.TimeZone != "Africa/Nairobi" || *cron.Spec.Suspend {
		t.Errorf("CronJob %+v", cron.Spec)
	}
	told, err := task.Decode(cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Env[0].Value)
	if err != nil || told.Schedule != "daily" || len(told.Members) != members || told.Destination.S3.Bucket != "my-backups" {
		t.Errorf("its pod is told %+v, %v", told, err)
	}
	for _, name := range []string{"orders-hourly", resources.VerifyName("orders")} {
		if !w.read(name, &batchv1.CronJob{}) {
			t.Errorf("there is no CronJob %s", name)
		}
	}
	names := resources.NamesOf("orders")
	account, tls := names.BackupAccount, names.BackupTLS
	var sa corev1.ServiceAccount
	if !w.read(account, &sa) || sa.Annotations["eks.amazonaws.com/role-arn"] != "arn:aws:iam::111122223333:role/backups" {
		t.Errorf("ServiceAccount %+v", sa)
	}
	if !w.read(account, &rbacv1.Role{}) || !w.read(account, &rbacv1.RoleBinding{}) {
		t.Error("it may do nothing")
	}
	var secret corev1.Secret
	if !w.read(tls, &secret) {
		t.Fatal("there is no certificate")
	}
	// With that certificate a pod gets in, and may not write.
	for _, s := range w.running() {
		identity := mysql.Identity{CAPEM: secret.Data[resources.KeyCA], CertPEM: secret.Data[resources.KeyCertificate], KeyPEM: secret.Data[resources.KeyPrivateKey]}
		v, err := podclient.OpenVisit(t.Context(), podclient.VisitOptions{
			Endpoint: mysql.Endpoint{Key: s.Name, Address: s.Address(), ServerName: s.Name + ".orders." + w.cluster.Namespace + ".svc"},
			Identity: identity, User: mysql.BackupUser,
			Options: conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, Dial: w.farm.Dial},
		})
		if err != nil {
			t.Errorf("a backup pod cannot log in at %s: %v", s.Name, err)
			continue
		}
		if _, err := v.State(t.Context()); err != nil {
			t.Errorf("it cannot read: %v", err)
		}
		v.Close()
	}
}

// health walks BackupHealthy through what there is to say.
func (w *shop) health() {
	w.settle(v1alpha1.ConditionBackupHealthy, "Unknown/NoBackupYet") // what makeOlder made says nothing
	ended := func(name string, phase v1alpha1.BackupPhase, reason string) {
		at := metav1.Now()
		w.report(name, func(s *v1alpha1.MySQLBackupStatus) {
			s.Phase, s.Reason, s.Message, s.CompletedAt, s.ClusterUID = phase, reason, "as the test plays it", &at, string(w.cluster.UID)
		})
	}
	pause := func() { time.Sleep(1100 * time.Millisecond) } // creation times have seconds
	w.make("d1", "daily", v1alpha1.BackupMethodDump, "")
	ended("d1", v1alpha1.BackupCompleted, "")
	w.settle(v1alpha1.ConditionBackupHealthy, "True/BackupSucceeded", "d1")
	pause()
	w.make("d2", "daily", v1alpha1.BackupMethodDump, "")
	ended("d2", v1alpha1.BackupFailed, v1alpha1.BackupReasonAccessDenied)
	w.settle(v1alpha1.ConditionBackupHealthy, "False/BackupFailed", "d2", "AccessDenied")
	if c, _ := w.get(); c.Status.Backup == nil || c.Status.Backup.LastGood != "d1" || c.Status.Backup.LastFailed != "d2" {
		w.t.Errorf("summary %+v", c.Status.Backup)
	}
	pause()
	w.make("d3", "daily", v1alpha1.BackupMethodDump, "")
	ended("d3", v1alpha1.BackupCompleted, "")
	w.settle(v1alpha1.ConditionBackupHealthy, "True/BackupSucceeded", "d3")
	verified := func(data map[string]string) {
		var cm corev1.ConfigMap
		if !w.read(resources.VerifyName("orders"), &cm) {
			w.t.Fatal("there is nothing to report in")
		}
		cm.Data = data
		must(w.t, kube.Update(w.t.Context(), &cm))
	}
	now := time.Now().UTC().Format(time.RFC3339)
	verified(map[string]string{task.ReportState: "Failed", task.ReportReason: "Damaged", task.ReportMessage: "a bit is another", task.ReportBackup: "d3", task.ReportAt: now})
	w.settle(v1alpha1.ConditionBackupHealthy, "False/VerificationFailed", "d3", "Damaged: a bit is another")
	verified(map[string]string{task.ReportState: "Passed", task.ReportBackup: "d3", task.ReportAt: now, task.ReportPassedAt: now, task.ReportPassedBackup: "d3"})
	w.settle(v1alpha1.ConditionBackupHealthy, "True/BackupSucceeded", "d3")
	if c, _ := w.get(); c.Status.Backup.LastVerified != "d3" || c.Status.Backup.LastVerifiedAt == nil {
		w.t.Errorf("summary %+v", c.Status.Backup)
	}
}

// accountReturns when somebody dropped it by hand: a backup fails for want of it, and the next one has it.
func (w *shop) accountReturns() {
	c, _ := w.get()
	servers := w.running()
	i := slices.IndexFunc(servers, func(s *mysqld.Server) bool { return s.Name == c.Status.Primary })
	if i < 0 {
		w.t.Fatalf("primary %q does not run", c.Status.Primary)
	}
	run := func(statement string) string {
		w.t.Helper()
		text, err := servers[i].SQL(w.t.Context(), statement)
		must(w.t, err)
		return strings.TrimSpace(text)
	}
	run("DROP USER '" + mysql.BackupUser + "'@'%'")
	w.make("d4", "daily", v1alpha1.BackupMethodDump, "")
	w.report("d4", func(s *v1alpha1.MySQLBackupStatus) {
		s.Phase, s.Reason, s.CompletedAt, s.ClusterUID = v1alpha1.BackupFailed, v1alpha1.BackupReasonAccessDenied, ptr.To(metav1.Now()), string(w.cluster.UID)
	})
	w.drive(w.o, sqlPatience, func() bool {
		return run("SELECT COUNT(*) FROM mysql.user WHERE User = '"+mysql.BackupUser+"'") == "1"
	})
}

// ours are the EBS snapshots of backups, by the UID of the MySQLBackup.
func (w *shop) ours() map[string]inventory.Snapshot {
	w.t.Helper()
	known, err := w.cloud.Inventory.Observe(w.t.Context(), string(w.cluster.UID), 0)
	must(w.t, err)
	found := map[string]inventory.Snapshot{}
	for _, s := range known.Snapshots {
		if uid, is := strings.CutPrefix(s.Tags[awsapi.TagPurpose], pass.BackupPurpose); is {
			found[uid] = s
		}
	}
	return found
}

// snapshots are taken of a replica's volume, kept as long as the schedule says, and deleted with their object where that
// is wanted.
func (w *shop) snapshots() {
	t := w.t
	take := func(name, schedule string, policy v1alpha1.BackupDeletionPolicy) *v1alpha1.MySQLBackup {
		w.make(name, schedule, v1alpha1.BackupMethodSnapshot, policy)
		var b v1alpha1.MySQLBackup
		w.drive(w.o, sqlPatience, func() bool { return w.read(name, &b) && b.Done() })
		if b.Status.Phase != v1alpha1.BackupCompleted {
			t.Fatalf("%s: %+v", name, b.Status)
		}
		return &b
	}
	b := take("mine", "", v1alpha1.BackupDeletionDelete)
	c, _ := w.get()
	i := slices.IndexFunc(c.Status.Members, func(m v1alpha1.MemberStatus) bool { return m.Name == b.Status.Member })
	s := w.ours()[string(b.UID)]
	if b.Status.Member == c.Status.Primary || i < 0 || s.ID == "" || s.ID != b.Status.SnapshotID || s.VolumeID != c.Status.Members[i].VolumeID || b.Status.Location != "ebs://"+s.ID {
		t.Errorf("status %+v; snapshot %+v", b.Status, s)
	}
	if b.Status.GTIDSet == "" || b.Status.Version == "" || b.Status.CompletedAt == nil || b.Status.StartedAt == nil {
		t.Errorf("status %+v", b.Status)
	}
	var names []string
	for n := range 3 {
		names = append(names, fmt.Sprintf("h%d", n))
		take(names[n], "hourly", v1alpha1.BackupDeletionRetain)
		time.Sleep(1100 * time.Millisecond) // creation times have seconds
	}
	w.drive(w.o, sqlPatience, func() bool { return !w.read(names[0], &v1alpha1.MySQLBackup{}) })
	if !w.read(names[1], &v1alpha1.MySQLBackup{}) || !w.read(names[2], &v1alpha1.MySQLBackup{}) || !w.read("mine", &v1alpha1.MySQLBackup{}) {
		t.Error("too many backups were deleted")
	}
	if left := w.ours(); len(left) != 3 {
		t.Errorf("the snapshots are %+v", left)
	}
	must(t, kube.Delete(t.Context(), b))
	w.drive(w.o, sqlPatience, func() bool { return !w.read("mine", &v1alpha1.MySQLBackup{}) })
	if left := w.ours(); len(left) != 2 || left[string(b.UID)].ID != "" {
		t.Errorf("the snapshots are %+v", left)
	}
}

// schedulesChange: what is taken out of the spec goes, and suspend stops the rest.
func (w *shop) schedulesChange() {
	patch := `{"spec":{"backup":{"suspend":true,"verification":null,"schedules":[{"name":"daily","cron":"0 4 * * *","timeZone":"Etc/UTC","method":"Dump"}]}}}`
	must(w.t, kube.Patch(w.t.Context(), w.cluster.DeepCopy(), client.RawPatch(client.Merge.Type(), []byte(patch))))
	w.drive(w.o, sqlPatience, func() bool {
		var cron batchv1.CronJob
		return w.read("orders-daily", &cron) && cron.Spec.Schedule == "0 4 * * *" && *cron.Spec.Suspend &&
			!w.read("orders-hourly", &batchv1.CronJob{}) && !w.read(resources.VerifyName("orders"), &batchv1.CronJob{})
	})
	if !w.read("d3", &v1alpha1.MySQLBackup{}) || !w.read("h2", &v1alpha1.MySQLBackup{}) {
		w.t.Error("backups went with their schedule")
	}
	must(w.t, kube.Patch(w.t.Context(), w.cluster.DeepCopy(), client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"backup":null}}`))))
	w.drive(w.o, sqlPatience, func() bool {
		return !w.read("orders-daily", &batchv1.CronJob{}) && w.condition(v1alpha1.ConditionBackupHealthy) == ""
	})
}

// recovery: nobody serves before what is restored is restored; a Job that failed says why and is tried again by a person;
// then the cluster begins on that member.
func (w *shop) recovery() {
	t := w.t
	name := resources.NamesOf("orders").Recovery
	var job batchv1.Job
	w.drive(w.o, sqlPatience, func() bool { return w.read(name, &job) })
	pod := job.Spec.Template.Spec
	told, err := task.Decode(pod.Containers[0].Env[0].Value)
	must(t, err)
	if told.Target != "orders-0" && told.Target != "orders-1" && told.Target != "orders-2" || told.Path != "shop/orders/7d1c3e4f-0123-4567-89ab-0123456789ab" || told.Report != name || told.ClusterUID != string(w.cluster.UID) {
		t.Errorf("the pod is told %+v", told)
	}
	w.follow(w.o, 10)
	if c, _ := w.get(); c.Status.Primary != "" || w.books.count() > 0 {
		t.Errorf("%q serves before it is restored", c.Status.Primary)
	}
	var report corev1.ConfigMap
	tell := func(state, reason, message string) {
		if !w.read(name, &report) {
			t.Fatal("there is nothing to report in")
		}
		report.Data = map[string]string{task.ReportState: state, task.ReportReason: reason, task.ReportMessage: message}
		must(t, kube.Update(t.Context(), &report))
	}
	tell("Running", "", "restoring: 40 %")
	w.settle(v1alpha1.ConditionRecovered, "False/Recovering: restoring: 40 %")
	tell("Failed", v1alpha1.BackupReasonDamaged, "the backup is damaged")
	endJob(t, w.cluster.Namespace, name, batchv1.JobFailed)
	w.settle(v1alpha1.ConditionRecovered, "False/RecoveryFailed: Damaged: the backup is damaged")
	w.settle(v1alpha1.ConditionDegraded, "True/RecoveryFailed", "Damaged: the backup is damaged; put that right and delete Job "+name)
	for reason, message := range map[string]string{
		v1alpha1.BackupReasonArchiveGap: "transactions that are needed are missing: uuid:7", v1alpha1.BackupReasonReplayFailed: "replaying the binary log failed: uuid:8",
	} {
		tell("Failed", reason, message)
		w.settle(v1alpha1.ConditionRecovered, "False/RecoveryFailed: "+reason+": "+message)
		w.settle(v1alpha1.ConditionDegraded, "True/RecoveryFailed", reason+": "+message+"; put that right")
	}
	w.follow(w.o, 5)
	if c, _ := w.get(); c.Status.Primary != "" {
		t.Errorf("%s serves after a recovery that failed", c.Status.Primary)
	}
	first := job.UID
	must(t, kube.Delete(t.Context(), &job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.drive(w.o, sqlPatience, func() bool { return w.read(name, &job) && job.UID != first })
	w.settle(v1alpha1.ConditionRecovered, "False/Recovering")
	if w.read(name, &report); len(report.Data) > 0 {
		t.Errorf("the attempt before still says %v", report.Data)
	}
	tell("Done", "", "the backup is restored")
	endJob(t, w.cluster.Namespace, name, batchv1.JobComplete)
	w.settle(v1alpha1.ConditionRecovered, "True/Recovered")
	w.drive(w.o, sqlPatience, w.phaseIs(v1alpha1.PhaseReady))
	if c, _ := w.get(); c.Status.Primary != told.Target {
		t.Errorf("the cluster began on %s and not on %s", c.Status.Primary, told.Target)
	}
}

package controllers

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// schedules does what a pass does about the schedules, and returns the condition.
func (a *annals) schedules() metav1.Condition {
	a.t.Helper()
	s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
	s.Plan.Primary, s.Planned = "orders-0", true
	s.SetRecords(topology.ClusterRecord{Established: true})
	s.Backup.Known = true
	must(a.t, a.r.backups.LookAtDestination(a.t.Context(), s))
	s.ReportBackup("", a.r.backups.EnsureSchedules(a.t.Context(), s))
	a.r.backups.ProjectBackups(s, pass.Conditions{Cluster: a.cluster})
	return *meta.FindStatusCondition(a.cluster.Status.Conditions, v1alpha1.ConditionBackupHealthy)
}

// suspended says whether a CronJob is.
func (a *annals) suspended(name string) bool {
	a.t.Helper()
	var cron batchv1.CronJob
	must(a.t, kube.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: name}, &cron))
	return *cron.Spec.Suspend
}

// TestSchedulesDoNotGetWhatIsSomebodyElses: those that are there are suspended, whose pods would, and BackupHealthy says so at once, until what is in
// the way is gone.
func TestSchedulesDoNotGetWhatIsSomebodyElses(t *testing.T) {
	names := resources.NamesOf("orders")
	for kind, foreign := range map[string]client.Object{
		"ServiceAccount": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: names.BackupAccount}},
		"Secret":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.BackupTLS}},
	} {
		t.Run(kind, func(t *testing.T) {
			a := newAnnals(t)
			a.change(func(c *v1alpha1.MySQLCluster) {
				c.Spec.Backup.Schedules = []v1alpha1.BackupSchedule{{Name: "daily", Cron: "30 3 * * *", Method: v1alpha1.BackupMethodDump}}
				c.Spec.Backup.Verification = &v1alpha1.VerificationSpec{Cron: "0 5 * * 0"}
			})
			daily, verify := resources.ScheduleName("orders", "daily"), resources.VerifyName("orders")
			undisturbed := func(when string) {
				t.Helper()
				if c := a.schedules(); c.Status == metav1.ConditionFalse || a.suspended(daily) || a.suspended(verify) {
					t.Fatalf("%s: %+v; suspended are the schedule %v, the verification %v", when, c, a.suspended(daily), a.suspended(verify))
				}
			}
			undisturbed("at first")
			foreign.SetNamespace(a.namespace)
			must(t, kube.Create(t.Context(), foreign))
			c := a.schedules()
			if want := kind + " " + foreign.GetName() + " exists and does not belong to this cluster"; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonForeignResource ||
				!strings.Contains(c.Message, want) || !strings.Contains(c.Message, "rename or delete it") {
				t.Errorf("BackupHealthy is %+v", c)
			}
			if !a.suspended(daily) {
				t.Error("the schedule goes on")
			}
			if got := a.suspended(verify); got != (kind == "ServiceAccount") {
				t.Errorf("the verification, whose pods have no certificate, is suspended: %v", got)
			}
			must(t, kube.Delete(t.Context(), foreign))
			undisturbed("once it is gone")
		})
	}
}

// TestAnArchiveWithoutSchedulesIsBlocked, too, by what is somebody else's, and BackupHealthy says so until that is gone.
func TestAnArchiveWithoutSchedulesIsBlocked(t *testing.T) {
	names := resources.NamesOf("orders")
	for kind, foreign := range map[string]client.Object{
		"ServiceAccount": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: names.BackupAccount}},
		"Secret":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.BackupTLS}},
	} {
		t.Run(kind, func(t *testing.T) {
			a := newAnnals(t)
			a.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules, c.Spec.Backup.BinlogArchive = nil, nil }) // which has it on
			healthy := func() metav1.Condition {
				t.Helper()
				s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
				s.Plan.Primary, s.Planned, s.Backup.Known = "orders-0", true, true
				s.SetRecords(topology.ClusterRecord{Established: true})
				s.ReportBackup("archive: ", a.r.backups.Archive.Ensure(t.Context(), s))
				a.r.backups.ProjectBackups(s, pass.Conditions{Cluster: a.cluster})
				return *meta.FindStatusCondition(a.cluster.Status.Conditions, v1alpha1.ConditionBackupHealthy)
			}
			foreign.SetNamespace(a.namespace)
			must(t, kube.Create(t.Context(), foreign))
			if c := healthy(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonForeignResource || !strings.Contains(c.Message, kind+" "+foreign.GetName()+" exists and does not belong to this cluster") {
				t.Errorf("BackupHealthy is %+v", c)
			}
			must(t, kube.Delete(t.Context(), foreign))
			if c := healthy(); c.Status == metav1.ConditionFalse {
				t.Errorf("once it is gone BackupHealthy is %+v", c)
			}
		})
	}
}

// TestARestoreDoesNotGetWhatIsSomebodyElses: its Job is made once the Secret that has the name of its certificate is gone.
func TestARestoreDoesNotGetWhatIsSomebodyElses(t *testing.T) {
	a := newAnnals(t)
	recovers(a.cluster)
	names := resources.NamesOf("orders")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: names.OperatorTLS}}
	must(t, kube.Create(t.Context(), foreign))
	restore := func() error {
		s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
		s.SetRecords(topology.ClusterRecord{})
		return a.r.backups.Restorer.Recover(t.Context(), s, topology.Recover{Member: "orders-0"})
	}
	p := pass.AsProblem(restore())
	if p == nil || p.Reason != v1alpha1.ReasonForeignResource || !strings.Contains(p.Message, "Secret "+foreign.Name+" exists and does not belong to this cluster") {
		t.Errorf("it says %+v", p)
	}
	if a.job(names.Recovery) != nil {
		t.Error("a pod gets the Secret")
	}
	must(t, kube.Delete(t.Context(), foreign))
	if err := restore(); err != nil || a.job(names.Recovery) == nil {
		t.Errorf("there is no Job: %v", err)
	}
}

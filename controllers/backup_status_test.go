package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

// TestBackupHealth judges every schedule by itself, and by the time.
func TestBackupHealth(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := func(name, schedule string, phase v1alpha1.BackupPhase, age time.Duration) v1alpha1.MySQLBackup {
		at := metav1.NewTime(noon.Add(-age))
		return v1alpha1.MySQLBackup{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at},
			Spec:       v1alpha1.MySQLBackupSpec{Schedule: schedule},
			Status:     v1alpha1.MySQLBackupStatus{Phase: phase, Reason: "DumpFailed", CompletedAt: &at},
		}
	}
	good, bad := v1alpha1.BackupCompleted, v1alpha1.BackupFailed
	hour, day := time.Hour, 24*time.Hour
	verified := func(age time.Duration) map[string]string {
		at := noon.Add(-age).Format(time.RFC3339)
		return map[string]string{task.ReportState: "Passed", task.ReportAt: at, task.ReportPassedAt: at}
	}
	for name, c := range map[string]struct {
		backups  []v1alpha1.MySQLBackup // the newest first
		made     time.Duration          // how long ago the schedules were made
		verified map[string]string
		want     string
		says     string
	}{
		"a later snapshot does not hide a failed dump": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("d2", "daily", bad, 8*hour), b("d1", "daily", good, 32*hour)}, 90 * day, verified(hour), "False/BackupFailed", "d2"},
		"nor a later dump a failed snapshot": {
			[]v1alpha1.MySQLBackup{b("d1", "daily", good, hour), b("h", "hourly", bad, 2*hour)}, hour, nil, "False/BackupFailed", "h failed"},
		"the schedule's next one mends it": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("d2", "daily", good, 8*hour), b("d1", "daily", bad, 32*hour)}, 90 * day, verified(hour), "True/BackupSucceeded", "h"},
		"one that runs says nothing": {
			[]v1alpha1.MySQLBackup{b("d2", "daily", v1alpha1.BackupRunning, 0), b("d1", "daily", bad, hour), b("h", "hourly", good, 2*hour)}, hour, nil, "False/BackupFailed", "d1"},
		"a person's counts while it is the newest": {
			[]v1alpha1.MySQLBackup{b("mine", "", bad, hour), b("h", "hourly", good, 2*hour)}, hour, nil, "False/BackupFailed", "mine"},
		"and then no longer": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("mine", "", bad, 2*hour)}, hour, nil, "True/BackupSucceeded", "h"},
		"nothing yet": {nil, hour, nil, "Unknown/NoBackupYet", ""},
		"a schedule missed two": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("d", "daily", good, 3*day)}, 90 * day, verified(hour), "False/BackupOverdue", "schedule daily"},
		"a schedule missed one": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("d", "daily", good, 33*hour)}, 90 * day, verified(hour), "True/BackupSucceeded", "h"},
		"a schedule that never had one": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour)}, 3 * day, verified(hour), "False/BackupOverdue", "schedule daily"},
		"two verifications did not happen": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("d", "daily", good, 8*hour)}, 90 * day, verified(16 * day), "False/VerificationOverdue", "since 2026-11-05"},
		"one did not": {
			[]v1alpha1.MySQLBackup{b("h", "hourly", good, hour), b("d", "daily", good, 8*hour)}, 90 * day, verified(8 * day), "True/BackupSucceeded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &MySQLClusterReconciler{Clock: clocktesting.NewFakePassiveClock(noon), Metrics: NewMetrics(prometheus.NewRegistry())}
			cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
			backedUp(cluster)
			since := noon.Add(-c.made)
			s := &scope{cluster: cluster, backupsKnown: true, backups: c.backups, verification: c.verified,
				schedules: map[string]time.Time{"orders-daily": since, "orders-hourly": since, "orders-verify": since}}
			r.projectBackups(s, conditions{cluster})
			got := cluster.Status.Conditions[0]
			if text := string(got.Status) + "/" + got.Reason; text != c.want || !strings.Contains(got.Message, c.says) {
				t.Errorf("%s: %s", text, got.Message)
			}
			cluster.Spec.Backup.Suspend = true
			r.projectBackups(s, conditions{cluster})
			if got := cluster.Status.Conditions[0].Reason; strings.HasSuffix(got, "Overdue") {
				t.Errorf("%s, although nothing is to start", got)
			}
			cluster.Spec.Backup.Suspend, cluster.Spec.Hibernate = false, true
			r.projectBackups(s, conditions{cluster})
			if got := cluster.Status.Conditions[0]; string(got.Status)+"/"+got.Reason != "Unknown/Hibernated" {
				t.Errorf("while it hibernates: %s/%s", got.Status, got.Reason)
			}
			cluster.Spec.Hibernate = false
			c := conditions{cluster}
			c.set(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Serving", "")
			meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionAvailable).LastTransitionTime = metav1.NewTime(noon)
			r.projectBackups(s, c)
			if got := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionBackupHealthy).Reason; strings.HasSuffix(got, "Overdue") {
				t.Errorf("%s, although it woke just now", got)
			}
		})
	}
}

// TestProgressWakesNoCluster: it is written every few seconds, and a pass looks at everything.
func TestProgressWakesNoCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1alpha1.MySQLBackup)
		wakes  bool
	}{
		"progress": {func(b *v1alpha1.MySQLBackup) {
			b.Status.Progress, b.Status.Message = &v1alpha1.BackupProgress{Bytes: 1}, "dumping"
		}, false},
		"the phase":    {func(b *v1alpha1.MySQLBackup) { b.Status.Phase = v1alpha1.BackupCompleted }, true},
		"verification": {func(b *v1alpha1.MySQLBackup) { b.Status.Verification = &v1alpha1.VerificationStatus{Result: "Passed"} }, true},
		"deletion":     {func(b *v1alpha1.MySQLBackup) { b.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
		"a finalizer":  {func(b *v1alpha1.MySQLBackup) { b.Finalizers = []string{v1alpha1.Finalizer} }, true},
	} {
		before := &v1alpha1.MySQLBackup{Status: v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupRunning}}
		after := before.DeepCopy()
		c.change(after)
		if got := (backupTurned{}).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.wakes {
			t.Errorf("%s: %v, want %v", name, got, c.wakes)
		}
	}
}

package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
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
			r := NewMySQLClusterReconciler(pass.Ports{Clock: clocktesting.NewFakePassiveClock(noon), Metrics: metrics.New(prometheus.NewRegistry())})
			cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
			backedUp(cluster)
			since := noon.Add(-c.made)
			s := &pass.Pass{Cluster: cluster, Backup: pass.Backups{Known: true, All: c.backups, Verification: c.verified, Schedules: map[string]time.Time{"orders-daily": since, "orders-hourly": since, "orders-verify": since}}}
			r.backups.ProjectBackups(s, pass.Conditions{Cluster: cluster})
			got := cluster.Status.Conditions[0]
			if text := string(got.Status) + "/" + got.Reason; text != c.want || !strings.Contains(got.Message, c.says) {
				t.Errorf("%s: %s", text, got.Message)
			}
		})
	}
}

// TestAScheduleThatNeverComes is reported as what it is, not as a backup that is overdue.
func TestAScheduleThatNeverComes(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*v1alpha1.BackupSpec){
		"spec.backup.schedules: the cron of": func(b *v1alpha1.BackupSpec) { b.Schedules[0].Cron = "0 3 31 2 *" },
		"spec.backup.verification.cron":      func(b *v1alpha1.BackupSpec) { b.Verification.Cron = "0 3 31 2 *" },
	} {
		r := NewMySQLClusterReconciler(pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Now()), Metrics: metrics.New(prometheus.NewRegistry())})
		cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
		backedUp(cluster)
		change(cluster.Spec.Backup)
		now := time.Now()
		s := &pass.Pass{Cluster: cluster, Backup: pass.Backups{Known: true, Schedules: map[string]time.Time{"orders-daily": now, "orders-hourly": now, "orders-verify": now}}}
		r.backups.ProjectBackups(s, pass.Conditions{Cluster: cluster})
		if got := cluster.Status.Conditions[0]; got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonInvalidSpec ||
			!strings.HasPrefix(got.Message, field) || !strings.Contains(got.Message, "names no day that ever comes") {
			t.Errorf("%s: %+v", field, got)
		}
	}
}

// TestAPauseOfBackups is told, and so is that it is made up what was missed; the cluster sleeps every night over its only slot, and
// when nothing is made up that is told too, however often it sleeps. What was overdue before a short pause stays so.
func TestAPauseOfBackups(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(evening)
	registry := prometheus.NewRegistry()
	r := NewMySQLClusterReconciler(pass.Ports{Clock: clock, Metrics: metrics.New(registry)})
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	backedUp(cluster)
	cluster.Spec.Backup.Schedules, cluster.Spec.Backup.Verification = cluster.Spec.Backup.Schedules[:1], nil
	schedule := cluster.Spec.Backup.Schedules[0]
	if schedule.Cron != "30 3 * * *" {
		t.Fatalf("the schedule is %+v", schedule)
	}
	dump := func(phase v1alpha1.BackupPhase, completed *metav1.Time) v1alpha1.MySQLBackup {
		return v1alpha1.MySQLBackup{
			ObjectMeta: metav1.ObjectMeta{Name: "dump", CreationTimestamp: metav1.NewTime(clock.Now())}, Spec: v1alpha1.MySQLBackupSpec{Schedule: schedule.Name, Method: v1alpha1.BackupMethodDump},
			Status: v1alpha1.MySQLBackupStatus{Phase: phase, CompletedAt: completed},
		}
	}
	serving := &topology.Member{SQL: topology.SQL{Access: topology.AccessVerified, Writable: true}}
	s := &pass.Pass{Cluster: cluster, Backup: pass.Backups{Known: true, Schedules: map[string]time.Time{"orders-" + schedule.Name: evening.Add(-100 * 24 * time.Hour)}}}
	s.Plan.Primary, s.Observed.Members = "orders-0", map[string]*topology.Member{"orders-0": serving}
	good := func() {
		at := metav1.NewTime(clock.Now())
		s.Backup.All = []v1alpha1.MySQLBackup{dump(v1alpha1.BackupCompleted, &at)}
	}
	says := func(when, want string) {
		t.Helper()
		r.backups.ProjectBackups(s, pass.Conditions{Cluster: cluster})
		if c := cluster.Status.Conditions[0]; string(c.Status)+"/"+c.Reason != want {
			t.Errorf("%s: %s/%s: %s, want %s", when, c.Status, c.Reason, c.Message, want)
		}
		gauges, err := testutil.GatherAndCount(registry, "mysqlcluster_backup_last_good_timestamp_seconds")
		must(t, err)
		if asleep := cluster.Status.Backup.PausedSince != nil && !cluster.Spec.Backup.Suspend; (gauges == 0) != asleep {
			t.Errorf("%s: %d gauges", when, gauges)
		}
	}
	paused := func(when string, dumps, verification bool) {
		t.Helper()
		if backups.BackupsPaused(s) != dumps || r.backups.VerificationPaused(s) != verification {
			t.Errorf("%s: paused are backups: %v, verification: %v", when, backups.BackupsPaused(s), r.backups.VerificationPaused(s))
		}
	}
	good()
	says("in the evening", "True/BackupSucceeded")
	paused("in the evening", false, false)
	for night := range 3 {
		cluster.Spec.Hibernate = true
		paused("at night", true, true)
		says("at night", "Unknown/Hibernated")
		clock.SetTime(clock.Now().Add(12 * time.Hour))
		cluster.Spec.Hibernate, serving.SQL.Writable = false, false
		paused("waking", true, true)
		says("waking", "Unknown/BackupsPaused")
		serving.SQL.Writable = true
		paused("awake", false, true) // the verification would find what was before the night
		want := []string{"True/BackupSucceeded", "Unknown/BackupDue", "Unknown/BackupDue"}[night]
		says("awake", want)
		clock.SetTime(clock.Now().Add(backups.OverdueGrace + time.Minute))
		paused("later", false, true) // nothing was made up
		says("two hours later", []string{"True/BackupSucceeded", "False/BackupOverdue", "False/BackupOverdue"}[night])
		clock.SetTime(clock.Now().Add(10*time.Hour - time.Minute))
	}
	says("in the third evening", "False/BackupOverdue")
	cluster.Spec.Backup.Suspend = true
	says("suspended", "Unknown/BackupsPaused")
	cluster.Spec.Backup.Suspend = false
	says("not any more", "Unknown/BackupDue")
	s.Backup.All = append([]v1alpha1.MySQLBackup{dump(v1alpha1.BackupRunning, nil)}, s.Backup.All...)
	clock.SetTime(clock.Now().Add(backups.OverdueGrace + time.Minute))
	says("being made up", "Unknown/BackupDue")
	paused("being made up", false, true)
	failed := metav1.NewTime(clock.Now())
	s.Backup.All[0] = dump(v1alpha1.BackupFailed, &failed)
	says("failed", "False/BackupFailed")
	paused("failed", false, true)
	good()
	says("made up", "True/BackupSucceeded")
	paused("made up", false, false)
	cluster.Status = v1alpha1.MySQLClusterStatus{}
	clock.SetTime(clock.Now().Add(60 * time.Hour))
	says("of a status that was lost", "False/BackupOverdue")
	cluster.Status, s.Backup.Suspended, serving.SQL.Writable = v1alpha1.MySQLClusterStatus{}, true, false
	paused("waking, of a status that was lost", true, true)
	says("waking, of a status that was lost", "Unknown/BackupsPaused")
	serving.SQL.Writable = true
	paused("awake, of a status that was lost", false, true)
	clock.SetTime(clock.Now().Add(backups.MakeUpLimit + time.Minute))
	r.backups.ProjectBackups(s, pass.Conditions{Cluster: cluster})
	clock.SetTime(clock.Now().Add(backups.MakeUpLimit))
	paused("a day later", false, false)
}

// TestABackupThatVanishedIsNoGoodBackup, and BackupHealthy says so until the schedule has another.
func TestABackupThatVanishedIsNoGoodBackup(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	b := func(name string, age time.Duration) v1alpha1.MySQLBackup {
		at := metav1.NewTime(noon.Add(-age))
		return v1alpha1.MySQLBackup{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: at},
			Spec:       v1alpha1.MySQLBackupSpec{Schedule: "hourly", Method: v1alpha1.BackupMethodSnapshot},
			Status:     v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupCompleted, CompletedAt: &at, BackupSnapshot: v1alpha1.BackupSnapshot{SnapshotID: "snap-" + name}},
		}
	}
	gone := func(b v1alpha1.MySQLBackup) v1alpha1.MySQLBackup {
		b.Status.VanishedAt = &metav1.Time{Time: noon}
		return b
	}
	former := func(b v1alpha1.MySQLBackup) v1alpha1.MySQLBackup {
		b.Spec.Schedule = "former"
		return b
	}
	newest, old := b("new", time.Hour), b("old", 2*time.Hour)
	for name, c := range map[string]struct {
		backups []v1alpha1.MySQLBackup // the newest first
		away    bool
		want    string
		good    string
	}{
		"both are there":              {[]v1alpha1.MySQLBackup{newest, old}, false, "True/BackupSucceeded", "new"},
		"the newest is gone":          {[]v1alpha1.MySQLBackup{gone(newest), old}, false, "False/BackupVanished", "old"},
		"all are gone":                {[]v1alpha1.MySQLBackup{gone(newest), gone(old)}, false, "False/BackupVanished", ""},
		"of no schedule":              {[]v1alpha1.MySQLBackup{gone(former(old))}, false, "False/BackupVanished", ""},
		"an older one is gone":        {[]v1alpha1.MySQLBackup{newest, gone(old)}, false, "True/BackupSucceeded", "new"},
		"gone, and EC2 is away since": {[]v1alpha1.MySQLBackup{gone(newest), old}, true, "False/BackupVanished", "old"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewMySQLClusterReconciler(pass.Ports{Clock: clocktesting.NewFakePassiveClock(noon), Metrics: metrics.New(prometheus.NewRegistry())})
			cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
			backedUp(cluster)
			s := &pass.Pass{Cluster: cluster, Backup: pass.Backups{Known: true, All: c.backups}}
			s.Observed.CloudReachable = !c.away
			r.backups.ProjectBackups(s, pass.Conditions{Cluster: cluster})
			got := cluster.Status.Conditions[0]
			if text := string(got.Status) + "/" + got.Reason; text != c.want || cluster.Status.Backup.LastGood != c.good {
				t.Errorf("%s: %s; good is %q", text, got.Message, cluster.Status.Backup.LastGood)
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

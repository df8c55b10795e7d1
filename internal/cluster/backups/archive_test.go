package backups

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestMayBeBase decides whether the archive waits for a dump or another is taken. After a gap a dump of before serves nobody, and the
// pause between two attempts is for attempts that failed.
func TestMayBeBase(t *testing.T) {
	const server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	now := time.Now()
	report := &archive.Report{Start: archive.Start{BaseNeeded: true, Required: server + ":1-20", AnchorAt: now.Add(-7 * time.Minute)}}
	for name, row := range map[string]struct {
		age   time.Duration
		phase v1alpha1.BackupPhase
		base  bool // taken by the operator for the archive
		set   string
		waits bool
	}{
		"a dump runs":                                      {time.Hour, v1alpha1.BackupRunning, false, "", true},
		"a dump of before the gap":                         {time.Minute, v1alpha1.BackupCompleted, false, server + ":1-10", false},
		"the base of before the gap":                       {10 * time.Minute, v1alpha1.BackupCompleted, true, server + ":1-10", false},
		"a base of after the gap that lacks what it holds": {5 * time.Minute, v1alpha1.BackupCompleted, true, server + ":1-10", true},
		"a dump of after the gap":                          {time.Minute, v1alpha1.BackupCompleted, false, server + ":1-20", true},
		"one that the archive has not found for long":      {10 * time.Minute, v1alpha1.BackupCompleted, false, server + ":1-20", false},
		"a base that the archive has not found for long":   {10 * time.Minute, v1alpha1.BackupCompleted, true, server + ":1-20", true},
		"one whose set is too long for its status":         {time.Minute, v1alpha1.BackupCompleted, false, "", true},
		"a base that failed a moment ago":                  {time.Minute, v1alpha1.BackupFailed, true, "", true},
		"a base that failed an hour ago":                   {time.Hour, v1alpha1.BackupFailed, true, "", false},
		"a person's dump that failed":                      {time.Minute, v1alpha1.BackupFailed, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewTime(now.Add(-row.age))
			b := &v1alpha1.MySQLBackup{
				ObjectMeta: metav1.ObjectMeta{Name: "nightly", CreationTimestamp: at},
				Spec:       v1alpha1.MySQLBackupSpec{ClusterName: "orders", Method: v1alpha1.BackupMethodDump},
				Status:     v1alpha1.MySQLBackupStatus{Phase: row.phase, GTIDSet: row.set},
			}
			if row.base {
				b.Labels = map[string]string{v1alpha1.LabelComponent: resources.ComponentArchive}
			}
			if row.phase == v1alpha1.BackupCompleted {
				b.Status.CompletedAt = &at
			}
			if waits := mayBeBase(b, report, now); waits != row.waits {
				t.Errorf("the archive waits for it: %t, want %t", waits, row.waits)
			}
		})
	}
}

// TestAnArchiveThatWasNotRead: a pass that did not read the report changes neither the condition nor the figures, and an archive that has
// nothing to begin from is not behind.
func TestAnArchiveThatWasNotRead(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	healthy := metav1.Condition{Type: v1alpha1.ConditionArchiveHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonArchiving, Message: "as before"}
	report := &archive.Report{At: now, CoveredUntil: now.Add(-time.Hour), FirstRecoverable: now.Add(-2 * time.Hour)}
	for name, row := range map[string]struct {
		change  func(*pass.Pass)
		before  bool // an earlier pass found the archive healthy
		reason  string
		covered bool
	}{
		"the pass ended early":                {func(s *pass.Pass) { s.Planned = false }, true, v1alpha1.ReasonArchiving, true},
		"the report could not be read":        {func(*pass.Pass) {}, true, v1alpha1.ReasonArchiving, true},
		"the operator is new, the pass ended": {func(s *pass.Pass) { s.Planned = false }, false, v1alpha1.ReasonArchiveStarting, false},
		"it was read":                         {func(s *pass.Pass) { s.Backup.ArchiveRead, s.Backup.Archived = true, report }, true, v1alpha1.ReasonArchiveBehind, true},
		"the pod has not reported yet":        {func(s *pass.Pass) { s.Backup.ArchiveRead = true }, false, v1alpha1.ReasonArchiveStarting, false},
		"a cluster without a primary yet":     {func(s *pass.Pass) { s.SetRecords(topology.ClusterRecord{}); s.Backup.ArchiveRead = true }, false, v1alpha1.ReasonArchiveStarting, false},
		"and its pod reports that it has nothing": {func(s *pass.Pass) {
			s.SetRecords(topology.ClusterRecord{})
			s.Backup.ArchiveRead, s.Backup.Archived = true, &archive.Report{At: now, Error: "no primary"}
		}, false, v1alpha1.ReasonArchiveStarting, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Archive{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now), Metrics: metrics.New(prometheus.NewRegistry())}}
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Planned: true}
			s.Cluster.Spec.Backup = &v1alpha1.BackupSpec{Destination: &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "backups"}}}
			s.SetRecords(topology.ClusterRecord{Established: true})
			if row.before {
				meta.SetStatusCondition(&s.Cluster.Status.Conditions, healthy)
				r.Metrics.Archive(s.Cluster, now, 9)
			}
			row.change(s)
			r.projectArchive(s, pass.Conditions{Cluster: s.Cluster})
			if c := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionArchiveHealthy); c == nil || c.Reason != row.reason {
				t.Errorf("the condition is %+v, want %s", c, row.reason)
			}
			if n := testutil.CollectAndCount(r.Metrics.Archived); (n > 0) != row.covered {
				t.Errorf("%d metrics say until when it goes", n)
			}
		})
	}
}

// TestWhatEndsAReplayIsSaidBeforehand, by the archive that cannot be replayed beyond it.
func TestWhatEndsAReplayIsSaidBeforehand(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := &Archive{Ports: &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now)}}
	report := &archive.Report{At: now, CoveredUntil: now, FirstRecoverable: now.Add(-time.Hour)}
	report.Unreplayable = "table mysql.mine"
	const want = "on can be restored, unless what dumps do not carry was changed until then: table mysql.mine. Move or alter it as the newest MySQLBackup says"
	if v := r.judgeArchive(report, now); v.status != metav1.ConditionTrue || !strings.HasSuffix(v.message, want) {
		t.Errorf("the archive is %+v", v)
	}
}

// TestWhereTheArchiveBeginsIsForgottenWithIt: once it is off, nobody can restore to a point in time of now.
func TestWhereTheArchiveBeginsIsForgottenWithIt(t *testing.T) {
	now := metav1.Unix(1_800_000_000, 0)
	for _, on := range []bool{true, false} {
		ports := &pass.Ports{Clock: clocktesting.NewFakePassiveClock(now.Time), Metrics: metrics.New(prometheus.NewRegistry())}
		r := &Backups{Ports: ports, Archive: &Archive{Ports: ports}}
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache(""), Planned: true}
		s.Cluster.Spec.Backup = &v1alpha1.BackupSpec{
			Destination: &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "backups"}}, BinlogArchive: &v1alpha1.BinlogArchiveSpec{Enabled: on},
		}
		s.Cluster.Status.Backup = &v1alpha1.BackupSummary{FirstRecoverablePoint: &now}
		s.Backup.Known = true
		r.ProjectBackups(s, pass.Conditions{Cluster: s.Cluster})
		if known := s.Cluster.Status.Backup.FirstRecoverablePoint != nil; known != on {
			t.Errorf("archive on: %t; status says from when on it restores: %t", on, known)
		}
	}
}

// TestNoBackupWhileARestoreRuns: a restore is a pause, and backups begin with the first primary.
func TestNoBackupWhileARestoreRuns(t *testing.T) {
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}}
	s.Cluster.Spec.Backup = &v1alpha1.BackupSpec{}
	if BackupsPaused(s) {
		t.Error("a new cluster pauses")
	}
	s.Cluster.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{}}
	if !BackupsPaused(s) {
		t.Error("a cluster that is being restored is backed up")
	}
	var records topology.ClusterRecord
	records.Recovered = true
	s.SetRecords(records)
	s.Cluster.Status.Backup = &v1alpha1.BackupSummary{PausedSince: &metav1.Time{Time: time.Unix(1, 0)}}
	if !BackupsPaused(s) {
		t.Error("backups go on before there is a primary")
	}
	s.Plan.Primary = "orders-0"
	s.Observed.Members = map[string]*topology.Member{"orders-0": {SQL: topology.SQL{Access: topology.AccessVerified, Writable: true}}}
	if BackupsPaused(s) {
		t.Error("the restore is over, there is a primary, and backups still pause")
	}
}

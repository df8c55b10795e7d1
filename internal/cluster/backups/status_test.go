package backups

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

func completed(name, schedule string, method v1alpha1.BackupMethod) v1alpha1.MySQLBackup {
	return v1alpha1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MySQLBackupSpec{Schedule: schedule, Method: method},
		Status: v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupCompleted},
	}
}

// TestARefutedBackupIsNotTheLastGood: a verification found it damaged, or that no server takes it. One that is only too old, or that could not be verified, is good.
func TestARefutedBackupIsNotTheLastGood(t *testing.T) {
	for reason, want := range map[string]string{
		v1alpha1.BackupReasonDamaged: "old", v1alpha1.BackupReasonDiffers: "old", v1alpha1.BackupReasonNotFound: "old", v1alpha1.BackupReasonLoadRejected: "old",
		v1alpha1.BackupReasonTooOld: "new", v1alpha1.BackupReasonLoadFailed: "new", v1alpha1.BackupReasonServerFailed: "new", v1alpha1.BackupReasonStoreUnavailable: "new",
	} {
		list := []v1alpha1.MySQLBackup{completed("new", "daily", v1alpha1.BackupMethodDump), completed("old", "daily", v1alpha1.BackupMethodDump)}
		list[0].Status.Verification = &v1alpha1.VerificationStatus{Result: v1alpha1.VerificationFailed, Reason: reason}
		if got := summarise(list).LastGood; got != want {
			t.Errorf("%s: the last good is %s", reason, got)
		}
	}
}

// TestALoadThatFailedUnderAnOlderOperatorRefutesNothing: it reported LoadFailed also where the verification had no room.
func TestALoadThatFailedUnderAnOlderOperatorRefutesNothing(t *testing.T) {
	var b v1alpha1.MySQLBackup
	stored := `{"status":{"phase":"Completed","verification":{"at":"2026-11-01T02:00:00Z","result":"Failed","reason":"LoadFailed","message":"loading the dump failed: ERROR 1114 (HY000): The table 't' is full"}}}`
	if err := json.Unmarshal([]byte(stored), &b); err != nil {
		t.Fatal(err)
	}
	if b.Refuted() || !b.Good() {
		t.Error("the backup counts as refuted")
	}
}

// TestWhatNoSchedulePrunesIsNamed: what a schedule made that was renamed, removed or given another method since stays.
func TestWhatNoSchedulePrunesIsNamed(t *testing.T) {
	daily, hourly := v1alpha1.BackupSchedule{Name: "daily", Method: v1alpha1.BackupMethodDump}, v1alpha1.BackupSchedule{Name: "hourly", Method: v1alpha1.BackupMethodSnapshot}
	for want, row := range map[string]struct {
		schedules []v1alpha1.BackupSchedule
		backups   []v1alpha1.MySQLBackup
	}{
		"":    {[]v1alpha1.BackupSchedule{daily, hourly}, []v1alpha1.MySQLBackup{completed("a", "daily", v1alpha1.BackupMethodDump), completed("b", "hourly", v1alpha1.BackupMethodSnapshot), completed("c", "", v1alpha1.BackupMethodSnapshot)}},
		"a b": {[]v1alpha1.BackupSchedule{daily, hourly}, []v1alpha1.MySQLBackup{completed("a", "former", v1alpha1.BackupMethodDump), completed("b", "hourly", v1alpha1.BackupMethodDump)}},
		"s":   {[]v1alpha1.BackupSchedule{daily}, []v1alpha1.MySQLBackup{completed("s", "hourly", v1alpha1.BackupMethodSnapshot)}},
	} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Backup: &v1alpha1.BackupSpec{Schedules: row.schedules}}}, Backup: pass.Backups{All: row.backups}}
		if got := strings.Join(unpruned(s), " "); got != want {
			t.Errorf("named are %q, not %q", got, want)
		}
	}
}

package backups

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// TestMayBeBase decides whether the archive waits for a dump or another is taken. After a gap a dump of before serves nobody, and the
// pause between two attempts is for attempts that failed.
func TestMayBeBase(t *testing.T) {
	const server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	now := time.Now()
	report := &archive.Report{BaseNeeded: true, Anchor: server + ":1-20"}
	for name, row := range map[string]struct {
		age   time.Duration
		phase v1alpha1.BackupPhase
		base  bool // taken by the operator for the archive
		set   string
		waits bool
	}{
		"a dump runs":                                    {time.Hour, v1alpha1.BackupRunning, false, "", true},
		"a dump of before the gap":                       {time.Minute, v1alpha1.BackupCompleted, false, server + ":1-10", false},
		"the base of before the gap":                     {10 * time.Minute, v1alpha1.BackupCompleted, true, server + ":1-10", false},
		"a dump of after the gap":                        {time.Minute, v1alpha1.BackupCompleted, false, server + ":1-20", true},
		"one that the archive has not found for long":    {10 * time.Minute, v1alpha1.BackupCompleted, false, server + ":1-20", false},
		"a base that the archive has not found for long": {10 * time.Minute, v1alpha1.BackupCompleted, true, server + ":1-20", true},
		"one whose set is too long for its status":       {time.Minute, v1alpha1.BackupCompleted, false, "", true},
		"a base that failed a moment ago":                {time.Minute, v1alpha1.BackupFailed, true, "", true},
		"a base that failed an hour ago":                 {time.Hour, v1alpha1.BackupFailed, true, "", false},
		"a person's dump that failed":                    {time.Minute, v1alpha1.BackupFailed, false, "", false},
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

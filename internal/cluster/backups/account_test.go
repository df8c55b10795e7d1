package backups

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// TestTheBackupAccountIsLookedAtAnew every ten minutes, and once when a backup has failed.
func TestTheBackupAccountIsLookedAtAnew(t *testing.T) {
	began := time.Now().Truncate(time.Second)
	clock := clocktesting.NewFakePassiveClock(began)
	r := &Backups{Ports: &pass.Ports{Clock: clock}}
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began)}}}
	ended := func(name string, phase v1alpha1.BackupPhase) v1alpha1.MySQLBackup {
		return v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.MySQLBackupStatus{Phase: phase}}
	}
	last := r.accountPeriod(s)
	for _, row := range []struct {
		what    string
		after   time.Duration
		backups []v1alpha1.MySQLBackup
		looks   bool
	}{
		{"nothing happens", accountLook - time.Second, nil, false},
		{"ten minutes are over", time.Second, nil, true},
		{"a backup fails", time.Minute, []v1alpha1.MySQLBackup{ended("b1", v1alpha1.BackupFailed)}, true},
		{"it is still the newest", time.Minute, []v1alpha1.MySQLBackup{ended("b1", v1alpha1.BackupFailed)}, false},
		{"a good one follows", time.Minute, []v1alpha1.MySQLBackup{ended("b2", v1alpha1.BackupCompleted), ended("b1", v1alpha1.BackupFailed)}, false},
		{"another fails", time.Minute, []v1alpha1.MySQLBackup{ended("b3", v1alpha1.BackupFailed), ended("b1", v1alpha1.BackupFailed)}, true},
		{"ten minutes are over again", accountLook, []v1alpha1.MySQLBackup{ended("b3", v1alpha1.BackupFailed)}, true},
	} {
		clock.SetTime(clock.Now().Add(row.after))
		s.Backup.All = row.backups
		now := r.accountPeriod(s)
		if (now != last) != row.looks {
			t.Errorf("%s: it is looked at anew: %t, want %t", row.what, now != last, row.looks)
		}
		last = now
	}
}

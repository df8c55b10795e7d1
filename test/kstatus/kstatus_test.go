package kstatus

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestWrongStatusesAreFound: each broken rule is found, and a right status is not.
func TestWrongStatusesAreFound(t *testing.T) {
	is := func(phase v1alpha1.Phase, conditions ...string) *v1alpha1.MySQLCluster {
		c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", UID: "1", Generation: 2}}
		c.Status.ObservedGeneration, c.Status.Phase = 2, phase
		for _, text := range conditions {
			kind, status, _ := strings.Cut(text, "=")
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: "Test"})
		}
		return c
	}
	asleep := func(c *v1alpha1.MySQLCluster) *v1alpha1.MySQLCluster { c.Spec.Hibernate = true; return c }
	unseen := func(c *v1alpha1.MySQLCluster) *v1alpha1.MySQLCluster { c.Status.ObservedGeneration = 0; return c }
	for name, test := range map[string]struct {
		seen []*v1alpha1.MySQLCluster
		want string // what is wrong with the last; "" for nothing
	}{
		"Ready":                                 {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=True", "Available=True", "Progressing=False")}, ""},
		"Ready without writes":                  {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=True", "Available=False", "Progressing=False")}, "should be InProgress"},
		"a rollout that waits":                  {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=True", "Available=True", "Progressing=True")}, "should be InProgress"},
		"a rollout that waits, and says so":     {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=True", "Available=True", "Progressing=True", "Reconciling=True")}, ""},
		"nobody has seen it":                    {[]*v1alpha1.MySQLCluster{unseen(is(""))}, "should be InProgress"},
		"stalled":                               {[]*v1alpha1.MySQLCluster{is("Provisioning", "Ready=False", "Stalled=True")}, ""},
		"stalled, and goes on":                  {[]*v1alpha1.MySQLCluster{is("Provisioning", "Stalled=True", "Reconciling=True")}, "at once"},
		"hibernated":                            {[]*v1alpha1.MySQLCluster{asleep(is("Hibernated", "Available=False", "Progressing=False"))}, ""},
		"hibernated, and not Ready":             {[]*v1alpha1.MySQLCluster{asleep(is("Hibernated", "Ready=False", "Progressing=False"))}, "should be Current"},
		"repaired":                              {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=False"), is("Repairing", "Ready=False")}, ""},
		"on the way up a second time":           {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=False"), is("Replicating", "Ready=False")}, "it was Ready before"},
		"on the way up after it had hibernated": {[]*v1alpha1.MySQLCluster{is("Ready", "Ready=False"), asleep(is("Hibernated", "Progressing=False")), is("Provisioning", "Ready=False")}, ""},
	} {
		var c Checker
		got := ""
		for _, o := range test.seen {
			got = c.Check(o)
		}
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for name, test := range map[string]struct {
		status v1alpha1.MySQLBackupStatus
		want   string
	}{
		"running, without conditions": {v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupRunning}, "should be InProgress"},
		"completed, and not Ready":    {backupStatus(v1alpha1.BackupCompleted, "Ready=False"), "should be Current"},
		"completed":                   {backupStatus(v1alpha1.BackupCompleted, "Ready=True"), ""},
		"failed, and not Stalled":     {backupStatus(v1alpha1.BackupFailed, "Ready=False"), "should be Failed"},
		"failed":                      {backupStatus(v1alpha1.BackupFailed, "Ready=False", "Stalled=True"), ""},
		"running, and Stalled":        {backupStatus(v1alpha1.BackupRunning, "Ready=False", "Stalled=True"), "should be InProgress"},
	} {
		if got := new(Checker).Check(&v1alpha1.MySQLBackup{Status: test.status}); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("a backup that is %s: %q, want %q", name, got, test.want)
		}
	}
}

// backupStatus is a status whose conditions follow the phase.
func backupStatus(phase v1alpha1.BackupPhase, conditions ...string) v1alpha1.MySQLBackupStatus {
	st := v1alpha1.MySQLBackupStatus{Phase: phase}
	for _, text := range conditions {
		kind, status, _ := strings.Cut(text, "=")
		st.Conditions = append(st.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: string(phase)})
	}
	return st
}

package controllers

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/argocd"
	"github.com/alx-ke/nairobi-mysql-operator/test/kstatus"
)

// statuses checks every status that is written or read in a test as Flux and Argo CD read it.
type statuses struct {
	t *testing.T
	kstatus.Checker
}

func (s *statuses) see(o client.Object) {
	s.t.Helper()
	for _, wrong := range []string{s.Check(o), argoCD().Check(o)} {
		if wrong != "" {
			s.t.Error(wrong)
		}
	}
}

// argoCD are the scripts by which Argo CD judges what this package writes.
var argoCD = sync.OnceValue(func() *argocd.Customizations {
	scripts, err := argocd.Load()
	if err != nil {
		panic(err)
	}
	return scripts
})

// kstatus is what Flux concludes from the cluster.
func (w *world) kstatus() status.Status {
	w.t.Helper()
	c, ok := w.get()
	if !ok {
		return status.NotFoundStatus
	}
	is, err := kstatus.Of(c)
	must(w.t, err)
	return is
}

func (w *world) kstatusIs(want status.Status) func() bool {
	return func() bool { return w.kstatus() == want }
}

// TestANewClusterIsInProgress also before any operator has seen it, and a new backup.
func TestANewClusterIsInProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if is := w.kstatus(); is != status.InProgressStatus {
		t.Errorf("nobody has seen the cluster, and it is %s", is)
	}
	s := newShelf(t)
	is, err := kstatus.Of(s.put("orders-1", nil))
	if must(t, err); is != status.InProgressStatus {
		t.Errorf("nobody has seen the backup, and it is %s", is)
	}
}

// TestASpecThatCannotBeServedHasFailed at once, new or changed, and no longer once it is corrected.
func TestASpecThatCannotBeServedHasFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = "ami-00000000" })
	o := w.newOperator(nil)
	fix := func(change func(*v1alpha1.MySQLCluster)) {
		c, _ := w.get()
		change(c)
		must(t, w.client.Update(t.Context(), c))
		if is := w.kstatus(); is != status.InProgressStatus {
			t.Errorf("nobody has seen the change, and it is %s", is)
		}
	}
	_, _ = w.pass(o)
	if is := w.kstatus(); is != status.FailedStatus {
		t.Fatalf("after the first pass it is %s:\n%s", is, w.describe())
	}
	fix(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = w.account.image })
	w.drive(o, patience, func() bool {
		if is := w.kstatus(); is == status.CurrentStatus {
			t.Fatalf("it is %s, and no mysqld answers", is)
		}
		return w.phaseIs(v1alpha1.PhaseEC2Ready)()
	})
	if is := w.kstatus(); is != status.InProgressStatus {
		t.Errorf("on its way up it is %s", is)
	}
	fix(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.InstanceType = "m6i.none" })
	w.drive(o, patience, w.kstatusIs(status.FailedStatus))
	fix(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.InstanceType, c.Spec.Hibernate = "m6i.large", true })
	w.drive(o, patience, w.kstatusIs(status.CurrentStatus))
	if !w.phaseIs(v1alpha1.PhaseHibernated)() || w.condition(v1alpha1.ConditionReady) != "" {
		t.Errorf("it is settled, and not hibernated:\n%s", w.describe())
	}
	w.delete()
	if is := w.kstatus(); is != status.TerminatingStatus {
		t.Errorf("once deleted it is %s", is)
	}
}

// TestABackupHasConditions once the operator has seen what a pod wrote, of the backup and of its verification.
func TestABackupHasConditions(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for name, end := range map[string]struct {
		phase v1alpha1.BackupPhase
		want  status.Status
	}{
		"good": {v1alpha1.BackupCompleted, status.CurrentStatus}, "bad": {v1alpha1.BackupFailed, status.FailedStatus},
	} {
		s.put(name, nil)
		says := func(want status.Status) {
			t.Helper()
			b := s.look(name)
			is, err := kstatus.Of(b)
			if must(t, err); is != want {
				t.Errorf("%s is %s, want %s: %+v", name, is, want, b.Status)
			}
		}
		says(status.InProgressStatus)
		s.report(name, func(st *v1alpha1.MySQLBackupStatus) {
			st.Phase, st.Reason, st.Message = end.phase, v1alpha1.BackupReasonStoreFull, "there is no room left"
		})
		says(end.want)
	}
	verified := func(v v1alpha1.VerificationStatus, want status.Status, ready, words string) {
		t.Helper()
		v.At = metav1.Now()
		s.report("good", func(st *v1alpha1.MySQLBackupStatus) { st.Verification = &v })
		b := s.look("good")
		is, err := kstatus.Of(b)
		c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
		stalled := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionStalled)
		said := c.Message
		if stalled != nil {
			said = stalled.Message
		}
		if must(t, err); is != want || string(c.Status)+"/"+c.Reason != ready || !strings.Contains(said, words) {
			t.Errorf("after a verification that said %s it is %s: %+v", v.Reason, is, b.Status.Conditions)
		}
	}
	refuted := v1alpha1.VerificationStatus{Result: v1alpha1.VerificationFailed, Reason: v1alpha1.BackupReasonDamaged, Message: "a bit is another"}
	verified(refuted, status.FailedStatus, "False/VerificationFailed", "Damaged: a bit is another")
	tooOld := v1alpha1.VerificationStatus{Result: v1alpha1.VerificationFailed, Reason: v1alpha1.BackupReasonTooOld, Message: "it is of last week"}
	verified(tooOld, status.CurrentStatus, "True/Completed", "TooOld: it is of last week")
	verified(refuted, status.FailedStatus, "False/VerificationFailed", "Damaged: a bit is another")
	verified(v1alpha1.VerificationStatus{Result: v1alpha1.VerificationPassed}, status.CurrentStatus, "True/Completed", "can be restored")
}

package backups

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// setConditions derives the conditions from the phase and the last verification. As kstatus reads them, a backup that failed or that a
// verification refuted has failed, and any other but a completed one is under way.
func setConditions(b *v1alpha1.MySQLBackup) {
	st := &b.Status
	st.ObservedGeneration = b.Generation
	st.Conditions = pass.KeepTypes(st.Conditions, v1alpha1.BackupConditions) // backup pods may write others
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: b.Generation})
	}
	bad := func(reason, message, why string) {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, why)
	}
	switch {
	case st.Phase == v1alpha1.BackupFailed:
		bad(string(st.Phase), "the backup failed", st.Reason+": "+st.Message)
		return
	case b.Refuted():
		bad(v1alpha1.ReasonVerificationFailed, "a verification found that the backup does not restore as it was taken", verdictOf(st.Verification))
		return
	case st.Phase != v1alpha1.BackupCompleted:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, string(cmp.Or(st.Phase, v1alpha1.BackupPending)), "the backup is not complete yet")
	case st.Verification != nil && st.Verification.Result == v1alpha1.VerificationFailed:
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, string(st.Phase), "the backup is complete; its last verification failed, which does not show damage: "+verdictOf(st.Verification))
	default:
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, string(st.Phase), "the backup is complete, and can be restored")
	}
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStalled)
}

// verdictOf says what a verification that failed found, and when.
func verdictOf(v *v1alpha1.VerificationStatus) string {
	return fmt.Sprintf("%s: %s (verified at %s)", v.Reason, v.Message, v.At.UTC().Format(time.RFC3339))
}

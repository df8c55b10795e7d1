package backups

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// setConditions derives the conditions from the phase: as kstatus reads them, a failed backup has failed, and any other but a completed
// one is under way.
func setConditions(b *v1alpha1.MySQLBackup) {
	st := &b.Status
	st.ObservedGeneration = b.Generation
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: b.Generation})
	}
	if st.Phase != v1alpha1.BackupFailed {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStalled)
	}
	switch st.Phase {
	case v1alpha1.BackupCompleted:
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, string(st.Phase), "the backup is complete, and can be restored")
	case v1alpha1.BackupFailed:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, string(st.Phase), "the backup failed")
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, string(st.Phase), st.Reason+": "+st.Message)
	default:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, string(cmp.Or(st.Phase, v1alpha1.BackupPending)), "the backup is not complete yet")
	}
}

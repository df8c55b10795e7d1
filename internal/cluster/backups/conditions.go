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

// setConditions derives the conditions from what the backup is worth. As kstatus reads them, a backup that failed, vanished or was refuted has
// failed, and one that has not ended is under way.
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
	switch b.Standing() {
	case v1alpha1.StandingFailed:
		bad(string(st.Phase), "the backup failed", st.Reason+": "+st.Message)
		return
	case v1alpha1.StandingVanished:
		bad(v1alpha1.ReasonBackupVanished, vanishedMessage(b), vanishedMessage(b))
		return
	case v1alpha1.StandingRefuted:
		bad(v1alpha1.ReasonVerificationFailed, "a verification found that the backup does not restore as it was taken", verdictOf(st.Verification))
		return
	case v1alpha1.StandingUnfinished:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, string(cmp.Or(st.Phase, v1alpha1.BackupPending)), "the backup is not complete yet")
	case v1alpha1.StandingGood:
		message := "the backup is complete, and can be restored"
		if v := st.Verification; v != nil && v.Result == v1alpha1.VerificationFailed {
			message = "the backup is complete; its last verification failed, which does not show damage: " + verdictOf(v)
		}
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, string(st.Phase), message)
	}
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStalled)
}

// verdictOf says what a verification that failed found, and when.
func verdictOf(v *v1alpha1.VerificationStatus) string {
	return fmt.Sprintf("%s: %s (verified at %s)", v.Reason, v.Message, v.At.UTC().Format(time.RFC3339))
}

// vanishedMessage says what of a backup is gone, and what to do.
func vanishedMessage(b *v1alpha1.MySQLBackup) string {
	remedy := "Restore the objects from the bucket's versions"
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		remedy = "Restore it from EC2's Recycle Bin, restore its tags"
	}
	return whatVanished(b) + ". " + remedy + ", or delete this MySQLBackup"
}

// whatVanished says what of a backup is gone, since when, and how that happens.
func whatVanished(b *v1alpha1.MySQLBackup) string {
	since := b.Status.VanishedAt.UTC().Format(time.RFC3339)
	if b.Spec.Method == v1alpha1.BackupMethodSnapshot {
		return fmt.Sprintf("EC2 has shown no snapshot %s since %s: it was deleted, or lost its tags", b.Status.SnapshotID, since)
	}
	return fmt.Sprintf("objects of %s have been missing since %s: they were deleted or overwritten, for example by a lifecycle rule of the bucket", b.Status.Location, since)
}

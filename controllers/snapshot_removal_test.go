package controllers

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
)

// supervise has the reconciler of MySQLBackups look at one.
func (g *gallery) supervise(name string) *v1alpha1.MySQLBackup {
	g.t.Helper()
	r := &MySQLBackupReconciler{Client: kube, Reader: kube, Events: events.NewFakeRecorder(1000), Clock: g.clock, Images: g.o.Images}
	for range 3 {
		_, err := r.Reconcile(g.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: g.cluster.Namespace, Name: name}})
		must(g.t, err)
	}
	return g.backup(name)
}

// retained makes a MySQLBackup whose snapshot is to stay when it is deleted. Nobody has put our finalizer on it.
func (g *gallery) retained(name string) *v1alpha1.MySQLBackup {
	g.t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: g.cluster.Namespace, Name: name},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Method: v1alpha1.BackupMethodSnapshot, DeletionPolicy: v1alpha1.BackupDeletionRetain}}
	must(g.t, kube.Create(g.t.Context(), b))
	return b
}

// TestASnapshotThatIsCompletedTooLate: its backup was failed for want of progress. It is deleted, also by an operator that has
// just begun; and what only a status calls failed stays.
func TestASnapshotThatIsCompletedTooLate(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.retained("late")
	g.look(shows("pending", "40%"))
	if b := g.backup("late"); !controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) || len(g.ids()) != 1 {
		t.Fatalf("nothing holds it while it is taken: %+v; snapshots %v", b.ObjectMeta, g.ids())
	}
	g.wait(snapshotPatience + time.Hour)
	wantFailed(t, g.supervise("late"), v1alpha1.BackupReasonStalled)
	again := g.newOperator(nil)
	again.Images, g.o = g.o.Images, again
	g.look(shows(ec2.SnapshotCompleted, "100%"))
	if left := g.ids(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	g.look(nil) // once more costs nothing
	wantFailed(t, g.backup("late"), v1alpha1.BackupReasonStalled)
}

// TestASnapshotThatNobodyWouldKnowOf: a MySQLBackup that is deleted before it is complete takes with it what EC2 has of it; a
// complete one stays, as its policy says.
func TestASnapshotThatNobodyWouldKnowOf(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.retained("half")
	g.look(shows("pending", "40%"))
	g.retained("whole")
	whole := g.until("whole", v1alpha1.BackupCompleted).Status.SnapshotID
	g.report("half", func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.CompletedAt = v1alpha1.BackupRunning, nil })
	for _, name := range []string{"half", "whole"} {
		must(t, kube.Delete(t.Context(), g.backup(name)))
	}
	g.look(func(s *scope) {
		for i := range s.inventory.Snapshots {
			if s.inventory.Snapshots[i].ID != whole {
				s.inventory.Snapshots[i].State = "pending"
			}
		}
	})
	if left := g.ids(); !slices.Equal(left, []string{whole}) {
		t.Errorf("left are %v, want %s", left, whole)
	}
	if g.backup("half") != nil || g.backup("whole") != nil {
		t.Error("they are held up")
	}
}

// TestASnapshotThatStaysNeedsNoCloud: a MySQLBackup whose snapshot is to stay can be deleted while nothing leads to EC2; one whose
// snapshot is to go, or is not complete, waits.
func TestASnapshotThatStaysNeedsNoCloud(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.retained("kept")
	kept := g.until("kept", v1alpha1.BackupCompleted).Status.SnapshotID
	g.take("deleted", "")
	g.until("deleted", v1alpha1.BackupCompleted)
	g.retained("half")
	g.look(shows("pending", "40%"))
	for _, name := range []string{"kept", "deleted", "half"} {
		must(t, kube.Delete(t.Context(), g.backup(name)))
		g.look(func(s *scope) { s.observed.CloudReachable = false })
		if b := g.supervise(name); (b == nil) != (name == "kept") {
			t.Errorf("%s: %+v", name, b)
		}
	}
	if !slices.Contains(g.ids(), kept) {
		t.Errorf("the snapshot is gone: left are %v", g.ids())
	}
}

// TestSnapshotsGoWithTheirCluster: what is deleted together with the cluster, as with its namespace, goes while the cluster's way
// to EC2 is there; what is under way is given up; what is to stay stays, also when EC2 has completed it a moment before.
func TestSnapshotsGoWithTheirCluster(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.take("deleted", "")
	deleted := g.until("deleted", v1alpha1.BackupCompleted).Status.SnapshotID
	g.retained("kept")
	kept := g.until("kept", v1alpha1.BackupCompleted).Status.SnapshotID
	g.retained("running")
	g.look(shows("pending", "40%"))
	g.retained("late")
	g.until("late", v1alpha1.BackupCompleted)
	for _, name := range []string{"running", "late"} {
		g.report(name, func(s *v1alpha1.MySQLBackupStatus) { s.Phase, s.CompletedAt = v1alpha1.BackupRunning, nil })
	}
	running, late := g.backup("running").Status.SnapshotID, g.backup("late").Status.SnapshotID
	if running == "" || late == "" || len(g.ids()) != 4 {
		t.Fatalf("it is not running: %+v; %v", g.backup("running").Status, g.ids())
	}
	must(t, kube.Delete(t.Context(), g.backup("deleted")))
	g.delete()
	s := g.seen(g.o)
	for i := range s.inventory.Snapshots {
		if s.inventory.Snapshots[i].ID == running {
			s.inventory.Snapshots[i].State = ec2.SnapshotPending
		}
	}
	must(t, g.o.settleSnapshots(t.Context(), s))
	g.drive(g.o, patience, g.gone)
	if g.backup("deleted") != nil {
		t.Error("the one that was deleted with its data is held up")
	}
	wantFailed(t, g.backup("running"), v1alpha1.BackupReasonNoCluster)
	if b := g.backup("late"); b.Status.Phase != v1alpha1.BackupCompleted {
		t.Errorf("what EC2 had completed is %+v", b.Status)
	}
	var backups []string
	for _, s := range g.left().snapshots {
		if s.id == kept || s.id == late || s.id == running || s.id == deleted {
			backups = append(backups, s.id)
		}
	}
	if want := []string{kept, late}; len(backups) != 2 || !slices.Contains(backups, kept) || !slices.Contains(backups, late) {
		t.Errorf("of %s, %s, %s and %s are left %v, want %v", deleted, kept, late, running, backups, want)
	}
}

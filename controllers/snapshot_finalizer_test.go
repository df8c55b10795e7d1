package controllers

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// isHeld says whether a MySQLBackup has our finalizer.
func (g *gallery) isHeld(name string) bool {
	g.t.Helper()
	b := g.backup(name)
	return b != nil && controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer)
}

// copying has EC2 show all snapshots but some as being copied.
func copying(whole ...string) func(*pass.Pass) {
	return func(s *pass.Pass) {
		for i := range s.Seen.Inventory.Snapshots {
			if one := &s.Seen.Inventory.Snapshots[i]; !slices.Contains(whole, one.ID) {
				one.State, one.Progress = inventory.SnapshotPending, "40%"
			}
		}
	}
}

// TestASnapshotIsHeldAsLongAsEC2HasWhatIsToGo, and is free after that, whatever it is called by then.
func TestASnapshotIsHeldAsLongAsEC2HasWhatIsToGo(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.retained("failed")
	g.take("failed-too", "")
	g.look(copying())
	g.look(shows(inventory.SnapshotError, ""))
	for _, name := range []string{"failed", "failed-too"} {
		if wantFailed(t, g.backup(name), v1alpha1.BackupReasonSnapshotFailed); !g.isHeld(name) {
			t.Errorf("%s is not held while EC2 has something of it", name)
		}
	}
	g.look(shows(inventory.SnapshotError, ""))
	g.wait(5 * observe.TagsShown)
	for range 3 {
		g.look(nil)
	}
	for _, name := range []string{"failed", "failed-too"} {
		if g.isHeld(name) || g.backup(name) == nil {
			t.Errorf("%s is held, or gone, although EC2 has nothing of it: %+v", name, g.backup(name))
		}
	}
	if left := g.ids(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	// The policy holds a whole one, and may change.
	g.retained("kept")
	g.until("kept", v1alpha1.BackupCompleted)
	for _, policy := range []v1alpha1.BackupDeletionPolicy{v1alpha1.BackupDeletionDelete, v1alpha1.BackupDeletionRetain} {
		b := g.backup("kept")
		b.Spec.DeletionPolicy = policy
		must(t, kube.Update(t.Context(), b))
		if policy == v1alpha1.BackupDeletionDelete && !controllerutil.ContainsFinalizer(g.supervise("kept"), v1alpha1.Finalizer) {
			t.Error("it can be deleted without its snapshot until the cluster is looked at")
		}
		if g.look(nil); g.isHeld("kept") != (policy == v1alpha1.BackupDeletionDelete) {
			t.Errorf("with the policy %s: held is %v", policy, g.isHeld("kept"))
		}
	}
}

// TestAStatusLetsNoSnapshotGo: what a backup pod writes there costs no account a snapshot that nobody knows of.
func TestAStatusLetsNoSnapshotGo(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(*v1alpha1.MySQLBackupStatus){
		"it is complete":          func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupCompleted },
		"it is another cluster's": func(st *v1alpha1.MySQLBackupStatus) { st.ClusterUID = "another" },
		"it is another cluster's, and complete": func(st *v1alpha1.MySQLBackupStatus) {
			st.Phase, st.ClusterUID = v1alpha1.BackupCompleted, "another"
		},
		"it has failed": func(st *v1alpha1.MySQLBackupStatus) { st.Phase = v1alpha1.BackupFailed },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGallery(t)
			g.retained("half")
			g.look(copying())
			g.report("half", lie)
			if g.supervise("half"); !g.isHeld("half") {
				t.Error("nothing holds it")
			}
			must(t, kube.Delete(t.Context(), g.backup("half")))
			g.supervise("half")
			g.look(copying())
			if left := g.ids(); len(left) > 0 || g.backup("half") != nil {
				t.Errorf("left are %v; the backup is %+v", left, g.backup("half"))
			}
		})
	}
}

// TestNoBackupIsHeldOnceItsClusterIsGone, by the last thing that the cluster's reconciler does: nothing looks at it after that where the
// operator goes as well.
func TestNoBackupIsHeldOnceItsClusterIsGone(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.retained("failed")
	g.look(copying())
	g.look(shows(inventory.SnapshotError, ""))
	wantFailed(t, g.backup("failed"), v1alpha1.BackupReasonSnapshotFailed)
	g.retained("kept")
	kept := g.until("kept", v1alpha1.BackupCompleted).Status.SnapshotID
	g.retained("running")
	g.take("running-too", "")
	g.look(copying(kept))
	g.retained("waiting")
	g.delete()
	s := g.seen(g.o)
	copying(kept)(s)
	must(t, g.o.backups.Snapshots.SettleSnapshots(t.Context(), s))
	g.drive(g.o, patience, g.gone)
	for _, name := range []string{"failed", "kept", "running", "running-too", "waiting"} {
		if b := g.backup(name); b == nil || len(b.Finalizers) > 0 {
			t.Errorf("%s is held: %+v", name, b)
		}
	}
	for _, s := range g.left().snapshots {
		if s.id != kept && strings.HasPrefix(s.purpose, pass.BackupPurpose) {
			t.Errorf("snapshot %s is left", s.id)
		}
	}
}

package controllers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// supervise has the reconciler of MySQLBackups look at one.
func (g *gallery) supervise(name string) *v1alpha1.MySQLBackup {
	g.t.Helper()
	r := &backups.Supervisor{Client: shared.cached, Reader: shared.operator, Events: events.NewFakeRecorder(1000), Clock: g.clock, Images: g.o.Images, SystemNamespace: g.system}
	r.Hearing.Begin(g.clock.Now().Add(-time.Hour))
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
	g.wait(backups.SnapshotPatience + time.Hour)
	wantFailed(t, g.supervise("late"), v1alpha1.BackupReasonStalled)
	again := g.newOperator(nil)
	again.Images, g.o = g.o.Images, again
	g.look(shows(inventory.SnapshotCompleted, "100%"))
	if left := g.ids(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	g.look(nil) // once more costs nothing
	wantFailed(t, g.backup("late"), v1alpha1.BackupReasonStalled)
}

// TestASnapshotThatEC2CompletesUnseen: its backup failed while EC2 did not answer. Once EC2 shows a whole snapshot, the backup is complete.
func TestASnapshotThatEC2CompletesUnseen(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.take("late", "")
	g.look(shows("pending", "40%"))
	g.report("late", func(st *v1alpha1.MySQLBackupStatus) {
		st.Phase, st.Reason, st.Message = v1alpha1.BackupFailed, v1alpha1.BackupReasonStalled, "the snapshot made no progress"
		st.CompletedAt = ptr.To(metav1.NewTime(g.clock.Now()))
	})
	g.look(shows(inventory.SnapshotCompleted, "100%"))
	if b := g.backup("late"); b.Status.Phase != v1alpha1.BackupCompleted || b.Status.Reason != "" || b.Status.Message != "" || b.Status.SnapshotID == "" || len(g.ids()) != 1 {
		t.Errorf("the status is %+v; snapshots %v", b.Status, g.ids())
	}
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
	g.look(copying(whole))
	for _, name := range []string{"half", "whole"} {
		must(t, kube.Delete(t.Context(), g.backup(name)))
	}
	g.look(copying(whole))
	if left := g.ids(); !slices.Equal(left, []string{whole}) {
		t.Errorf("left are %v, want %s", left, whole)
	}
	if g.backup("half") != nil || g.backup("whole") != nil {
		t.Error("they are held up")
	}
}

// undeleting is a client of an operator that dies before it deletes anything.
type undeleting struct{ client.Client }

// Delete implements client.Client.
func (undeleting) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errDead
}

// hourly takes a scheduled snapshot; the schedule keeps two.
func (g *gallery) hourly(name string) {
	g.t.Helper()
	g.take(name, "hourly")
	g.until(name, v1alpha1.BackupCompleted)
	time.Sleep(1100 * time.Millisecond) // creation times have seconds
}

// TestARetentionThatIsCutOffIsFinished by the next operator: no MySQLBackup is left that calls itself good and has no snapshot, also
// when its schedule is no longer in the spec.
func TestARetentionThatIsCutOffIsFinished(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*v1alpha1.MySQLCluster){
		"nothing happens":         func(*v1alpha1.MySQLCluster) {},
		"more are to be kept":     func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[1].Retention.Count = ptr.To(int32(9)) },
		"no schedule is left":     func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules = nil },
		"no backup is to be made": func(c *v1alpha1.MySQLCluster) { c.Spec.Backup = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGallery(t)
			g.hourly("h0")
			g.hourly("h1")
			g.o.Client = undeleting{g.o.Client}
			g.hourly("h2")
			if b := g.backup("h0"); b.Status.Phase != v1alpha1.BackupCompleted || !b.DeletionTimestamp.IsZero() || len(g.ids()) != 2 {
				t.Fatalf("it is not cut off: %+v; snapshots %v", b, g.ids())
			}
			g.change(meanwhile)
			again := g.newOperator(nil)
			again.Images, g.o = g.o.Images, again
			for range 2 {
				g.look(nil)
			}
			if b := g.backup("h0"); b != nil {
				t.Errorf("it has no snapshot, and is %+v", b)
			}
			if g.backup("h1") == nil || g.backup("h2") == nil || len(g.ids()) != 2 {
				t.Errorf("too much is gone: left are %v", g.ids())
			}
		})
	}
}

// TestARetentionThatEC2RefusesDecidesAnew: a snapshot that was to go and is there stays when more are to be kept by then.
func TestARetentionThatEC2RefusesDecidesAnew(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	rule, err := g.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Status: http.StatusForbidden, Actions: []string{"DeleteSnapshot"}})
	must(t, err)
	for _, name := range []string{"h0", "h1", "h2"} {
		g.hourly(name)
	}
	if !backups.GivenUp(g.backup("h0")) {
		t.Error("it was not to go")
	}
	g.proxy.Remove(rule)
	g.wait(time.Minute)
	g.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[1].Retention.Count = ptr.To(int32(3)) })
	g.look(nil)
	if b := g.backup("h0"); b == nil || !b.DeletionTimestamp.IsZero() || len(g.ids()) != 3 {
		t.Errorf("it goes: left are %v", g.ids())
	}
	g.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Schedules[1].Retention.Count = ptr.To(int32(2)) })
	for range 2 {
		g.look(nil)
	}
	if g.backup("h0") != nil || len(g.ids()) != 2 {
		t.Errorf("it stays: left are %v", g.ids())
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
	deleted := g.until("deleted", v1alpha1.BackupCompleted).Status.SnapshotID
	g.retained("half")
	g.look(copying(kept, deleted))
	for name, want := range map[string]bool{"kept": false, "deleted": true, "half": true} {
		if b := g.supervise(name); controllerutil.ContainsFinalizer(b, v1alpha1.Finalizer) != want {
			t.Errorf("%s is held by %v, so that it outlives the operator for ever: want %t", name, b.Finalizers, want)
		}
	}
	for _, name := range []string{"kept", "deleted", "half"} {
		must(t, kube.Delete(t.Context(), g.backup(name)))
		g.look(func(s *pass.Pass) { s.Observed.CloudReachable = false })
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
	for i := range s.Seen.Inventory.Snapshots {
		if s.Seen.Inventory.Snapshots[i].ID == running {
			s.Seen.Inventory.Snapshots[i].State = inventory.SnapshotPending
		}
	}
	must(t, g.o.backups.Snapshots.SettleSnapshots(t.Context(), s))
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

// TestASnapshotThatLostItsTagsIsLeft: nothing proves that it is the operator's. An event names it, and neither its MySQLBackup nor the cluster is
// held up, whether the operator saw it with its tags or not.
func TestASnapshotThatLostItsTagsIsLeft(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	for i, lose := range []string{awsapi.TagPurpose, v1alpha1.TagClusterUID, awsapi.TagPurpose, v1alpha1.TagClusterUID} {
		name := fmt.Sprintf("lost-%d", i)
		g.take(name, "")
		b := g.until(name, v1alpha1.BackupCompleted)
		id := b.Status.SnapshotID
		lost := slices.DeleteFunc(backupTags(b), func(tag types.Tag) bool { return aws.ToString(tag.Key) != lose })
		_, err := g.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{id}, Tags: lost})
		must(t, err)
		if again := g.newOperator(nil); i > 1 {
			again.Images, g.o = g.o.Images, again
		}
		must(t, kube.Delete(t.Context(), b))
		if s := g.look(nil); len(s.Result.Problems) > 0 {
			t.Errorf("without the tag %s: %v", lose, s.Result.Problems)
		}
		if g.backup(name) != nil {
			t.Errorf("without the tag %s it is held up", lose)
		}
		left, err := g.account.api.DescribeSnapshots(t.Context(), &awsec2.DescribeSnapshotsInput{Filters: []types.Filter{awsapi.Filter("snapshot-id", id)}})
		if must(t, err); len(left.Snapshots) != 1 {
			t.Errorf("without the tag %s nothing proves that it is the operator's, and it is deleted", lose)
		}
		said := ""
		for events := g.o.Events.(*events.FakeRecorder).Events; len(events) > 0; {
			said += <-events + "\n"
		}
		if !strings.Contains(said, "BackupDataLeft") || !strings.Contains(said, id) {
			t.Errorf("without the tag %s no event names what is left: %s", lose, said)
		}
	}
}

// TestEC2IsNotAskedAtEveryPass for what it refuses: while a member comes up, passes are a second apart.
func TestEC2IsNotAskedAtEveryPass(t *testing.T) {
	t.Parallel()
	for action, scenario := range map[string]struct {
		ask func(*gallery)
		// left are the snapshots that there are once EC2 no longer refuses.
		left int
	}{
		"DeleteSnapshot": {func(g *gallery) {
			g.take("gone", "")
			g.until("gone", v1alpha1.BackupCompleted)
			must(g.t, kube.Delete(g.t.Context(), g.backup("gone")))
		}, 0},
		"CreateSnapshot": {func(g *gallery) { g.take("wanted", "") }, 1},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			g := newGallery(t)
			rule, err := g.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Status: http.StatusForbidden, Actions: []string{action}})
			must(t, err)
			scenario.ask(g)
			g.proxy.ResetCalls()
			for range 60 {
				s := g.look(nil)
				if !slices.ContainsFunc(s.Result.Problems, func(p *engine.Problem) bool { return p.Reason == v1alpha1.ReasonNotPermitted }) {
					t.Fatalf("what is told is %v", s.Result.Problems)
				}
				g.wait(time.Second)
			}
			// Half a second later, and after twice as long each time.
			if asked := len(g.changes()); asked < 5 || asked > 8 {
				t.Errorf("EC2 was asked %d times within a minute: %v", asked, g.changes())
			}
			g.proxy.Remove(rule)
			g.wait(time.Minute)
			g.look(nil)
			if left := g.ids(); len(left) != scenario.left {
				t.Errorf("once EC2 allows it again the snapshots are %v", left)
			}
		})
	}
}

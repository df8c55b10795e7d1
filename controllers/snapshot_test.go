package controllers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const executed = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-%d"

// gallery is a cluster with volumes in EC2 and members that answer, as the tests say they do.
type gallery struct {
	*world
	o       *operator
	volumes map[string]string // by member
	count   int               // transactions that the members have executed
}

func newGallery(t *testing.T) *gallery {
	t.Helper()
	g := &gallery{world: newWorld(t, backedUp), volumes: map[string]string{}, count: 5}
	g.o = g.newOperator(nil)
	g.o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	g.drive(g.o, patience, g.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := g.get()
	for _, m := range c.Status.Members {
		g.volumes[m.Name] = m.VolumeID
	}
	return g
}

// take makes a MySQLBackup that is a snapshot.
func (g *gallery) take(name, schedule string) *v1alpha1.MySQLBackup {
	g.t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: g.cluster.Namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Method: v1alpha1.BackupMethodSnapshot, Schedule: schedule, DeletionPolicy: v1alpha1.BackupDeletionDelete}}
	must(g.t, kube.Create(g.t.Context(), b))
	return b
}

// backup reads one.
func (g *gallery) backup(name string) *v1alpha1.MySQLBackup {
	g.t.Helper()
	var b v1alpha1.MySQLBackup
	if err := kube.Get(g.t.Context(), client.ObjectKey{Namespace: g.cluster.Namespace, Name: name}, &b); err != nil {
		must(g.t, client.IgnoreNotFound(err))
		return nil
	}
	return &b
}

func (g *gallery) report(name string, change func(*v1alpha1.MySQLBackupStatus)) {
	g.t.Helper()
	b := g.backup(name)
	change(&b.Status)
	must(g.t, kube.Status().Update(g.t.Context(), b))
}

// look has the operator look at the snapshots once. change may change what it sees.
func (g *gallery) look(change func(*pass.Pass)) *pass.Pass {
	g.t.Helper()
	s := g.seen(g.o)
	var err error
	s.Backup.All, err = g.o.backups.Snapshots.List(g.t.Context(), s)
	must(g.t, err)
	s.Observed.CloudReachable = true
	s.Observed.Members = map[string]*topology.Member{}
	for member, volume := range g.volumes {
		role := v1alpha1.RoleReplica
		if member == "orders-0" {
			role = v1alpha1.RolePrimary
		}
		s.Plan.Members = append(s.Plan.Members, topology.View{Name: member, Role: role, InService: true, VolumeID: volume})
		s.Observed.Members[member] = &topology.Member{SQL: topology.SQL{Access: topology.AccessVerified, Version: "9.7.4", Executed: gtid.MustParse(fmt.Sprintf(executed, g.count))}}
	}
	if change != nil {
		change(s)
	}
	g.o.backups.Snapshots.Advance(g.t.Context(), s)
	return s
}

// until looks until a backup has a phase.
func (g *gallery) until(name string, phase v1alpha1.BackupPhase) *v1alpha1.MySQLBackup {
	g.t.Helper()
	for deadline := time.Now().Add(patience); ; g.wait(backups.SnapshotLook) {
		g.look(nil)
		if b := g.backup(name); b.Status.Phase == phase {
			return b
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("%s does not become %s: %+v", name, phase, g.backup(name).Status)
		}
		time.Sleep(motoDelay)
	}
}

// shows has EC2 show the snapshots of backups in a state.
func shows(state, progress string) func(*pass.Pass) {
	return func(s *pass.Pass) {
		for i := range s.Seen.Inventory.Snapshots {
			s.Seen.Inventory.Snapshots[i].State, s.Seen.Inventory.Snapshots[i].Progress = state, progress
		}
	}
}

// ids are the snapshots of the account.
func (g *gallery) ids() []string {
	g.t.Helper()
	var ids []string
	for _, s := range g.left().snapshots {
		ids = append(ids, s.id)
	}
	return ids
}

// TestASnapshotSaysWhereItsArchiveIs, in a bucket whose region is named, and nothing where there is none. The operator records it where no
// backup pod may write.
func TestASnapshotSaysWhereItsArchiveIs(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	for name, archived := range map[string]bool{"archived": true, "alone": false} {
		g.take(name, "")
		g.look(func(s *pass.Pass) { s.Cluster.Spec.Backup.BinlogArchive.Enabled = archived })
		a := g.backup(name).Status.Archive
		if (a != nil) != archived || archived && (a.Destination.S3.Bucket != "my-backups" || a.Destination.S3.Region != "us-east-1" || a.Path != g.cluster.Namespace+"/orders/"+string(g.cluster.UID)) {
			t.Errorf("%s says that its archive is %+v", name, a)
		}
		g.until(name, v1alpha1.BackupCompleted)
		r := &backups.Supervisor{Client: shared.cached, Reader: shared.operator, Events: events.NewFakeRecorder(1000), Clock: g.clock, Images: g.o.Images, SystemNamespace: g.system}
		var c v1alpha1.MySQLCluster
		must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(g.cluster), &c))
		c.Spec.Backup.BinlogArchive.Enabled = true // as in the pass above
		must(t, kube.Update(t.Context(), &c))
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g.backup(name))})
		must(t, err)
		if place := placeOf(t, g.system, g.backup(name)); (place != nil) != archived || archived && (place.Path != a.Path || *place.Destination.S3 != *a.Destination.S3) {
			t.Errorf("recorded for %s is %+v", name, place)
		}
	}
}

// TestABackupIsOneSnapshotOfOneVolume, whatever becomes of the member that it was taken of.
func TestABackupIsOneSnapshotOfOneVolume(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.take("now", "")
	g.look(nil)
	b := g.backup("now")
	if b.Status.Phase != v1alpha1.BackupRunning || b.Status.SnapshotID == "" || b.Status.Member == "" || b.Status.GTIDSet != fmt.Sprintf(executed, 5) {
		t.Fatalf("status %+v", b.Status)
	}
	first, member := b.Status.SnapshotID, b.Status.Member
	other := "orders-1"
	if member == other {
		other = "orders-2"
	}
	// Its member gets another volume, is lost, and is another.
	g.volumes[member], g.count = g.volumes[other], 9
	g.look(shows(inventory.SnapshotPending, "40%"))
	delete(g.volumes, member)
	g.look(shows(inventory.SnapshotPending, "41%"))
	if b = g.backup("now"); b.Status.SnapshotID != first || b.Status.Member != member || b.Status.Progress == nil || b.Status.Progress.Percent != 41 {
		t.Errorf("status %+v", b.Status)
	}
	at := b.Status.Progress.At
	g.wait(time.Minute)
	g.look(shows(inventory.SnapshotPending, "41%"))
	if now := g.backup("now").Status.Progress.At; !now.Equal(&at) {
		t.Error("what does not move makes progress")
	}
	g.look(func(s *pass.Pass) { s.Seen.Inventory.Snapshots = nil }) // EC2 does not show it for a moment
	b = g.until("now", v1alpha1.BackupCompleted)
	if b.Status.SnapshotID != first || b.Status.GTIDSet != fmt.Sprintf(executed, 5) || len(g.ids()) != 1 {
		t.Errorf("status %+v; snapshots %v", b.Status, g.ids())
	}
}

// TestWhatASnapshotHoldsIsNotedBeforeTheCall: its answer may be lost, and what is executed meanwhile is not in it.
func TestWhatASnapshotHoldsIsNotedBeforeTheCall(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	rule, err := g.proxy.Add(proxy.LoseAnswers(1, "CreateSnapshot"))
	must(t, err)
	g.take("now", "")
	g.look(nil)
	b := g.backup("now")
	if b.Status.Phase != v1alpha1.BackupRunning || b.Status.Member == "" || b.Status.StartedAt == nil || b.Status.GTIDSet != fmt.Sprintf(executed, 5) || b.Status.SnapshotID != "" {
		t.Errorf("status %+v", b.Status)
	}
	g.proxy.Remove(rule)
	g.count = 9
	b = g.until("now", v1alpha1.BackupCompleted)
	if b.Status.GTIDSet != fmt.Sprintf(executed, 5) || len(g.ids()) != 1 || b.Status.SnapshotID != g.ids()[0] {
		t.Errorf("status %+v; snapshots %v", b.Status, g.ids())
	}
}

// TestASnapshotIsOfAMemberThatIsFit when EC2 is asked, not only when it was chosen: one that is rebuilt is out of service and empty for a while.
// While EC2 may have taken a snapshot of it, no other member's is asked for.
func TestASnapshotIsOfAMemberThatIsFit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault proxy.Rule
		waits bool
	}{
		"EC2 refused":            {proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Status: http.StatusForbidden, Actions: []string{"CreateSnapshot"}}, false},
		"its answer was lost":    {proxy.LoseAnswers(1, "CreateSnapshot"), true},
		"EC2 failed in some way": {proxy.Rule{Kind: proxy.Fail, Code: "InternalError", Status: http.StatusInternalServerError, Actions: []string{"CreateSnapshot"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGallery(t)
			g.take("now", "")
			chosen := ""
			rule, err := g.proxy.Add(row.fault)
			must(t, err)
			g.look(func(s *pass.Pass) {
				member, _ := g.o.backups.Snapshots.SnapshotSource(s, g.backup("now"))
				chosen = member
			})
			g.proxy.Remove(rule)
			unfit := func(s *pass.Pass) {
				for i := range s.Plan.Members {
					s.Plan.Members[i].InService = s.Plan.Members[i].Name != chosen
				}
				s.Seen.Inventory.Snapshots = nil // EC2 does not show any yet
				if member, volume := g.o.backups.Snapshots.SnapshotSource(s, g.backup("now")); member == chosen || (volume == "") != row.waits {
					t.Errorf("of %s, which is unfit, or of %q, volume %q", chosen, member, volume)
				}
			}
			g.look(unfit)
			g.wait(3 * time.Minute)
			row.waits = false
			g.look(unfit)
		})
	}
}

// TestASnapshotThatFailed fails its backup and is deleted. No other is made.
func TestASnapshotThatFailed(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.take("now", "")
	g.look(nil)
	g.look(shows(inventory.SnapshotError, ""))
	b := g.backup("now")
	wantFailed(t, b, v1alpha1.BackupReasonSnapshotFailed)
	g.look(shows(inventory.SnapshotError, ""))
	for range 3 {
		g.look(nil)
	}
	if left := g.ids(); len(left) > 0 || g.backup("now").Status.Phase != v1alpha1.BackupFailed {
		t.Errorf("left are %v", left)
	}
	// A status alone costs nobody a whole snapshot.
	g.take("good", "")
	g.until("good", v1alpha1.BackupCompleted)
	g.report("good", func(s *v1alpha1.MySQLBackupStatus) { s.Phase = v1alpha1.BackupFailed })
	g.look(nil)
	if left := g.ids(); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// TestOnlyABackupsOwnSnapshotIsDeletedWithIt, whatever its status names: another backup's, one that was taken for another
// purpose, another cluster's.
func TestOnlyABackupsOwnSnapshotIsDeletedWithIt(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	b := g.take("mine", "")
	g.take("other", "")
	g.until("mine", v1alpha1.BackupCompleted)
	other := g.until("other", v1alpha1.BackupCompleted).Status.SnapshotID
	volume := g.volumes["orders-0"]
	kept := []string{
		other,
		g.snapshot(volume, map[string]string{v1alpha1.TagClusterUID: string(g.cluster.UID), awsapi.TagPurpose: "errant-1a2b", v1alpha1.TagMember: "orders-0"}),
		g.snapshot(volume, map[string]string{v1alpha1.TagClusterUID: "another", awsapi.TagPurpose: pass.PurposeOf(b), v1alpha1.TagMember: "orders-0"}),
	}
	for _, id := range kept {
		g.report("mine", func(s *v1alpha1.MySQLBackupStatus) { s.SnapshotID = id })
		g.look(nil)
	}
	must(t, kube.Delete(t.Context(), g.backup("mine")))
	g.look(nil)
	if g.backup("mine") != nil {
		t.Error("it stays")
	}
	for _, id := range kept {
		if !g.snapshotExists(id) {
			t.Errorf("%s was deleted", id)
		}
	}
	if left := g.ids(); len(left) != len(kept) {
		t.Errorf("left are %v, want %v", left, kept)
	}
}

// TestTroubleWithOneSnapshotHoldsNoOtherUp, nor the retention.
func TestTroubleWithOneSnapshotHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	for n := range 3 {
		g.take(fmt.Sprintf("h%d", n), "hourly")
		g.until(fmt.Sprintf("h%d", n), v1alpha1.BackupCompleted)
		time.Sleep(1100 * time.Millisecond) // creation times have seconds
	}
	if g.look(nil); g.backup("h0") != nil && g.backup("h0").DeletionTimestamp.IsZero() {
		t.Error("the retention keeps too much")
	}
	g.report("h1", func(s *v1alpha1.MySQLBackupStatus) { s.CompletedAt = ptr.To(metav1.NewTime(time.Unix(0, 0))) })
	g.take("a", "")
	g.take("b", "")
	// EC2 takes no new one: two failures, each told with the name of its backup, and the finished ones still go.
	rule, err := g.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Status: http.StatusForbidden, Actions: []string{"CreateSnapshot"}})
	must(t, err)
	must(t, kube.Delete(t.Context(), g.backup("h2")))
	said := ""
	for _, p := range g.look(nil).Result.Problems {
		said += p.Message + "\n"
	}
	if !strings.Contains(said, "backup: a: ") || !strings.Contains(said, "backup: b: ") {
		t.Errorf("told is %s", said)
	}
	if b := g.backup("a"); !strings.Contains(b.Status.Message, "UnauthorizedOperation") {
		t.Errorf("its status says %q", b.Status.Message)
	}
	if g.backup("h2") != nil {
		t.Error("h2 is held up")
	}
	if g.backup("h1") == nil {
		t.Error("h1 went by what its status says of its age")
	}
	g.proxy.Remove(rule)
	g.until("a", v1alpha1.BackupCompleted)
	g.until("b", v1alpha1.BackupCompleted)
}

// TestManySnapshotsWaitForTheirTurn: two are taken at a time, the oldest first; the others wait and say so.
func TestManySnapshotsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	names := []string{"q0", "q1", "q2", "q3", "q4"}
	for _, name := range names {
		g.take(name, "")
		time.Sleep(1100 * time.Millisecond) // creation times have seconds
	}
	g.proxy.ResetCalls()
	for range 3 {
		g.look(shows(inventory.SnapshotPending, "40%"))
	}
	if n := g.proxy.Counts()["CreateSnapshot"]; n != backups.SnapshotsAtOnce || len(g.ids()) != backups.SnapshotsAtOnce {
		t.Errorf("EC2 was asked for %d snapshots, and has %v", n, g.ids())
	}
	for i, name := range names {
		b := g.backup(name)
		if i < backups.SnapshotsAtOnce && b.Status.Phase != v1alpha1.BackupRunning || i >= backups.SnapshotsAtOnce && (b.Status.Phase != v1alpha1.BackupPending || b.Status.Reason != v1alpha1.BackupReasonQueued) {
			t.Errorf("%s is %+v", name, b.Status)
		}
	}
	g.wait(time.Hour)
	if b := g.supervise("q4"); b.Status.Phase != v1alpha1.BackupPending {
		t.Errorf("one that waits is failed: %+v", b.Status)
	}
	for _, name := range names {
		g.until(name, v1alpha1.BackupCompleted)
	}
}

// TestASnapshotThatEC2RefusesForGood fails with EC2's reason, so that others get its turn. Its status is written when EC2 is asked, not
// at every pass.
func TestASnapshotThatEC2RefusesForGood(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	_, err := g.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Status: http.StatusForbidden, Actions: []string{"CreateSnapshot"}})
	must(t, err)
	g.take("now", "")
	g.proxy.ResetCalls()
	written, version := 0, ""
	for end := g.clock.Now().Add(v1alpha1.DefaultStallTimeout + backups.ReportGrace - time.Minute); g.clock.Now().Before(end); g.wait(5 * time.Second) {
		g.look(nil)
		if b := g.backup("now"); b.ResourceVersion != version {
			written, version = written+1, b.ResourceVersion
		}
	}
	if asked := g.proxy.Counts()["CreateSnapshot"]; asked < 5 || written > asked+1 {
		t.Errorf("EC2 was asked %d times, and passes wrote the status %d times", asked, written)
	}
	if b := g.supervise("now"); b.Status.Phase != v1alpha1.BackupRunning {
		t.Errorf("it fails too early: %+v", b.Status)
	}
	g.wait(2 * time.Minute)
	g.look(nil)
	b := g.supervise("now")
	wantFailed(t, b, v1alpha1.BackupReasonStalled)
	if !strings.Contains(b.Status.Message, "UnauthorizedOperation") {
		t.Errorf("its status says %q", b.Status.Message)
	}
}

// TestOneScheduleHoldsNoOtherUp: a CronJob that is somebody else's is told, and the schedules after it and the verification are
// there all the same.
func TestOneScheduleHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, backedUp)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	foreign := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "orders-daily"}, Spec: batchv1.CronJobSpec{Schedule: "0 0 * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}}}
	must(t, kube.Create(t.Context(), foreign))
	s := w.seen(o)
	must(t, o.backups.EnsureSchedules(t.Context(), s))
	if len(s.Result.Problems) != 1 || s.Result.Problems[0].Reason != v1alpha1.ReasonForeignResource || !strings.Contains(s.Result.Problems[0].Message, "backup: schedule daily: ") {
		t.Errorf("told is %v", s.Result.Problems)
	}
	for _, name := range []string{"orders-hourly", "orders-verify"} {
		must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, &batchv1.CronJob{}))
	}
}

// TestBackupPodsHaveNothingOfAStranger: the image of a cluster's backup pods is in its spec, so that they would give whoever edits the
// cluster the rights of an account, and the content of a Secret, that happen to have the name of theirs.
func TestBackupPodsHaveNothingOfAStranger(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(namespace string) client.Object{
		"an account": func(namespace string) client.Object {
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-backup"}}
		},
		"a Secret": func(namespace string) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-backup-tls"}, StringData: map[string]string{"tls.key": "a stranger's"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
				backedUp(c)
				c.Spec.Backup.BinlogArchive = nil // which has it on
			})
			o := w.newOperator(nil)
			o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
			foreign := of(w.cluster.Namespace)
			must(t, kube.Create(t.Context(), foreign))
			s := w.seen(o)
			_ = o.backups.EnsureSchedules(t.Context(), s) // the error is the verification's, whose pods have no certificate
			problems := append(slices.Clone(s.Result.Problems), engine.AsProblem(o.backups.Archive.Ensure(t.Context(), s)))
			if want := len(w.cluster.Spec.Backup.Schedules) + 1; len(problems) != want {
				t.Errorf("%d problems, want those of the schedules and of the archive: %v", len(problems), problems)
			}
			for _, p := range problems {
				if p == nil || p.Reason != v1alpha1.ReasonForeignResource || !strings.Contains(p.Message, foreign.GetName()+" exists") {
					t.Errorf("a problem is %v", p)
				}
			}
			var crons batchv1.CronJobList
			must(t, kube.List(t.Context(), &crons, client.InNamespace(w.cluster.Namespace)))
			for _, c := range crons.Items {
				if name != "a Secret" || c.Name != "orders-verify" {
					t.Errorf("there is CronJob %s", c.Name)
				}
			}
			var sets appsv1.StatefulSetList
			must(t, kube.List(t.Context(), &sets, client.InNamespace(w.cluster.Namespace)))
			if len(sets.Items) != 0 {
				t.Errorf("there are %v", sets.Items)
			}
			b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "now"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders"}}
			must(t, kube.Create(t.Context(), b))
			r := &backups.Supervisor{Client: shared.cached, Reader: shared.operator, Events: events.NewFakeRecorder(1000), Clock: w.clock, Images: o.Images, SystemNamespace: w.system}
			for range 3 {
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
				must(t, err)
			}
			must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(b), b))
			if b.Status.Phase != v1alpha1.BackupPending || !strings.Contains(b.Status.Message, foreign.GetName()+" exists") {
				t.Errorf("the backup is %+v", b.Status)
			}
		})
	}
}

//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// estate is a cluster whose volumes outlive it. What begins with its snapshot has its name, so that nothing but the data can
// tell the two apart; what begins with its volume has another.
var (
	estate = client.ObjectKey{Namespace: "vault", Name: "estate"}
	heir   = client.ObjectKey{Namespace: "vault", Name: "heir"}
)

// Test17: an EBS snapshot is taken as a backup, then more is written and archived, then the cluster is deleted and its volumes stay. One
// new cluster begins with the snapshot and what was archived after it up to a point, and one with the primary's volume, side by side: each
// has the rows of its moment, on every member, and members and a password of its own; the sources stay as they are.
func Test17CopiesOfVolumesBeginNewClusters(t *testing.T) {
	ctx := t.Context()
	stageVault(t)
	began := time.Now()
	lap := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }
	vaultCluster(t, estate, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyRetain
		spec.Backup = &v1alpha1.BackupSpec{Destination: destination(), Image: kube.MySQLClientImage}
	})
	before, err := lab.WaitReady(ctx, estate, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(before))
	}
	base := awaitBase(t, estate)
	lap("the cluster is Ready, and its archive begins with " + base.Name)
	write(t, estate, `CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200)); CREATE TABLE u (id INT PRIMARY KEY);
INSERT INTO t (v) VALUES (REPEAT('x', 200)), ('o''brien'); INSERT INTO t (v) SELECT v FROM t; INSERT INTO t (v) SELECT v FROM t`)
	backup := takeSnapshot(t)
	lap("snapshot " + backup.Status.SnapshotID + " is complete")
	write(t, estate, "INSERT INTO u VALUES (1), (2), (3); DELETE FROM t WHERE id = 2; ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
	atPoint := checksums(t, estate)
	point, _ := moment(t)
	write(t, estate, "INSERT INTO u VALUES (4); UPDATE t SET v = 'overwritten'")
	inVolume := checksums(t, estate)
	_, all := moment(t)
	folder := archiveOf(t, estate, string(before.UID))
	awaitAnnals(t, estate, "all in the archive", func(*v1alpha1.MySQLCluster) bool {
		head, _, err := folder.Head(ctx, 0)
		return err == nil && head != nil && head.All().Contains(all)
	})
	lap("all is archived, the point is " + point)
	left := leaveBehind(t, before)
	lap("the cluster is gone; left is " + strings.Join(left.volumes, ", "))

	vaultCluster(t, estate, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{
			BackupName: backup.Name, PointInTime: &v1alpha1.PointInTimeSpec{Time: point}, Image: kube.MySQLClientImage,
		}}
	})
	vaultCluster(t, heir, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{VolumeID: left.primary}}
	})
	for key, want := range map[client.ObjectKey]string{estate: atPoint, heir: inVolume} {
		c, err := lab.WaitReady(ctx, key, readyTimeout, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", key, err, conditions(c))
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
		lap(fmt.Sprintf("%s is Ready, %s after it was made", key.Name, ready.LastTransitionTime.Sub(c.CreationTimestamp.Time)))
		heldByAll(t, c, want)
		if err := lab.Delete(ctx, key, changeTimeout); err != nil {
			t.Fatal(err)
		}
		found := inventoryOf(t, string(c.UID))
		if len(found.Volumes)+len(found.Snapshots)+len(found.SecurityGroups) > 0 {
			t.Errorf("%s has left %+v, %+v, %+v", key.Name, found.Volumes, found.Snapshots, found.SecurityGroups)
		}
	}
	lap("both are gone")
	left.check(t, before, backup)
	if err := lab.Client.Delete(ctx, base); err != nil {
		t.Error(err)
	}
}

// moment is the time on the estate's primary, and what has been executed there.
func moment(t *testing.T) (at string, executed gtid.Set) {
	t.Helper()
	out, err := lab.RunClient(t.Context(), estate, fmt.Sprintf(`sql %s-primary.%s.svc "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ'), REPLACE(@@gtid_executed, '\n', '')"`, estate.Name, estate.Namespace))
	said := strings.Fields(out)
	if err != nil || len(said) < 2 {
		t.Fatalf("%v; the client printed:\n%s", err, out)
	}
	return said[len(said)-2], gtid.MustParse(said[len(said)-1])
}

// takeSnapshot takes a backup that is an EBS snapshot.
func takeSnapshot(t *testing.T) *v1alpha1.MySQLBackup {
	t.Helper()
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: estate.Namespace, Name: "estate-now"},
		Spec: v1alpha1.MySQLBackupSpec{ClusterName: estate.Name, Method: v1alpha1.BackupMethodSnapshot}}
	if err := lab.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	waitUpTo(t, changeTimeout, estate, "the snapshot", func() bool {
		if err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		if b.Status.Phase == v1alpha1.BackupFailed {
			t.Fatalf("the backup failed: %+v", b.Status)
		}
		return b.Status.Phase == v1alpha1.BackupCompleted
	})
	return b
}

// remains are the volumes that a deleted cluster left behind.
type remains struct {
	primary string
	volumes []string
}

// leaveBehind deletes the cluster and expects its volumes to stay, with what tells a later one whether it can read them.
func leaveBehind(t *testing.T, c *v1alpha1.MySQLCluster) remains {
	t.Helper()
	if err := lab.Delete(t.Context(), estate, changeTimeout); err != nil {
		t.Fatal(err)
	}
	found := inventoryOf(t, string(c.UID))
	left := remains{volumes: volumes(found)}
	for _, v := range found.Volumes {
		if v.Member == c.Status.Primary {
			left.primary = v.ID
		}
		if v.State != inventory.VolumeAvailable || v.Tags[v1alpha1.TagMySQLVersion] != c.Spec.Version {
			t.Errorf("volume %s is %s and has the tags %v", v.ID, v.State, v.Tags)
		}
	}
	if left.primary == "" || len(left.volumes) != len(c.Status.Members) {
		t.Fatalf("left are %+v", found.Volumes)
	}
	return left
}

// check makes sure that what was restored from is as it was, and takes it away.
func (r remains) check(t *testing.T, c *v1alpha1.MySQLCluster, b *v1alpha1.MySQLBackup) {
	t.Helper()
	found := inventoryOf(t, string(c.UID))
	if !slices.Equal(volumes(found), r.volumes) || len(found.Snapshots) != 1 || found.Snapshots[0].ID != b.Status.SnapshotID ||
		slices.ContainsFunc(found.Volumes, func(v inventory.Volume) bool { return v.State != inventory.VolumeAvailable }) {
		t.Errorf("of the sources are left %+v, %+v", found.Volumes, found.Snapshots)
	}
	for _, id := range r.volumes {
		if err := aws(t).DeleteVolume(t.Context(), string(c.UID), id); err != nil {
			t.Error(err)
		}
	}
	if err := aws(t).DeleteSnapshot(t.Context(), string(c.UID), b.Status.SnapshotID); err != nil {
		t.Error(err)
	}
	if err := lab.Client.Delete(t.Context(), b); err != nil {
		t.Error(err)
	}
}

// heldByAll makes sure that a cluster lives on with what it began with: the rows on primary and replica, voters of its own, and
// the application's new password, which is the one that the client uses.
func heldByAll(t *testing.T, c *v1alpha1.MySQLCluster, want string) {
	t.Helper()
	key := client.ObjectKeyFromObject(c)
	if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionRecovered) {
		t.Errorf("conditions:\n%s", conditions(c))
	}
	if names := []string{c.Name + "-0", c.Name + "-1"}; c.Status.Voters == nil || !slices.Equal(c.Status.Voters.Names, names) || len(c.Status.Members) != len(names) {
		t.Errorf("voters %+v, members %+v", c.Status.Voters, c.Status.Members)
	}
	if got := checksums(t, key); got != want {
		t.Errorf("%s holds\n%s\nand was to hold\n%s", c.Name, got, want)
	}
	out, err := lab.RunClient(t.Context(), key, fmt.Sprintf(`sql %s-primary.%s.svc "INSERT INTO u VALUES (99)"
for try in $(seq 120); do
  sql %s-replicas.%s.svc "SELECT 'on the replica', COUNT(*) FROM u WHERE id = 99 HAVING COUNT(*) = 1" | grep replica && break
  sleep 0.5
done
sql %s-replicas.%s.svc "CHECKSUM TABLE t"`, c.Name, c.Namespace, c.Name, c.Namespace, c.Name, c.Namespace))
	if err != nil || !strings.Contains(out, "on the replica") {
		t.Errorf("%s: %v; the client printed:\n%s", c.Name, err, out)
	}
	if sum, _, _ := strings.Cut(want, "\n"); !strings.Contains(out, sum) {
		t.Errorf("the replica of %s holds other rows than\n%s\n%s", c.Name, sum, out)
	}
}

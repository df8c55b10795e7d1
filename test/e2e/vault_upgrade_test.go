//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

// climb is a cluster whose upgrade fails half-way, and earlier one that begins with what was before it.
var (
	climb   = client.ObjectKey{Namespace: "vault", Name: "climb"}
	earlier = client.ObjectKey{Namespace: "vault", Name: "earlier"}
)

// Test18: the first member takes the newer version, the second's mysqld does not start. Nobody else is touched, writes go on, and
// status says who, why and what to do. Then both ways back of docs/operations.md are gone: the upgrade is called off, and a new
// cluster of the old version begins with the snapshot that was taken before the second member's upgrade.
func Test18FailedUpgradeGoesBack(t *testing.T) {
	next := lab.Cloud.NextMySQLVersion
	if next == "" {
		t.Fatal("the lab's image has no second build of mysqld")
	}
	ctx := t.Context()
	stageVault(t)
	began := time.Now()
	lap := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }
	vaultCluster(t, climb, func(spec *v1alpha1.MySQLClusterSpec) { spec.Replicas = ptr.To(int32(3)) })
	c, err := lab.WaitReady(ctx, climb, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	lap("the cluster is Ready")
	old, uid, primary := c.Spec.Version, string(c.UID), c.Status.Primary
	write(t, climb, `CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200)); CREATE TABLE u (id INT PRIMARY KEY);
INSERT INTO t (v) VALUES (REPEAT('x', 200)), ('before'); INSERT INTO u VALUES (1)`)
	before := checksums(t, climb)

	setVersion(t, next)
	second := spoilSecond(t, next)
	lap("the next instance of " + second + " has a mysqld that does not start")
	c = awaitClimb(t, "the upgrade to stop", func(c *v1alpha1.MySQLCluster) bool {
		return c.Status.Rollout != nil && c.Status.Rollout.Current == second && strings.Contains(c.Status.Rollout.Step, "waiting for mysqld")
	})
	if c.Status.Rollout.PreviousVersion != old || c.Status.Rollout.Done != 1 {
		t.Errorf("the rollout is %+v", c.Status.Rollout)
	}
	write(t, climb, "INSERT INTO t (v) VALUES ('meanwhile'); INSERT INTO u VALUES (2)")
	meanwhile := checksums(t, climb)

	c = awaitClimb(t, "status to say what to do", func(c *v1alpha1.MySQLCluster) bool {
		is := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionDegraded)
		return is != nil && strings.Contains(is.Message, second+" does not come up") && strings.Contains(is.Message, "set spec.version back to "+old)
	})
	lap("it is told")
	if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionAvailable) || c.Status.Primary != primary || c.Status.Rollout.Done != 1 || c.Status.ReadyReplicas != 2 {
		t.Errorf("meanwhile the primary is %q (it was %q), %d members are Ready\n%s", c.Status.Primary, primary, c.Status.ReadyReplicas, conditions(c))
	}

	setVersion(t, c.Status.Rollout.PreviousVersion)
	c = awaitClimb(t, "the old version on every member", func(c *v1alpha1.MySQLCluster) bool {
		is := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing)
		return is != nil && is.Reason == v1alpha1.ReasonStable && is.ObservedGeneration == c.Generation && c.Status.Phase == v1alpha1.PhaseReady
	})
	lap("the upgrade is called off")
	runs(t, c, old)
	if got := checksums(t, climb); got != meanwhile {
		t.Errorf("called off, it holds\n%s\nand was to hold\n%s", got, meanwhile)
	}

	// The file system of a copy cannot be mounted beside the one that it is of: the lab's instances share a kernel. People
	// send the old cluster to sleep as well, so that nobody writes there any more.
	patchClimb(t, `{"spec":{"hibernate":true}}`)
	awaitClimb(t, "the old cluster to sleep", func(c *v1alpha1.MySQLCluster) bool { return c.Status.Phase == v1alpha1.PhaseHibernated })
	snapshot := upgradeSnapshot(t, uid, second, old)
	vaultCluster(t, earlier, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Version = old
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{SnapshotID: snapshot.ID}}
	})
	again, err := lab.WaitReady(ctx, earlier, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(again))
	}
	lap("another cluster has begun with " + snapshot.ID)
	heldByAll(t, again, before)
	runs(t, again, old)
	for _, key := range []client.ObjectKey{earlier, climb} {
		if err := lab.Delete(ctx, key, changeTimeout); err != nil {
			t.Fatal(err)
		}
	}
}

// spoilSecond waits until it is the second member's turn to be upgraded, and damages the newer mysqld of its next instance
// before the data volume gets there. It returns the member's name.
func spoilSecond(t *testing.T, version string) string {
	t.Helper()
	member, machine := "", ""
	const often = 100 * time.Millisecond
	waitEvery(t, often, readyTimeout, climb, "the second member's next instance", func() bool {
		c := read(t, climb)
		if c.Status.Rollout == nil || c.Status.Rollout.Done != 1 || c.Status.Rollout.Current == "" {
			return false
		}
		member = c.Status.Rollout.Current
		at := slices.IndexFunc(c.Status.Members, func(m v1alpha1.MemberStatus) bool { return m.Name == member })
		for _, in := range inventoryOf(t, string(c.UID)).Instances {
			if in.Member == member && (in.State == inventory.StatePending || in.State == inventory.StateRunning) && in.ID != c.Status.Members[at].InstanceID {
				machine = in.ID
			}
		}
		return machine != ""
	})
	waitEvery(t, often, changeTimeout, climb, "its mysqld to be damaged", func() bool {
		ask := url.Values{"instance": {machine}, "other": {"/opt/mysql-" + version + "/bin/mysqld"}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+cloud.ControlAddress+"/faults/spoil?"+ask.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()                          // nothing was read
		return response.StatusCode == http.StatusNoContent // it has no disk before it has power
	})
	return member
}

// upgradeSnapshot is what the operator took of a member before its mysqld got another version.
func upgradeSnapshot(t *testing.T, uid, member, version string) inventory.Snapshot {
	t.Helper()
	for _, s := range inventoryOf(t, uid).Snapshots {
		if s.Member == member && strings.HasPrefix(s.Tags[awsapi.TagPurpose], "upgrade-") && s.Tags[v1alpha1.TagMySQLVersion] == version {
			return s
		}
	}
	t.Fatalf("no snapshot was taken of %s before its upgrade", member)
	return inventory.Snapshot{}
}

// runs makes sure that every member has this version.
func runs(t *testing.T, c *v1alpha1.MySQLCluster, version string) {
	t.Helper()
	for _, m := range c.Status.Members {
		if m.Version != version {
			t.Errorf("%s runs MySQL %q", m.Name, m.Version)
		}
	}
}

func setVersion(t *testing.T, version string) {
	t.Helper()
	patchClimb(t, fmt.Sprintf(`{"spec":{"version":%q}}`, version))
}

func patchClimb(t *testing.T, patch string) {
	t.Helper()
	if err := lab.Client.Patch(t.Context(), read(t, climb), client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// awaitClimb waits until the cluster is as expected, and returns it as it then was.
func awaitClimb(t *testing.T, what string, done func(*v1alpha1.MySQLCluster) bool) *v1alpha1.MySQLCluster {
	t.Helper()
	c, err := lab.WaitFor(t.Context(), climb, 2*changeTimeout, func(c *v1alpha1.MySQLCluster) (bool, error) { return done(c), nil })
	if err != nil {
		t.Fatalf("waited in vain for %s: %v\n%s", what, err, conditions(c))
	}
	return c
}

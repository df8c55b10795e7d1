//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
)

// crd is the name of the operator's CustomResourceDefinition.
const crd = "mysqlclusters.mysql.alx.ke"

// visitor is a client in a namespace of its own, with a copy of the Secret of the cluster lonely.
var (
	visitor = client.ObjectKey{Namespace: "visitors", Name: "lonely"}
	lonely  = client.ObjectKey{Namespace: "condemned", Name: "lonely"}
)

// saysHowToGoOn looks for the condition of a protected cluster that somebody deleted.
func saysHowToGoOn(c *v1alpha1.MySQLCluster) bool {
	degraded := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionDegraded)
	return degraded != nil && degraded.Status == metav1.ConditionTrue &&
		strings.Contains(degraded.Message, "set spec.deletionProtection to false") && strings.Contains(degraded.Message, "nothing in AWS is touched")
}

// untouched fails when instances or volumes are not those that were there before.
func untouched(t *testing.T, before inventory.Inventory, uid string) {
	t.Helper()
	after := inventoryOf(t, uid)
	if len(after.Instances) != len(before.Instances) || len(after.Volumes) != len(before.Volumes) || len(after.Snapshots) != len(before.Snapshots) ||
		len(after.SecurityGroups) != len(before.SecurityGroups) {
		t.Errorf("AWS holds %+v, before %+v", after, before)
		return
	}
	states := map[string]string{}
	for _, in := range before.Instances {
		states[in.ID] = in.State
	}
	for _, in := range after.Instances {
		if states[in.ID] != in.State {
			t.Errorf("instance %s is %s and was %q", in.ID, in.State, states[in.ID])
		}
	}
}

// Test13 goes on where the deletion of the CRD ended: the CRD is gone with the last cluster, and is installed again.
func Test13OperatorServesAgainOnceTheCRDIsBack(t *testing.T) {
	waitFor(t, "the end of the CRD", func() bool {
		_, err := lab.Kubectl(t.Context(), "", "get", "crd", crd)
		return err != nil && strings.Contains(err.Error(), "NotFound")
	})
	if err := lab.Deploy(t.Context(), orders.Namespace, lonely.Namespace); err != nil {
		t.Fatal(err)
	}
	cluster, err := lab.Sample()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace, cluster.Name = lonely.Namespace, lonely.Name
	cluster.Spec.Replicas = ptr.To[int32](1)
	cluster.Spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	cluster.Spec.DeletionProtection = ptr.To(true)
	if err := lab.Apply(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if c, err := lab.WaitReady(t.Context(), lonely, readyTimeout, nil); err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
}

func Test14ProtectedClusterSurvivesTheDeletionOfItsNamespace(t *testing.T) {
	get := func() *v1alpha1.MySQLCluster {
		return read(t, lonely)
	}
	uid := string(get().UID)
	before := inventoryOf(t, uid)
	invite(t)
	try := func(what string) (string, error) {
		return lab.RunClient(t.Context(), visitor, `sql `+get().Status.Members[0].Address+` "CREATE TABLE IF NOT EXISTS t (v VARCHAR(40)); INSERT INTO t VALUES ('`+what+`'); SELECT v FROM t"`)
	}
	write := func(what string) {
		t.Helper()
		if _, err := try(what); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	if _, err := lab.Kubectl(t.Context(), "", "delete", "namespace", lonely.Namespace, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the condition that says how to go on", func() bool { return saysHowToGoOn(get()) })
	write("namespace deleted")
	// An operator that begins anew finds everything that it needs, and still heals.
	if err := lab.RestartOperator(t.Context()); err != nil {
		t.Fatal(err)
	}
	machine := get().Status.Members[0].InstanceID
	if err := aws(t).StopInstance(t.Context(), uid, machine, ec2.StopPower); err != nil {
		t.Fatal(err)
	}
	// It may serve again before five seconds went by without a write, so that nothing in the status tells of the stop.
	waitFor(t, "somebody to start it again", func() bool {
		return slices.ContainsFunc(inventoryOf(t, uid).Instances, func(in inventory.Instance) bool { return in.ID == machine && in.State == inventory.StateRunning })
	})
	var out string
	waitFor(t, "writes after a stop", func() bool {
		var err error
		out, err = try("healed")
		return err == nil
	})
	if !strings.Contains(out, "before\nnamespace deleted\nhealed") {
		t.Errorf("the client printed:\n%s", out)
	}
	// The primary's Service went with the namespace: mysqld serves those who know its address, and nobody else.
	waitFor(t, "the status to say that clients have lost their way", func() bool { return lostClients(get()) })
	if !saysHowToGoOn(get()) {
		t.Errorf("nobody says how to go on:\n%s", conditions(get()))
	}
	untouched(t, before, uid)
	finish(t, uid)
}

// invite gives a client in another namespace what it needs to connect. Nothing can be made in a namespace that goes.
func invite(t *testing.T) {
	t.Helper()
	var secret corev1.Secret
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Namespace: lonely.Namespace, Name: lonely.Name + "-app"}, &secret); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: visitor.Namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: visitor.Namespace, Name: visitor.Name + "-app"}, Data: secret.Data},
	} {
		if err := lab.Client.Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

func available(c *v1alpha1.MySQLCluster) bool {
	return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionAvailable)
}

func lostClients(c *v1alpha1.MySQLCluster) bool {
	available := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAvailable)
	return available != nil && available.Status == metav1.ConditionFalse && available.Reason == v1alpha1.ReasonDeletionProtected
}

// finish does what the condition says, and waits for the end of the namespace.
func finish(t *testing.T, uid string) {
	t.Helper()
	if err := lab.Delete(t.Context(), lonely, changeTimeout); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(changeTimeout)
	for {
		var namespace corev1.Namespace
		err := lab.Client.Get(t.Context(), client.ObjectKey{Name: lonely.Namespace}, &namespace)
		if apierrors.IsNotFound(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("namespace %s is still there: %+v %v", lonely.Namespace, namespace.Status, err)
		}
		time.Sleep(time.Second)
	}
	found := inventoryOf(t, uid)
	if len(found.Volumes) != 0 || len(found.SecurityGroups) != 0 || len(found.Snapshots) != 1 {
		t.Errorf("left: %d volumes, %d security groups, %d snapshots", len(found.Volumes), len(found.SecurityGroups), len(found.Snapshots))
	}
}

package controllers

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// mistyped is a policy with a field that there is not.
const mistyped = "namespaces:\n  \"*\":\n    operatorCredential: true\n"

// A slip in the administrator's policy is told to every cluster and stops none: what it said before holds.
func TestSlipInThePolicyStopsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	w.policy(mistyped)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "NotPermitted", "operatorCredential", "policy.yaml", "Until then what it said before holds"))
	ended := w.damaged()
	w.drive(o, patience, func() bool { return w.machinesUp() && w.left().notThere(ended) })
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](4) })
	w.drive(o, patience, func() bool { return len(w.left().volumes) == 4 })

	w.policy("namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n")
	w.drive(o, patience, func() bool { return !strings.Contains(w.condition(v1alpha1.ConditionDegraded), "policy.yaml") })
}

// An operator that starts under such a policy makes nothing, and goes on to look after the instances that there are.
func TestOperatorStartsUnderASlipInThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.machinesUp)
	w.policy(mistyped)
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "NotPermitted", "operatorCredential", "no instance and no volume is made"))
	c, _ := w.get()
	stopped := c.Status.Members[1].InstanceID
	w.stopInstance(stopped)
	w.drive(o, patience, func() bool { return slices.Contains(w.changes(), "StartInstances") })
	w.drive(o, patience, w.machinesUp)
	w.proxy.ResetCalls()
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](4) })
	w.follow(o, 20)
	if made := w.changes(); slices.Contains(made, "CreateVolume") || slices.Contains(made, "RunInstances") {
		t.Errorf("without a policy that can be read it made %v", made)
	}
}

// A cluster that has nothing yet asks nothing of AWS until the policy can be read; one with credentials of its own needs none.
func TestNewClustersUnderASlipInThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.policy(mistyped)
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "NotPermitted", "operatorCredential"))
	w.passes(o, 5)
	if calls := w.proxy.Counts(); len(calls) != 0 {
		t.Errorf("a tenant without leave caused AWS calls: %v", calls)
	}
	own := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
	})
	own.policy(mistyped)
	own.secret("aws", map[string]string{task.KeyAccessKeyID: "lab", task.KeySecretAccessKey: "lab"})
	other := own.newOperator(nil)
	own.drive(other, patience, own.phaseIs(v1alpha1.PhaseEC2Ready))
	if text := own.condition(v1alpha1.ConditionDegraded); strings.Contains(text, "policy") {
		t.Errorf("its own credentials need no policy, the condition says %s", text)
	}
}

// damaged ends one instance and returns its id.
func (w *world) damaged() string {
	w.t.Helper()
	c, _ := w.get()
	id := c.Status.Members[2].InstanceID
	must(w.t, w.cloudOf().TerminateInstance(w.t.Context(), string(w.cluster.UID), id))
	return id
}

func (w *world) cloudOf() *ec2.Cloud {
	w.t.Helper()
	c, err := w.newOperator(nil).Clouds.Cloud(w.t.Context(), awsapi.Account{Region: "us-east-1"})
	must(w.t, err)
	return c
}

func (l left) notThere(id string) bool {
	return !slices.ContainsFunc(l.instances, func(in thing) bool { return in.id == id })
}

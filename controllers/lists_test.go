package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// TestListThatIsRefusedForGood: without the list of snapshots, or of the status of instances, a cluster is made, grows, replaces an
// instance that somebody ended, and is deleted. The condition names the list, and goes away when EC2 answers it.
func TestListThatIsRefusedForGood(t *testing.T) {
	t.Parallel()
	for action, reason := range map[string]string{
		"DescribeSnapshots": v1alpha1.ReasonSnapshotsUnknown, "DescribeInstanceStatus": v1alpha1.ReasonInstanceStatusUnknown,
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
			rule, err := w.proxy.Add(proxy.Deny(action))
			must(t, err)
			o := w.newOperator(nil)
			w.drive(o, patience, w.machinesUp)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/"+reason, "ec2:"+action, "docs/aws.md"))
			if text := w.condition(v1alpha1.ConditionCloudReachable); !strings.HasPrefix(text, "True/") {
				t.Errorf("EC2 answers all but one list, and the condition says %s", text)
			}
			w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](4) })
			up := func(ended string) func() bool {
				return func() bool {
					c, _ := w.get()
					return c.Status.Phase == v1alpha1.PhaseEC2Ready && len(c.Status.Members) == 4 &&
						!slices.ContainsFunc(c.Status.Members, func(m v1alpha1.MemberStatus) bool { return m.InstanceID == "" || m.InstanceID == ended })
				}
			}
			w.drive(o, patience, up("none"))
			c, _ := w.get()
			ended := c.Status.Members[1].InstanceID
			_, err = w.account.api.ModifyInstanceAttribute(t.Context(), &awsec2.ModifyInstanceAttributeInput{InstanceId: aws.String(ended), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
			must(t, err)
			_, err = w.account.api.TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{ended}})
			must(t, err)
			w.drive(o, patience, up(ended))

			w.proxy.Remove(rule)
			w.drive(o, patience, func() bool { return !strings.Contains(w.condition(v1alpha1.ConditionDegraded), reason) })
			_, err = w.proxy.Add(proxy.Deny(action))
			must(t, err)
			w.delete()
			w.drive(w.newOperator(nil), patience, func() bool {
				l := w.left()
				return len(l.instances)+len(l.volumes)+len(l.groups) == 0
			})
		})
	}
}

// TestDeletionWaitsForTheListOfSnapshots: everything else goes, and the cluster stays until EC2 shows the snapshots that an earlier
// operator took, which go too.
func TestDeletionWaitsForTheListOfSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	s := w.seen(o)
	c, _ := w.get()
	taken, err := s.Access.Cloud.CreateSnapshot(t.Context(), ec2.SnapshotSpec{
		Owner: s.Owner(), Member: c.Status.Members[2].Name, VolumeID: c.Status.Members[2].VolumeID, Purpose: "quarantine-1"})
	must(t, err)
	rule, err := w.proxy.Add(proxy.Deny("DescribeSnapshots"))
	must(t, err)
	w.delete()
	o = w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionProgressing, "True/"+v1alpha1.ReasonSnapshotsUnknown, "ec2:DescribeSnapshots"))
	w.follow(o, 20)
	if l := w.left(); w.gone() || len(l.instances)+len(l.volumes)+len(l.groups) != 0 || len(l.snapshots) != 1 || l.snapshots[0].id != taken.ID {
		t.Fatalf("gone: %v; left: %+v", w.gone(), l)
	}
	w.proxy.Remove(rule)
	w.drive(o, patience, w.gone)
	w.nothing(0)
}

// TestDeletionWithoutTheListIsGivenUp: a person who gives up what cannot be deleted does not wait for the list either.
func TestDeletionWithoutTheListIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	w.drive(w.newOperator(nil), patience, w.machinesUp)
	_, err := w.proxy.Add(proxy.Deny("DescribeSnapshots"))
	must(t, err)
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationAbandonCloudResources: "true"}
	})
	w.delete()
	began := w.clock.Now()
	w.drive(w.newOperator(nil), patience, w.gone)
	if took := w.clock.Since(began); took < inventory.FreshFor || took > time.Hour {
		t.Errorf("it was given up after %s", took)
	}
	w.nothing(0)
}

package controllers

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// TestOtherSecurityGroupsReplaceNothing: from the operator's own group to one of the user's, to another one after an upgrade of an operator
// that hashed the groups into the instances' tags, and back.
func TestOtherSecurityGroupsReplaceNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	own := aws.ToString(w.group().GroupId)
	first, second := w.makeGroup("first"), w.makeGroup("second")
	instances := w.memberInstances()
	become := func(o *operator, groups ...string) {
		t.Helper()
		w.change(func(c *v1alpha1.MySQLCluster) {
			if c.Spec.AWS.SecurityGroupIDs = groups; groups == nil {
				c.Spec.AWS.ClientCIDRs = []string{"10.0.0.0/8"}
			} else {
				c.Spec.AWS.ClientCIDRs = nil
			}
		})
		if groups == nil {
			groups = []string{own}
		}
		w.drive(o, patience, func() bool { return w.haveGroups(groups...) })
		if now := w.memberInstances(); !slices.Equal(now, instances) {
			t.Fatalf("%v became %v", instances, now)
		}
	}
	become(o, first)
	now, _ := w.get()
	then := observe.TemplateOf(now)
	then.SecurityGroupIDs = []string{first}
	_, err := w.account.api.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: instances, Tags: []types.Tag{{Key: aws.String(v1alpha1.TagTemplateHash), Value: aws.String(then.Hash())}}})
	must(t, err)
	o = w.newOperator(nil)
	become(o, second)
	for n := range members {
		if got, want := tagOf(w.machineOf(n).Tags, v1alpha1.TagTemplateHash), observe.TemplateOf(now).Hash(); got != want {
			t.Errorf("the tag of member %d is %s, want %s", n, got, want)
		}
	}
	become(o)
}

// TestANewInstanceReachesTheOthers: while EC2 refuses the members' instances other groups, which the cluster says, a new one has both.
func TestANewInstanceReachesTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	own, first := aws.ToString(w.group().GroupId), w.makeGroup("first")
	_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "SecurityGroupsPerInterfaceLimitExceeded", Actions: []string{"ModifyInstanceAttribute"}})
	must(t, err)
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.SecurityGroupIDs, c.Spec.AWS.ClientCIDRs = []string{first}, nil
	})
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonQuotaExceeded, "Change the list in steps"))
	asked := w.proxy.Counts()["ModifyInstanceAttribute"]
	w.passes(o, 5)
	if n := w.proxy.Counts()["ModifyInstanceAttribute"]; n != asked {
		t.Errorf("EC2 was asked %d times more at once", n-asked)
	}
	w.wait(time.Minute) // its end does not count as one soon after its launch
	ended := aws.ToString(w.machineOf(2).InstanceId)
	_, err = w.account.api.ModifyInstanceAttribute(t.Context(), &awsec2.ModifyInstanceAttributeInput{InstanceId: &ended, DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
	must(t, err)
	_, err = w.account.api.TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{ended}})
	must(t, err)
	w.drive(o, patience, func() bool { return w.machineOf(2) != nil && aws.ToString(w.machineOf(2).InstanceId) != ended })
	have, want := groupsOf(w.machineOf(2)), []string{own, first}
	if slices.Sort(want); !slices.Equal(have, want) {
		t.Errorf("the new one has %v, want %v", have, want)
	}
	if have := groupsOf(w.machineOf(0)); !slices.Equal(have, []string{own}) {
		t.Errorf("one that runs has %v", have)
	}
}

// makeGroup makes a security group of the user's.
func (w *world) makeGroup(name string) string {
	w.t.Helper()
	made, err := w.account.api.CreateSecurityGroup(w.t.Context(), &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String(name), Description: aws.String("members"), VpcId: w.machineOf(0).VpcId})
	must(w.t, err)
	return aws.ToString(made.GroupId)
}

// memberInstances are the ids of the members' instances.
func (w *world) memberInstances() (ids []string) {
	for n := range members {
		ids = append(ids, aws.ToString(w.machineOf(n).InstanceId))
	}
	return ids
}

// haveGroups says whether each member's instance has these groups and no others.
func (w *world) haveGroups(want ...string) bool {
	for n := range members {
		if !slices.Equal(groupsOf(w.machineOf(n)), want) {
			return false
		}
	}
	return true
}

// groupsOf are the ids of an instance's groups, sorted.
func groupsOf(in *types.Instance) (ids []string) {
	for _, g := range in.SecurityGroups {
		ids = append(ids, aws.ToString(g.GroupId))
	}
	slices.Sort(ids)
	return ids
}

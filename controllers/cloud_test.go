package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"k8s.io/utils/ptr"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

func makeSubnet(t *testing.T, cidr string) string {
	t.Helper()
	made, err := awsec2.NewFromConfig(ownEyes()).CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{
		VpcId: aws.String(seeded.VPC), CidrBlock: aws.String(cidr), AvailabilityZone: aws.String("us-east-1c")})
	must(t, err)
	return aws.ToString(made.Subnet.SubnetId)
}

func dropSubnet(t *testing.T, id string) {
	t.Helper()
	_, err := awsec2.NewFromConfig(ownEyes()).DeleteSubnet(t.Context(), &awsec2.DeleteSubnetInput{SubnetId: aws.String(id)})
	must(t, err)
}

// direct is somebody else's way to EC2, past the proxy.
func direct(t *testing.T) *ec2.Cloud {
	t.Helper()
	c, err := ec2.NewFactory(ec2.Options{Config: awsapi.Config{Endpoint: cloud.Endpoint(), CallTimeout: 10 * time.Second}}).Cloud(t.Context(), awsapi.Account{Region: "us-east-1"})
	must(t, err)
	return c
}

// seen is a pass that has observed EC2 and goes no further.
func (w *world) seen(o *operator) *pass.Pass {
	w.t.Helper()
	s, err := o.open(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
	must(w.t, err)
	must(w.t, o.recordKeeper.Claim(w.t.Context(), s))
	must(w.t, o.identities.Identify(w.t.Context(), s))
	must(w.t, o.access.Connect(w.t.Context(), s))
	must(w.t, o.cloudObserver.Observe(w.t.Context(), s))
	return s
}

// Somebody ends an instance behind the operator's back. While its mysqld is silent that is not left to the next sweep.
func TestMachineThatOthersEndedIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	ended := c.Status.Members[1].InstanceID
	must(t, direct(t).TerminateInstance(t.Context(), string(w.cluster.UID), ended))
	w.proxy.ResetCalls()
	w.drive(o, patience, func() bool {
		c, _ := w.get()
		return strings.Contains(c.Status.Members[1].Message, ended+" ended soon after its launch")
	})
	if sweeps := w.proxy.Counts()["DescribeSecurityGroups"]; sweeps != 0 {
		t.Errorf("%d sweeps were made, want none: %v", sweeps, w.proxy.Counts())
	}
}

// What EC2 announces reaches the planner: the earliest of what is still to come.
func TestAnnouncedDisruptions(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	soon := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	must(t, cloud.SetStatus(t.Context(), moto.Status{ID: c.Status.Members[0].InstanceID, Volumes: "impaired", Events: []moto.Event{
		{Code: "instance-retirement", Description: "degraded hardware", NotBefore: soon.Add(time.Hour)},
		{Code: "system-reboot", Description: "[Completed] scheduled reboot", NotBefore: soon.Add(-time.Hour)},
		{Code: "system-maintenance", Description: "scheduled maintenance", NotBefore: soon},
	}}))
	for name, m := range w.seen(w.newOperator(nil)).Observed.Members {
		in := m.CurrentInstance()
		if name == "orders-0" && (in.Event != "system-maintenance" || !in.EventAt.Equal(soon) || !in.Impaired) {
			t.Errorf("the planner observes of orders-0 %+v", in)
		}
		if name != "orders-0" && (in.Event != "" || !in.EventAt.IsZero() || in.Impaired) {
			t.Errorf("the planner observes of %s %+v", name, in)
		}
	}
}

// A vanished subnet is named, and nobody waits for it but who needs it.
func TestVanishedSubnetHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	vanishing := makeSubnet(t, "10.77.60.0/24")
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.SubnetIDs = append(c.Spec.AWS.SubnetIDs, vanishing) })
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	dropSubnet(t, vanishing)
	o := w.newOperator(nil) // whose preflight has to pass again
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, vanishing))
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](4) })
	w.drive(o, patience, func() bool {
		c, _ := w.get()
		return len(c.Status.Members) == 4 && c.Status.Phase == v1alpha1.PhaseEC2Ready
	})
	w.oneOfEach(4)
	result, err := w.pass(o)
	if err != nil || result.RequeueAfter >= engine.AfterWaiting {
		t.Errorf("the next look comes after %s (%v): a missing subnet slows the whole cluster down", result.RequeueAfter, err)
	}
	if text := w.condition(v1alpha1.ConditionDegraded); !strings.Contains(text, vanishing) {
		t.Errorf("the vanished subnet is no longer named: %s", text)
	}
	started := time.Now()
	w.hammer(o, 20)
	// Here no background looks for it: a pass does, after twice the sweep interval of a second.
	if n, due := w.proxy.Counts()["DescribeSubnets"], 1+int(time.Since(started)/(2*time.Second)); n > due {
		t.Errorf("%d calls for subnets in 20 passes, %d were due", n, due)
	}
	if slices.Contains(w.changes(), "RunInstances") {
		t.Error("more instances were launched")
	}
}

func TestStartWithoutCapacityIsNoted(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	id := c.Status.Members[1].InstanceID
	rule, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "InsufficientInstanceCapacity", Actions: []string{"StartInstances"}})
	must(t, err)
	must(t, direct(t).StopInstance(t.Context(), string(w.cluster.UID), id, ec2.StopPower))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "InsufficientCapacity", id, "us-east-1b"))
	w.proxy.Remove(rule)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if text := w.condition(v1alpha1.ConditionDegraded); strings.Contains(text, "InsufficientCapacity") {
		t.Errorf("the instance runs, the condition says %s", text)
	}
	w.oneOfEach(3)
}

// Quarantine: a snapshot for a purpose is taken once, is seen with its age, and is deleted; a volume that was given up is no
// longer its member's.
func TestSnapshotsAndRetiredVolumes(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	member, volume := c.Status.Members[2].Name, c.Status.Members[2].VolumeID
	take := func(a topology.Action) {
		t.Helper()
		if x := o.execute(t, w.seen(o), a); x.Acted != 1 {
			t.Fatalf("%s: %v", a, x.Problems)
		}
	}
	for range 2 {
		take(topology.TakeSnapshot{Member: member, VolumeID: volume, Purpose: "errant-1a2b"})
	}
	take(topology.TakeSnapshot{Member: member, VolumeID: volume, Purpose: "errant-3c4d"})
	var ids []string
	w.drive(o, patience, func() bool { // a new process finds them by their tags
		ids = nil
		for _, s := range w.seen(w.newOperator(nil)).Observed.Snapshots.Known {
			if s.Member == member && s.VolumeID == volume && strings.HasPrefix(s.Purpose, "errant-") && time.Since(s.StartedAt) < patience {
				ids = append(ids, s.ID)
			}
		}
		return len(ids) == 2
	})
	take(topology.DeleteSnapshot{Member: member, SnapshotID: ids[0]})
	o = w.newOperator(nil) // which does not know that EC2 has just taken it
	take(topology.DeleteSnapshot{Member: member, SnapshotID: ids[0]})
	if left := w.seen(o).Observed.Snapshots.Known; len(left) != 1 || left[0].ID != ids[1] {
		t.Errorf("left are %+v, want %s", left, ids[1])
	}
	take(topology.RetireVolume{Member: member, VolumeID: volume})
	for name, operator := range map[string]*operator{"the same": o, "a new": w.newOperator(nil)} {
		if m := w.seen(operator).Observed.Members[member]; len(m.Volumes) != 0 {
			t.Errorf("%s process still takes %+v for the member's", name, m.Volumes)
		}
	}
}

// TestSubnetOfAnotherVPCIsLeftOut: appended to a cluster that is there, it takes neither its security group nor its instances along.
func TestSubnetOfAnotherVPCIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	group := w.group()
	elsewhere, err := w.account.api.CreateVpc(t.Context(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.99.0.0/16")})
	must(t, err)
	made, err := w.account.api.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: elsewhere.Vpc.VpcId, CidrBlock: aws.String("10.99.1.0/24"), AvailabilityZone: aws.String(moto.Zones[0].Name)})
	must(t, err)
	subnet := aws.ToString(made.Subnet.SubnetId)
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.SubnetIDs = append([]string{subnet}, c.Spec.AWS.SubnetIDs...)
		c.Spec.AWS.ClientCIDRs = []string{"10.55.0.0/16"}
	})
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "InvalidSpec", subnet, aws.ToString(elsewhere.Vpc.VpcId)))
	w.drive(o, patience, func() bool {
		return slices.ContainsFunc(w.group().IpPermissions, func(p types.IpPermission) bool {
			return slices.ContainsFunc(p.IpRanges, func(r types.IpRange) bool { return aws.ToString(r.CidrIp) == "10.55.0.0/16" })
		})
	})
	if now := w.group(); aws.ToString(now.GroupId) != aws.ToString(group.GroupId) || aws.ToString(now.VpcId) != aws.ToString(group.VpcId) {
		t.Errorf("its group was %s in %s and is %s in %s", aws.ToString(group.GroupId), aws.ToString(group.VpcId), aws.ToString(now.GroupId), aws.ToString(now.VpcId))
	}
	// An instance that goes is replaced where the others are, by an operator that has seen none of this.
	o = w.newOperator(nil)
	ended := w.left().instances[0].id
	_, err = w.account.api.ModifyInstanceAttribute(t.Context(), &awsec2.ModifyInstanceAttributeInput{InstanceId: aws.String(ended), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
	must(t, err)
	_, err = w.account.api.TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{ended}})
	must(t, err)
	w.drive(o, patience, func() bool {
		return w.machinesUp() && !slices.ContainsFunc(w.left().instances, func(in thing) bool { return in.id == ended })
	})
	described, err := w.account.api.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{InstanceIds: idsOf(w.left().instances, "")})
	must(t, err)
	for _, r := range described.Reservations {
		for _, in := range r.Instances {
			if aws.ToString(in.SubnetId) == subnet {
				t.Errorf("%s is in the other VPC", aws.ToString(in.InstanceId))
			}
		}
	}
	w.delete()
	w.drive(o, patience, w.gone)
	w.nothing(0)
}

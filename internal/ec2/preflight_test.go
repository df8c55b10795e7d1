package ec2

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

func (l *lab) preflightSpec() PreflightSpec {
	launch, volume := l.launchSpec("", 0), l.volumeSpec("", 0)
	launch.SubnetID, launch.ImageID = "", ""
	return PreflightSpec{Launch: launch, Volume: volume, SubnetIDs: l.seeded.SubnetIDs(), ImageID: l.seeded.Image, Replicas: 3}
}

// vpc makes another network with one subnet of the given size and one security group.
func (l *lab) vpc(cidr string) (subnet, group string) {
	l.t.Helper()
	ctx := l.t.Context()
	v, err := l.sdk().CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String(cidr)})
	if err != nil {
		l.t.Fatal(err)
	}
	s, err := l.sdk().CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: aws.String(cidr), AvailabilityZone: aws.String(zoneA)})
	if err != nil {
		l.t.Fatal(err)
	}
	g, err := l.sdk().CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String("theirs"), Description: aws.String("x"), VpcId: v.Vpc.VpcId})
	if err != nil {
		l.t.Fatal(err)
	}
	return aws.ToString(s.Subnet.SubnetId), aws.ToString(g.GroupId)
}

func (l *lab) armImage() string {
	l.t.Helper()
	out, err := l.sdk().RegisterImage(l.t.Context(), &awsec2.RegisterImageInput{Name: aws.String(l.owner.ClusterUID),
		Architecture: types.ArchitectureValuesArm64, RootDeviceName: aws.String("/dev/xvda"), VirtualizationType: aws.String("hvm")})
	if err != nil {
		l.t.Fatal(err)
	}
	return aws.ToString(out.ImageId)
}

// TestRoomInASubnet: that of IPv6 alone has no free IPv4 address, and more room is not what it lacks. The lab's EC2 has none such.
func TestRoomInASubnet(t *testing.T) {
	const field = "spec.aws.subnetIDs[0]"
	for name, row := range map[string]struct {
		subnet inventory.Subnet
		want   []awsapi.Problem
	}{
		"room":      {inventory.Subnet{ID: "subnet-1", CIDR: "10.0.0.0/28", AvailableIPs: 3}, nil},
		"no room":   {inventory.Subnet{ID: "subnet-1", CIDR: "10.0.0.0/28", AvailableIPs: 2}, []awsapi.Problem{{Field: field, Reason: v1alpha1.ReasonInsufficientCapacity, Retry: true, Message: "subnet subnet-1 (10.0.0.0/28) has 2 free addresses and needs 3: free some, or choose a larger subnet"}}},
		"IPv6 only": {inventory.Subnet{ID: "subnet-1", IPv6Only: true}, []awsapi.Problem{{Field: field, Reason: v1alpha1.ReasonInvalidSpec, Message: "subnet subnet-1 has IPv6 addresses only, and members need IPv4: choose a subnet with an IPv4 range"}}},
	} {
		p := &preflight{}
		p.checkRoom(field, row.subnet, 3)
		if !slices.Equal(p.problems, row.want) {
			t.Errorf("%s: %+v, want %+v", name, p.problems, row.want)
		}
	}
}

type wantedProblem struct {
	field, reason string
	retry         bool
	says          string
}

func TestPreflight(t *testing.T) {
	const unknownSubnet, unknownGroup, unknownImage = "subnet-0deadbeef00000000", "sg-0deadbeef00000000", "ami-0deadbeef00000000"
	invalid, waits := v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonWaitingForDependency
	for _, c := range []struct {
		what   string
		change func(*lab, *PreflightSpec)
		want   []wantedProblem
	}{
		{"all is well", func(*lab, *PreflightSpec) {}, nil},
		{"the image by its parameter", func(l *lab, s *PreflightSpec) { s.ImageID, s.ImageSSMParameter = "", l.seeded.SSMParameter }, nil},
		{"unknown subnet", func(_ *lab, s *PreflightSpec) { s.SubnetIDs[1] = unknownSubnet },
			[]wantedProblem{{"spec.aws.subnetIDs[1]", waits, true, unknownSubnet}}},
		{"all subnets unknown", func(_ *lab, s *PreflightSpec) { s.SubnetIDs = []string{unknownSubnet} },
			[]wantedProblem{{"spec.aws.subnetIDs[0]", waits, true, "is deleted and created again with the right id"}}},
		{"subnets of two VPCs", func(l *lab, s *PreflightSpec) { s.SubnetIDs[2], _ = l.vpc("10.9.0.0/16") },
			[]wantedProblem{{"spec.aws.subnetIDs[2]", invalid, false, "one VPC"}}},
		{"no free addresses", func(l *lab, s *PreflightSpec) {
			tiny, _ := l.vpc("10.8.0.0/28") // 11 usable
			s.SubnetIDs, s.Replicas = []string{tiny}, 12
		}, []wantedProblem{{"spec.aws.subnetIDs[0]", v1alpha1.ReasonInsufficientCapacity, true, "has 11 free addresses and needs 12"}}},
		{"unknown type", func(_ *lab, s *PreflightSpec) { s.Launch.InstanceType = "m6i.huge" },
			[]wantedProblem{{"spec.aws.instanceType", invalid, false, "no instance type m6i.huge"}}},
		{"type of another architecture", func(_ *lab, s *PreflightSpec) { s.Launch.InstanceType = "m6g.large" },
			[]wantedProblem{{"spec.aws.imageID", invalid, false, "built for x86_64, but m6g.large is arm64"}}},
		{"image of another architecture", func(l *lab, s *PreflightSpec) { s.ImageID = l.armImage() },
			[]wantedProblem{{"spec.aws.imageID", invalid, false, "built for arm64, but m6i.large is x86_64"}}},
		{"type that a zone does not have", func(l *lab, s *PreflightSpec) {
			out, err := l.sdk().CreateSubnet(l.t.Context(), &awsec2.CreateSubnetInput{
				VpcId: aws.String(l.seeded.VPC), CidrBlock: aws.String("10.77.200.0/24"), AvailabilityZone: aws.String("us-east-1e")})
			if err != nil {
				l.t.Fatal(err)
			}
			l.t.Cleanup(func() {
				if _, err := l.sdk().DeleteSubnet(context.WithoutCancel(l.t.Context()), &awsec2.DeleteSubnetInput{SubnetId: out.Subnet.SubnetId}); err != nil {
					l.t.Error(err)
				}
			})
			s.SubnetIDs[2] = aws.ToString(out.Subnet.SubnetId)
		}, []wantedProblem{{"spec.aws.subnetIDs[2]", invalid, false, "does not offer m6i.large in us-east-1e"}}},
		{"unknown image", func(_ *lab, s *PreflightSpec) { s.ImageID = unknownImage },
			[]wantedProblem{{"spec.aws.imageID", invalid, false, "no image " + unknownImage}}},
		{"image with a volume in the data volume's place", func(l *lab, s *PreflightSpec) {
			image, err := l.cloud.images.image(l.t.Context(), s.ImageID)
			if err != nil {
				l.t.Fatal(err)
			}
			image.Others = []ImageVolume{{Device: "/dev/sdb"}, {Device: "/dev/xvdf"}}
			l.cloud.images.images.set(image.ID, image, l.clock.Now())
		}, []wantedProblem{{"spec.aws.imageID", invalid, false, "brings a volume of its own as /dev/xvdf"}}},
		{"image with its root on an instance store", func(l *lab, s *PreflightSpec) {
			image := toImage(types.Image{ImageId: aws.String("ami-0123456789abcdef0"), State: types.ImageStateAvailable,
				Architecture: types.ArchitectureValuesX8664, RootDeviceName: aws.String("/dev/sda1"), RootDeviceType: types.DeviceTypeInstanceStore})
			l.cloud.images.images.set(image.ID, image, l.clock.Now())
			s.ImageID = image.ID
		}, []wantedProblem{{"spec.aws.imageID", invalid, false, "EC2 cannot stop such an instance"}}},
		{"unknown image parameter", func(_ *lab, s *PreflightSpec) { s.ImageID, s.ImageSSMParameter = "", "/aws/service/no/such" },
			[]wantedProblem{{"spec.aws.imageSSMParameter", invalid, false, "no Systems Manager parameter /aws/service/no/such"}}},
		{"unknown security groups", func(_ *lab, s *PreflightSpec) {
			s.SecurityGroupIDs, s.ClientSecurityGroupIDs = []string{unknownGroup}, []string{unknownGroup}
		}, []wantedProblem{{"spec.aws.securityGroupIDs[0]", waits, true, unknownGroup}, {"spec.aws.clientSecurityGroupIDs[0]", waits, true, "this account has no security group " + unknownGroup}}},
		{"security group of another VPC", func(l *lab, s *PreflightSpec) { _, group := l.vpc("10.7.0.0/16"); s.SecurityGroupIDs = []string{group} },
			[]wantedProblem{{"spec.aws.securityGroupIDs[0]", invalid, false, "choose a group of that VPC"}}},
		{"unknown key pair", func(_ *lab, s *PreflightSpec) { s.Launch.KeyName = "nobodys" },
			[]wantedProblem{{"spec.aws.keyName", invalid, false, "nobodys"}}},
		{"unknown profile", func(_ *lab, s *PreflightSpec) { s.Launch.IAMInstanceProfile = "nobodys" },
			[]wantedProblem{{"spec.aws.iamInstanceProfile", invalid, false, "nobodys"}}},
		{"key without encryption", func(_ *lab, s *PreflightSpec) { s.Volume.Encrypted, s.Volume.KMSKeyID = false, "alias/mine" },
			[]wantedProblem{{"spec.storage.encrypted", invalid, false, "set it to true, or remove the key"}}},
		{"key of another region", func(_ *lab, s *PreflightSpec) {
			s.Volume.KMSKeyID = "arn:aws:kms:eu-west-1:123456789012:key/0b1c"
		}, []wantedProblem{{"spec.storage.kmsKeyID", invalid, false, "a key of that region"}}},
		{"vCPU quota", func(l *lab, _ *PreflightSpec) {
			l.fault(proxy.Rule{Kind: proxy.Fail, Code: "VcpuLimitExceeded", Actions: []string{"RunInstances"}})
		}, []wantedProblem{{"spec.aws.instanceType", v1alpha1.ReasonQuotaExceeded, false, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"}}},
		{"volume quota", func(l *lab, _ *PreflightSpec) {
			l.fault(proxy.Rule{Kind: proxy.Fail, Code: "VolumeLimitExceeded", Actions: []string{"CreateVolume"}})
		}, []wantedProblem{{"spec.storage.size", v1alpha1.ReasonQuotaExceeded, false, ""}}},
		{"no capacity", func(l *lab, _ *PreflightSpec) {
			l.fault(proxy.Rule{Kind: proxy.Fail, Code: "InsufficientInstanceCapacity", Actions: []string{"RunInstances"}})
		}, []wantedProblem{{"spec.aws.instanceType", v1alpha1.ReasonInsufficientCapacity, true, "no m6i.large left"}}},
		{"missing permissions", func(l *lab, _ *PreflightSpec) {
			l.fault(proxy.Deny("RunInstances", "CreateVolume", "CreateSecurityGroup", "DescribeInstanceTypeOfferings"))
		}, []wantedProblem{
			{"", v1alpha1.ReasonNotPermitted, false, "ec2:RunInstances"}, {"", v1alpha1.ReasonNotPermitted, false, "ec2:CreateVolume"},
			{"", v1alpha1.ReasonNotPermitted, false, "ec2:CreateSecurityGroup"}, {"", v1alpha1.ReasonNotPermitted, false, "ec2:DescribeInstanceTypeOfferings"}}},
		{"terms of an image not accepted", func(l *lab, _ *PreflightSpec) {
			l.fault(proxy.Rule{Kind: proxy.Fail, Code: "OptInRequired", Actions: []string{"RunInstances"}})
		}, []wantedProblem{{"spec.aws.imageID", invalid, false, "please visit https://aws.amazon.com/marketplace/pp?sku="}}},
		{"missing iam:PassRole", func(l *lab, _ *PreflightSpec) {
			l.fault(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Actions: []string{"RunInstances"},
				Message: "You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not authorized to perform: iam:PassRole on resource: r"})
		}, []wantedProblem{{"spec.aws.iamInstanceProfile", v1alpha1.ReasonNotPermitted, false, "iam:PassRole"}}},
		{"wrong credentials, said once", func(l *lab, _ *PreflightSpec) { l.fault(proxy.Rule{Kind: proxy.Fail, Code: "AuthFailure"}) },
			[]wantedProblem{{"", v1alpha1.ReasonCredentialsInvalid, false, "AWS does not accept the credentials"}}},
		{"several at once", func(_ *lab, s *PreflightSpec) {
			s.SubnetIDs[0], s.ImageID, s.Launch.KeyName = unknownSubnet, unknownImage, "nobodys"
		}, []wantedProblem{{"spec.aws.subnetIDs[0]", waits, true, ""}, {"spec.aws.imageID", invalid, false, ""}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := newLab(t)
			spec := l.preflightSpec()
			c.change(l, &spec)
			got, err := l.cloud.Preflight(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if find(got, func(p awsapi.Problem) bool {
					return p.Field == w.field && (w.reason == "" || p.Reason == w.reason) && p.Retry == w.retry && strings.Contains(p.Message, w.says)
				}) == nil {
					t.Errorf("no problem %+v in %+v", w, got)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d problems, want %d: %+v", len(got), len(c.want), got)
			}
			for _, call := range l.proxy.Calls() {
				if !call.DryRun && !strings.HasPrefix(call.Action, "Describe") && call.Action != "GetParameter" {
					t.Errorf("%s was called for real", call.Action)
				}
			}
		})
	}
}

// After a zone's end a thousand clusters ask whether they may launch the same: one dry run answers all that a policy judges alike.
func TestDryRunOfALaunchServesOtherClusters(t *testing.T) {
	l := newLab(t)
	spec := l.preflightSpec()
	tries := func() int {
		t.Helper()
		before := l.proxy.Counts()["RunInstances"]
		if problems, err := l.cloud.Preflight(t.Context(), spec); len(problems) > 0 || err != nil {
			t.Fatalf("%v, %v", problems, err)
		}
		return l.proxy.Counts()["RunInstances"] - before
	}
	for _, step := range []struct {
		what   string
		change func()
		want   int
	}{
		{"the first", func() {}, 1},
		{"another cluster", func() {
			spec.Launch.Owner.ClusterUID, spec.Launch.Owner.Cluster, spec.Launch.UserData = "another", "stock", []byte("#!/bin/sh\n")
		}, 0},
		{"another namespace, which a policy may tell apart", func() { spec.Launch.Owner.Namespace = "depot" }, 1},
		{"another tag, which an organisation may refuse", func() { spec.Launch.Owner.UserTags = map[string]string{"team": "stock"} }, 1},
		{"another type", func() { spec.Launch.InstanceType = "m6i.xlarge" }, 1},
		{"another subnet", func() { spec.SubnetIDs = spec.SubnetIDs[1:] }, 1},
		{"the same again", func() {}, 0},
		{"a while later", func() { l.pass(launchableFor) }, 1},
	} {
		step.change()
		if got := tries(); got != step.want {
			t.Errorf("%s: %d dry runs, want %d", step.what, got, step.want)
		}
	}
	l.pass(launchableFor)
	denied := l.fault(proxy.Deny("RunInstances"))
	if problems, err := l.cloud.Preflight(t.Context(), spec); len(problems) != 1 || err != nil {
		t.Fatalf("%v, %v", problems, err)
	}
	denied()
	if got := tries(); got != 1 {
		t.Errorf("after a refusal: %d dry runs, want 1", got)
	}
}

func TestPreflightThatEC2DoesNotAnswer(t *testing.T) {
	for code, class := range map[string]awsapi.Class{"RequestLimitExceeded": awsapi.Throttled, "InternalError": awsapi.Transient} {
		l := newLab(t)
		l.fault(proxy.Rule{Kind: proxy.Fail, Code: code, Actions: []string{"CreateVolume"}})
		if problems, err := l.cloud.Preflight(t.Context(), l.preflightSpec()); err == nil || awsapi.Classify(err) != class || len(problems) != 0 {
			t.Errorf("%s: %v, %v; want an error of class %s and no problem", code, problems, err, class)
		}
	}
}

// TestWhatALaunchDoesWithoutIsAdvisory: a member with a volume is launched although EC2 refuses, or does not answer, what only others need.
func TestWhatALaunchDoesWithoutIsAdvisory(t *testing.T) {
	for action, advisory := range map[string]bool{"DescribeInstanceTypeOfferings": true, "CreateVolume": true, "RunInstances": false, "DescribeImages": false} {
		for fault, rule := range map[string]proxy.Rule{"denied": proxy.Deny(action), "throttled": proxy.Throttle(action)} {
			t.Run(action+" "+fault, func(t *testing.T) {
				l := newLab(t)
				l.fault(rule)
				spec := l.preflightSpec()
				spec.Begun = true
				problems, err := l.cloud.Preflight(t.Context(), spec)
				switch {
				case fault == "throttled":
					if (err == nil) != advisory || len(problems) > 0 {
						t.Errorf("%v, and %v", err, problems)
					}
				case err != nil || len(problems) != 1 || problems[0].Advisory != advisory || problems[0].Reason != v1alpha1.ReasonNotPermitted:
					t.Errorf("found %+v (%v)", problems, err)
				}
				spec.Begun = false
				if _, err := l.newCloud().Preflight(t.Context(), spec); (err != nil) != (fault == "throttled") {
					t.Errorf("before there are members: %v", err)
				}
			})
		}
	}
}

// That the fence is not allowed is found out before it is needed.
// TestRehearsalTriesTheFence and everything else, once in a while, and changes nothing.
func TestRehearsalTriesTheFence(t *testing.T) {
	l := newLab(t)
	i, v := l.running("orders-0"), l.available("orders-0")
	owner := l.preflightSpec().Launch.Owner
	rehearse := func() []awsapi.Problem { return l.cloud.Rehearse(t.Context(), owner).Problems }
	if problems := rehearse(); problems != nil || l.proxy.Counts()["StopInstances"] > 0 {
		t.Errorf("without a volume %v", problems)
	}
	if err := l.cloud.AttachVolume(t.Context(), owner.ClusterUID, v.ID, i.ID, DataDevice); err != nil {
		t.Fatal(err)
	}
	before := l.proxy.Counts()
	if problems := rehearse(); len(problems) > 0 {
		t.Errorf("everything is permitted, and it finds %v", problems)
	}
	tried := []string{"StartInstances", "TerminateInstances", "ModifyInstanceAttribute", "GetConsoleOutput", "CreateTags",
		"CreateSnapshot", "DetachVolume", "AttachVolume", "ModifyVolume", "DeleteVolume"}
	for range 3 {
		rehearse()
	}
	if n := l.proxy.Counts()["StopInstances"] - before["StopInstances"]; n != 2 {
		t.Errorf("the fence's two steps were tried as %d calls in a day", n)
	}
	for _, action := range tried {
		if n := l.proxy.Counts()[action] - before[action]; n != 1 {
			t.Errorf("%s was tried %d times in a day", action, n)
		}
	}
	l.fault(proxy.Deny("StopInstances", "DeleteVolume"))
	l.pass(rehearsedFor)
	problems := rehearse()
	if len(problems) != 2 || problems[0].Reason != v1alpha1.ReasonNotPermitted || problems[0].Lacks != "ec2:StopInstances" || !strings.Contains(problems[0].Message, "ec2:StopInstances") || !strings.Contains(problems[1].Message, "ec2:DeleteVolume") {
		t.Errorf("%+v", problems)
	}
	l.proxy.Clear()
	if problems := rehearse(); len(problems) != 2 {
		t.Errorf("they are forgotten: %+v", problems)
	}
	l.pass(rehearseAgain)
	if problems := rehearse(); len(problems) > 0 {
		t.Errorf("they are not forgotten: %+v", problems)
	}
	if is := l.realInstances()[0]; string(is.State.Name) != inventory.StateRunning || len(l.realVolumes()) != 1 {
		t.Errorf("the dry runs left the instance %s", is.State.Name)
	}
}

func TestImagesAndSubnetsAreKept(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	for range 3 {
		image, err := l.cloud.ResolveImage(ctx, "", "", "m6i.large")
		if err != nil || image.Architecture != "x86_64" || image.State != imageAvailable {
			t.Fatalf("the default image is %+v (%v)", image, err)
		}
		image, err = l.cloud.ResolveImage(ctx, "", l.seeded.SSMParameter, "m6i.large")
		if err != nil || image.ID != l.seeded.Image || image.RootDevice != "/dev/xvda" {
			t.Fatalf("the parameter's image is %+v (%v)", image, err)
		}
		subnets, missing, err := l.cloud.Inventory.Subnets(ctx, l.seeded.SubnetIDs())
		if err != nil || len(subnets) != 3 || len(missing) != 0 || subnets[1].Zone != zoneB || subnets[1].CIDR != "10.77.2.0/24" || subnets[1].VPCID != l.seeded.VPC {
			t.Fatalf("%+v, %v", subnets, err)
		}
	}
	if counts := l.proxy.Counts(); counts["DescribeImages"] != 2 || counts["GetParameter"] != 2 || counts["DescribeSubnets"] != 1 || counts["DescribeInstanceTypes"] != 1 {
		t.Errorf("three rounds made %v", counts)
	}
	if large, err := l.cloud.InstanceType(ctx, "m6i.large"); err != nil || large.Memory != 8<<30 {
		t.Errorf("m6i.large has %d bytes of memory, %v", large.Memory, err)
	}
	if _, err := l.cloud.InstanceType(ctx, "m6i.huge"); awsapi.Classify(err) != awsapi.Invalid {
		t.Errorf("an unknown type: %v", err)
	}
	arm, err := l.cloud.ResolveImage(ctx, "", "", "m6g.large")
	if err != nil || arm.Architecture != "arm64" {
		t.Errorf("the default image for arm64 is %+v (%v)", arm, err)
	}
}

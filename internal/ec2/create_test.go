package ec2

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

func TestLaunchedInstanceIsAsTheDesignWants(t *testing.T) {
	l := newLab(t)
	got := l.launch("orders-0")
	if got.Member != "orders-0" || got.Incarnation != 1 || got.TemplateHash != "hash" || got.State != inventory.StatePending {
		t.Errorf("returned %+v", got)
	}
	all := l.realInstances()
	if len(all) != 1 {
		t.Fatalf("%d instances", len(all))
	}
	i := all[0]
	if i.PublicIpAddress != nil {
		t.Errorf("it has the public address %s", *i.PublicIpAddress)
	}
	if i.MetadataOptions == nil || i.MetadataOptions.HttpTokens != types.HttpTokensStateRequired || aws.ToInt32(i.MetadataOptions.HttpPutResponseHopLimit) != 1 ||
		i.MetadataOptions.InstanceMetadataTags != types.InstanceMetadataTagsStateDisabled {
		t.Errorf("metadata options are %+v", i.MetadataOptions)
	}
	protected, err := l.sdk().DescribeInstanceAttribute(t.Context(), &awsec2.DescribeInstanceAttributeInput{
		InstanceId: i.InstanceId, Attribute: types.InstanceAttributeNameDisableApiTermination})
	if err != nil {
		t.Fatal(err)
	}
	if !aws.ToBool(protected.DisableApiTermination.Value) {
		t.Error("termination protection is off")
	}
	tags := awsapi.FromTags(i.Tags)
	for k, want := range map[string]string{
		v1alpha1.TagClusterUID: l.owner.ClusterUID, v1alpha1.TagNamespace: "shop", v1alpha1.TagCluster: "orders",
		v1alpha1.TagMember: "orders-0", v1alpha1.TagIncarnation: "1", v1alpha1.TagTemplateHash: "hash",
		v1alpha1.TagImage: l.seeded.Image, v1alpha1.TagName: "shop/orders-0", "team": "payments",
	} {
		if tags[k] != want {
			t.Errorf("tag %s is %q, want %q", k, tags[k], want)
		}
	}
	if inv := l.observe(); len(inv.Volumes) != 0 {
		t.Errorf("the root volume shows as a data volume: %+v", inv.Volumes)
	}
}

func TestLaunchAndCreateAreIdempotent(t *testing.T) {
	l := newLab(t)
	i, v := l.launch("orders-0"), l.volume("orders-0")
	for _, c := range []struct {
		what  string
		cloud *Cloud
		later time.Duration
	}{
		{"the same process", l.cloud, 0},
		{"a new process", l.newCloud(), 0},
		{"a new process, ten minutes later", l.newCloud(), 10 * time.Minute},
	} {
		l.pass(c.later)
		i2, err := c.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1))
		if err != nil || i2.ID != i.ID {
			t.Errorf("%s: launched %s (%v), want %s", c.what, i2.ID, err, i.ID)
		}
		v2, err := c.cloud.CreateVolume(t.Context(), l.volumeSpec("orders-0", 1))
		if err != nil || v2.ID != v.ID {
			t.Errorf("%s: created %s (%v), want %s", c.what, v2.ID, err, v.ID)
		}
	}
	i3, err := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 2))
	if err != nil || i3.ID == i.ID {
		t.Errorf("incarnation 2 is %s (%v), want another instance", i3.ID, err)
	}
	if n, m := len(l.realInstances()), len(l.realVolumes()); n != 2 || m != 1 {
		t.Errorf("%d instances and %d volumes, want 2 and 1", n, m)
	}
}

// A crash right after the call, and EC2 that does not list the new things for 30 s: the next process has nothing but the
// token to go by.
func TestLostAnswersNeverDuplicate(t *testing.T) {
	for _, hidden := range []time.Duration{0, 30 * time.Second} {
		l := newLab(t)
		if hidden > 0 {
			l.fault(proxy.Rule{Kind: proxy.Absent, For: hidden})
		}
		l.fault(proxy.LoseAnswers(1, "RunInstances"))
		l.fault(proxy.LoseAnswers(2, "CreateVolume")) // which the SDK tries twice by itself
		if _, err := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1)); !awsapi.IsUnreachable(err) {
			t.Errorf("hidden %s: a lost answer is %v (%s), want Unreachable", hidden, err, awsapi.Classify(err))
		}
		if _, err := l.cloud.CreateVolume(t.Context(), l.volumeSpec("orders-0", 1)); !awsapi.IsUnreachable(err) {
			t.Errorf("hidden %s: a lost answer is %v (%s), want Unreachable", hidden, err, awsapi.Classify(err))
		}
		cloud := l.newCloud()
		for range 3 {
			if _, err := cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1)); err != nil {
				t.Errorf("hidden %s: %v", hidden, err)
			}
			if _, err := cloud.CreateVolume(t.Context(), l.volumeSpec("orders-0", 1)); err != nil {
				t.Errorf("hidden %s: %v", hidden, err)
			}
			l.pass(20 * time.Second)
		}
		if n, m := len(l.realInstances()), len(l.realVolumes()); n != 1 || m != 1 {
			t.Errorf("hidden %s: %d instances and %d volumes, want one each", hidden, n, m)
		}
	}
}

// The answer is lost, EC2 hides the result, and the image's alias moves on before the next try: EC2 says
// IdempotentParameterMismatch. The instance exists; it must be found as soon as EC2 shows it, and never made again.
func TestChangedParametersOnAUsedToken(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Absent, For: 30 * time.Second})
	first, firstVolume := l.launch("orders-0"), l.volume("orders-0")

	cloud, launch, volume := l.newCloud(), l.launchSpec("orders-0", 1), l.volumeSpec("orders-0", 1)
	launch.TemplateHash, volume.SizeGiB = "another", 20
	if _, err := cloud.LaunchInstance(t.Context(), launch); !awsapi.IsWaiting(err) {
		t.Errorf("while hidden: %v (%s), want Waiting", err, awsapi.Classify(err))
	}
	if _, err := cloud.CreateVolume(t.Context(), volume); !awsapi.IsWaiting(err) {
		t.Errorf("while hidden: %v (%s), want Waiting", err, awsapi.Classify(err))
	}
	l.pass(31 * time.Second)
	if got, err := cloud.LaunchInstance(t.Context(), launch); err != nil || got.ID != first.ID {
		t.Errorf("once shown: %s, %v; want %s", got.ID, err, first.ID)
	}
	if got, err := cloud.CreateVolume(t.Context(), volume); err != nil || got.ID != firstVolume.ID {
		t.Errorf("once shown: %s, %v; want %s", got.ID, err, firstVolume.ID)
	}

	// Somebody took the tags away: only the client token leads to the instance.
	other := l.launch("orders-1")
	for key := range other.Tags {
		l.removeTag(other.ID, key)
	}
	l.pass(31 * time.Second)
	launch = l.launchSpec("orders-1", 1)
	launch.TemplateHash = "another"
	if got, err := l.newCloud().LaunchInstance(t.Context(), launch); err != nil || got.ID != other.ID {
		t.Errorf("by the token: %s, %v; want %s", got.ID, err, other.ID)
	}
}

// A used-up incarnation answers with its dead instance, so that the planner can see that it must take the next one.
func TestTokenOfATerminatedInstance(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	if err := l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
		t.Fatal(err)
	}
	l.until("terminated", func(inv inventory.Inventory) bool {
		return len(inv.Instances) == 1 && inv.Instances[0].State == inventory.StateTerminated
	})
	l.pass(5 * time.Minute)
	inv := l.observe()
	if len(inv.Instances) != 1 || inv.Instances[0].State != inventory.StateTerminated {
		t.Errorf("the inventory shows %+v, want the terminated instance", inv.Instances)
	}
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		got, err := cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1))
		if err != nil || got.ID != i.ID || got.State != inventory.StateTerminated {
			t.Errorf("launched %s in state %s (%v), want %s terminated", got.ID, got.State, err, i.ID)
		}
	}
}

// EC2 keeps the volumes that an image brings besides its root when the instance ends, unless it is told otherwise.
func TestVolumesOfTheImageGoWithTheMachine(t *testing.T) {
	l := newLab(t)
	described, err := l.sdk().DescribeImages(t.Context(), &awsec2.DescribeImagesInput{ImageIds: []string{l.seeded.Image}})
	if err != nil {
		t.Fatal(err)
	}
	image := described.Images[0]
	image.BlockDeviceMappings = append(image.BlockDeviceMappings,
		types.BlockDeviceMapping{DeviceName: aws.String("/dev/sdb"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(4), DeleteOnTermination: aws.Bool(false)}},
		types.BlockDeviceMapping{DeviceName: aws.String("/dev/sdc"), VirtualName: aws.String("ephemeral0")})
	l.cloud.images.images.set(l.seeded.Image, toImage(image), l.clock.Now())
	i := l.launch("orders-0")
	kept := map[string]bool{}
	for _, m := range l.realInstances()[0].BlockDeviceMappings {
		kept[aws.ToString(m.DeviceName)] = !aws.ToBool(m.Ebs.DeleteOnTermination)
	}
	if want := map[string]bool{"/dev/xvda": false, "/dev/sdb": false}; !maps.Equal(kept, want) {
		t.Errorf("which volumes stay: %v, want %v", kept, want)
	}
	l.running("orders-0")
	if err := l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
		t.Fatal(err)
	}
	l.really(i.ID, inventory.StateTerminated)
	if left := l.realVolumes(); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// What the spec names may have been deleted; what was handed out a moment ago may not be known everywhere yet.
func TestLaunchInAGroupThatIsNotThere(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Fail, Code: "InvalidGroup.NotFound", Actions: []string{"RunInstances"}})
	spec := l.launchSpec("orders-0", 1)
	spec.SecurityGroupIDs = []string{l.clientGroup("theirs")}
	_, err := l.cloud.LaunchInstance(t.Context(), spec)
	if told := awsapi.Explain(err); told.Field != awsapi.FieldGroups || !awsapi.IsNotFound(err) {
		t.Errorf("told %+v of %v", told, err)
	}
	own, err := l.cloud.EnsureSecurityGroup(t.Context(), SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC})
	if err != nil {
		t.Fatal(err)
	}
	spec.SecurityGroupIDs = []string{own}
	if _, err := l.cloud.LaunchInstance(t.Context(), spec); !awsapi.IsWaiting(err) {
		t.Errorf("in a new group: %v, want Waiting", err)
	}
}

func TestUserDataTooLargeIsRefusedBeforeAnyCall(t *testing.T) {
	l := newLab(t)
	spec := l.launchSpec("orders-0", 1)
	spec.UserData = bytes.Repeat([]byte("x"), MaxUserData+1)
	_, err := l.cloud.LaunchInstance(t.Context(), spec)
	if !errors.Is(err, awsapi.ErrUserDataTooLarge) || awsapi.Classify(err) != awsapi.Invalid {
		t.Errorf("got %v (%s)", err, awsapi.Classify(err))
	}
	if calls := l.proxy.Calls(); len(calls) != 0 {
		t.Errorf("calls were made: %v", calls)
	}
	spec.UserData = bytes.Repeat([]byte("x"), MaxUserData)
	if _, err := l.cloud.LaunchInstance(t.Context(), spec); err != nil {
		t.Errorf("the largest allowed user data: %v", err)
	}
}

func TestNoCapacityInOneZone(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.NoCapacity, Zone: zoneA})
	_, err := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1))
	if !awsapi.IsWaiting(err) {
		t.Fatalf("%v (%s), want Waiting", err, awsapi.Classify(err))
	}
	problem := awsapi.Explain(err)
	if problem.Reason != v1alpha1.ReasonInsufficientCapacity || !problem.Retry || problem.Field != awsapi.FieldInstanceType {
		t.Errorf("explained as %+v", problem)
	}
	elsewhere := l.launchSpec("orders-1", 1)
	elsewhere.SubnetID = l.seeded.Subnets[zoneB]
	if _, err := l.cloud.LaunchInstance(t.Context(), elsewhere); err != nil {
		t.Errorf("in the other zone: %v", err)
	}
	l.proxy.Clear()
	l.pass(fullPause)
	if _, err := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1)); err != nil {
		t.Errorf("once there is capacity: %v", err)
	}
	if n := len(l.realInstances()); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}
}

// A zone that does not launch the type is one without capacity: another may do. EC2 says so with a code that it also uses for what it
// does nowhere.
func TestZoneThatDoesNotLaunchTheType(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Fail, Code: "Unsupported", Zone: zoneA, Actions: []string{"RunInstances"},
		Message: "Your requested instance type (m6i.large) is not supported in your requested Availability Zone (us-east-1a). Please retry your request by not specifying an Availability Zone or choosing us-east-1b."})
	_, err := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1))
	told := awsapi.Explain(err)
	if !awsapi.IsWaiting(err) || awsapi.Code(err) != awsapi.CodeNoCapacity || told.Reason != v1alpha1.ReasonInsufficientCapacity || !strings.Contains(told.Message, "(Unsupported)") {
		t.Errorf("%v is %+v", err, told)
	}
	l.proxy.Clear()
	l.pass(fullPause)
	l.fault(proxy.Rule{Kind: proxy.Fail, Code: "Unsupported", Actions: []string{"RunInstances"}, Message: "The requested configuration is currently not supported."})
	if _, err := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1)); awsapi.Classify(err) != awsapi.Invalid {
		t.Errorf("what EC2 does nowhere is %v (%s)", err, awsapi.Classify(err))
	}
}

// EBS makes a volume that it cannot encrypt, deletes it, and then knows its token: nothing comes of waiting for it.
func TestTokenOfWhatIsDeletedIsSpent(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Fail, Code: awsapi.CodeTokenMismatch, Actions: []string{"CreateVolume", "RunInstances"},
		Message: "The client token you have provided is associated with a resource that is already deleted. Please use a different client token."})
	_, launch := l.cloud.LaunchInstance(t.Context(), l.launchSpec("orders-0", 1))
	_, create := l.cloud.CreateVolume(t.Context(), l.volumeSpec("orders-0", 1))
	for _, err := range []error{launch, create} {
		if awsapi.Code(err) != awsapi.CodeTokenEnded || !awsapi.IsWaiting(err) || !strings.Contains(awsapi.Message(err), "another client token") {
			t.Errorf("%v: code %s", err, awsapi.Code(err))
		}
	}
}

// turns are calls of which some wait for their turn and are not sent, and how many are.
func (l *lab) turns(action string, calls int, call func(n int) error) (sent, waits int) {
	l.t.Helper()
	l.proxy.ResetCalls()
	for n := range calls {
		if err := call(n); awsapi.Code(err) == "" && (awsapi.IsWaiting(err) || awsapi.IsThrottled(err)) {
			waits++
		} else if awsapi.IsThrottled(err) {
			l.t.Errorf("EC2 throttles %s", action)
		}
	}
	return l.proxy.Counts()[action], waits
}

// TestAFullZoneLeavesTheCallsToOthers: many members ask for a type of which a zone has none. One asks EC2, and the others have its answer for a
// while, so that another zone's members get theirs at once.
func TestAFullZoneLeavesTheCallsToOthers(t *testing.T) {
	l := newLab(t)
	for _, bucket := range proxy.Buckets() {
		l.fault(bucket)
	}
	full := l.fault(proxy.Rule{Kind: proxy.NoCapacity, Zone: zoneA})
	launch := func(zone string) func(n int) error {
		return func(n int) error {
			spec := l.launchSpec(fmt.Sprintf("orders-%d-%s", n, zone), 1)
			spec.SubnetID = l.seeded.Subnets[zone]
			_, err := l.cloud.LaunchInstance(l.t.Context(), spec)
			return err
		}
	}
	if sent, waits := l.turns("RunInstances", 3*callBurst, launch(zoneA)); sent != 1 || waits != 0 {
		t.Errorf("EC2 was asked for %d instances in a zone that has none, %d waited", sent, waits)
	}
	if sent, waits := l.turns("RunInstances", callBurst-1, launch(zoneB)); sent != callBurst-1 || waits != 0 {
		t.Errorf("EC2 was asked for %d instances in another zone, %d waited", sent, waits)
	}
	full()
	l.pass(fullPause)
	if sent, waits := l.turns("RunInstances", callBurst, launch(zoneA)); sent != callBurst || waits != 0 {
		t.Errorf("EC2 was asked for %d instances once the zone had some, %d waited", sent, waits)
	}
}

// Launches that EC2 refuses leave the account's calls to others; EC2 never has to refuse one for coming too
// often. That a zone has no capacity is an internal error to HTTP, which the SDK would try again.
func TestLaunchesKeepToEC2sBucket(t *testing.T) {
	l := newLab(t)
	for _, bucket := range proxy.Buckets() {
		l.fault(bucket)
	}
	l.fault(proxy.Rule{Kind: proxy.NoCapacity})
	asked := 0
	launch := func(int) error {
		asked++
		spec := l.launchSpec(fmt.Sprintf("orders-%d", asked), 1)
		spec.SubnetID = fmt.Sprintf("subnet-%d", asked)
		_, err := l.cloud.LaunchInstance(l.t.Context(), spec)
		return err
	}
	if sent, waits := l.turns("RunInstances", 2*callBurst, launch); sent != callBurst || waits != callBurst {
		t.Errorf("EC2 was asked for %d instances, %d waited", sent, waits)
	}
	l.pass(2 * time.Second)
	preflight := func(n int) error {
		spec := l.preflightSpec()
		spec.Launch.KeyName = fmt.Sprintf("nobodys-%d", n) // each is another launch, which EC2 refuses
		_, err := l.cloud.Preflight(t.Context(), spec)
		return err
	}
	if sent, waits := l.turns("RunInstances", 3, preflight); sent != 3 || waits != 0 {
		t.Errorf("%d dry runs were made, %d waited", sent, waits)
	}
	if sent, waits := l.turns("RunInstances", callBurst, launch); sent != 2*callRate-3 || waits != callBurst-sent {
		t.Errorf("after dry runs EC2 was asked for %d instances, %d waited", sent, waits)
	}
	if sent, waits := l.turns("RunInstances", 1, preflight); sent != 0 || waits != 1 {
		t.Errorf("%d dry runs were made out of turn, %d waited", sent, waits)
	}
}

func TestStartsKeepToEC2sBucket(t *testing.T) {
	l := newLab(t)
	for _, bucket := range proxy.Buckets() {
		l.fault(bucket)
	}
	i := l.running("orders-0")
	l.fault(proxy.Rule{Kind: proxy.Fail, Code: awsapi.CodeNoCapacity, Actions: []string{"StartInstances"}})
	start := func(int) error { return l.cloud.StartInstance(t.Context(), l.owner.ClusterUID, i.ID) }
	if sent, waits := l.turns("StartInstances", 2*callBurst, start); sent != callBurst || waits != callBurst {
		t.Errorf("EC2 was asked to start %d instances, %d waited", sent, waits)
	}
	l.pass(3 * time.Second)
	if sent, _ := l.turns("StartInstances", 2*callBurst, start); sent != min(3*callRate, callBurst) {
		t.Errorf("after three seconds EC2 was asked to start %d instances", sent)
	}
}

package moto_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

const (
	testDelay = 300 * time.Millisecond
	// settle bounds the waiting for a change of state on a machine that is busy.
	settle = time.Minute
)

// One server that changes states by itself serves most tests; each makes its
// own resources in it.
var (
	server *moto.Server
	seeded moto.Seeded
)

func TestMain(m *testing.M) {
	os.Exit(moto.RunTests(m, moto.Options{Delay: testDelay, Log: os.Stderr}, func(s *moto.Server, network moto.Seeded) { server, seeded = s, network }))
}

func client() *ec2.Client { return ec2.NewFromConfig(server.Config()) }

func launch(token string, change ...func(*ec2.RunInstancesInput)) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		ImageId: aws.String(seeded.Image), InstanceType: "m6i.large",
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: aws.String(seeded.Subnets["us-east-1a"]),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))),
	}
	if token != "" {
		in.ClientToken = aws.String(token)
	}
	for _, f := range change {
		f(in)
	}
	return in
}

func mustLaunch(t *testing.T, change ...func(*ec2.RunInstancesInput)) string {
	t.Helper()
	out, err := client().RunInstances(t.Context(), launch("", change...))
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.Instances[0].InstanceId)
}

func mustVolume(t *testing.T, zone string) string {
	t.Helper()
	out, err := client().CreateVolume(t.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String(zone), Size: aws.Int32(10), VolumeType: types.VolumeTypeGp3,
	})
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(out.VolumeId)
	eventually(t, "volume available", func() bool { return volumeState(t, id) == types.VolumeStateAvailable })
	return id
}

// hold keeps every state as it is until go on is called, or the test ends.
func hold(t *testing.T) (goOn func()) {
	t.Helper()
	set := func(ctx context.Context, held bool) {
		if err := server.Hold(ctx, held); err != nil {
			t.Error(err)
		}
	}
	set(t.Context(), true)
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), false) })
	return func() { set(t.Context(), false) }
}

func instance(t *testing.T, id string) types.Instance {
	t.Helper()
	out, err := client().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Reservations[0].Instances[0]
}

func awaitState(t *testing.T, id string, want types.InstanceStateName) {
	t.Helper()
	eventually(t, "instance "+string(want), func() bool { return instance(t, id).State.Name == want })
}

func volume(t *testing.T, id string) types.Volume {
	t.Helper()
	out, err := client().DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Volumes[0]
}

func volumeState(t *testing.T, id string) types.VolumeState { t.Helper(); return volume(t, id).State }

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(settle); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not seen in %s: %s", settle, what)
}

// wantCode checks err for EC2's code; "" wants no error.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	switch {
	case code == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case code != "" && !errors.As(err, &api):
		t.Errorf("got %v, want %s", err, code)
	case code != "" && api.ErrorCode() != code:
		t.Errorf("got %s (%s), want %s", api.ErrorCode(), api.ErrorMessage(), code)
	}
}

func TestLaunchStatesAndTags(t *testing.T) {
	c := client()
	tag := []types.Tag{{Key: aws.String("member"), Value: aws.String("orders-0")}}
	out, err := c.RunInstances(t.Context(), launch("states", func(in *ec2.RunInstancesInput) {
		for _, kind := range []types.ResourceType{"instance", "volume", "network-interface"} {
			in.TagSpecifications = append(in.TagSpecifications, types.TagSpecification{ResourceType: kind, Tags: tag})
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	i := out.Instances[0]
	id := aws.ToString(i.InstanceId)
	if i.State.Name != "pending" || !strings.HasPrefix(aws.ToString(i.PrivateIpAddress), "10.77.1.") {
		t.Errorf("launched as %s at %s", i.State.Name, aws.ToString(i.PrivateIpAddress))
	}
	awaitState(t, id, "running")
	byToken, err := c.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("client-token"), Values: []string{"states"}}},
	})
	if err != nil || len(byToken.Reservations) != 1 {
		t.Errorf("by client token: %v", err)
	}
	got := instance(t, id)
	nics, err := c.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{
		NetworkInterfaceIds: []string{aws.ToString(got.NetworkInterfaces[0].NetworkInterfaceId)},
	})
	if err != nil || len(nics.NetworkInterfaces[0].TagSet) != 1 {
		t.Errorf("the interface is not tagged (%v)", err)
	}
	root := got.BlockDeviceMappings[0]
	if aws.ToString(root.DeviceName) != "/dev/xvda" || root.Ebs.Status != "attached" {
		t.Errorf("root volume %s is %s", aws.ToString(root.DeviceName), root.Ebs.Status)
	}
	for _, step := range []struct {
		call func() error
		want types.InstanceStateName
	}{
		{func() error {
			_, err := c.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
			return err
		}, "stopped"},
		{func() error {
			time.Sleep(time.Until(aws.ToTime(got.LaunchTime).Add(time.Second))) // the answers have no more than seconds
			_, err := c.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
			return err
		}, "running"},
		{func() error {
			_, err := c.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			return err
		}, "terminated"},
	} {
		goOn := hold(t)
		if err := step.call(); err != nil {
			t.Fatal(err)
		}
		if step.want == "stopped" {
			_, err := c.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
			wantCode(t, err, "IncorrectInstanceState")
		}
		goOn()
		awaitState(t, id, step.want)
		if last := aws.ToTime(instance(t, id).LaunchTime); step.want == "running" && !last.After(aws.ToTime(got.LaunchTime)) {
			t.Errorf("the instance that was launched at %s and started again says %s", got.LaunchTime, last)
		}
	}
	if dead := instance(t, id); dead.PrivateIpAddress != nil || len(dead.NetworkInterfaces) != 0 {
		t.Error("a terminated instance still has an address")
	}
	if _, err := c.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{
		VolumeIds: []string{aws.ToString(root.Ebs.VolumeId)},
	}); err == nil {
		t.Error("the root volume outlived its instance")
	}
}

func TestClientTokens(t *testing.T) {
	c := client()
	first, err := c.RunInstances(t.Context(), launch("token-1"))
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(first.Instances[0].InstanceId)
	second, err := c.RunInstances(t.Context(), launch("token-1"))
	if err != nil || aws.ToString(second.Instances[0].InstanceId) != id {
		t.Errorf("the same token made another instance (%v)", err)
	}
	_, err = c.RunInstances(t.Context(), launch("token-1", func(in *ec2.RunInstancesInput) { in.InstanceType = "m6i.xlarge" }))
	wantCode(t, err, "IdempotentParameterMismatch")
	_, err = c.RunInstances(t.Context(), launch(strings.Repeat("x", 65)))
	wantCode(t, err, "InvalidParameterValue")

	if _, err := c.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, id, "terminated")
	dead, err := c.RunInstances(t.Context(), launch("token-1"))
	if err != nil || dead.Instances[0].State.Name != "terminated" {
		t.Errorf("the token of a terminated instance: %v %v", dead, err)
	}

	create := func(size int32) (*ec2.CreateVolumeOutput, error) {
		return c.CreateVolume(t.Context(), &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(size), ClientToken: aws.String("token-1"),
		})
	}
	v1, err := create(5)
	if err != nil {
		t.Fatal(err)
	}
	if v1.State != "creating" {
		t.Errorf("a new volume is %s", v1.State)
	}
	v2, err := create(5)
	if err != nil || aws.ToString(v1.VolumeId) != aws.ToString(v2.VolumeId) {
		t.Errorf("the same token made another volume (%v)", err)
	}
	_, err = create(6)
	wantCode(t, err, "IdempotentParameterMismatch")
}

func TestLaunchIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*ec2.RunInstancesInput)
		want   string
	}{
		"dry run":         {func(in *ec2.RunInstancesInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
		"unknown type":    {func(in *ec2.RunInstancesInput) { in.InstanceType = "m6i.tiny" }, "InvalidParameterValue"},
		"other processor": {func(in *ec2.RunInstancesInput) { in.InstanceType = "m7g.large" }, "InvalidParameterValue"},
		"unknown image":   {func(in *ec2.RunInstancesInput) { in.ImageId = aws.String("ami-0deadbeefdeadbeef") }, "InvalidAMIID.NotFound"},
		"malformed image": {func(in *ec2.RunInstancesInput) { in.ImageId = aws.String("debian") }, "InvalidAMIID.Malformed"},
		"unknown subnet":  {func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String("subnet-0deadbeef") }, "InvalidSubnetID.NotFound"},
		"unknown group":   {func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"sg-0deadbeef"} }, "InvalidGroup.NotFound"},
		"unknown key":     {func(in *ec2.RunInstancesInput) { in.KeyName = aws.String("nobody") }, "InvalidKeyPair.NotFound"},
		"unknown profile": {func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String("nobody")}
		}, "InvalidParameterValue"},
		"large user data": {func(in *ec2.RunInstancesInput) {
			in.UserData = aws.String(base64.StdEncoding.EncodeToString(make([]byte, 16385)))
		}, "InvalidParameterValue"},
		"exactly 16 KiB": {func(in *ec2.RunInstancesInput) {
			in.UserData = aws.String(base64.StdEncoding.EncodeToString(make([]byte, 16384)))
		}, ""},
		"not even base 64": {func(in *ec2.RunInstancesInput) { in.UserData = aws.String("#!/bin/sh") }, "InvalidParameterValue"},
		// The account's default shows tags in the metadata service, whose paths they become.
		"tag with a slash":      {tagged("shop/orders", ""), "InvalidParameterValue"},
		"tag with a blank":      {tagged("cost centre", types.InstanceMetadataTagsStateEnabled), "InvalidParameterValue"},
		"reserved tag":          {tagged("_index", ""), "InvalidParameterValue"},
		"tag that is a path":    {tagged("cost-centre", ""), ""},
		"slash, tags not shown": {tagged("shop/orders", types.InstanceMetadataTagsStateDisabled), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client().RunInstances(t.Context(), launch("", row.change))
			wantCode(t, err, row.want)
			if row.change != nil && row.want != "" {
				// A dry run finds the same fault.
				_, err = client().RunInstances(t.Context(), launch("", row.change, func(in *ec2.RunInstancesInput) { in.DryRun = aws.Bool(true) }))
				wantCode(t, err, row.want)
			}
		})
	}
}

func tagged(key string, shown types.InstanceMetadataTagsState) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: aws.String(key), Value: aws.String("x")}}}}
		in.MetadataOptions = &types.InstanceMetadataOptionsRequest{InstanceMetadataTags: shown}
	}
}

func TestTagKeyIsRefusedInTheWordsOfEC2(t *testing.T) {
	_, err := client().RunInstances(t.Context(), launch("", tagged("shop/orders", "")))
	const want = `'shop/orders' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\-_+=,.@:]{1,255}), ` +
		`and must not be a reserved name ('.', '..', '_index')`
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorMessage() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestTerminationProtection(t *testing.T) {
	c := client()
	id := mustLaunch(t, func(in *ec2.RunInstancesInput) { in.DisableApiTermination = aws.Bool(true) })
	terminate := func() error {
		_, err := c.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
		return err
	}
	wantCode(t, terminate(), "OperationNotPermitted")
	_, err := c.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{
		InstanceId: aws.String(id), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)},
	})
	wantCode(t, err, "")
	wantCode(t, terminate(), "")
	awaitState(t, id, "terminated")
	wantCode(t, terminate(), "")
}

func TestTypeChangesOnlyWhenStopped(t *testing.T) {
	c := client()
	id := mustLaunch(t)
	awaitState(t, id, "running")
	resize := func(to string) error {
		_, err := c.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{
			InstanceId: aws.String(id), InstanceType: &types.AttributeValue{Value: aws.String(to)},
		})
		return err
	}
	wantCode(t, resize("m6i.xlarge"), "IncorrectInstanceState")
	if _, err := c.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}, Force: aws.Bool(true), SkipOsShutdown: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, id, "stopped")
	wantCode(t, resize("m6i.tiny"), "InvalidParameterValue")
	wantCode(t, resize("m6i.xlarge"), "")
	if got := instance(t, id).InstanceType; got != "m6i.xlarge" {
		t.Errorf("type is %s", got)
	}
}

func TestPublicParameters(t *testing.T) {
	s := ssm.NewFromConfig(server.Config())
	for _, name := range []string{
		seeded.SSMParameter,
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64",
		"/aws/service/debian/release/13/latest/amd64",
		"/aws/service/debian/release/12/latest/arm64",
	} {
		out, err := s.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(name)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		images, err := client().DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{aws.ToString(out.Parameter.Value)}})
		if err != nil || len(images.Images) != 1 {
			t.Errorf("%s names an image that is not there: %v", name, err)
		}
	}
	_, err := s.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/aws/service/nothing")})
	wantCode(t, err, "ParameterNotFound")
}

func TestSeedTwice(t *testing.T) {
	again, err := server.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.VPC != seeded.VPC || again.Image != seeded.Image || len(again.SubnetIDs()) != 3 ||
		again.SubnetIDs()[2] != seeded.SubnetIDs()[2] {
		t.Errorf("got %+v, want %+v", again, seeded)
	}
}

func TestStatusChecks(t *testing.T) {
	id := mustLaunch(t)
	awaitState(t, id, "running")
	if err := server.SetStatus(t.Context(), moto.Status{
		ID: id, System: "impaired", Events: []moto.Event{{Code: "instance-retirement", Description: "hardware"}},
	}); err != nil {
		t.Fatal(err)
	}
	out, err := client().DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	st := out.InstanceStatuses[0]
	if st.SystemStatus.Status != "impaired" || st.InstanceStatus.Status != "ok" || len(st.Events) != 1 || st.Events[0].Code != "instance-retirement" {
		t.Errorf("got %s, %s, %v", st.SystemStatus.Status, st.InstanceStatus.Status, st.Events)
	}
	if err := server.SetStatus(t.Context(), moto.Status{ID: "i-0deadbeef"}); err == nil {
		t.Error("the status of an unknown instance was set")
	}
}

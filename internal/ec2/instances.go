package ec2

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

const (
	// MaxUserData is EC2's limit on user data in bytes, before base64.
	MaxUserData = 16384

	// RootGiB is the least size of a root volume in GiB: room for the system, for MySQL's tarball beside what it unpacks to,
	// and for logs. An image whose own root is larger keeps it.
	RootGiB = 20

	// metadataHops is how far an answer of the metadata service travels: to the instance itself, not into a container.
	metadataHops = 1
)

// LaunchSpec describes the instance of one incarnation of one member.
type LaunchSpec struct {
	Owner            awsapi.Ownership
	Member           string
	Incarnation      int
	TemplateHash     string
	ImageID          string
	InstanceType     string
	SubnetID         string
	SecurityGroupIDs []string
	// IAMInstanceProfile is a name or an ARN; empty for none.
	IAMInstanceProfile string
	// KeyName is an EC2 key pair for SSH; empty for none.
	KeyName string
	// UserData is what the instance runs at its first boot, at most MaxUserData bytes before encoding.
	UserData      []byte
	RootEncrypted bool
	// KMSKeyID encrypts the root volume; empty for the account's default EBS key.
	KMSKeyID string
}

// alike is the same for launches that EC2 and the IAM policy judge alike: all of the spec but what names the cluster and the member. A
// policy may tell namespaces apart, and an organisation may bind tags.
func (s LaunchSpec) alike() string {
	s.Owner = awsapi.Ownership{Namespace: s.Owner.Namespace, UserTags: s.Owner.UserTags}
	s.Member, s.Incarnation, s.TemplateHash, s.UserData = "", 0, "", nil
	text, _ := json.Marshal(s)
	return string(text)
}

// callRate and callBurst are EC2's bucket of RunInstances, and that of StartInstances: calls a second, and how many at once. Dry runs
// count. What would be throttled is not asked.
const callRate, callBurst = 2, 5

// fullPause is for how long nobody asks for an instance of a type in a subnet after EC2 had no room for one: a zone without capacity, for which
// the members of many clusters ask, must not use up the calls of the account.
const fullPause = 10 * time.Second

// LaunchInstance makes the instance of one incarnation of one member, or returns the one that was made before: it looks
// up by tags first, and its client token makes EC2 itself refuse to make a second one. The instance returned may be in
// any state; shutting-down or terminated says that this incarnation is used up.
//
// Errors: class Invalid for user data above MaxUserData, before any call; Waiting when the zone has no capacity, or when
// EC2 knows the token but does not show its instance yet; Quota with the quota's name; Unreachable when the answer was
// lost, in which case calling again finds the instance if it was made.
func (c *Cloud) LaunchInstance(ctx context.Context, spec LaunchSpec) (inventory.Instance, error) {
	what := fmt.Sprintf("launch instance %s (incarnation %d)", spec.Member, spec.Incarnation)
	if len(spec.UserData) > MaxUserData {
		return inventory.Instance{}, fmt.Errorf("%s: %d bytes of user data, at most %d: %w", what, len(spec.UserData), MaxUserData, awsapi.ErrUserDataTooLarge)
	}
	byTags := awsapi.MemberFilters(spec.Owner.ClusterUID, spec.Member, spec.Incarnation)
	if known, ok := c.knownInstance(spec); ok {
		return known, nil
	}
	place := spec.SubnetID + " " + spec.InstanceType
	if refused, known := c.full.get(place, c.clock.Now()); known {
		return inventory.Instance{}, awsapi.Wrap(what, refused)
	}
	if !c.launches.TryAccept() {
		return inventory.Instance{}, awsapi.Wrap(what, awsapi.NewWaiting("waiting for its turn: one account can launch %d instances a second", callRate))
	}
	if found, ok, err := c.findInstance(ctx, byTags...); err != nil || ok {
		return found, awsapi.Wrap(what, err)
	}
	input, err := c.runInput(ctx, spec)
	if err != nil {
		return inventory.Instance{}, awsapi.Wrap(what, err)
	}
	answer, err := c.api.RunInstances(ctx, input, once)
	switch {
	case awsapi.Code(err) == awsapi.CodeTokenMismatch:
		found, err := c.instanceOfToken(ctx, aws.ToString(input.ClientToken), byTags, err)
		return found, awsapi.Wrap(what, err)
	case err != nil:
		err = explainLaunch(c.Inventory.UnlessGone(ctx, err, spec.SecurityGroupIDs...), spec, c.Inventory.Region())
		if awsapi.IsCapacity(err) {
			c.full.set(place, err, c.clock.Now())
		}
		return inventory.Instance{}, awsapi.Wrap(what, err)
	case len(answer.Instances) != 1:
		return inventory.Instance{}, fmt.Errorf("%s: EC2 answered with %d instances", what, len(answer.Instances))
	}
	launched := inventory.ToInstance(answer.Instances[0])
	c.Inventory.Instances.Created(launched.ID, launched)
	return launched, nil
}

// knownInstance looks into the store, which also knows what EC2's lists do not show yet.
func (c *Cloud) knownInstance(spec LaunchSpec) (inventory.Instance, bool) {
	for _, i := range c.Inventory.Known(spec.Owner.ClusterUID).Instances {
		if i.Member == spec.Member && i.Incarnation == spec.Incarnation {
			return i, true
		}
	}
	return inventory.Instance{}, false
}

// findInstance looks an instance up and takes it over into the store.
func (c *Cloud) findInstance(ctx context.Context, filters ...types.Filter) (inventory.Instance, bool, error) {
	found, err := c.Inventory.Instances.List(ctx, filters...)
	if err != nil {
		return inventory.Instance{}, false, err
	}
	best, ok := inventory.Instance{}, false
	for _, i := range found {
		// Only a hand-made copy of our tags can bring a second one; the oldest is the one that our token made.
		if !ok || i.LaunchTime.Before(best.LaunchTime) {
			best, ok = i, true
		}
	}
	if ok {
		c.Inventory.Instances.Found(best.ID, best)
	}
	return best, ok, nil
}

// instanceOfToken finds the instance that a client token made. mismatch is EC2's word that it made one; it stays the cause
// while none is shown, so that the caller can tell how long it has been.
func (c *Cloud) instanceOfToken(ctx context.Context, token string, byTags []types.Filter, mismatch error) (inventory.Instance, error) {
	for _, filters := range [][]types.Filter{{awsapi.Filter("client-token", token)}, byTags} {
		if found, ok, err := c.findInstance(ctx, filters...); err != nil || ok {
			return found, err
		}
	}
	return inventory.Instance{}, notShown("launched this instance", mismatch)
}

// notShown is the error of a client token that EC2 knows, while it does not show what the token made.
func notShown(what string, mismatch error) error {
	if awsapi.TokenSpent(mismatch) {
		return &awsapi.Error{Class: awsapi.Waiting, Code: awsapi.CodeTokenEnded, Err: mismatch,
			Text: "EC2 has " + what + " before and deleted it; the next one is asked for under another client token"}
	}
	return &awsapi.Error{Class: awsapi.Waiting, Text: "EC2 has " + what + " before but does not show it yet", Err: mismatch}
}

// runInput is the same, byte for byte, for the same spec and image: EC2 compares a repeated token's parameters.
func (c *Cloud) runInput(ctx context.Context, spec LaunchSpec) (*ec2.RunInstancesInput, error) {
	image, err := c.images.image(ctx, spec.ImageID)
	if err != nil {
		return nil, err
	}
	tags := awsapi.WithTag(spec.Owner.TagsOf(spec.Member, spec.Incarnation), v1alpha1.TagTemplateHash, spec.TemplateHash)
	tags[v1alpha1.TagImage] = spec.ImageID
	if image.RootDevice == "" {
		return nil, &awsapi.Error{Class: awsapi.Invalid, Text: fmt.Sprintf("image %s names no root device: choose another spec.aws.imageID", spec.ImageID)}
	}
	return &ec2.RunInstancesInput{
		ClientToken:  aws.String(awsapi.ClientToken(awsapi.TokenInstance, spec.Owner, spec.Member, spec.Incarnation)),
		MinCount:     aws.Int32(1),
		MaxCount:     aws.Int32(1),
		ImageId:      aws.String(spec.ImageID),
		InstanceType: types.InstanceType(spec.InstanceType),
		KeyName:      optional(spec.KeyName),
		UserData:     optional(base64.StdEncoding.EncodeToString(spec.UserData)),

		IamInstanceProfile: profile(spec.IAMInstanceProfile),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex:              aws.Int32(0),
			SubnetId:                 aws.String(spec.SubnetID),
			Groups:                   spec.SecurityGroupIDs,
			AssociatePublicIpAddress: aws.Bool(false),
			DeleteOnTermination:      aws.Bool(true),
		}},
		BlockDeviceMappings: instanceVolumes(image, spec),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpEndpoint:            types.InstanceMetadataEndpointStateEnabled,
			HttpTokens:              types.HttpTokensStateRequired,
			HttpPutResponseHopLimit: aws.Int32(metadataHops),
			// Where the account's default is to show tags there, EC2 refuses a launch with a tag like ours, which holds a slash.
			InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled,
		},
		// Against a person's slip; TerminateInstance clears it. Stopping stays allowed: the fence needs it.
		DisableApiTermination: aws.Bool(true),
		// A poweroff from inside must not end the instance.
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorStop,
		TagSpecifications: []types.TagSpecification{
			awsapi.TagSpec(types.ResourceTypeInstance, tags),
			awsapi.TagSpec(types.ResourceTypeVolume, awsapi.WithTag(tags, awsapi.TagPurpose, awsapi.PurposeRoot)),
			awsapi.TagSpec(types.ResourceTypeNetworkInterface, tags),
		},
	}, nil
}

// instanceVolumes are the volumes that an instance is made with, and that go with it: the root, and what the image brings besides.
// EC2 keeps those when the instance ends, if the image does not say otherwise.
func instanceVolumes(image Image, spec LaunchSpec) []types.BlockDeviceMapping {
	volume := func(device string, ebs types.EbsBlockDevice) types.BlockDeviceMapping {
		ebs.DeleteOnTermination = aws.Bool(true)
		if spec.RootEncrypted {
			ebs.Encrypted, ebs.KmsKeyId = aws.Bool(true), optional(spec.KMSKeyID)
		}
		return types.BlockDeviceMapping{DeviceName: aws.String(device), Ebs: &ebs}
	}
	out := []types.BlockDeviceMapping{volume(image.RootDevice,
		types.EbsBlockDevice{VolumeType: types.VolumeTypeGp3, VolumeSize: aws.Int32(max(RootGiB, image.RootGiB))})}
	for _, other := range image.Others {
		var size *int32
		if other.SizeGiB > 0 {
			size = aws.Int32(other.SizeGiB)
		}
		out = append(out, volume(other.Device, types.EbsBlockDevice{VolumeSize: size}))
	}
	return out
}

func profile(nameOrARN string) *types.IamInstanceProfileSpecification {
	switch {
	case nameOrARN == "":
		return nil
	case strings.HasPrefix(nameOrARN, "arn:"):
		return &types.IamInstanceProfileSpecification{Arn: aws.String(nameOrARN)}
	}
	return &types.IamInstanceProfileSpecification{Name: aws.String(nameOrARN)}
}

// optional is nil for an empty string or 0: EC2 takes an empty parameter for a wrong one.
func optional[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// StartInstance starts a stopped instance. It is no error when it runs already. An error of class Waiting says that others of the account
// are started first, or that the zone has no capacity.
func (c *Cloud) StartInstance(ctx context.Context, clusterUID, id string) error {
	what := "start instance " + id
	if _, err := c.Inventory.Instances.Owned(ctx, clusterUID, id); err != nil {
		return awsapi.Wrap(what, err)
	}
	if !c.starts.TryAccept() {
		return awsapi.Wrap(what, awsapi.NewWaiting("waiting for its turn: one account can start %d instances a second", callRate))
	}
	answer, err := c.api.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}}, once)
	if err != nil {
		return awsapi.Wrap(what, c.Inventory.UnlessGone(ctx, err, id))
	}
	c.Inventory.InstanceStates(answer.StartingInstances)
	return nil
}

// StopInstance stops an instance. It may be called again while the instance is stopping, also in another way. An instance that is
// stopped, on its way to be, or gone is a success. One that is pending cannot be stopped: an error of class Waiting.
func (c *Cloud) StopInstance(ctx context.Context, clusterUID, id string, how Stop) error {
	what := "stop instance " + id
	switch _, err := c.Inventory.Instances.Owned(ctx, clusterUID, id); {
	case awsapi.IsNotFound(err):
		return nil
	case err != nil:
		return awsapi.Wrap(what, err)
	}
	answer, err := c.rehearsal.fence.stop(ctx, c.api, id, how, nil)
	if err == nil {
		c.Inventory.InstanceStates(answer.StoppingInstances)
		return nil
	}
	err = c.Inventory.UnlessGone(ctx, err, id)
	if awsapi.Code(err) == codeIncorrectInstanceState || awsapi.IsNotFound(err) {
		return awsapi.Wrap(what, c.unlessStopped(ctx, id, err))
	}
	return awsapi.Wrap(what, err)
}

// codeIncorrectInstanceState: the call does not fit the state that the instance is in, whatever the store says of it.
const codeIncorrectInstanceState = "IncorrectInstanceState"

// unlessStopped is the refusal of a stop, or nil when a look at the instance shows that nothing is left to stop. The
// refusal alone is no proof of that.
func (c *Cloud) unlessStopped(ctx context.Context, id string, refusal error) error {
	if err := c.Inventory.LookAgain(ctx, inventory.IDs{Instances: []string{id}}); err != nil {
		return err
	}
	i, _ := c.Inventory.Instances.Get(id)
	switch i.State {
	case "", inventory.StateStopping, inventory.StateStopped, inventory.StateShuttingDown, inventory.StateTerminated:
		return nil
	case inventory.StatePending:
		return &awsapi.Error{Class: awsapi.Waiting, Err: refusal, Text: "it is pending; it can be stopped as soon as it runs"}
	}
	return refusal
}

// TerminateInstance clears the termination protection and terminates. An instance that does not exist any more is a
// success; one that EC2 created moments ago and does not find yet is an error of class Waiting.
func (c *Cloud) TerminateInstance(ctx context.Context, clusterUID, id string) error {
	what := "terminate instance " + id
	i, err := c.Inventory.Instances.Owned(ctx, clusterUID, id)
	switch {
	case awsapi.IsNotFound(err):
		return nil
	case err != nil:
		return awsapi.Wrap(what, err)
	case i.State == inventory.StateTerminated || i.State == inventory.StateShuttingDown:
		return nil
	}
	_, err = c.api.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: aws.String(id), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
	if err != nil {
		return c.dropInstance(ctx, what, id, err)
	}
	answer, err := c.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return c.dropInstance(ctx, what, id, err)
	}
	c.Inventory.InstanceStates(answer.TerminatingInstances)
	return nil
}

// dropInstance turns NotFound on the way to termination into success.
func (c *Cloud) dropInstance(ctx context.Context, what, id string, err error) error {
	err = c.Inventory.UnlessGone(ctx, err, id)
	if awsapi.IsNotFound(err) {
		c.Inventory.Instances.Deleted(id)
		return nil
	}
	return awsapi.Wrap(what, err)
}

// ConsoleOutput is the newest part (up to 64 KiB) of what an instance wrote to its console; empty when EC2 has none yet.
func (c *Cloud) ConsoleOutput(ctx context.Context, instanceID string) (string, error) {
	what := "read the console of instance " + instanceID
	answer, err := c.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: aws.String(instanceID), Latest: aws.Bool(true)})
	if awsapi.Code(err) == "UnsupportedOperation" {
		// Types older than Nitro keep only the console of the last boot.
		answer, err = c.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: aws.String(instanceID)})
	}
	if err != nil {
		return "", awsapi.Wrap(what, c.Inventory.UnlessGone(ctx, err, instanceID))
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(answer.Output))
	return string(text), awsapi.Wrap(what, err)
}

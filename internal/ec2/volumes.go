package ec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// Codes that tell where an attachment stands.
const (
	codeIncorrectState = "IncorrectState"
	codeNoAttachment   = "InvalidAttachment.NotFound"
)

// CreateVolume makes the data volume of one incarnation of one member, or returns the one that was made before, by the
// same means and with the same classes of errors as LaunchInstance.
func (c *Cloud) CreateVolume(ctx context.Context, spec VolumeSpec) (inventory.Volume, error) {
	what := fmt.Sprintf("create volume of %s (incarnation %d)", spec.Member, spec.Incarnation)
	if known, ok := c.knownVolume(spec); ok {
		return known, nil
	}
	filters := awsapi.MemberFilters(spec.Owner.ClusterUID, spec.Member, spec.Incarnation)
	if found, ok, err := c.findVolume(ctx, filters...); err != nil || ok {
		return found, awsapi.Wrap(what, err)
	}
	answer, err := c.api.CreateVolume(ctx, volumeInput(spec))
	if mismatch := err; awsapi.Code(mismatch) == awsapi.CodeTokenMismatch {
		found, ok, err := c.findVolume(ctx, filters...)
		if err == nil && !ok {
			err = notShown("created this volume", mismatch)
		}
		return found, awsapi.Wrap(what, err)
	}
	if err != nil {
		return inventory.Volume{}, awsapi.Wrap(what, err)
	}
	v := inventory.ToVolume(types.Volume{
		VolumeId: answer.VolumeId, State: answer.State, AvailabilityZone: answer.AvailabilityZone, VolumeType: answer.VolumeType,
		Size: answer.Size, Iops: answer.Iops, Throughput: answer.Throughput, Encrypted: answer.Encrypted,
		CreateTime: answer.CreateTime, Tags: answer.Tags, Attachments: answer.Attachments,
	})
	c.Inventory.Volumes.Created(v.ID, v)
	return v, nil
}

func volumeInput(spec VolumeSpec) *ec2.CreateVolumeInput {
	tags := spec.Owner.TagsOf(spec.Member, spec.Incarnation)
	if spec.MySQLVersion != "" {
		tags[v1alpha1.TagMySQLVersion] = spec.MySQLVersion
	}
	if spec.SnapshotID != "" {
		tags[v1alpha1.TagRecovery] = v1alpha1.RecoveryPending
	}
	return &ec2.CreateVolumeInput{
		ClientToken:       aws.String(awsapi.ClientToken(awsapi.TokenVolume, spec.Owner, spec.Member, spec.Incarnation)),
		AvailabilityZone:  aws.String(spec.Zone),
		Size:              aws.Int32(spec.SizeGiB),
		VolumeType:        types.VolumeType(spec.Type),
		Iops:              optional(spec.IOPS),
		Throughput:        optional(spec.Throughput),
		Encrypted:         aws.Bool(spec.Encrypted),
		KmsKeyId:          optional(spec.KMSKeyID),
		SnapshotId:        optional(spec.SnapshotID),
		TagSpecifications: []types.TagSpecification{awsapi.TagSpec(types.ResourceTypeVolume, tags)},
	}
}

// knownVolume looks into the store, which also knows what EC2's lists do not show yet.
func (c *Cloud) knownVolume(spec VolumeSpec) (inventory.Volume, bool) {
	for _, v := range c.Inventory.Known(spec.Owner.ClusterUID).Volumes {
		if v.Member == spec.Member && v.Incarnation == spec.Incarnation && !v.Retired {
			return v, true
		}
	}
	return inventory.Volume{}, false
}

func (c *Cloud) findVolume(ctx context.Context, filters ...types.Filter) (inventory.Volume, bool, error) {
	found, err := c.Inventory.Volumes.List(ctx, filters...)
	if err != nil {
		return inventory.Volume{}, false, err
	}
	best, ok := inventory.Volume{}, false
	for _, v := range found {
		// Only a hand-made copy of our tags can bring a second one; the oldest is the one that our token made.
		// One that was given up may have the same incarnation, when they were counted anew since.
		if !v.Retired && (!ok || v.CreateTime.Before(best.CreateTime)) {
			best, ok = v, true
		}
	}
	if ok {
		c.Inventory.Volumes.Found(best.ID, best)
	}
	return best, ok, nil
}

// AttachVolume attaches a volume to an instance as device. It is no error when it is attached there already; a volume
// that is still attached elsewhere, or an instance in the wrong state, is an error of class Waiting.
func (c *Cloud) AttachVolume(ctx context.Context, clusterUID, volumeID, instanceID, device string) error {
	what := fmt.Sprintf("attach volume %s to instance %s", volumeID, instanceID)
	v, err := c.Inventory.Volumes.Owned(ctx, clusterUID, volumeID)
	if err != nil {
		return awsapi.Wrap(what, err)
	}
	if _, err := c.Inventory.Instances.Owned(ctx, clusterUID, instanceID); err != nil {
		return awsapi.Wrap(what, err)
	}
	if v.AttachedTo == instanceID && v.AttachState != inventory.AttachDetaching {
		return nil
	}
	answer, err := c.api.AttachVolume(ctx, &ec2.AttachVolumeInput{
		VolumeId: aws.String(volumeID), InstanceId: aws.String(instanceID), Device: aws.String(device)})
	if err == nil {
		c.Inventory.VolumeAttached(volumeID, instanceID, device, answer.State)
		return nil
	}
	err = c.Inventory.UnlessGone(ctx, err, volumeID, instanceID)
	if awsapi.Classify(err) != awsapi.Waiting && awsapi.Classify(err) != awsapi.Invalid {
		return awsapi.Wrap(what, err)
	}
	// The first try's answer may have been lost: AttachVolume has no client token, and what it says of a volume that it
	// attached before depends on how far that got.
	now, lookErr := c.Inventory.Volumes.ByID(ctx, volumeID)
	if lookErr != nil {
		return awsapi.Wrap(what, lookErr)
	}
	if v, ok := now[volumeID]; ok {
		c.Inventory.Volumes.Found(v.ID, v)
		if v.AttachedTo == instanceID && v.AttachState != inventory.AttachDetaching {
			return nil
		}
		if v.AttachedTo != "" {
			return awsapi.Wrap(what, awsapi.NewWaiting("it is still %s to instance %s", v.AttachState, v.AttachedTo))
		}
	}
	return awsapi.Wrap(what, err)
}

// DetachVolume detaches a volume from an instance, never by force: a forced detachment can lose what the guest's cache
// holds. It is no error when it is not attached there. From a running instance EC2 detaches only once the guest lets go;
// stop it first.
func (c *Cloud) DetachVolume(ctx context.Context, clusterUID, volumeID, instanceID string) error {
	what := fmt.Sprintf("detach volume %s from instance %s", volumeID, instanceID)
	v, err := c.Inventory.Volumes.Owned(ctx, clusterUID, volumeID)
	switch {
	case awsapi.IsNotFound(err):
		return nil
	case err != nil:
		return awsapi.Wrap(what, err)
	case v.AttachedTo == instanceID && v.AttachState == inventory.AttachDetaching:
		return nil
	}
	answer, err := c.api.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: aws.String(volumeID), InstanceId: aws.String(instanceID)})
	if err == nil {
		c.Inventory.VolumeDetached(volumeID, instanceID, answer.State)
		return nil
	}
	err = c.Inventory.UnlessGone(ctx, err, volumeID)
	if code := awsapi.Code(err); code != codeIncorrectState && code != codeNoAttachment && !awsapi.IsNotFound(err) {
		return awsapi.Wrap(what, err)
	}
	now, lookErr := c.Inventory.Volumes.ByID(ctx, volumeID)
	if lookErr != nil {
		return awsapi.Wrap(what, lookErr)
	}
	found, ok := now[volumeID]
	if ok {
		c.Inventory.Volumes.Found(volumeID, found)
	}
	if !ok || found.AttachedTo != instanceID || found.AttachState == inventory.AttachDetaching {
		return nil
	}
	return awsapi.Wrap(what, err)
}

// ModifyVolume gives a volume a configuration, while it is in use. The size never shrinks. It is no error when the volume has it; modified
// says whether EC2 took a modification, which counts against the four.
//
// Errors of class Waiting: EC2 is still busy with an earlier modification (IncorrectModificationState), or there were four
// within 24 hours (VolumeModificationRateExceeded).
func (c *Cloud) ModifyVolume(ctx context.Context, clusterUID, id string, wanted VolumeConfiguration) (modified bool, err error) {
	what := "modify volume " + id
	v, err := c.Inventory.Volumes.Owned(ctx, clusterUID, id)
	if err != nil {
		return false, awsapi.Wrap(what, err)
	}
	input := modification(v, wanted)
	if input == nil {
		return false, nil
	}
	answer, err := c.api.ModifyVolume(ctx, input)
	if err != nil {
		return false, awsapi.Wrap(what, c.Inventory.UnlessGone(ctx, err, id))
	}
	// The lists show the new values a moment later.
	c.Inventory.Volumes.Changed(id, func(v *inventory.Volume) {
		if m := answer.VolumeModification; m != nil {
			v.SizeGiB, v.Type = max(v.SizeGiB, aws.ToInt32(m.TargetSize)), string(m.TargetVolumeType)
			v.IOPS, v.Throughput = aws.ToInt32(m.TargetIops), aws.ToInt32(m.TargetThroughput)
		}
	})
	return true, nil
}

// modification is what has to be asked for to give a volume a configuration; nil for nothing. With another type comes all that is wanted of its
// performance, also what does not differ: EC2 gives the new type its defaults for what the call leaves out.
func modification(v inventory.Volume, wanted VolumeConfiguration) *ec2.ModifyVolumeInput {
	input := &ec2.ModifyVolumeInput{VolumeId: aws.String(v.ID)}
	grows, converted := wanted.SizeGiB > v.SizeGiB, wanted.Type != "" && wanted.Type != v.Type
	if grows {
		input.Size = aws.Int32(wanted.SizeGiB)
	}
	if converted {
		input.VolumeType = types.VolumeType(wanted.Type)
	}
	if converted || wanted.IOPS != v.IOPS {
		input.Iops = optional(wanted.IOPS)
	}
	if converted || wanted.Throughput != v.Throughput {
		input.Throughput = optional(wanted.Throughput)
	}
	if !grows && !converted && input.Iops == nil && input.Throughput == nil {
		return nil
	}
	return input
}

// DeleteVolume deletes a volume for good. One that does not exist any more is a success; one still attached is an error
// of class Waiting.
func (c *Cloud) DeleteVolume(ctx context.Context, clusterUID, id string) error {
	what := "delete volume " + id
	v, err := c.Inventory.Volumes.Owned(ctx, clusterUID, id)
	switch {
	case awsapi.IsNotFound(err):
		return nil
	case err != nil:
		return awsapi.Wrap(what, err)
	case v.State == inventory.VolumeDeleting || v.State == inventory.VolumeDeleted:
		return nil
	}
	if _, err := c.api.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(id)}); err != nil {
		err = c.Inventory.UnlessGone(ctx, err, id)
		if awsapi.IsNotFound(err) {
			c.Inventory.Volumes.Deleted(id)
			return nil
		}
		return awsapi.Wrap(what, err)
	}
	c.Inventory.Volumes.Changed(id, func(v *inventory.Volume) { v.State = inventory.VolumeDeleting })
	return nil
}

// RetireVolume marks a volume as given up: kept, tagged, and never used again.
func (c *Cloud) RetireVolume(ctx context.Context, clusterUID, id string) error {
	return c.tag(ctx, clusterUID, id, map[string]string{v1alpha1.TagRetired: "true"}, "retire volume "+id)
}

// TagVersion tags a volume with the version of MySQL that opens it from now on.
func (c *Cloud) TagVersion(ctx context.Context, clusterUID, id, version string) error {
	return c.tag(ctx, clusterUID, id, map[string]string{v1alpha1.TagMySQLVersion: version}, "note the version of MySQL on volume "+id)
}

// TagRecovered tags a volume that was made from a snapshot as one that its cluster has begun with.
func (c *Cloud) TagRecovered(ctx context.Context, clusterUID, id string) error {
	return c.tag(ctx, clusterUID, id, map[string]string{v1alpha1.TagRecovery: v1alpha1.RecoveryDone}, "note that volume "+id+" is recovered")
}

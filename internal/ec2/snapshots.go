package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// CreateSnapshot snapshots a member's volume for a purpose, or returns the snapshot of that volume and purpose that was made
// before; one that failed is made anew. The snapshot is pending at first; what it holds is the volume as of now.
func (c *Cloud) CreateSnapshot(ctx context.Context, spec SnapshotSpec) (inventory.Snapshot, error) {
	if _, err := c.Inventory.Volumes.Owned(ctx, spec.Owner.ClusterUID, spec.VolumeID); err != nil {
		return inventory.Snapshot{}, awsapi.Wrap(spec.what(), err)
	}
	return c.createSnapshot(ctx, spec)
}

// CopyVolume is CreateSnapshot for a volume that is not the owner's, and that may carry no tag of the operator's at all:
// whether it may be read is the caller's to find out. It is only read.
func (c *Cloud) CopyVolume(ctx context.Context, spec SnapshotSpec) (inventory.Snapshot, error) {
	return c.createSnapshot(ctx, spec)
}

func (s SnapshotSpec) what() string {
	return fmt.Sprintf("snapshot volume %s of %s (%s)", s.VolumeID, s.Member, s.Purpose)
}

func (c *Cloud) createSnapshot(ctx context.Context, spec SnapshotSpec) (inventory.Snapshot, error) {
	what, uid := spec.what(), spec.Owner.ClusterUID
	found, ok, err := c.findSnapshot(awsapi.BeforeWrite(ctx), uid, spec.VolumeID, spec.Purpose)
	if err != nil || ok {
		return found, awsapi.Wrap(what, err)
	}
	key := uid + "|" + spec.VolumeID + "|" + spec.Purpose // see DeleteSnapshotsFor
	if c.attempts.unknown(key, c.clock.Now()) {
		return inventory.Snapshot{}, awsapi.Wrap(what, awsapi.NewWaiting("the answer to the last try was lost; looking whether it took effect"))
	}
	specifications := snapshotTags(spec)
	answer, err := c.api.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{
		VolumeId:          aws.String(spec.VolumeID),
		Description:       aws.String(fmt.Sprintf("%s/%s: %s", spec.Owner.Namespace, spec.Member, spec.Purpose)),
		TagSpecifications: specifications,
	}, once)
	if err != nil {
		if class := awsapi.Classify(err); class == awsapi.Unreachable || class == awsapi.Transient {
			c.attempts.lost(key, c.clock.Now())
		}
		return inventory.Snapshot{}, awsapi.Wrap(what, c.Inventory.UnlessGone(ctx, err, spec.VolumeID))
	}
	s := inventory.Snapshot{
		ID: aws.ToString(answer.SnapshotId), VolumeID: spec.VolumeID, Member: spec.Member, State: string(answer.State), SizeGiB: aws.ToInt32(answer.VolumeSize),
		Progress: aws.ToString(answer.Progress), StartTime: aws.ToTime(answer.StartTime), Tags: awsapi.FromTags(specifications[0].Tags),
	}
	c.Inventory.Snapshots.Created(s.ID, s)
	return s, nil
}

func snapshotTags(spec SnapshotSpec) []types.TagSpecification {
	tags := awsapi.WithTag(spec.Owner.Tags(spec.Owner.Namespace+"/"+spec.Member), v1alpha1.TagMember, spec.Member)
	tags[awsapi.TagPurpose] = spec.Purpose
	if spec.MySQLVersion != "" {
		tags[v1alpha1.TagMySQLVersion] = spec.MySQLVersion
	}
	return []types.TagSpecification{awsapi.TagSpec(types.ResourceTypeSnapshot, tags)}
}

// once keeps the SDK from repeating a call by itself: after a lost answer, and after a lack of capacity, which EC2 answers as an
// internal error and which would cost another token of a small bucket.
func once(o *ec2.Options) { o.RetryMaxAttempts = 1 }

// findSnapshot looks in the store, which knows the fresh ones, and then in EC2.
func (c *Cloud) findSnapshot(ctx context.Context, uid, volumeID, purpose string) (inventory.Snapshot, bool, error) {
	fits := func(s inventory.Snapshot) bool {
		return s.VolumeID == volumeID && s.Tags[awsapi.TagPurpose] == purpose && s.State != inventory.SnapshotError
	}
	for _, s := range c.Inventory.Known(uid).Snapshots {
		if fits(s) {
			return s, true, nil
		}
	}
	found, err := c.Inventory.Snapshots.List(ctx, awsapi.TagFilter(v1alpha1.TagClusterUID, uid), awsapi.TagFilter(awsapi.TagPurpose, purpose), awsapi.Filter("volume-id", volumeID))
	if err != nil {
		return inventory.Snapshot{}, false, err
	}
	best, ok := inventory.Snapshot{}, false
	for _, s := range found {
		if fits(s) && (!ok || s.StartTime.Before(best.StartTime)) {
			best, ok = s, true
		}
	}
	if ok {
		c.Inventory.Snapshots.Found(best.ID, best)
	}
	return best, ok, nil
}

// DeleteSnapshot deletes a snapshot that the operator took. One that does not exist any more is a success. A snapshot
// that carries the cluster's tag but no TagPurpose was taken by somebody else, whose tool copied the volume's tags (a
// backup plan, a lifecycle policy): it is ErrForeign.
func (c *Cloud) DeleteSnapshot(ctx context.Context, clusterUID, id string) error {
	what := "delete snapshot " + id
	s, err := c.Inventory.Snapshots.Owned(ctx, clusterUID, id)
	switch purpose := s.Tags[awsapi.TagPurpose]; {
	case awsapi.IsNotFound(err):
		return nil
	case err != nil:
		return awsapi.Wrap(what, err)
	case purpose == "" || purpose == awsapi.PurposeRoot:
		return awsapi.Wrap(what, fmt.Errorf("it has no tag %s, so that the operator did not take it: %w", awsapi.TagPurpose, awsapi.ErrForeign))
	}
	_, err = c.api.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(id)})
	if err = awsapi.IgnoreNotFound(c.Inventory.UnlessGone(ctx, err, id)); err != nil {
		return awsapi.Wrap(what, err)
	}
	c.Inventory.Snapshots.Deleted(id)
	return nil
}

// DeleteSnapshotsFor deletes every snapshot of a cluster that was taken for a purpose, by its tags, whichever volume it is of and
// whatever became of it. One that has lost those tags stays. That there is none is a success, unless the answer to a CreateSnapshot for it was lost in the last
// half minute: then the error is Waiting.
func (c *Cloud) DeleteSnapshotsFor(ctx context.Context, clusterUID, purpose string) error {
	what := fmt.Sprintf("delete the snapshots of cluster %q for %q", clusterUID, purpose)
	if clusterUID == "" || purpose == "" {
		return awsapi.Wrap(what, awsapi.ErrForeign)
	}
	found, err := c.Inventory.Snapshots.List(awsapi.BeforeWrite(ctx),
		awsapi.TagFilter(v1alpha1.TagClusterUID, clusterUID), awsapi.TagFilter(awsapi.TagPurpose, purpose))
	if err != nil {
		return awsapi.Wrap(what, err)
	}
	if err := c.addUnlisted(ctx, clusterUID, purpose, found); err != nil {
		return awsapi.Wrap(what, err)
	}
	for id := range found {
		err = errors.Join(err, c.DeleteSnapshot(ctx, clusterUID, id))
	}
	if err == nil && len(found) == 0 && c.attempts.unknownLike(clusterUID+"|", "|"+purpose, c.clock.Now()) {
		err = awsapi.Wrap(what, awsapi.NewWaiting("the answer to CreateSnapshot was lost; looking whether it took effect"))
	}
	return err
}

// addUnlisted adds to the snapshots of a cluster for a purpose those that the store knows and EC2's list does not show yet. EC2 is asked
// for each by its id: what it shows without the tags has lost them.
func (c *Cloud) addUnlisted(ctx context.Context, clusterUID, purpose string, found map[string]inventory.Snapshot) error {
	unlisted := map[string]inventory.Snapshot{}
	for _, s := range c.Inventory.Known(clusterUID).Snapshots {
		if _, listed := found[s.ID]; !listed && s.TakenBy(clusterUID, purpose) {
			unlisted[s.ID] = s
		}
	}
	shown, err := c.Inventory.Snapshots.ByID(awsapi.BeforeWrite(ctx), slices.Collect(maps.Keys(unlisted))...)
	if err != nil {
		return err
	}
	for id, s := range shown {
		c.Inventory.Snapshots.Found(id, s)
		if !s.TakenBy(clusterUID, purpose) {
			delete(unlisted, id)
		}
	}
	maps.Copy(found, unlisted)
	return nil
}

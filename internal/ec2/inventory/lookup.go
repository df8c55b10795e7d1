package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// VolumeByID asks EC2 for one volume, whoever's it is, and says whether it exists. A sweep shows only what carries a
// cluster's tag; before a volume with data is called gone it is asked for by its id.
func (r *Reader) VolumeByID(ctx context.Context, id string) (Volume, bool, error) {
	found, err := r.Volumes.ByID(ctx, id)
	if err != nil {
		return Volume{}, false, awsapi.Wrap("look for volume "+id, err)
	}
	v, ok := found[id]
	return v, ok, nil
}

// VolumesByID is VolumeByID for several volumes, in one call for each 200 of them. Those that EC2 does not know are absent.
func (r *Reader) VolumesByID(ctx context.Context, ids []string) (map[string]Volume, error) {
	found, err := r.Volumes.ByID(ctx, ids...)
	return found, awsapi.Wrap("look for volumes by their ids", err)
}

// InstancesByID is VolumesByID for instances.
func (r *Reader) InstancesByID(ctx context.Context, ids []string) (map[string]Instance, error) {
	found, err := r.Instances.ByID(ctx, ids...)
	return found, awsapi.Wrap("look for instances by their ids", err)
}

// rememberedIncarnations is how many incarnations of a member, back from the newest, are looked through.
const rememberedIncarnations = 100

// LaunchedFor says as which incarnation, newest or an earlier one, an instance was launched for an owner's member. Its client
// token proves that: nobody can change it, and nobody else's launch has it.
func (i Instance) LaunchedFor(o awsapi.Ownership, member string, newest int) (incarnation int, ok bool) {
	first := o
	first.CountedSince = time.Time{}
	for n := newest; n > max(0, newest-rememberedIncarnations); n-- {
		if i.Token != "" && (i.Token == awsapi.ClientToken(awsapi.TokenInstance, o, member, n) || i.Token == awsapi.ClientToken(awsapi.TokenInstance, first, member, n)) {
			return n, true
		}
	}
	return 0, false
}

// SnapshotByID asks EC2 for one snapshot of this account, whichever cluster's it is, and says whether it exists.
func (r *Reader) SnapshotByID(ctx context.Context, id string) (Snapshot, bool, error) {
	found, err := r.Snapshots.ByID(ctx, id)
	if err != nil {
		return Snapshot{}, false, awsapi.Wrap("look for snapshot "+id, err)
	}
	s, ok := found[id]
	return s, ok, nil
}

// SnapshotQuery is what a snapshot must carry, and be, to be taken for the one that is looked for.
type SnapshotQuery struct {
	Namespace, Purpose string
	// ClusterUID is the UID of the cluster that took it, and ID its id; empty where nothing is known of them.
	ClusterUID, ID string
}

// Fits says whether a snapshot is one that is looked for.
func (q SnapshotQuery) Fits(s Snapshot) bool {
	return s.Tags[v1alpha1.TagNamespace] == q.Namespace && s.Tags[awsapi.TagPurpose] == q.Purpose &&
		(q.ClusterUID == "" || s.Tags[v1alpha1.TagClusterUID] == q.ClusterUID) && (q.ID == "" || s.ID == q.ID)
}

// TakenBy says whether a cluster took the snapshot for a purpose, by the tags that only the operator gives.
func (s Snapshot) TakenBy(clusterUID, purpose string) bool {
	return s.Tags[v1alpha1.TagClusterUID] == clusterUID && s.Tags[awsapi.TagPurpose] == purpose
}

// SnapshotOf asks EC2 for the snapshot of this account that a cluster of a namespace took for a purpose, and says whether there
// is one: of several, which a lost answer could leave behind, the oldest that did not fail. Each thing that is known of it
// narrows the choice, and none widens it.
func (r *Reader) SnapshotOf(ctx context.Context, q SnapshotQuery) (Snapshot, bool, error) {
	filters := []types.Filter{awsapi.TagFilter(v1alpha1.TagNamespace, q.Namespace), awsapi.TagFilter(awsapi.TagPurpose, q.Purpose)}
	if q.ClusterUID != "" {
		filters = append(filters, awsapi.TagFilter(v1alpha1.TagClusterUID, q.ClusterUID))
	}
	found, err := r.Snapshots.List(ctx, filters...)
	if err != nil {
		return Snapshot{}, false, awsapi.Wrap("look for the snapshot for "+q.Purpose, err)
	}
	best, ok := Snapshot{}, false
	for _, s := range found {
		if !q.Fits(s) {
			continue
		}
		better := !ok || best.State == SnapshotError && s.State != SnapshotError || s.State != SnapshotError && s.StartTime.Before(best.StartTime)
		if better {
			best, ok = s, true
		}
	}
	return best, ok, nil
}

// GroupsByName asks EC2 for the security groups of a name, in any VPC and whatever their tags say, sorted by id.
func (r *Reader) GroupsByName(ctx context.Context, name string) ([]SecurityGroup, error) {
	found, err := r.Groups.List(ctx, awsapi.Filter("group-name", name))
	if err != nil {
		return nil, err
	}
	var groups []SecurityGroup
	for _, id := range slices.Sorted(maps.Keys(found)) {
		groups = append(groups, found[id].SecurityGroup)
	}
	return groups, nil
}

// Owner is the UID of the cluster to which a resource belongs, from the store, else from EC2, for a write; ErrForeign when it is no
// cluster's.
func (r *Reader) Owner(ctx context.Context, id string) (string, error) {
	if owner := r.store.owner(id); owner != "" {
		return owner, nil
	}
	if err := r.adopt(awsapi.BeforeWrite(ctx), id); err != nil {
		return "", err
	}
	if owner := r.store.owner(id); owner != "" {
		return owner, nil
	}
	return "", fmt.Errorf("%s: %w", id, awsapi.ErrForeign)
}

// adopt asks EC2 for an id, of the kind that its prefix says, and takes it into the store when it carries the tag of a cluster.
func (r *Reader) adopt(ctx context.Context, id string) error {
	switch prefix, rest, _ := strings.Cut(id, "-"); {
	case rest == "":
	case prefix == "i":
		return r.Instances.adopt(ctx, id)
	case prefix == "vol":
		return r.Volumes.adopt(ctx, id)
	case prefix == "snap":
		return r.Snapshots.adopt(ctx, id)
	case prefix == "sg":
		return r.Groups.adopt(ctx, id)
	}
	return &awsapi.Error{Class: awsapi.Invalid, Text: fmt.Sprintf("%q is not the id of an instance, volume, snapshot or security group", id)}
}

// UnlessGone is err, but for a refusal that means that EC2 does not know one of the ids. That is a Waiting error when EC2 handed the id
// out moments ago without ever listing it since, and of class NotFound when the resource is gone.
//
// A policy that asks for a resource's tag makes EC2 answer UnauthorizedOperation instead of NotFound: what EC2 does not know has no tags.
func (r *Reader) UnlessGone(ctx context.Context, err error, ids ...string) error {
	denied := awsapi.LacksPermission(awsapi.Code(err))
	if !denied && !awsapi.IsNotFound(err) {
		return err
	}
	for _, id := range ids {
		if r.store.unseen(id, r.clock.Now()) {
			return awsapi.NewWaiting("EC2 handed out %s moments ago and does not know it everywhere yet", id)
		}
	}
	for _, id := range ids {
		if denied && !r.exists(ctx, id) {
			return &awsapi.Error{Class: awsapi.NotFound, Text: id + " does not exist", Err: err}
		}
	}
	return err
}

// exists asks EC2 for an id. Where that gets no answer, it is taken to exist.
func (r *Reader) exists(ctx context.Context, id string) bool {
	switch prefix, _, _ := strings.Cut(id, "-"); prefix {
	case "i":
		return r.Instances.exists(ctx, id)
	case "vol":
		return r.Volumes.exists(ctx, id)
	case "snap":
		return r.Snapshots.exists(ctx, id)
	case "sg":
		return r.Groups.exists(ctx, id)
	}
	return true
}

package ec2

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// VolumeByID asks EC2 for one volume, whoever's it is, and says whether it exists. A sweep shows only what carries a
// cluster's tag; before a volume with data is called gone it is asked for by its id.
func (c *Cloud) VolumeByID(ctx context.Context, id string) (Volume, bool, error) {
	found, err := c.volumesByID(ctx, []string{id})
	if err != nil {
		return Volume{}, false, wrap("look for volume "+id, err)
	}
	v, ok := found[id]
	return v, ok, nil
}

// VolumesByID is VolumeByID for several volumes, in one call for each 200 of them. Those that EC2 does not know are absent.
func (c *Cloud) VolumesByID(ctx context.Context, ids []string) (map[string]Volume, error) {
	found, err := c.volumesByID(ctx, ids)
	return found, wrap("look for volumes by their ids", err)
}

// InstancesByID is VolumesByID for instances.
func (c *Cloud) InstancesByID(ctx context.Context, ids []string) (map[string]Instance, error) {
	found, err := c.instancesByID(ctx, ids)
	return found, wrap("look for instances by their ids", err)
}

// rememberedIncarnations is how many incarnations of a member, back from the newest, are looked through.
const rememberedIncarnations = 100

// LaunchedFor says as which incarnation, newest or an earlier one, an instance was launched for an owner's member. Its client
// token proves that: nobody can change it, and nobody else's launch has it.
func (i Instance) LaunchedFor(o Ownership, member string, newest int) (incarnation int, ok bool) {
	first := o
	first.CountedSince = time.Time{}
	for n := newest; n > max(0, newest-rememberedIncarnations); n-- {
		if i.Token != "" && (i.Token == clientToken(tokenInstance, o, member, n) || i.Token == clientToken(tokenInstance, first, member, n)) {
			return n, true
		}
	}
	return 0, false
}

// SnapshotByID asks EC2 for one snapshot of this account, whichever cluster's it is, and says whether it exists.
func (c *Cloud) SnapshotByID(ctx context.Context, id string) (Snapshot, bool, error) {
	found, err := c.snapshotsByID(ctx, []string{id})
	if err != nil {
		return Snapshot{}, false, wrap("look for snapshot "+id, err)
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

// SnapshotOf asks EC2 for the snapshot of this account that a cluster of a namespace took for a purpose, and says whether there
// is one: of several, which a lost answer could leave behind, the oldest that did not fail. Each thing that is known of it
// narrows the choice, and none widens it.
func (c *Cloud) SnapshotOf(ctx context.Context, q SnapshotQuery) (Snapshot, bool, error) {
	filters := []types.Filter{tagFilter(v1alpha1.TagNamespace, q.Namespace), tagFilter(TagPurpose, q.Purpose)}
	if q.ClusterUID != "" {
		filters = append(filters, tagFilter(v1alpha1.TagClusterUID, q.ClusterUID))
	}
	found, err := c.listSnapshots(ctx, filters...)
	if err != nil {
		return Snapshot{}, false, wrap("look for the snapshot for "+q.Purpose, err)
	}
	best, ok := Snapshot{}, false
	for _, s := range found {
		if q.ID != "" && s.ID != q.ID {
			continue
		}
		better := !ok || best.State == SnapshotError && s.State != SnapshotError || s.State != SnapshotError && s.StartTime.Before(best.StartTime)
		if better {
			best, ok = s, true
		}
	}
	return best, ok, nil
}

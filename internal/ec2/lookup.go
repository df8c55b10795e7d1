package ec2

import (
	"context"

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

// SnapshotByID asks EC2 for one snapshot of this account, whichever cluster's it is, and says whether it exists.
func (c *Cloud) SnapshotByID(ctx context.Context, id string) (Snapshot, bool, error) {
	found, err := c.snapshotsByID(ctx, []string{id})
	if err != nil {
		return Snapshot{}, false, wrap("look for snapshot "+id, err)
	}
	s, ok := found[id]
	return s, ok, nil
}

// SnapshotOf asks EC2 for the snapshot of this account that a cluster of a namespace took for a purpose, and says whether there
// is one: of several, which a lost answer could leave behind, the oldest that did not fail.
func (c *Cloud) SnapshotOf(ctx context.Context, namespace, purpose string) (Snapshot, bool, error) {
	found, err := c.listSnapshots(ctx, tagFilter(v1alpha1.TagNamespace, namespace), tagFilter(TagPurpose, purpose))
	if err != nil {
		return Snapshot{}, false, wrap("look for the snapshot for "+purpose, err)
	}
	best, ok := Snapshot{}, false
	for _, s := range found {
		better := !ok || best.State == SnapshotError && s.State != SnapshotError || s.State != SnapshotError && s.StartTime.Before(best.StartTime)
		if better {
			best, ok = s, true
		}
	}
	return best, ok, nil
}

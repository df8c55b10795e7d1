package ec2

import "context"

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

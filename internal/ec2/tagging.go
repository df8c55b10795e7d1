package ec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// RestoreTags puts tags back on a resource that is known to be the cluster's: by the tag that it still carries, or because
// this process saw it with the tag before somebody removed it. Anything else is ErrForeign: a tag must not be a way to take
// what belongs to someone else.
func (c *Cloud) RestoreTags(ctx context.Context, clusterUID, id string, tags map[string]string) error {
	return c.tag(ctx, clusterUID, id, tags, "restore the tags of "+id)
}

func (c *Cloud) tag(ctx context.Context, clusterUID, id string, tags map[string]string, what string) error {
	owner, err := c.ownerOf(ctx, id)
	if err != nil {
		return wrap(what, err)
	}
	if uid, ok := tags[v1alpha1.TagClusterUID]; owner != clusterUID || ok && uid != owner {
		return fmt.Errorf("%s: it belongs to another cluster: %w", what, ErrForeign)
	}
	if _, err := c.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: toTags(tags)}); err != nil {
		return wrap(what, c.unlessFresh(err, id))
	}
	c.store.do(func() {
		now := c.clock.Now()
		c.store.instances.update(id, now, func(i *Instance) {
			i.Tags = merged(i.Tags, tags)
			i.Member, i.Incarnation, i.TemplateHash = i.Tags[v1alpha1.TagMember], incarnationOf(i.Tags), i.Tags[v1alpha1.TagTemplateHash]
		})
		c.store.volumes.update(id, now, func(v *Volume) {
			v.Tags = merged(v.Tags, tags)
			v.Member, v.Incarnation, v.Retired = v.Tags[v1alpha1.TagMember], incarnationOf(v.Tags), v.Tags[v1alpha1.TagRetired] != ""
		})
		c.store.snapshots.update(id, now, func(s *Snapshot) {
			s.Tags = merged(s.Tags, tags)
			s.Member = s.Tags[v1alpha1.TagMember]
		})
		c.store.groups.update(id, now, func(g *group) { g.Tags = merged(g.Tags, tags) })
	})
	return nil
}

func merged(have, add map[string]string) map[string]string {
	out := have
	for k, v := range add {
		out = with(out, k, v)
	}
	return out
}

// ownerOf is the UID of the cluster to which a resource belongs, from the store, else from EC2.
func (c *Cloud) ownerOf(ctx context.Context, id string) (string, error) {
	if owner := c.storedOwner(id); owner != "" {
		return owner, nil
	}
	l, err := kindOf(id)
	if err != nil {
		return "", err
	}
	if err := c.lookFor(ctx, l); err != nil {
		return "", err
	}
	if owner := c.storedOwner(id); owner != "" {
		return owner, nil
	}
	return "", fmt.Errorf("%s: %w", id, ErrForeign)
}

func (c *Cloud) storedOwner(id string) (owner string) {
	c.store.read(func() {
		s := c.store
		if r := s.instances.rows[id]; r != nil {
			owner = r.owner
		}
		if r := s.volumes.rows[id]; r != nil {
			owner = r.owner
		}
		if r := s.snapshots.rows[id]; r != nil {
			owner = r.owner
		}
		if r := s.groups.rows[id]; r != nil {
			owner = r.owner
		}
	})
	return owner
}

// kindOf sorts an id by its prefix, which EC2 fixes per kind.
func kindOf(id string) (lost, error) {
	for prefix, l := range map[string]lost{
		"i-":    {instances: []string{id}},
		"vol-":  {volumes: []string{id}},
		"snap-": {snapshots: []string{id}},
		"sg-":   {groups: []string{id}},
	} {
		if len(id) > len(prefix) && id[:len(prefix)] == prefix {
			return l, nil
		}
	}
	return lost{}, &Error{Class: Invalid, Text: fmt.Sprintf("%q is not the id of an instance, volume, snapshot or security group", aws.ToString(&id))}
}

// lookFor takes into the store those of the ids that carry our tag.
func (c *Cloud) lookFor(ctx context.Context, l lost) error {
	instances, err := c.instancesByID(ctx, l.instances)
	if err != nil {
		return err
	}
	volumes, err := c.volumesByID(ctx, l.volumes)
	if err != nil {
		return err
	}
	snapshots, err := c.snapshotsByID(ctx, l.snapshots)
	if err != nil {
		return err
	}
	groups, err := c.groupsByID(ctx, l.groups)
	if err != nil {
		return err
	}
	c.store.do(func() {
		adopt(&c.store.instances, instances, c)
		adopt(&c.store.volumes, volumes, c)
		adopt(&c.store.snapshots, snapshots, c)
		adopt(&c.store.groups, groups, c)
	})
	return nil
}

func adopt[T any](t *table[T], found map[string]T, c *Cloud) {
	for id, v := range found {
		if t.tags(v)[v1alpha1.TagClusterUID] != "" {
			t.put(id, v, c.clock.Now())
		}
	}
}

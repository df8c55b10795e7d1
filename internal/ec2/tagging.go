package ec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// RestoreTags puts tags back on a resource that is known to be the cluster's: by the tag that it still carries, or because
// this process saw it with the tag before somebody removed it. Anything else is ErrForeign: a tag must not be a way to take
// what belongs to someone else.
func (c *Cloud) RestoreTags(ctx context.Context, clusterUID, id string, tags map[string]string) error {
	return c.tag(ctx, clusterUID, id, tags, "restore the tags of "+id)
}

func (c *Cloud) tag(ctx context.Context, clusterUID, id string, tags map[string]string, what string) error {
	owner, err := c.Inventory.Owner(ctx, id)
	if err != nil {
		return awsapi.Wrap(what, err)
	}
	if uid, ok := tags[v1alpha1.TagClusterUID]; owner != clusterUID || ok && uid != owner {
		return fmt.Errorf("%s: it belongs to another cluster: %w", what, awsapi.ErrForeign)
	}
	if _, err := c.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: awsapi.ToTags(tags)}); err != nil {
		return awsapi.Wrap(what, c.Inventory.UnlessGone(ctx, err, id))
	}
	c.Inventory.Tagged(id, tags)
	return nil
}

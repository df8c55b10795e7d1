package ec2

import (
	"context"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// Cloud changes what one AWS account and region holds. All methods are safe for concurrent use.
type Cloud struct {
	// Inventory reads it.
	Inventory *inventory.Reader

	api       awsapi.API
	clock     clock.PassiveClock
	images    *images
	groups    *securityGroups
	attempts  *attempts
	rehearsal *rehearsal
	// launches bounds RunInstances with its dry runs, starts StartInstances.
	launches, starts flowcontrol.PassiveRateLimiter
	// full are the subnets with the type of which EC2 had no instance there, with what it said.
	full *cache[error]
	// launchable are the launches whose dry run found nothing, by LaunchSpec.alike.
	launchable *cache[struct{}]
}

// ResolveImage is the image with the given id; without one, the image that the Systems Manager parameter names; without
// that, the newest Amazon Linux 2023 for the instance type's architecture. Answers are kept for an hour, except that an
// image which is not available yet is asked for again (it is returned with its state, without an error).
//
// Errors: Invalid when parameter or image do not exist.
func (c *Cloud) ResolveImage(ctx context.Context, imageID, ssmParameter, instanceType string) (Image, error) {
	return c.images.resolve(ctx, imageID, ssmParameter, instanceType)
}

// InstanceType describes one instance type; an unknown one is an error of class Invalid. Answers are kept for a day.
func (c *Cloud) InstanceType(ctx context.Context, name string) (TypeInfo, error) {
	return c.images.instanceType(ctx, name)
}

// EnsureSecurityGroup makes the cluster's own security group and keeps its incoming rules: MySQL's port from the members,
// the CIDRs and the clients' groups, and nothing else. New rules are added before others are removed, so that nobody who
// stays allowed is ever cut off. When the store shows the group as it should be, no call is made. Outgoing rules stay as
// EC2 made them (everything allowed).
//
// Errors: ErrForeign when a group of that name exists without our tag; Waiting while EC2 does not show a group that it
// says exists.
func (c *Cloud) EnsureSecurityGroup(ctx context.Context, spec SecurityGroupSpec) (string, error) {
	return c.groups.ensure(ctx, spec)
}

// DeleteSecurityGroup deletes a cluster's group. One that does not exist any more is a success; while a network interface
// or another group's rule still uses it, EC2 answers DependencyViolation, which is an error of class Waiting.
func (c *Cloud) DeleteSecurityGroup(ctx context.Context, clusterUID, id string) error {
	return c.groups.delete(ctx, clusterUID, id)
}

// Rehearse tries, as dry runs on one of a cluster's instances, its volume and its security group, what may have to be done to them
// one day, and returns what is not permitted: that the fence (StopInstances) is not allowed is better learned now than in a
// failover. AWS judges these calls by the tags of what they are made on, so nothing can be tried before there is something.
//
// The same policy serves all clusters of an identity, so one cluster's rehearsal counts for all of them: for a day, or for ten
// minutes when something was found. In between no call is made but those that EC2 did not answer. What EC2 says after LookPatience is returned by a later call.
func (c *Cloud) Rehearse(ctx context.Context, owner awsapi.Ownership) Rehearsal {
	return c.rehearsal.rehearse(ctx, owner)
}

// Rehearsed returns what rehearsals have shown so far, and makes none.
func (c *Cloud) Rehearsed() Rehearsal { return c.rehearsal.found() }

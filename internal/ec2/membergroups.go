package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// KeepGroups gives a cluster's instances the security groups that are wanted, in place: EC2 needs no restart for that. A group commonly
// admits those that are in it as well, so members reach each other throughout: each first gets what it lacks beside what it has, and only
// once nobody lacks anything, in a later call, each loses what is not wanted. Where all is as wanted, no call is made to EC2.
//
// Errors: the first refusal; the other instances are changed all the same. Class Quota where what an instance has and what is wanted are
// together more groups than EC2 allows.
func (c *Cloud) KeepGroups(ctx context.Context, clusterUID string, want []string) error {
	var refused error
	for _, change := range groupChanges(want, c.Inventory.Known(clusterUID).Instances) {
		if err := c.setGroups(ctx, clusterUID, change); err != nil && refused == nil {
			refused = err
		}
	}
	return refused
}

func (c *Cloud) setGroups(ctx context.Context, clusterUID string, to inventory.Instance) error {
	what := fmt.Sprintf("set the security groups of instance %s of %s", to.ID, to.Member)
	if _, err := c.Inventory.Instances.Owned(ctx, clusterUID, to.ID); err != nil {
		return awsapi.Wrap(what, awsapi.IgnoreNotFound(err))
	}
	_, err := c.api.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: aws.String(to.ID), Groups: to.SecurityGroupIDs})
	if err == nil {
		c.Inventory.Instances.Changed(to.ID, func(i *inventory.Instance) { i.SecurityGroupIDs = to.SecurityGroupIDs })
		return nil
	}
	err = c.Inventory.UnlessGone(ctx, err, to.ID)
	if awsapi.Classify(err) == awsapi.Quota {
		err = &awsapi.Error{Class: awsapi.Quota, Code: awsapi.Code(err), Err: err, Text: fmt.Sprintf("%s together are more groups than EC2 allows an instance: "+
			"what it has, and what spec.aws wants. Change the list in steps, so that old and new are fewer, or have the quota of security groups per network interface raised",
			strings.Join(to.SecurityGroupIDs, ", "))}
	}
	return awsapi.Wrap(what, err)
}

// groupChanges returns the instances that are to have other groups, with those.
func groupChanges(want []string, all []inventory.Instance) []inventory.Instance {
	members, want := present(all), sortedSet(want)
	everybodyHasAll := !slices.ContainsFunc(members, func(i inventory.Instance) bool {
		return slices.ContainsFunc(want, func(id string) bool { return !slices.Contains(i.SecurityGroupIDs, id) })
	})
	var changes []inventory.Instance
	for _, i := range members {
		to := want
		if !everybodyHasAll {
			to = sortedSet(want, i.SecurityGroupIDs)
		}
		// EC2 shows no groups of an instance that it makes just now, and may not change them.
		if i.State == inventory.StatePending || len(i.SecurityGroupIDs) == 0 || slices.Equal(to, i.SecurityGroupIDs) {
			continue
		}
		i.SecurityGroupIDs = to
		changes = append(changes, i)
	}
	return changes
}

// LaunchGroups returns the groups of a new instance: those that are wanted, and those by which the present ones may know each other.
func LaunchGroups(want []string, all []inventory.Instance) []string {
	lists := [][]string{want}
	for _, i := range present(all) {
		lists = append(lists, i.SecurityGroupIDs)
	}
	return sortedSet(lists...)
}

// present returns the members' instances that exist, whether they run or not.
func present(all []inventory.Instance) []inventory.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i inventory.Instance) bool {
		gone := i.State == inventory.StateShuttingDown || i.State == inventory.StateTerminated
		return gone || i.Member == "" || i.Tags[v1alpha1.TagClusterUID] == ""
	})
}

func sortedSet(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

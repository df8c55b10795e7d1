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
)

const (
	groupNamePrefix = "nairobi-mysql-"

	codeGroupExists = "InvalidGroup.Duplicate"
	codeRuleExists  = "InvalidPermission.Duplicate"
	codeRuleMissing = "InvalidPermission.NotFound"
)

// GroupName is the name of a cluster's own security group. EC2 keeps names unique within a VPC, which is what stands in
// for the client token that CreateSecurityGroup does not have.
func GroupName(clusterUID string) string { return groupNamePrefix + clusterUID }

// EnsureSecurityGroup makes the cluster's own security group and keeps its incoming rules: MySQL's port from the members,
// the CIDRs and the clients' groups, and nothing else. New rules are added before others are removed, so that nobody who
// stays allowed is ever cut off. When the store shows the group as it should be, no call is made. Outgoing rules stay as
// EC2 made them (everything allowed).
//
// Errors: ErrForeign when a group of that name exists without our tag; Waiting while EC2 does not show a group that it
// says exists.
func (c *Cloud) EnsureSecurityGroup(ctx context.Context, spec SecurityGroupSpec) (string, error) {
	what := "security group " + GroupName(spec.Owner.ClusterUID)
	g, err := c.theGroup(ctx, spec)
	if err != nil {
		return "", wrap(what, err)
	}
	if err := c.reconcileRules(ctx, g, spec); err != nil {
		return "", wrap(what, err)
	}
	return g.ID, nil
}

// theGroup finds the group in the store or in EC2, else makes it.
func (c *Cloud) theGroup(ctx context.Context, spec SecurityGroupSpec) (group, error) {
	name := GroupName(spec.Owner.ClusterUID)
	var found *group
	c.store.read(func() {
		for _, g := range c.store.groups.owned(spec.Owner.ClusterUID) {
			if g.Name == name && g.VPCID == spec.VPCID {
				found = &g
			}
		}
	})
	if found != nil {
		return *found, nil
	}
	if g, ok, err := c.findGroup(ctx, spec); err != nil || ok {
		return g, err
	}
	answer, err := c.api.CreateSecurityGroup(ctx, groupInput(spec.Owner, spec.VPCID))
	if Code(err) == codeGroupExists {
		g, ok, err := c.findGroup(ctx, spec)
		if err == nil && !ok {
			err = waiting("EC2 has created it before but does not show it yet")
		}
		return g, err
	}
	if err != nil {
		return group{}, err
	}
	g := group{SecurityGroup: SecurityGroup{ID: aws.ToString(answer.GroupId), Name: name, VPCID: spec.VPCID, Tags: groupTags(spec.Owner)}, ingress: ruleSet{}}
	c.store.do(func() { c.store.groups.bear(g.ID, g, c.clock.Now()) })
	return g, nil
}

func groupInput(owner Ownership, vpc string) *ec2.CreateSecurityGroupInput {
	return &ec2.CreateSecurityGroupInput{
		GroupName:         aws.String(GroupName(owner.ClusterUID)),
		Description:       aws.String(fmt.Sprintf("Members of MySQL cluster %s/%s", owner.Namespace, owner.Cluster)),
		VpcId:             aws.String(vpc),
		TagSpecifications: []types.TagSpecification{tagSpec(types.ResourceTypeSecurityGroup, groupTags(owner))},
	}
}

func groupTags(owner Ownership) map[string]string {
	return owner.base(owner.Namespace + "/" + owner.Cluster)
}

// GroupsByName asks EC2 for the security groups of a name, in any VPC and whatever their tags say, sorted by id.
func (c *Cloud) GroupsByName(ctx context.Context, name string) ([]SecurityGroup, error) {
	found, err := c.listGroups(ctx, filter("group-name", name))
	if err != nil {
		return nil, err
	}
	var groups []SecurityGroup
	for _, id := range slices.Sorted(maps.Keys(found)) {
		groups = append(groups, found[id].SecurityGroup)
	}
	return groups, nil
}

func (c *Cloud) findGroup(ctx context.Context, spec SecurityGroupSpec) (group, bool, error) {
	found, err := c.listGroups(ctx, filter("group-name", GroupName(spec.Owner.ClusterUID)), filter("vpc-id", spec.VPCID))
	if err != nil {
		return group{}, false, err
	}
	for _, g := range found {
		if g.Tags[v1alpha1.TagClusterUID] != spec.Owner.ClusterUID {
			return group{}, false, fmt.Errorf("%s has the cluster's name but not its tag %s: tag it or delete it: %w",
				g.ID, v1alpha1.TagClusterUID, ErrForeign)
		}
		c.store.do(func() { c.store.groups.put(g.ID, g, c.clock.Now()) })
		return g, true, nil
	}
	return group{}, false, nil
}

// reconcileRules adds what is missing, then removes what is too much.
func (c *Cloud) reconcileRules(ctx context.Context, g group, spec SecurityGroupSpec) error {
	want := wantedRules(g.ID, spec)
	missing, extra := want.minus(g.ingress), g.ingress.minus(want)
	if len(missing)+len(extra) == 0 {
		return nil
	}
	if err := requireOwned(spec.Owner.ClusterUID, "security group", g.ID, g.Tags); err != nil {
		return err
	}
	var refused error
	if len(missing) > 0 {
		if refused = c.authorize(ctx, g.ID, missing); refused != nil && !forGood(refused) {
			return refused
		}
	}
	// Nobody who stays allowed was allowed by these, so that they go also when a new one is refused.
	if len(extra) > 0 {
		return errors.Join(refused, c.revoke(ctx, g.ID, extra))
	}
	return refused
}

// forGood says that EC2 will answer a rule with err as often as it is asked.
func forGood(err error) bool {
	switch Classify(err) {
	case Invalid, NotFound, Quota:
		return true
	case Transient, Throttled, Waiting, Denied, Unreachable:
	}
	return false
}

// authorize adds the rules in one call. EC2 refuses the whole call for one of them: because it is there already (somebody
// was faster, or a lost answer did its work), or because of what it names. They are then added one at a time, so that a
// client's group that does not exist keeps neither the members nor other clients out. The error is the first refusal.
func (c *Cloud) authorize(ctx context.Context, id string, rules ruleSet) error {
	err := c.authorizeAtOnce(ctx, id, rules)
	var added ruleSet
	switch {
	case err == nil:
		added = rules
	case IsNotFound(err) && names(err, id):
		if err := c.unlessFresh(err, id); IsWaiting(err) {
			return fmt.Errorf("add rules: %w", err)
		}
		if err := c.lookAgain(ctx, lost{groups: []string{id}}); err != nil {
			return fmt.Errorf("add rules: %w", err)
		}
		return waiting("security group %s is gone; another is made", id)
	case forGood(err) && (len(rules) > 1 || Code(err) == codeRuleExists):
		added, err = c.authorizeEach(ctx, id, rules)
	}
	c.changeRules(id, func(have ruleSet) ruleSet { return union(have, added) })
	if err != nil {
		return fmt.Errorf("add rules: %w", err)
	}
	return nil
}

// authorizeEach adds the rules one at a time, that of the members first, and returns which of them are there.
func (c *Cloud) authorizeEach(ctx context.Context, id string, rules ruleSet) (ruleSet, error) {
	added := ruleSet{}
	var refused error
	for _, r := range rules.sorted(id) {
		err := c.authorizeAtOnce(ctx, id, ruleSet{r: {}})
		switch {
		case err == nil, Code(err) == codeRuleExists:
			added[r] = struct{}{}
		case !forGood(err):
			return added, err
		case refused == nil:
			refused = err
		}
	}
	return added, refused
}

func (c *Cloud) authorizeAtOnce(ctx context.Context, id string, rules ruleSet) error {
	_, err := c.api.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: aws.String(id), IpPermissions: rules.permissions()})
	return err
}

func (c *Cloud) revoke(ctx context.Context, id string, rules ruleSet) error {
	_, err := c.api.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{
		GroupId: aws.String(id), IpPermissions: rules.permissions()})
	if err != nil && Code(err) != codeRuleMissing {
		return fmt.Errorf("remove rules: %w", c.unlessFresh(err, id))
	}
	if err != nil {
		// One of them is gone already. Which one, a look tells; the next pass removes the rest.
		return c.lookAgain(ctx, lost{groups: []string{id}})
	}
	c.changeRules(id, func(have ruleSet) ruleSet { return have.minus(rules) })
	return nil
}

func (c *Cloud) changeRules(id string, change func(ruleSet) ruleSet) {
	c.store.do(func() {
		c.store.groups.update(id, c.clock.Now(), func(g *group) { g.ingress = change(g.ingress) })
	})
}

func union(a, b ruleSet) ruleSet {
	out := make(ruleSet, len(a)+len(b))
	for r := range a {
		out[r] = struct{}{}
	}
	for r := range b {
		out[r] = struct{}{}
	}
	return out
}

// DeleteSecurityGroup deletes a cluster's group. One that does not exist any more is a success; while a network interface
// or another group's rule still uses it, EC2 answers DependencyViolation, which is an error of class Waiting.
func (c *Cloud) DeleteSecurityGroup(ctx context.Context, clusterUID, id string) error {
	what := "delete security group " + id
	if _, err := c.ownedGroup(ctx, clusterUID, id); err != nil {
		return wrap(what, IgnoreNotFound(err))
	}
	_, err := c.api.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: aws.String(id)})
	err = IgnoreNotFound(c.unlessFresh(err, id))
	if err != nil {
		return wrap(what, err)
	}
	c.store.do(func() { c.store.groups.remove(id) })
	return nil
}

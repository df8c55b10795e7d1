package ec2

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
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

// securityGroups keeps the clusters' security groups.
type securityGroups struct {
	api       awsapi.API
	inventory *inventory.Reader
}

// ensure is Cloud.EnsureSecurityGroup.
func (s *securityGroups) ensure(ctx context.Context, spec SecurityGroupSpec) (string, error) {
	what := "security group " + GroupName(spec.Owner.ClusterUID)
	g, err := s.theGroup(ctx, spec)
	if err != nil {
		return "", awsapi.Wrap(what, err)
	}
	if err := s.reconcileRules(ctx, g, spec); err != nil {
		return "", awsapi.Wrap(what, err)
	}
	return g.ID, nil
}

// theGroup finds the group in the store or in EC2, else makes it.
func (s *securityGroups) theGroup(ctx context.Context, spec SecurityGroupSpec) (inventory.Group, error) {
	name := GroupName(spec.Owner.ClusterUID)
	known := s.inventory.Groups.Of(spec.Owner.ClusterUID)
	if i := slices.IndexFunc(known, func(g inventory.Group) bool { return g.Name == name && g.VPCID == spec.VPCID }); i >= 0 {
		return known[i], nil
	}
	if g, ok, err := s.findGroup(awsapi.BeforeWrite(ctx), spec); err != nil || ok {
		return g, err
	}
	answer, err := s.api.CreateSecurityGroup(ctx, groupInput(spec.Owner, spec.VPCID))
	if awsapi.Code(err) == codeGroupExists {
		g, ok, err := s.findGroup(awsapi.BeforeWrite(ctx), spec)
		if err == nil && !ok {
			err = awsapi.NewWaiting("EC2 has created it before but does not show it yet")
		}
		return g, err
	}
	if err != nil {
		return inventory.Group{}, err
	}
	g := inventory.Group{SecurityGroup: inventory.SecurityGroup{ID: aws.ToString(answer.GroupId), Name: name, VPCID: spec.VPCID, Tags: groupTags(spec.Owner)}, Ingress: inventory.RuleSet{}}
	s.inventory.Groups.Created(g.ID, g)
	return g, nil
}

func groupInput(owner awsapi.Ownership, vpc string) *ec2.CreateSecurityGroupInput {
	return &ec2.CreateSecurityGroupInput{
		GroupName:         aws.String(GroupName(owner.ClusterUID)),
		Description:       aws.String(fmt.Sprintf("Members of MySQL cluster %s/%s", owner.Namespace, owner.Cluster)),
		VpcId:             aws.String(vpc),
		TagSpecifications: []types.TagSpecification{awsapi.TagSpec(types.ResourceTypeSecurityGroup, groupTags(owner))},
	}
}

func groupTags(owner awsapi.Ownership) map[string]string {
	return owner.Tags(owner.Namespace + "/" + owner.Cluster)
}

func (s *securityGroups) findGroup(ctx context.Context, spec SecurityGroupSpec) (inventory.Group, bool, error) {
	found, err := s.inventory.Groups.List(ctx, awsapi.Filter("group-name", GroupName(spec.Owner.ClusterUID)), awsapi.Filter("vpc-id", spec.VPCID))
	if err != nil {
		return inventory.Group{}, false, err
	}
	for _, g := range found {
		if g.Tags[v1alpha1.TagClusterUID] != spec.Owner.ClusterUID {
			return inventory.Group{}, false, fmt.Errorf("%s has the cluster's name but not its tag %s: tag it or delete it: %w",
				g.ID, v1alpha1.TagClusterUID, awsapi.ErrForeign)
		}
		s.inventory.Groups.Found(g.ID, g)
		return g, true, nil
	}
	return inventory.Group{}, false, nil
}

// reconcileRules adds what is missing, then removes what is too much.
func (s *securityGroups) reconcileRules(ctx context.Context, g inventory.Group, spec SecurityGroupSpec) error {
	want := inventory.MySQLRules(append([]string{g.ID}, spec.ClientSecurityGroupIDs...), spec.ClientCIDRs)
	missing, extra := want.Minus(g.Ingress), g.Ingress.Minus(want)
	if len(missing)+len(extra) == 0 {
		return nil
	}
	if err := s.inventory.Groups.RequireOwned(spec.Owner.ClusterUID, g.ID, g); err != nil {
		return err
	}
	var refused error
	if len(missing) > 0 {
		if refused = s.authorize(ctx, g.ID, missing); refused != nil && !forGood(refused) {
			return refused
		}
	}
	// Nobody who stays allowed was allowed by these, so that they go also when a new one is refused.
	if len(extra) > 0 {
		return errors.Join(refused, s.revoke(ctx, g.ID, extra))
	}
	return refused
}

// forGood says that EC2 will answer a rule with err as often as it is asked.
func forGood(err error) bool {
	switch awsapi.Classify(err) {
	case awsapi.Invalid, awsapi.NotFound, awsapi.Quota:
		return true
	case awsapi.Transient, awsapi.Throttled, awsapi.Waiting, awsapi.Denied, awsapi.Unreachable:
	}
	return false
}

// authorize adds the rules in one call. EC2 refuses the whole call for one of them: because it is there already (somebody
// was faster, or a lost answer did its work), or because of what it names. They are then added one at a time, so that a
// client's group that does not exist keeps neither the members nor other clients out. The error is the first refusal.
func (s *securityGroups) authorize(ctx context.Context, id string, rules inventory.RuleSet) error {
	err := s.authorizeAtOnce(ctx, id, rules)
	var added inventory.RuleSet
	switch {
	case err == nil:
		added = rules
	case (awsapi.IsNotFound(err) || awsapi.IsDenied(err)) && awsapi.Mentions(err, id):
		if err := s.inventory.UnlessGone(ctx, err, id); !awsapi.IsNotFound(err) {
			return fmt.Errorf("add rules: %w", err)
		}
		if err := s.inventory.LookAgain(ctx, inventory.IDs{Groups: []string{id}}); err != nil {
			return fmt.Errorf("add rules: %w", err)
		}
		return awsapi.NewWaiting("security group %s is gone; another is made", id)
	case forGood(err) && (len(rules) > 1 || awsapi.Code(err) == codeRuleExists):
		added, err = s.authorizeEach(ctx, id, rules)
	default:
		for r := range rules { // one, when it is refused for good
			err = refusedRule(err, r, id)
		}
	}
	s.changeRules(id, func(have inventory.RuleSet) inventory.RuleSet { return have.Plus(added) })
	if err != nil {
		return fmt.Errorf("add rules: %w", err)
	}
	return nil
}

// authorizeEach adds the rules one at a time, that of the members first, and returns which of them are there.
func (s *securityGroups) authorizeEach(ctx context.Context, id string, rules inventory.RuleSet) (inventory.RuleSet, error) {
	added := inventory.RuleSet{}
	var refused error
	for _, r := range rules.Sorted(id) {
		err := s.authorizeAtOnce(ctx, id, inventory.RuleSet{r: {}})
		switch {
		case err == nil, awsapi.Code(err) == codeRuleExists:
			added[r] = struct{}{}
		case !forGood(err):
			return added, err
		case refused == nil:
			refused = refusedRule(err, r, id)
		}
	}
	return added, refused
}

// refusedRule says why EC2 may not let in another group: its own words, which tell neither a foreign account from a foreign VPC nor what
// to do, are left to the cause.
func refusedRule(err error, r inventory.Rule, id string) error {
	if r.Group() == "" || r.Group() == id || !forGood(err) || awsapi.Classify(err) == awsapi.Quota {
		return err
	}
	return &awsapi.Error{Class: awsapi.Classify(err), Err: err, Text: fmt.Sprintf("EC2 does not let in security group %s: it has to exist in this account and region, "+
		"in the members' VPC or one that is peered with it. Correct the id, or admit its clients by spec.aws.clientCIDRs", r.Group())}
}

func (s *securityGroups) authorizeAtOnce(ctx context.Context, id string, rules inventory.RuleSet) error {
	_, err := s.api.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: aws.String(id), IpPermissions: rules.Permissions()})
	return err
}

func (s *securityGroups) revoke(ctx context.Context, id string, rules inventory.RuleSet) error {
	_, err := s.api.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{
		GroupId: aws.String(id), IpPermissions: rules.Permissions()})
	if err != nil && awsapi.Code(err) != codeRuleMissing {
		return fmt.Errorf("remove rules: %w", s.inventory.UnlessGone(ctx, err, id))
	}
	if err != nil {
		// One of them is gone already. Which one, a look tells; the next pass removes the rest.
		return s.inventory.LookAgain(ctx, inventory.IDs{Groups: []string{id}})
	}
	s.changeRules(id, func(have inventory.RuleSet) inventory.RuleSet { return have.Minus(rules) })
	return nil
}

func (s *securityGroups) changeRules(id string, change func(inventory.RuleSet) inventory.RuleSet) {
	s.inventory.Groups.Changed(id, func(g *inventory.Group) { g.Ingress = change(g.Ingress) })
}

// delete is Cloud.DeleteSecurityGroup.
func (s *securityGroups) delete(ctx context.Context, clusterUID, id string) error {
	what := "delete security group " + id
	if _, err := s.inventory.Groups.Owned(ctx, clusterUID, id); err != nil {
		return awsapi.Wrap(what, awsapi.IgnoreNotFound(err))
	}
	_, err := s.api.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: aws.String(id)})
	err = awsapi.IgnoreNotFound(s.inventory.UnlessGone(ctx, err, id))
	if err != nil {
		return awsapi.Wrap(what, err)
	}
	s.inventory.Groups.Deleted(id)
	return nil
}

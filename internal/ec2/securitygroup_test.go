package ec2

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// realRules are the group's incoming rules as the server has them.
func (l *lab) realRules(id string) inventory.RuleSet {
	l.t.Helper()
	out, err := l.sdk().DescribeSecurityGroups(l.t.Context(), &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
	if err != nil {
		l.t.Fatal(err)
	}
	return inventory.RulesOf(out.SecurityGroups[0].IpPermissions)
}

// wantedRules let the members, the CIDRs and the clients' groups in.
func wantedRules(id string, spec SecurityGroupSpec) inventory.RuleSet {
	return inventory.MySQLRules(append([]string{id}, spec.ClientSecurityGroupIDs...), spec.ClientCIDRs)
}

func (l *lab) clientGroup(name string) string {
	l.t.Helper()
	out, err := l.sdk().CreateSecurityGroup(l.t.Context(), &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String(name + l.owner.ClusterUID), Description: aws.String("pods"), VpcId: aws.String(l.seeded.VPC)})
	if err != nil {
		l.t.Fatal(err)
	}
	return aws.ToString(out.GroupId)
}

func TestSecurityGroupIsKept(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	pods := l.clientGroup("pods")
	spec := SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.1/8", "2001:0db8::/32"}, ClientSecurityGroupIDs: []string{pods}}
	id, err := l.cloud.EnsureSecurityGroup(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	mysql := func(p types.IpPermission) inventory.RuleSet {
		p.IpProtocol, p.FromPort, p.ToPort = aws.String("tcp"), aws.Int32(3306), aws.Int32(3306)
		return inventory.RulesOf([]types.IpPermission{p})
	}
	groups := mysql(types.IpPermission{UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &id}, {GroupId: &pods}}})
	want := groups.Plus(mysql(types.IpPermission{
		IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}}, Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: aws.String("2001:db8::/32")}}}))
	same := func(when string) {
		t.Helper()
		got := l.realRules(id)
		if len(got.Minus(want)) > 0 || len(want.Minus(got)) > 0 {
			t.Errorf("%s the rules are %v, want %v", when, got, want)
		}
	}
	same("at first")

	l.observe()
	l.proxy.ResetCalls()
	for range 5 {
		if again, err := l.cloud.EnsureSecurityGroup(ctx, spec); err != nil || again != id {
			t.Errorf("again: %s, %v", again, err)
		}
	}
	if calls := l.proxy.Calls(); len(calls) != 0 {
		t.Errorf("a group that is as it should be cost %v", calls)
	}
	if again, err := l.newCloud().EnsureSecurityGroup(ctx, spec); err != nil || again != id {
		t.Errorf("a new process: %s, %v", again, err)
	}

	// Drift: somebody opened SSH to the world and removed the pods.
	world := inventory.RulesOf([]types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}})
	_, err = l.sdk().AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: world.Permissions()})
	if err != nil {
		t.Fatal(err)
	}
	gone := mysql(types.IpPermission{UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &pods}}})
	_, err = l.sdk().RevokeSecurityGroupIngress(ctx, &awsec2.RevokeSecurityGroupIngressInput{GroupId: &id, IpPermissions: gone.Permissions()})
	if err != nil {
		t.Fatal(err)
	}
	l.pass(time.Minute)
	l.observe()
	if _, err := l.cloud.EnsureSecurityGroup(ctx, spec); err != nil {
		t.Fatal(err)
	}
	same("after drift")

	// A changed spec adds before it removes.
	spec.ClientCIDRs = []string{"192.168.0.0/16"}
	want = groups.Plus(mysql(types.IpPermission{IpRanges: []types.IpRange{{CidrIp: aws.String("192.168.0.0/16")}}}))
	l.proxy.ResetCalls()
	if _, err := l.cloud.EnsureSecurityGroup(ctx, spec); err != nil {
		t.Fatal(err)
	}
	same("after a change")
	var actions []string
	for _, call := range l.proxy.Calls() {
		actions = append(actions, call.Action)
	}
	if !slices.Equal(actions, []string{"AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"}) {
		t.Errorf("the calls were %v", actions)
	}
}

func TestSecurityGroupSurvivesLostAnswers(t *testing.T) {
	l := newLab(t)
	spec := SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8", "10.1.0.0/16"}}
	l.fault(proxy.Rule{Kind: proxy.Absent, For: 30 * time.Second, Actions: []string{"CreateSecurityGroup"}})
	l.fault(proxy.LoseAnswers(2, "CreateSecurityGroup"))
	l.fault(proxy.LoseAnswers(2, "AuthorizeSecurityGroupIngress"))
	l.fault(proxy.LoseAnswers(2, "RevokeSecurityGroupIngress"))
	if _, err := l.cloud.EnsureSecurityGroup(t.Context(), spec); !awsapi.IsWaiting(err) && !awsapi.IsUnreachable(err) {
		t.Errorf("lost and hidden: %v", err)
	}
	if _, err := l.cloud.EnsureSecurityGroup(t.Context(), spec); !awsapi.IsWaiting(err) {
		t.Errorf("hidden: %v, want Waiting", err)
	}
	l.pass(31 * time.Second)
	ensure := func() string {
		var id string
		var err error
		for range 3 {
			if id, err = l.cloud.EnsureSecurityGroup(t.Context(), spec); err == nil {
				return id
			}
			if !awsapi.IsUnreachable(err) && !awsapi.IsWaiting(err) {
				t.Errorf("%v", err)
			}
		}
		t.Fatalf("not in three tries: %v", err)
		return id
	}
	id := ensure()
	spec.ClientCIDRs = spec.ClientCIDRs[:1]
	if again := ensure(); again != id {
		t.Errorf("now it is %s, before %s", again, id)
	}
	got := l.realRules(id)
	if want := wantedRules(id, spec); len(got.Minus(want)) > 0 || len(want.Minus(got)) > 0 {
		t.Errorf("rules %v, want %v", got, want)
	}
}

// A client's group that was deleted, or a CIDR that EC2 does not take, keeps neither the members nor other clients out, and
// nobody in who is not to be let in any more.
func TestOneRuleThatIsRefusedStopsNoOther(t *testing.T) {
	l := newLab(t)
	pods, gone := l.clientGroup("pods"), l.clientGroup("gone")
	if _, err := l.sdk().DeleteSecurityGroup(t.Context(), &awsec2.DeleteSecurityGroupInput{GroupId: &gone}); err != nil {
		t.Fatal(err)
	}
	spec := SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}, ClientSecurityGroupIDs: []string{gone, pods}}
	_, err := l.cloud.EnsureSecurityGroup(t.Context(), spec)
	if told := awsapi.Explain(err); told.Field != awsapi.FieldClientGroups || !told.Retry ||
		!strings.Contains(told.Message, "EC2 does not let in security group "+gone) || !strings.Contains(told.Message, "peered") {
		t.Errorf("told %+v of %v", told, err)
	}
	l.observe()
	groups := l.cloud.Inventory.Known(l.owner.ClusterUID).SecurityGroups
	if len(groups) != 1 {
		t.Fatalf("groups %+v", groups)
	}
	id := groups[0].ID
	refused := inventory.MySQLRules([]string{gone}, nil)
	same := func(when string) {
		t.Helper()
		got, want := l.realRules(id), wantedRules(id, spec).Minus(refused)
		if len(got.Minus(want)) > 0 || len(want.Minus(got)) > 0 {
			t.Errorf("%s the rules are %v, want %v", when, got, want)
		}
	}
	same("at first")

	l.proxy.ResetCalls()
	if _, err := l.cloud.EnsureSecurityGroup(t.Context(), spec); err == nil || !strings.Contains(awsapi.Explain(err).Message, "peered") {
		t.Errorf("a rule that is not there is not told: %v", err)
	}
	if calls := l.proxy.Calls(); len(calls) != 1 {
		t.Errorf("what is refused again cost %v", calls)
	}
	spec.ClientCIDRs = []string{"192.168.0.0/16"}
	if _, err := l.cloud.EnsureSecurityGroup(t.Context(), spec); err == nil {
		t.Error("a rule that is not there is not told")
	}
	same("after a change")
}

// The group itself was deleted under the operator: nothing of the spec is at fault, and another is made.
func TestDeletedGroupIsMadeAgain(t *testing.T) {
	l := newLab(t)
	spec := SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC}
	id, err := l.cloud.EnsureSecurityGroup(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	l.pass(time.Hour)
	l.observe()
	if _, err := l.sdk().DeleteSecurityGroup(t.Context(), &awsec2.DeleteSecurityGroupInput{GroupId: &id}); err != nil {
		t.Fatal(err)
	}
	spec.ClientCIDRs = []string{"10.0.0.0/8"}
	_, err = l.cloud.EnsureSecurityGroup(t.Context(), spec)
	if told := awsapi.Explain(err); !awsapi.IsWaiting(err) || told.Field != "" {
		t.Errorf("told %+v of %v", told, err)
	}
	again, err := l.cloud.EnsureSecurityGroup(t.Context(), spec)
	if err != nil || again == id {
		t.Errorf("%s, %v, want another than %s", again, err, id)
	}
}

func TestDeletingASecurityGroupInUse(t *testing.T) {
	l := newLab(t)
	id, err := l.cloud.EnsureSecurityGroup(t.Context(), SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	spec := l.launchSpec("orders-0", 1)
	spec.SecurityGroupIDs = []string{id}
	i, err := l.cloud.LaunchInstance(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cloud.DeleteSecurityGroup(t.Context(), l.owner.ClusterUID, id); !awsapi.IsWaiting(err) || awsapi.Code(err) != "DependencyViolation" {
		t.Errorf("in use: %v (%s), want Waiting", err, awsapi.Classify(err))
	}
	if err := l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
		t.Fatal(err)
	}
	l.until("terminated", func(inv inventory.Inventory) bool { return inv.Instances[0].State == inventory.StateTerminated })
	if err := l.cloud.DeleteSecurityGroup(t.Context(), l.owner.ClusterUID, id); err != nil {
		t.Error(err)
	}
	if inv := l.observe(); len(inv.SecurityGroups) != 0 {
		t.Errorf("it still shows: %v", inv.SecurityGroups)
	}
	if err := l.newCloud().DeleteSecurityGroup(t.Context(), l.owner.ClusterUID, id); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestGroupName(t *testing.T) {
	if got := GroupName("0b1c"); got != "nairobi-mysql-0b1c" || v1alpha1.MySQLPort != 3306 {
		t.Errorf("group name %s, port %d", got, v1alpha1.MySQLPort)
	}
}

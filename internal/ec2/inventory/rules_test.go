package inventory

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestRulesComeApartAndTogether(t *testing.T) {
	all := []types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(3306), ToPort: aws.Int32(3306),
		IpRanges:         []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}, {CidrIp: aws.String("172.16.0.0/12")}},
		Ipv6Ranges:       []types.Ipv6Range{{CidrIpv6: aws.String("2001:DB8::/32")}},
		UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: aws.String("sg-1")}},
		PrefixListIds:    []types.PrefixListId{{PrefixListId: aws.String("pl-1")}},
	}, {IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}
	rules := RulesOf(all)
	if len(rules) != 6 {
		t.Errorf("%d rules, want 6: %v", len(rules), rules)
	}
	permissions := rules.Permissions()
	again := RulesOf(permissions)
	if len(again.Minus(rules)) > 0 || len(rules.Minus(again)) > 0 {
		t.Errorf("%v became %v", rules, again)
	}
	for _, p := range permissions {
		if aws.ToString(p.IpProtocol) == "-1" && p.FromPort != nil {
			t.Error("a rule for all protocols names ports")
		}
	}
}

package ec2

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const tcp = "tcp"

// rule is one incoming rule: one peer on one range of ports. EC2 lists permissions that bundle several peers; rules taken
// apart can be compared.
type rule struct {
	protocol   string
	from, to   int32
	cidr       string // of IPv4 or IPv6
	group      string
	prefixList string
}

type ruleSet map[rule]struct{}

// rulesOf takes EC2's permissions apart.
func rulesOf(permissions []types.IpPermission) ruleSet {
	out := ruleSet{}
	for _, p := range permissions {
		base := rule{protocol: aws.ToString(p.IpProtocol), from: aws.ToInt32(p.FromPort), to: aws.ToInt32(p.ToPort)}
		add := func(change func(*rule)) {
			r := base
			change(&r)
			out[r] = struct{}{}
		}
		for _, x := range p.IpRanges {
			add(func(r *rule) { r.cidr = canonicalCIDR(aws.ToString(x.CidrIp)) })
		}
		for _, x := range p.Ipv6Ranges {
			add(func(r *rule) { r.cidr = canonicalCIDR(aws.ToString(x.CidrIpv6)) })
		}
		for _, x := range p.UserIdGroupPairs {
			add(func(r *rule) { r.group = aws.ToString(x.GroupId) })
		}
		for _, x := range p.PrefixListIds {
			add(func(r *rule) { r.prefixList = aws.ToString(x.PrefixListId) })
		}
	}
	return out
}

// wantedRules let the group itself (the members), the CIDRs and the clients' groups reach MySQL's port.
func wantedRules(groupID string, spec SecurityGroupSpec) ruleSet {
	out := ruleSet{}
	mysql := rule{protocol: tcp, from: v1alpha1.MySQLPort, to: v1alpha1.MySQLPort}
	for _, id := range append([]string{groupID}, spec.ClientSecurityGroupIDs...) {
		r := mysql
		r.group = id
		out[r] = struct{}{}
	}
	for _, cidr := range spec.ClientCIDRs {
		r := mysql
		r.cidr = canonicalCIDR(cidr)
		out[r] = struct{}{}
	}
	return out
}

// canonicalCIDR is how EC2 writes a CIDR: host bits cleared, IPv6 shortened.
func canonicalCIDR(cidr string) string {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return cidr // EC2 will say what is wrong with it
	}
	return p.Masked().String()
}

// minus are the rules of s that other does not have.
func (s ruleSet) minus(other ruleSet) ruleSet {
	out := ruleSet{}
	for r := range s {
		if _, ok := other[r]; !ok {
			out[r] = struct{}{}
		}
	}
	return out
}

// sorted are the rules in a fixed order, those that let group in before the others.
func (s ruleSet) sorted(group string) []rule {
	return slices.SortedFunc(maps.Keys(s), func(a, b rule) int {
		if (a.group == group) != (b.group == group) {
			if a.group == group {
				return -1
			}
			return 1
		}
		return compareRules(a, b)
	})
}

// permissions is the rules as EC2 takes them, in a fixed order.
func (s ruleSet) permissions() []types.IpPermission {
	out := make([]types.IpPermission, 0, len(s))
	for _, r := range slices.SortedFunc(maps.Keys(s), compareRules) {
		p := types.IpPermission{IpProtocol: aws.String(r.protocol)}
		if r.protocol != "-1" { // "all protocols" has no ports
			p.FromPort, p.ToPort = aws.Int32(r.from), aws.Int32(r.to)
		}
		switch {
		case r.group != "":
			p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: aws.String(r.group)}}
		case r.prefixList != "":
			p.PrefixListIds = []types.PrefixListId{{PrefixListId: aws.String(r.prefixList)}}
		case strings.Contains(r.cidr, ":"):
			p.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: aws.String(r.cidr)}}
		default:
			p.IpRanges = []types.IpRange{{CidrIp: aws.String(r.cidr)}}
		}
		out = append(out, p)
	}
	return out
}

func compareRules(a, b rule) int {
	key := func(r rule) string { return strings.Join([]string{r.protocol, r.group, r.prefixList, r.cidr}, "|") }
	if c := strings.Compare(key(a), key(b)); c != 0 {
		return c
	}
	return int(a.from - b.from)
}

package inventory

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

// Rule is one incoming rule: one peer on one range of ports. EC2 lists permissions that bundle several peers; rules taken
// apart can be compared.
type Rule struct {
	protocol   string
	from, to   int32
	cidr       string // of IPv4 or IPv6
	group      string
	prefixList string
}

// Group is the security group that the rule lets in, empty for one that lets in a network.
func (r Rule) Group() string { return r.group }

// RuleSet are incoming rules.
type RuleSet map[Rule]struct{}

// RulesOf takes EC2's permissions apart.
func RulesOf(permissions []types.IpPermission) RuleSet {
	out := RuleSet{}
	for _, p := range permissions {
		base := Rule{protocol: aws.ToString(p.IpProtocol), from: aws.ToInt32(p.FromPort), to: aws.ToInt32(p.ToPort)}
		add := func(change func(*Rule)) {
			r := base
			change(&r)
			out[r] = struct{}{}
		}
		for _, x := range p.IpRanges {
			add(func(r *Rule) { r.cidr = canonicalCIDR(aws.ToString(x.CidrIp)) })
		}
		for _, x := range p.Ipv6Ranges {
			add(func(r *Rule) { r.cidr = canonicalCIDR(aws.ToString(x.CidrIpv6)) })
		}
		for _, x := range p.UserIdGroupPairs {
			add(func(r *Rule) { r.group = aws.ToString(x.GroupId) })
		}
		for _, x := range p.PrefixListIds {
			add(func(r *Rule) { r.prefixList = aws.ToString(x.PrefixListId) })
		}
	}
	return out
}

// MySQLRules let security groups and CIDRs reach MySQL's port.
func MySQLRules(groupIDs, cidrs []string) RuleSet {
	out := RuleSet{}
	mysql := Rule{protocol: tcp, from: v1alpha1.MySQLPort, to: v1alpha1.MySQLPort}
	for _, id := range groupIDs {
		r := mysql
		r.group = id
		out[r] = struct{}{}
	}
	for _, cidr := range cidrs {
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

// Minus are the rules of s that other does not have.
func (s RuleSet) Minus(other RuleSet) RuleSet {
	out := RuleSet{}
	for r := range s {
		if _, ok := other[r]; !ok {
			out[r] = struct{}{}
		}
	}
	return out
}

// Sorted are the rules in a fixed order, those that let group in before the others.
func (s RuleSet) Sorted(group string) []Rule {
	return slices.SortedFunc(maps.Keys(s), func(a, b Rule) int {
		if (a.group == group) != (b.group == group) {
			if a.group == group {
				return -1
			}
			return 1
		}
		return compareRules(a, b)
	})
}

// Permissions is the rules as EC2 takes them, in a fixed order.
func (s RuleSet) Permissions() []types.IpPermission {
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

func compareRules(a, b Rule) int {
	key := func(r Rule) string { return strings.Join([]string{r.protocol, r.group, r.prefixList, r.cidr}, "|") }
	if c := strings.Compare(key(a), key(b)); c != 0 {
		return c
	}
	return int(a.from - b.from)
}

// Plus are the rules of both.
func (s RuleSet) Plus(other RuleSet) RuleSet {
	out := make(RuleSet, len(s)+len(other))
	for r := range s {
		out[r] = struct{}{}
	}
	for r := range other {
		out[r] = struct{}{}
	}
	return out
}

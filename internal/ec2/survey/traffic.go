package survey

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// Flow is TCP traffic of an instance with a network.
type Flow struct {
	// Out: the instance sends it.
	Out  bool
	Peer netip.Prefix
	// Public: private addresses of Peer do not count.
	Public bool
	// From and To are the destination's ports, both included.
	From, To int32
}

// Share is how much of a flow is let through.
type Share int

// The shares. Unknown: rules name prefix lists, whose addresses nobody here knows.
const (
	Nothing Share = iota
	Unknown
	Part
	Whole
)

// ACL is a network ACL.
type ACL struct {
	ID      string
	entries []types.NetworkAclEntry // in the order in which EC2 applies them
}

// ACLs reads the network ACLs of a VPC, by subnet.
func (s *Survey) ACLs(ctx context.Context, vpc string) (map[string]ACL, error) {
	pages := ec2.NewDescribeNetworkAclsPaginator(s.ec2, &ec2.DescribeNetworkAclsInput{Filters: []types.Filter{awsapi.Filter("vpc-id", vpc)}})
	out := map[string]ACL{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the network ACLs of %s: %w", vpc, err)
		}
		for _, found := range page.NetworkAcls {
			acl := aclOf(found)
			for _, a := range found.Associations {
				out[aws.ToString(a.SubnetId)] = acl
			}
		}
	}
	return out, nil
}

func aclOf(found types.NetworkAcl) ACL {
	return ACL{ID: aws.ToString(found.NetworkAclId), entries: slices.SortedFunc(slices.Values(found.Entries),
		func(a, b types.NetworkAclEntry) int {
			return cmp.Compare(aws.ToInt32(a.RuleNumber), aws.ToInt32(b.RuleNumber))
		})}
}

// Lets says how much of a flow the ACL lets through. The first entry that fits a packet decides; without one it is dropped.
func (a ACL) Lets(f Flow) Share {
	var networks []netip.Prefix
	ports := []int32{f.From}
	for _, e := range a.entries {
		if network, err := netip.ParsePrefix(aws.ToString(e.CidrBlock)); err == nil {
			networks = append(networks, network)
		}
		if e.PortRange != nil {
			ports = append(ports, aws.ToInt32(e.PortRange.From), aws.ToInt32(e.PortRange.To)+1)
		}
	}
	ports = slices.DeleteFunc(ports, func(port int32) bool { return port < f.From || port > f.To })
	return share(f.edges(networks), ports, func(address netip.Addr, port int32) bool {
		for _, e := range a.entries {
			if aws.ToBool(e.Egress) == f.Out && entryFits(e, address, port) {
				return e.RuleAction == types.RuleActionAllow
			}
		}
		return false
	})
}

func entryFits(e types.NetworkAclEntry, address netip.Addr, port int32) bool {
	network, err := netip.ParsePrefix(aws.ToString(e.CidrBlock))
	if err != nil || !network.Contains(address) {
		return false // entries of IPv6 have no CidrBlock
	}
	return portFits(aws.ToString(e.Protocol), e.PortRange == nil, port, func() (from, to *int32) { return e.PortRange.From, e.PortRange.To })
}

// portFits says whether a rule is about TCP and has the port. all says that it is about all ports.
func portFits(protocol string, all bool, port int32, bounds func() (from, to *int32)) bool {
	switch protocol {
	case "-1":
		return true
	case "6", "tcp":
		if all {
			return true
		}
		from, to := bounds()
		return aws.ToInt32(from) <= port && port <= aws.ToInt32(to)
	}
	return false
}

// Groups are security groups that an instance has together.
type Groups struct {
	ids     []string
	in, out []types.IpPermission
}

// Groups reads security groups. One that EC2 does not show is left out.
func (s *Survey) Groups(ctx context.Context, ids ...string) (Groups, error) {
	if len(ids) == 0 {
		return Groups{}, nil
	}
	pages := ec2.NewDescribeSecurityGroupsPaginator(s.ec2, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{awsapi.Filter("group-id", ids...)}})
	var out Groups
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Groups{}, fmt.Errorf("read security groups: %w", err)
		}
		for _, g := range page.SecurityGroups {
			out.ids, out.in, out.out = append(out.ids, aws.ToString(g.GroupId)), append(out.in, g.IpPermissions...), append(out.out, g.IpPermissionsEgress...)
		}
	}
	return out, nil
}

// Known says whether EC2 shows any of them.
func (g Groups) Known() bool { return len(g.ids) > 0 }

func (g Groups) String() string { return strings.Join(g.ids, ", ") }

// Lets says how much of a flow the groups let through. A peer that has one of peerGroups is let through by a rule that names it.
func (g Groups) Lets(f Flow, peerGroups Groups) Share {
	var networks []netip.Prefix
	lists := false
	for _, p := range g.about(f) {
		lists = lists || len(p.PrefixListIds) > 0
		for _, pair := range p.UserIdGroupPairs {
			if slices.Contains(peerGroups.ids, aws.ToString(pair.GroupId)) {
				return Whole
			}
		}
		for _, r := range p.IpRanges {
			if network, err := netip.ParsePrefix(aws.ToString(r.CidrIp)); err == nil {
				networks = append(networks, network)
			}
		}
	}
	found := share(f.edges(networks), []int32{f.From}, func(address netip.Addr, _ int32) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address) })
	})
	if found != Whole && lists {
		return Unknown
	}
	return found
}

// OnlyThemselves says whether nobody but instances with these groups is let in on a port.
func (g Groups) OnlyThemselves(port int32) bool {
	for _, p := range g.about(Flow{From: port, To: port}) {
		others := slices.ContainsFunc(p.UserIdGroupPairs, func(pair types.UserIdGroupPair) bool { return !slices.Contains(g.ids, aws.ToString(pair.GroupId)) })
		if others || len(p.IpRanges)+len(p.Ipv6Ranges)+len(p.PrefixListIds) > 0 {
			return false
		}
	}
	return true
}

// about are the permissions for the direction and all the ports of a flow.
func (g Groups) about(f Flow) []types.IpPermission {
	all := g.in
	if f.Out {
		all = g.out
	}
	var out []types.IpPermission
	for _, p := range all {
		bounds := func() (from, to *int32) { return p.FromPort, p.ToPort }
		if portFits(aws.ToString(p.IpProtocol), p.FromPort == nil, f.From, bounds) && portFits(aws.ToString(p.IpProtocol), p.FromPort == nil, f.To, bounds) {
			out = append(out, p)
		}
	}
	return out
}

// edges are the addresses of the peer at which networks begin, or end just before. What lies between two of them is all the same.
func (f Flow) edges(networks []netip.Prefix) []netip.Addr {
	out := []netip.Addr{f.Peer.Masked().Addr()}
	for _, n := range networks {
		for _, address := range []netip.Addr{n.Masked().Addr(), after(n)} {
			if f.Peer.Contains(address) && (!f.Public || !address.IsPrivate()) {
				out = append(out, address)
			}
		}
	}
	return out
}

// after is the first address behind a network of IPv4, invalid when there is none.
func after(n netip.Prefix) netip.Addr {
	if !n.Addr().Is4() {
		return netip.Addr{}
	}
	last := n.Masked().Addr().As4()
	for bit := n.Bits(); bit < 32; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(last).Next()
}

// share tries all pairs of addresses and ports.
func share(addresses []netip.Addr, ports []int32, lets func(netip.Addr, int32) bool) Share {
	passed, tried := 0, 0
	for _, address := range addresses {
		for _, port := range ports {
			tried++
			if lets(address, port) {
				passed++
			}
		}
	}
	switch passed {
	case 0:
		return Nothing
	case tried:
		return Whole
	}
	return Part
}

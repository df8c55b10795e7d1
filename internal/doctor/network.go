package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/survey"
)

const (
	httpsPort = 443
	// firstEphemeral and lastEphemeral are the ports from which Linux opens connections, and to which answers go.
	firstEphemeral, lastEphemeral = 32768, 60999
)

// everywhere is every network.
var everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// download and downloaded are the flows of a download from the Internet.
var (
	download   = survey.Flow{Out: true, Peer: everywhere, Public: true, From: httpsPort, To: httpsPort}
	downloaded = survey.Flow{Peer: everywhere, Public: true, From: firstEphemeral, To: lastEphemeral}
)

func mysqlFlow(out bool, peer netip.Prefix) survey.Flow {
	return survey.Flow{Out: out, Peer: peer, From: v1alpha1.MySQLPort, To: v1alpha1.MySQLPort}
}

func answers(out bool, peer netip.Prefix) survey.Flow {
	return survey.Flow{Out: out, Peer: peer, From: firstEphemeral, To: lastEphemeral}
}

// knownSubnets are the subnets of the spec that exist and have an IPv4 range, in the order of the spec.
func knownSubnets(ctx context.Context, p *patient, a *account) ([]inventory.Subnet, error) {
	ids := p.cluster.Spec.AWS.SubnetIDs
	found, err := a.cloud.Inventory.AskSubnets(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []inventory.Subnet
	for _, id := range ids {
		if s, exists := found[id]; exists && network(s.CIDR).IsValid() {
			out = append(out, s)
		}
	}
	return out, nil
}

func network(cidr string) netip.Prefix {
	n, err := netip.ParsePrefix(cidr)
	if err != nil {
		return netip.Prefix{}
	}
	return n.Masked()
}

// clientNetworks are the networks that the spec lets in.
func clientNetworks(c *v1alpha1.MySQLCluster) []netip.Prefix {
	var out []netip.Prefix
	for _, cidr := range c.Spec.AWS.ClientCIDRs {
		if n := network(cidr); n.IsValid() {
			out = append(out, n)
		}
	}
	return out
}

// stopped collects the flows that something does not let through.
type stopped struct{ texts []string }

func (s *stopped) add(by string, f survey.Flow, peer string) {
	ports := fmt.Sprintf("port %d", f.From)
	if f.From != f.To {
		ports = fmt.Sprintf("ports %d-%d", f.From, f.To)
	}
	way := "in from "
	if f.Out {
		way = "out to "
	}
	// One sentence for all peers of the same rules.
	begin := fmt.Sprintf("%s does not let TCP %s %s", by, ports, way)
	for i, text := range s.texts {
		if strings.HasPrefix(text, begin) {
			if !slices.Contains(strings.Split(text[len(begin):], ", "), peer) {
				s.texts[i] = text + ", " + peer
			}
			return
		}
	}
	s.texts = append(s.texts, begin+peer)
}

func (s *stopped) String() string { return strings.Join(s.texts, "; ") }

// checkACLs: the network ACLs of the subnets let members reach each other, clients reach members, and members the site of MySQL. An ACL
// knows no connections: it has to let the answers through as well. It does not see what stays within a subnet.
func checkACLs(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	subnets, err := knownSubnets(ctx, p, a)
	if err != nil {
		return unread(err, "ec2:DescribeSubnets")
	}
	if len(subnets) == 0 {
		return notChecked("correct subnets, see its finding", "none of the subnets exists")
	}
	var wrong, doubtful stopped
	var seen []string
	for _, s := range subnets {
		acls, err := a.survey.ACLs(ctx, s.VPCID)
		if err != nil {
			return unread(err, "ec2:DescribeNetworkAcls")
		}
		acl, found := acls[s.ID]
		if !found {
			return notChecked("run the doctor again", "EC2 shows no network ACL of subnet %s", s.ID)
		}
		judgeACL(acl, s, subnets, p.cluster, &wrong, &doubtful)
		seen = append(seen, fmt.Sprintf("%s of subnet %s", acl.ID, s.ID))
	}
	const change = "let TCP 3306 and the answers (ports 1024-65535) in and out for the subnets of members and the networks of clients (docs/aws.md)"
	switch {
	case len(wrong.texts) > 0:
		return failed(change, "%s", &wrong)
	case len(doubtful.texts) > 0:
		return warning(change+", or name fewer networks in spec.aws.clientCIDRs", "%s", &doubtful)
	}
	return ok("the network ACLs let members and clients through: %s", strings.Join(seen, ", "))
}

// judgeACL adds what the ACL of a subnet stops. Of a client's network it may stop a part where the spec names a wide one.
func judgeACL(acl survey.ACL, of inventory.Subnet, subnets []inventory.Subnet, c *v1alpha1.MySQLCluster, wrong, doubtful *stopped) {
	by := "network ACL " + acl.ID
	for _, other := range subnets {
		if other.ID == of.ID {
			continue
		}
		peer := network(other.CIDR)
		for _, f := range []survey.Flow{mysqlFlow(false, peer), mysqlFlow(true, peer), answers(false, peer), answers(true, peer)} {
			if acl.Lets(f) != survey.Whole {
				wrong.add(by, f, fmt.Sprintf("subnet %s (%s)", other.ID, peer))
			}
		}
	}
	for _, peer := range clientNetworks(c) {
		for _, f := range []survey.Flow{mysqlFlow(false, peer), answers(true, peer)} {
			switch acl.Lets(f) {
			case survey.Whole:
			case survey.Nothing:
				wrong.add(by, f, "the clients of "+peer.String())
			case survey.Part, survey.Unknown:
				doubtful.add(by, f, "all clients of "+peer.String())
			}
		}
	}
	if !downloads(c) {
		return
	}
	for _, f := range []survey.Flow{download, downloaded} {
		if acl.Lets(f) == survey.Nothing {
			wrong.add(by, f, "the Internet")
		}
	}
}

// checkRules: the rules of the security groups let members reach each other, somebody else reach members, and members the site of MySQL.
func checkRules(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	subnets, err := knownSubnets(ctx, p, a)
	if err != nil {
		return unread(err, "ec2:DescribeSubnets")
	}
	members, err := a.survey.Groups(ctx, memberGroups(ctx, p, a)...)
	if err != nil {
		return unread(err, "ec2:DescribeSecurityGroups")
	}
	var wrong, doubtful stopped
	if members.Known() {
		judgeMembers(members, subnets, p.cluster, &wrong, &doubtful)
	}
	if err := judgeClients(ctx, p, a, members, subnets, &doubtful); err != nil {
		return unread(err, "ec2:DescribeSecurityGroups")
	}
	const change = "add the rules that docs/aws.md lists under The network"
	switch {
	case len(wrong.texts) > 0:
		return failed(change, "%s", &wrong)
	case len(doubtful.texts) > 0:
		return warning(change, "%s", &doubtful)
	case members.Known():
		return ok("the rules of %s let members and clients through", members)
	case len(p.cluster.Spec.AWS.SecurityGroupIDs) > 0:
		return notChecked("correct security-groups, see its finding", "none of the security groups exists")
	}
	return ok("the cluster gets a group of its own with the rules that it needs")
}

// memberGroups are those of the spec, or the cluster's own once it is made.
func memberGroups(ctx context.Context, p *patient, a *account) []string {
	ids := p.cluster.Spec.AWS.SecurityGroupIDs
	if len(ids) > 0 {
		return ids
	}
	_, _ = a.cloud.Inventory.Observe(ctx, string(p.cluster.UID), 0) // that it cannot be read is a finding of iam-read
	for _, g := range a.cloud.Inventory.Known(string(p.cluster.UID)).SecurityGroups {
		ids = append(ids, g.ID)
	}
	return ids
}

// judgeClients adds the groups of clients that do not let clients out to members. Pods can have other groups besides that do.
func judgeClients(ctx context.Context, p *patient, a *account, members survey.Groups, subnets []inventory.Subnet, doubtful *stopped) error {
	for _, id := range p.cluster.Spec.AWS.ClientSecurityGroupIDs {
		client, err := a.survey.Groups(ctx, id)
		if err != nil {
			return err
		}
		for _, s := range subnets {
			if f := mysqlFlow(true, network(s.CIDR)); client.Known() && client.Lets(f, members) < survey.Whole {
				doubtful.add("the group of clients "+id, f, fmt.Sprintf("subnet %s (%s)", s.ID, f.Peer))
			}
		}
	}
	return nil
}

// judgeMembers adds what the groups of the members stop.
func judgeMembers(g survey.Groups, subnets []inventory.Subnet, c *v1alpha1.MySQLCluster, wrong, doubtful *stopped) {
	by := "security group " + g.String()
	judge := func(f survey.Flow, peers survey.Groups, peer string, least survey.Share) {
		switch share := g.Lets(f, peers); {
		case share >= least:
		case share == survey.Unknown:
			doubtful.add(by+", but for its prefix lists,", f, peer)
		default:
			wrong.add(by, f, peer)
		}
	}
	for _, s := range subnets {
		for _, out := range []bool{false, true} {
			f := mysqlFlow(out, network(s.CIDR))
			judge(f, g, fmt.Sprintf("members in subnet %s (%s)", s.ID, f.Peer), survey.Whole)
		}
	}
	if g.OnlyThemselves(v1alpha1.MySQLPort) {
		wrong.add(by, mysqlFlow(false, everywhere), "anybody but members, so not from the operator")
	}
	for _, peer := range clientNetworks(c) {
		judge(mysqlFlow(false, peer), survey.Groups{}, "the clients of "+peer.String(), survey.Whole)
	}
	if downloads(c) {
		judge(download, survey.Groups{}, "the Internet", survey.Part)
	}
}

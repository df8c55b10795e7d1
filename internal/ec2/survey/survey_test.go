package survey

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	policies "github.com/alx-ke/nairobi-mysql-operator/config/aws"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
)

func actionsOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := policies.Policies.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := iam.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range d.Statement {
		all = append(all, s.Action...)
	}
	return all
}

// TestPolicyAllowsWhatTheSurveyCalls: beside the operator's policy, and no more than that.
func TestPolicyAllowsWhatTheSurveyCalls(t *testing.T) {
	operator, own := actionsOf(t, "operator.json"), actionsOf(t, "doctor.json")
	called := map[string]bool{}
	for service, api := range map[string]reflect.Type{
		"ec2": reflect.TypeFor[EC2API](), "servicequotas": reflect.TypeFor[QuotasAPI](), "kms": reflect.TypeFor[KMSAPI](),
	} {
		for i := range api.NumMethod() {
			action := service + ":" + api.Method(i).Name
			called[action] = true
			if !slices.Contains(operator, action) && !slices.Contains(own, action) {
				t.Errorf("%s is called, and neither operator.json nor doctor.json allows it", action)
			}
		}
	}
	for _, action := range own {
		if !called[action] {
			t.Errorf("doctor.json allows %s, which nobody calls", action)
		}
	}
}

// TestExits: what counts of a route table. moto has no gateway endpoints and no blackholes.
func TestExits(t *testing.T) {
	local := types.Route{DestinationCidrBlock: aws.String("10.0.0.0/16"), GatewayId: aws.String("local")}
	out := func(r types.Route) types.Route { r.DestinationCidrBlock = aws.String(defaultRoute); return r }
	for name, row := range map[string]struct {
		routes []types.Route
		want   Exit
		public bool
	}{
		"local only":       {[]types.Route{local}, Exit{Table: "rtb-1"}, false},
		"NAT":              {[]types.Route{local, out(types.Route{NatGatewayId: aws.String("nat-1")})}, Exit{Table: "rtb-1", Target: "nat-1"}, false},
		"Internet gateway": {[]types.Route{out(types.Route{GatewayId: aws.String("igw-1")}), local}, Exit{Table: "rtb-1", Target: "igw-1"}, true},
		"a target that is gone": {[]types.Route{out(types.Route{NatGatewayId: aws.String("nat-1"), State: types.RouteStateBlackhole})},
			Exit{Table: "rtb-1", Target: "nat-1", Blackhole: true}, false},
		"gateway endpoint": {[]types.Route{local, {DestinationPrefixListId: aws.String("pl-1"), GatewayId: aws.String("vpce-1")}}, Exit{Table: "rtb-1", ToGateway: true}, false},
	} {
		got := exitOf(types.RouteTable{RouteTableId: aws.String("rtb-1"), Routes: row.routes})
		if got != row.want || got.NeedsPublicAddress() != row.public {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}

func entry(number int32, out bool, action types.RuleAction, protocol, cidr string, ports ...int32) types.NetworkAclEntry {
	e := types.NetworkAclEntry{RuleNumber: aws.Int32(number), Egress: aws.Bool(out), RuleAction: action, Protocol: aws.String(protocol), CidrBlock: aws.String(cidr)}
	if len(ports) > 0 {
		e.PortRange = &types.PortRange{From: aws.Int32(ports[0]), To: aws.Int32(ports[1])}
	}
	return e
}

// TestACL: the first entry that fits decides, for each address and port.
func TestACL(t *testing.T) {
	const allow, deny = types.RuleActionAllow, types.RuleActionDeny
	all := entry(100, false, allow, "-1", "0.0.0.0/0")
	peer := netip.MustParsePrefix("10.0.1.0/24")
	mysql, high := Flow{Peer: peer, From: 3306, To: 3306}, Flow{Peer: peer, From: 32768, To: 60999}
	for name, row := range map[string]struct {
		flow    Flow
		entries []types.NetworkAclEntry
		want    Share
	}{
		"no entries":                   {mysql, nil, Nothing},
		"all":                          {mysql, []types.NetworkAclEntry{all}, Whole},
		"the other direction":          {Flow{Out: true, Peer: peer, From: 3306, To: 3306}, []types.NetworkAclEntry{all}, Nothing},
		"the lower number":             {mysql, []types.NetworkAclEntry{all, entry(90, false, deny, "6", "0.0.0.0/0", 3306, 3306)}, Nothing},
		"the higher number":            {mysql, []types.NetworkAclEntry{entry(110, false, deny, "6", "0.0.0.0/0", 3306, 3306), all}, Whole},
		"another protocol":             {mysql, []types.NetworkAclEntry{all, entry(90, false, deny, "17", "0.0.0.0/0", 0, 65535)}, Whole},
		"a part of the network":        {mysql, []types.NetworkAclEntry{all, entry(90, false, deny, "-1", "10.0.1.128/25")}, Part},
		"the beginning of the network": {mysql, []types.NetworkAclEntry{all, entry(90, false, deny, "-1", "10.0.1.0/25")}, Part},
		"another network":              {mysql, []types.NetworkAclEntry{all, entry(90, false, deny, "-1", "10.0.2.0/24")}, Whole},
		"two halves":                   {mysql, []types.NetworkAclEntry{entry(1, false, allow, "6", "10.0.1.0/25", 3306, 3306), entry(2, false, allow, "6", "10.0.1.128/25", 0, 4000)}, Whole},
		"a part of the ports":          {high, []types.NetworkAclEntry{entry(1, false, allow, "6", "10.0.0.0/16", 1024, 49151)}, Part},
		"the last ports":               {high, []types.NetworkAclEntry{entry(1, false, allow, "6", "10.0.0.0/16", 49152, 65535)}, Part},
		"all the ports":                {high, []types.NetworkAclEntry{entry(1, false, allow, "6", "10.0.0.0/16", 1024, 65535)}, Whole},
		"private addresses only":       {Flow{Peer: netip.MustParsePrefix("0.0.0.0/0"), Public: true, From: 443, To: 443}, []types.NetworkAclEntry{entry(1, false, allow, "-1", "10.0.0.0/8")}, Nothing},
		"IPv6":                         {mysql, []types.NetworkAclEntry{{RuleNumber: aws.Int32(1), Egress: aws.Bool(false), RuleAction: allow, Protocol: aws.String("-1"), Ipv6CidrBlock: aws.String("::/0")}}, Nothing},
	} {
		if got := aclOf(types.NetworkAcl{Entries: row.entries}).Lets(row.flow); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

// TestGroups: rules add up, and none forbids.
func TestGroups(t *testing.T) {
	rule := func(protocol string, from, to int32, cidrs ...string) types.IpPermission {
		p := types.IpPermission{IpProtocol: aws.String(protocol), FromPort: aws.Int32(from), ToPort: aws.Int32(to)}
		for _, cidr := range cidrs {
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: aws.String(cidr)})
		}
		return p
	}
	naming := func(id string) types.IpPermission {
		p := rule("tcp", 3306, 3306)
		p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: aws.String(id)}}
		return p
	}
	listing := rule("tcp", 0, 65535)
	listing.PrefixListIds = []types.PrefixListId{{PrefixListId: aws.String("pl-1")}}
	mysql := Flow{Peer: netip.MustParsePrefix("10.0.1.0/24"), From: 3306, To: 3306}
	for name, row := range map[string]struct {
		in   []types.IpPermission
		want Share
		own  bool // nobody else is let in
	}{
		"none":              {nil, Nothing, true},
		"itself":            {[]types.IpPermission{naming("sg-1")}, Whole, true},
		"another group":     {[]types.IpPermission{naming("sg-2")}, Nothing, false},
		"another port":      {[]types.IpPermission{rule("tcp", 3307, 33060, "10.0.0.0/8")}, Nothing, true},
		"a range":           {[]types.IpPermission{rule("tcp", 3000, 4000, "10.0.0.0/8")}, Whole, false},
		"another protocol":  {[]types.IpPermission{rule("udp", 3306, 3306, "10.0.0.0/8")}, Nothing, true},
		"all protocols":     {[]types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}, Whole, false},
		"a part":            {[]types.IpPermission{rule("tcp", 3306, 3306, "10.0.1.0/26")}, Part, false},
		"parts that add up": {[]types.IpPermission{rule("tcp", 3306, 3306, "10.0.1.0/25"), rule("tcp", 3306, 3306, "10.0.1.128/25")}, Whole, false},
		"a prefix list":     {[]types.IpPermission{listing}, Unknown, false},
	} {
		g := Groups{ids: []string{"sg-1"}, in: row.in}
		if got := g.Lets(mysql, g); got != row.want || g.OnlyThemselves(3306) != row.own {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
		out := mysql
		out.Out = true
		if got := (Groups{ids: g.ids, out: row.in}).Lets(out, g); got != row.want || g.Lets(out, g) != Nothing {
			t.Errorf("%s, out: %d, want %d", name, got, row.want)
		}
	}
}

// TestSources: what the SDK calls the links of its chain.
func TestSources(t *testing.T) {
	for name, want := range map[string]string{
		"EC2RoleProvider": "the role of the node's EC2 instance", "CredentialsEndpointProvider": "EKS Pod Identity or a container's role",
		"WebIdentityCredentials": "IRSA (a token of the service account)", "EnvConfigCredentials": "access keys in environment variables", "Other": "Other",
	} {
		if got := sourceOf(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

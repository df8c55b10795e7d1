package survey

import (
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

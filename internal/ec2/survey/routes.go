package survey

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// defaultRoute is the destination of everything that no other route leads to.
const defaultRoute = "0.0.0.0/0"

// Exit is where a subnet sends what goes to the Internet.
type Exit struct {
	// Table is the route table, Target what its default route leads to, empty when it has none.
	Table, Target string
	// Blackhole: the target is gone.
	Blackhole bool
	// ToGateway says that the table leads to a gateway endpoint, by which S3 is reached without a default route.
	ToGateway bool
}

// NeedsPublicAddress says whether only instances with a public address get out that way. Members have none.
func (e Exit) NeedsPublicAddress() bool { return strings.HasPrefix(e.Target, "igw-") }

// Exits reads the route tables of subnets of a VPC, by subnet. A subnet that names no table has the VPC's main one.
func (s *Survey) Exits(ctx context.Context, vpc string, subnets []string) (map[string]Exit, error) {
	pages := ec2.NewDescribeRouteTablesPaginator(s.ec2, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{awsapi.Filter("vpc-id", vpc)}})
	own, main := map[string]Exit{}, Exit{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the route tables of %s: %w", vpc, err)
		}
		for _, table := range page.RouteTables {
			exit := exitOf(table)
			for _, a := range table.Associations {
				if aws.ToBool(a.Main) {
					main = exit
				}
				own[aws.ToString(a.SubnetId)] = exit
			}
		}
	}
	out := map[string]Exit{}
	for _, subnet := range subnets {
		exit, ok := own[subnet]
		if !ok {
			exit = main
		}
		out[subnet] = exit
	}
	return out, nil
}

func exitOf(table types.RouteTable) Exit {
	exit := Exit{Table: aws.ToString(table.RouteTableId)}
	for _, r := range table.Routes {
		target := cmp.Or(aws.ToString(r.NatGatewayId), aws.ToString(r.TransitGatewayId), aws.ToString(r.GatewayId), aws.ToString(r.NetworkInterfaceId),
			aws.ToString(r.InstanceId), aws.ToString(r.VpcPeeringConnectionId), aws.ToString(r.LocalGatewayId), aws.ToString(r.CarrierGatewayId), aws.ToString(r.CoreNetworkArn))
		switch {
		case aws.ToString(r.DestinationCidrBlock) == defaultRoute:
			exit.Target, exit.Blackhole = cmp.Or(target, "an unknown target"), r.State == types.RouteStateBlackhole
		case aws.ToString(r.DestinationPrefixListId) != "" && strings.HasPrefix(target, "vpce-"):
			exit.ToGateway = true
		}
	}
	return exit
}

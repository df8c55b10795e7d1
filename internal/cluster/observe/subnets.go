package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// readSubnets resolves the subnets of the spec. One that is missing holds up a cluster of which nothing was made yet, so
// that its members are spread as the spec says; later the others go on to be used.
func (r *Cloud) readSubnets(ctx context.Context, s *pass.Pass) {
	subnets, missing, err := s.Access.Cloud.Inventory.Subnets(ctx, s.Cluster.Spec.AWS.SubnetIDs)
	switch text := fmt.Sprintf("%s: EC2 knows no %s in %s", fieldSubnetIDs, strings.Join(missing, ", "), s.Access.Cloud.Inventory.Region()); {
	case err != nil:
		s.Seen.DependencyProblem = engine.DependencyError(fieldSubnetIDs, err)
		return
	case len(missing) > 0 && (len(s.Records().Members) == 0 || len(subnets) == 0):
		remedy := "Append one in the zone of each member's volume"
		if len(s.Records().Members) == 0 {
			remedy = "If the id or the region is wrong, delete the cluster and create it again: neither can be taken out, and nothing was made yet"
		}
		s.Seen.DependencyProblem = &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, Message: "waiting for a subnet; " + text + ". " + remedy, After: engine.AfterWaiting}
		return
	case len(missing) > 0:
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonWaitingForDependency,
			Message: text + "; new volumes and instances are made in the other subnets. Append one in the same zone"})
	}
	var settled bool
	s.Seen.VPC, settled = home(s, subnets)
	for _, subnet := range subnets {
		if subnet.VPCID != s.Seen.VPC && settled {
			s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
				"%s: subnet %s is in %s, but the members are in %s: nothing is made in it. Append one of %s in its place", fieldSubnetIDs, subnet.ID, subnet.VPCID, s.Seen.VPC, s.Seen.VPC)})
			continue
		}
		s.Desired.Subnets = append(s.Desired.Subnets, topology.Subnet{ID: subnet.ID, Zone: subnet.Zone})
	}
	s.Desired.Subnets = s.Cache.Requests.WithRefusals(s.Desired.Subnets, r.Clock.Now())
}

// home is the VPC that the cluster is in: that of its instances, else of its own security group. The spec's subnets may have been
// appended to since. Where nothing is there to go by it is the first subnet's, and not settled: then the preflight speaks.
func home(s *pass.Pass, subnets []inventory.Subnet) (vpc string, settled bool) {
	for _, in := range s.Seen.Inventory.Instances {
		if i := slices.IndexFunc(subnets, func(subnet inventory.Subnet) bool { return subnet.ID == in.SubnetID }); i >= 0 && in.State != inventory.StateTerminated {
			return subnets[i].VPCID, true
		}
	}
	for _, group := range s.Seen.Inventory.SecurityGroups {
		if group.Name == ec2.GroupName(s.UID()) && slices.ContainsFunc(subnets, func(subnet inventory.Subnet) bool { return subnet.VPCID == group.VPCID }) {
			return group.VPCID, true
		}
	}
	if len(subnets) == 0 {
		return "", false
	}
	return subnets[0].VPCID, false
}

// fieldSubnetIDs is the path of the field that names the subnets.
const fieldSubnetIDs = "spec.aws.subnetIDs"

// SubnetIDs are the subnets that there are.
func SubnetIDs(s *pass.Pass) []string {
	var ids []string
	for _, subnet := range s.Desired.Subnets {
		ids = append(ids, subnet.ID)
	}
	return ids
}

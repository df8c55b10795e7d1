package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// readSubnets resolves the subnets of the spec. One that is missing holds up a cluster of which nothing was made yet, so
// that its members are spread as the spec says; later the others go on to be used.
func (r *cloudObserver) readSubnets(ctx context.Context, s *pass) {
	subnets, missing, err := s.access.cloud.Subnets(ctx, s.cluster.Spec.AWS.SubnetIDs)
	switch text := fmt.Sprintf("%s: EC2 knows no %s in %s", fieldSubnetIDs, strings.Join(missing, ", "), s.access.cloud.Region()); {
	case err != nil:
		s.seen.dependencyProblem = engine.DependencyError(fieldSubnetIDs, err)
		return
	case len(missing) > 0 && (len(s.records().Members) == 0 || len(subnets) == 0):
		s.seen.dependencyProblem = &engine.Problem{Reason: v1alpha1.ReasonWaitingForDependency, Message: "waiting for a subnet; " + text, After: engine.AfterWaiting}
		return
	case len(missing) > 0:
		s.unmet = append(s.unmet, topology.Finding{Reason: v1alpha1.ReasonWaitingForDependency,
			Message: text + "; new volumes and instances are made in the other subnets. Create it again, or append one in the same zone"})
	}
	var settled bool
	s.seen.vpc, settled = home(s, subnets)
	for _, subnet := range subnets {
		if subnet.VPCID != s.seen.vpc && settled {
			s.unmet = append(s.unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
				"%s: subnet %s is in %s, but the members are in %s: nothing is made in it. Append one of %s in its place", fieldSubnetIDs, subnet.ID, subnet.VPCID, s.seen.vpc, s.seen.vpc)})
			continue
		}
		s.desired.Subnets = append(s.desired.Subnets, topology.Subnet{ID: subnet.ID, Zone: subnet.Zone})
	}
}

// home is the VPC that the cluster is in: that of its machines, else of its own security group. The spec's subnets may have been
// appended to since. Where nothing is there to go by it is the first subnet's, and not settled: then the preflight speaks.
func home(s *pass, subnets []ec2.Subnet) (vpc string, settled bool) {
	for _, in := range s.seen.inventory.Instances {
		if i := slices.IndexFunc(subnets, func(subnet ec2.Subnet) bool { return subnet.ID == in.SubnetID }); i >= 0 && in.State != ec2.StateTerminated {
			return subnets[i].VPCID, true
		}
	}
	for _, group := range s.seen.inventory.SecurityGroups {
		if group.Name == ec2.GroupName(s.uid()) && slices.ContainsFunc(subnets, func(subnet ec2.Subnet) bool { return subnet.VPCID == group.VPCID }) {
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

// subnetIDs are the subnets that there are.
func subnetIDs(s *pass) []string {
	var ids []string
	for _, subnet := range s.desired.Subnets {
		ids = append(ids, subnet.ID)
	}
	return ids
}

package ec2

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// subnet makes a subnet that a test may delete again.
func (l *lab) subnet(cidr string) string {
	l.t.Helper()
	made, err := l.sdk().CreateSubnet(l.t.Context(), &awsec2.CreateSubnetInput{
		VpcId: aws.String(l.seeded.VPC), CidrBlock: aws.String(cidr), AvailabilityZone: aws.String(zoneB)})
	if err != nil {
		l.t.Fatal(err)
	}
	return aws.ToString(made.Subnet.SubnetId)
}

func (l *lab) deleteSubnet(id string) {
	l.t.Helper()
	if _, err := l.sdk().DeleteSubnet(l.t.Context(), &awsec2.DeleteSubnetInput{SubnetId: aws.String(id)}); err != nil {
		l.t.Fatal(err)
	}
}

func idsOf(subnets []inventory.Subnet) []string {
	var ids []string
	for _, s := range subnets {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestOneMissingSubnetIsNamedAndTheOthersAreUsed(t *testing.T) {
	l := newLab(t)
	seeded := l.seeded.SubnetIDs()
	vanishing := l.subnet("10.77.40.0/24")
	ids := []string{seeded[2], vanishing, seeded[0]}
	if exist, missing, err := l.cloud.Inventory.Subnets(t.Context(), ids); err != nil || !slices.Equal(idsOf(exist), ids) || len(missing) != 0 {
		t.Fatalf("%v, missing %v (%v)", exist, missing, err)
	}
	l.deleteSubnet(vanishing)
	l.pass(inventory.SubnetFor)
	l.cloud.Inventory.Round(t.Context())
	exist, missing, err := l.cloud.Inventory.Subnets(t.Context(), ids)
	if err != nil || !slices.Equal(idsOf(exist), []string{seeded[2], seeded[0]}) || !slices.Equal(missing, []string{vanishing}) {
		t.Errorf("%v, missing %v (%v)", exist, missing, err)
	}
	// What was never there is named as well.
	exist, missing, err = l.cloud.Inventory.Subnets(t.Context(), []string{"subnet-0deadbeef00000001", seeded[1], "subnet-0deadbeef00000002"})
	if err != nil || len(exist) != 1 || !slices.Equal(missing, []string{"subnet-0deadbeef00000001", "subnet-0deadbeef00000002"}) {
		t.Errorf("%v, missing %v (%v)", exist, missing, err)
	}
}

// Looking at a Ready cluster costs no call, however long it goes on, and whether or not a subnet is missing.
func TestReadingSubnetsCostsNoCallWhileTheBackgroundRuns(t *testing.T) {
	l := newLab(t)
	ids := append(l.seeded.SubnetIDs(), "subnet-0deadbeef00000001")
	read := func() (exist int) {
		t.Helper()
		before := l.proxy.Counts()["DescribeSubnets"]
		found, missing, err := l.cloud.Inventory.Subnets(t.Context(), ids)
		if err != nil || len(found)+len(missing) != len(ids) {
			t.Fatalf("%v, missing %v (%v)", found, missing, err)
		}
		if n := l.proxy.Counts()["DescribeSubnets"] - before; n != 0 {
			t.Fatalf("at %s reading made %d calls", l.clock.Now(), n)
		}
		return len(found)
	}
	if _, _, err := l.cloud.Inventory.Subnets(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	for range 3 * int(inventory.SubnetFor/inventory.SweepInterval) { // half an hour, of reconciles and of the background's rounds
		read()
		l.pass(inventory.SweepInterval)
		read()
		l.cloud.Inventory.Round(t.Context())
	}
	// One look at the missing one a round, one at the others every ten minutes, together when both are due.
	if n := l.proxy.Counts()["DescribeSubnets"]; n > 3*int(inventory.SubnetFor/inventory.SweepInterval)+1 {
		t.Errorf("%d calls in half an hour", n)
	}
	created := l.subnet("10.77.41.0/24")
	defer l.deleteSubnet(created)
	ids[3] = created
	if exist, missing, err := l.cloud.Inventory.Subnets(t.Context(), ids); err != nil || len(exist) != 4 || len(missing) != 0 {
		t.Errorf("a subnet that the spec has just come to name: %v, missing %v (%v)", exist, missing, err)
	}
	l.pass(inventory.IdleAfter + time.Minute)
	l.cloud.Inventory.Round(t.Context())
	before := l.proxy.Counts()["DescribeSubnets"]
	l.pass(inventory.SubnetFor)
	l.cloud.Inventory.Round(t.Context())
	if n := l.proxy.Counts()["DescribeSubnets"] - before; n != 0 {
		t.Errorf("%d calls for subnets that nobody asks for", n)
	}
}

// What EC2 does not say leaves what it said.
func TestSubnetsWhileEC2IsSilent(t *testing.T) {
	l := newLab(t)
	ids := l.seeded.SubnetIDs()
	if _, _, err := l.cloud.Inventory.Subnets(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	for name, rule := range map[string]proxy.Rule{
		"throttled": proxy.Throttle("DescribeSubnets"), "denied": proxy.Deny("DescribeSubnets"), "refused": {Kind: proxy.Refuse},
	} {
		remove := l.fault(rule)
		l.pass(inventory.SubnetGrace*inventory.SubnetFor + time.Minute)
		exist, missing, err := l.cloud.Inventory.Subnets(t.Context(), ids)
		if err != nil || !slices.Equal(idsOf(exist), ids) || len(missing) != 0 {
			t.Errorf("%s: %v, missing %v (%v)", name, exist, missing, err)
		}
		stranger := l.newCloud()
		l.proxy.ResetCalls()
		for range 20 {
			if _, missing, err := stranger.Inventory.Subnets(t.Context(), ids); err == nil || len(missing) != 0 || awsapi.IsNotFound(err) {
				t.Errorf("%s, and nothing is known: missing %v (%v)", name, missing, err)
			}
		}
		if n := l.proxy.Counts()["DescribeSubnets"]; n > 2 { // the SDK tries most failures twice
			t.Errorf("%s: %d calls in the same moment", name, n)
		}
		remove()
	}
}

package inventory

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	clocktesting "k8s.io/utils/clock/testing"
)

// zones is an EC2 that knows some subnets.
type zones struct {
	awsapi.API
	subnets []types.Subnet
	// answers, unless nil, is closed when EC2 is to answer.
	answers chan struct{}
}

// DescribeSubnets implements API.
func (z *zones) DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	if z.answers != nil {
		<-z.answers
	}
	return &ec2.DescribeSubnetsOutput{Subnets: z.subnets}, nil
}

// A subnet that is made after its cluster is found without the background too, and so is one that came to nothing.
func TestSubnetThatAppears(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	api := &zones{}
	r := NewReader(awsapi.Clients{EC2: api}, Options{Clock: clock, Interval: SweepInterval, Patience: time.Minute})
	subnet := func(state types.SubnetState) []types.Subnet {
		return []types.Subnet{{SubnetId: aws.String("subnet-1"), State: state}}
	}
	for _, step := range []struct {
		name    string
		after   time.Duration
		there   []types.Subnet
		exists  bool
		current types.SubnetState
	}{
		{"it is missing", 0, nil, false, ""},
		{"it is made, and nobody asks so soon", SweepInterval, subnet(types.SubnetStatePending), false, ""},
		{"it is pending", SweepInterval + time.Second, subnet(types.SubnetStatePending), true, types.SubnetStatePending},
		{"it came to nothing", SubnetGrace*SweepInterval + time.Second, nil, false, ""},
		{"it is made again", SubnetGrace*SweepInterval + time.Second, subnet(types.SubnetStateAvailable), true, types.SubnetStateAvailable},
		{"it is deleted, which is seen late", SubnetFor, nil, true, types.SubnetStateAvailable},
		{"it is deleted", SubnetFor + time.Second, nil, false, ""},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		api.subnets = step.there
		exist, missing, err := r.Subnets(t.Context(), []string{"subnet-1"})
		if err != nil || len(exist)+len(missing) != 1 || (len(exist) == 1) != step.exists || step.exists && exist[0].State != string(step.current) {
			t.Errorf("%s: %v, missing %v (%v)", step.name, exist, missing, err)
		}
	}
}

// TestNobodyWaitsLongForSubnets: a slow answer is taken by a later pass, and what was known before counts meanwhile.
func TestNobodyWaitsLongForSubnets(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	api := &zones{subnets: []types.Subnet{{SubnetId: aws.String("subnet-1"), State: types.SubnetStateAvailable}}, answers: make(chan struct{})}
	r := NewReader(awsapi.Clients{EC2: api}, Options{Clock: clock, Interval: SweepInterval, Patience: time.Millisecond})
	if exist, missing, err := r.Subnets(t.Context(), []string{"subnet-1"}); !awsapi.IsWaiting(err) || len(exist)+len(missing) != 0 {
		t.Errorf("while EC2 does not answer: %v, missing %v (%v)", exist, missing, err)
	}
	close(api.answers)
	known := func() bool {
		exist, _, err := r.Subnets(t.Context(), []string{"subnet-1"})
		return err == nil && len(exist) == 1
	}
	for deadline := time.Now().Add(10 * time.Second); !known(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the late answer is not used")
		}
	}
	api.answers = make(chan struct{})
	defer close(api.answers)
	clock.SetTime(clock.Now().Add(SubnetGrace*SubnetFor + time.Second))
	if !known() {
		t.Error("what was known before does not count while EC2 does not answer")
	}
}

// A subnet of IPv6 alone is told from one without free addresses.
func TestSubnetOfIPv6(t *testing.T) {
	api := &zones{subnets: []types.Subnet{
		{SubnetId: aws.String("subnet-6"), Ipv6Native: aws.Bool(true), AvailableIpAddressCount: aws.Int32(0)},
		{SubnetId: aws.String("subnet-4"), Ipv6Native: aws.Bool(false), CidrBlock: aws.String("10.0.0.0/28"), AvailableIpAddressCount: aws.Int32(0)},
	}}
	r := NewReader(awsapi.Clients{EC2: api}, Options{Clock: clocktesting.NewFakePassiveClock(time.Now()), Interval: SweepInterval})
	found, err := r.AskSubnets(t.Context(), []string{"subnet-4", "subnet-6"})
	if err != nil || !found["subnet-6"].IPv6Only || found["subnet-4"].IPv6Only {
		t.Errorf("%+v (%v)", found, err)
	}
}

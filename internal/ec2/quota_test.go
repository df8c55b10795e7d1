package ec2

import (
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

func TestQuotaNames(t *testing.T) {
	for instanceType, want := range map[string]string{
		"m6i.large": "Standard", "r8g.xlarge": "Standard", "t4g.micro": "Standard", "i4i.large": "Standard", "z1d.large": "Standard",
		"x2idn.16xlarge": "On-Demand X", "hpc7a.12xlarge": "HPC", "inf2.xlarge": "Inf", "g5.xlarge": "G and VT", "u-6tb1.metal": "High Memory",
	} {
		if got := VCPUQuota(instanceType); !strings.Contains(got, want) {
			t.Errorf("%s counts against %q, want %s", instanceType, got, want)
		}
	}
}

func TestLaunchAboveTheQuota(t *testing.T) {
	refused := &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &smithy.GenericAPIError{Code: "VcpuLimitExceeded", Message: "x"}}
	got := awsapi.Message(awsapi.Wrap("launch", explainLaunch(refused, LaunchSpec{InstanceType: "r7g.4xlarge"}, "us-east-1")))
	if want := `launch: the account's quota "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances" (in vCPUs) is used up, so r7g.4xlarge cannot start: ` +
		"ask for more in Service Quotas, or set a smaller spec.aws.instanceType (VcpuLimitExceeded)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLaunchOfAnImageThatTheAccountMayNotUse(t *testing.T) {
	refused := &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &smithy.GenericAPIError{Code: "InvalidAMIID.NotFound", Message: "x"}}
	err := explainLaunch(refused, LaunchSpec{ImageID: "ami-1"}, "us-east-1")
	if got := awsapi.Explain(err); got.Field != awsapi.FieldImageID || !awsapi.RefusesInstance(err) || !strings.Contains(got.Message, "no image ami-1 in us-east-1") ||
		!strings.Contains(got.Message, "Allowed AMIs") {
		t.Errorf("%+v", got)
	}
}

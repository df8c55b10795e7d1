package ec2

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// standardFamilies share one vCPU quota.
const standardFamilies = "acdhimrtz"

// vCPUQuotas are the quotas of the other families, by the first letters of a type's name, longest first.
// Source: Service Quotas, "Amazon Elastic Compute Cloud (Amazon EC2)", running On-Demand instances.
var vCPUQuotas = []struct{ prefix, name string }{
	{"hpc", "Running On-Demand HPC instances"},
	{"inf", "Running On-Demand Inf instances"},
	{"trn", "Running On-Demand Trn instances"},
	{"dl", "Running On-Demand DL instances"},
	{"vt", "Running On-Demand G and VT instances"},
	{"u-", "Running On-Demand High Memory instances"},
	{"u7", "Running On-Demand High Memory instances"},
	{"f", "Running On-Demand F instances"},
	{"g", "Running On-Demand G and VT instances"},
	{"p", "Running On-Demand P instances"},
	{"x", "Running On-Demand X instances"},
}

// VCPUQuota names the quota of the account that an instance type counts against.
func VCPUQuota(instanceType string) string {
	for _, q := range vCPUQuotas {
		if strings.HasPrefix(instanceType, q.prefix) {
			return q.name
		}
	}
	if instanceType != "" && strings.Contains(standardFamilies, instanceType[:1]) {
		return "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
	}
	return "Running On-Demand instances"
}

// explainLaunch gives the errors of a launch that need it words that name what to change.
func explainLaunch(err error, spec LaunchSpec, region string) error {
	switch code := awsapi.Code(err); {
	case code == "VcpuLimitExceeded":
		return &awsapi.Error{Class: awsapi.Quota, Err: err, Text: fmt.Sprintf(
			"the account's quota %q (in vCPUs) is used up, so %s cannot start: ask for more in Service Quotas, or set a smaller spec.aws.instanceType (%s)",
			VCPUQuota(spec.InstanceType), spec.InstanceType, code)}
	case code == "InstanceLimitExceeded":
		return &awsapi.Error{Class: awsapi.Quota, Err: err, Text: fmt.Sprintf(
			"the account's limit on instances of type %s is reached: ask for more in Service Quotas (%s)", spec.InstanceType, code)}
	case code == "InsufficientFreeAddressesInSubnet":
		return &awsapi.Error{Class: awsapi.Waiting, Err: err, Text: fmt.Sprintf(
			"subnet %s has no free address: free some, or append a larger subnet of its zone to spec.aws.subnetIDs (%s)", spec.SubnetID, code)}
	case awsapi.LacksImage(err):
		return noImage(spec.ImageID, region, err)
	case awsapi.ZoneLacksType(err): // what helps is what helps when there is no capacity: waiting, or another zone
		return &awsapi.Error{Class: awsapi.Waiting, Code: awsapi.CodeNoCapacity, Err: err, Text: fmt.Sprintf(
			"EC2 launches no %s in the zone of subnet %s at the moment: it will be asked for again; choose another spec.aws.instanceType, or a subnet of another zone (%s)",
			spec.InstanceType, spec.SubnetID, code)}
	case awsapi.IsCapacity(err):
		return &awsapi.Error{Class: awsapi.Waiting, Err: err, Text: fmt.Sprintf(
			"EC2 has no %s left in the zone of subnet %s at the moment: it will be asked for again; another spec.aws.instanceType may be had at once (%s)",
			spec.InstanceType, spec.SubnetID, code)}
	}
	return err
}

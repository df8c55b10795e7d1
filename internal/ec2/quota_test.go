package ec2

import (
	"strings"
	"testing"
)

func TestQuotaNames(t *testing.T) {
	for instanceType, want := range map[string]string{
		"m6i.large": "Standard", "r8g.xlarge": "Standard", "t4g.micro": "Standard", "i4i.large": "Standard", "z1d.large": "Standard",
		"x2idn.16xlarge": "On-Demand X", "hpc7a.12xlarge": "HPC", "inf2.xlarge": "Inf", "g5.xlarge": "G and VT", "u-6tb1.metal": "High Memory",
	} {
		if got := vCPUQuota(instanceType); !strings.Contains(got, want) {
			t.Errorf("%s counts against %q, want %s", instanceType, got, want)
		}
	}
}

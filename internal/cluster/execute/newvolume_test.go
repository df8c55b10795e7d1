package execute

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestConfigurationOfNewVolumes: a new volume is as the spec says, with room for what the members have. While EC2 refuses to make the members'
// volumes so, a new one is as they are: a size without the performance that goes with it may be refused too.
func TestConfigurationOfNewVolumes(t *testing.T) {
	gp3 := func(gib, iops, throughput int32) ec2.VolumeConfiguration {
		return ec2.VolumeConfiguration{SizeGiB: gib, Type: "gp3", IOPS: iops, Throughput: throughput}
	}
	small, fast := gp3(20, 3000, 125), ec2.VolumeConfiguration{SizeGiB: 20, Type: "io2", IOPS: 10000}
	for name, row := range map[string]struct {
		spec    ec2.VolumeConfiguration
		present []ec2.VolumeConfiguration // of orders-1 and so on
		refused string                    // to orders-2
		want    ec2.VolumeConfiguration
	}{
		"the first":                    {spec: small, want: small},
		"as the others":                {spec: small, present: []ec2.VolumeConfiguration{small, small}, want: small},
		"larger than the others":       {spec: gp3(60, 6000, 250), present: []ec2.VolumeConfiguration{small, small}, want: gp3(60, 6000, 250)},
		"a growth is refused":          {spec: gp3(200, 80000, 2000), present: []ec2.VolumeConfiguration{small, small}, refused: "VolumeLimitExceeded", want: small},
		"another type is refused":      {spec: fast, present: []ec2.VolumeConfiguration{small, small}, refused: "MaxIOPSLimitExceeded", want: small},
		"it is refused to one of them": {spec: fast, present: []ec2.VolumeConfiguration{fast, small}, refused: "MaxIOPSLimitExceeded", want: small},
		"the larger one has to fit":    {spec: gp3(60, 6000, 250), present: []ec2.VolumeConfiguration{gp3(60, 6000, 250), small}, refused: "VolumeLimitExceeded", want: gp3(60, 6000, 250)},
		"set back too late":            {spec: small, present: []ec2.VolumeConfiguration{gp3(60, 3000, 125), small}, want: gp3(60, 3000, 125)},
		"EC2 does not show what it is": {spec: small, present: []ec2.VolumeConfiguration{{}, {}}, refused: "VolumeLimitExceeded", want: small},
		"the type has no throughput":   {spec: fast, want: fast},
		"refused, and no throughput":   {spec: small, present: []ec2.VolumeConfiguration{fast, fast}, refused: "IncorrectModificationState", want: fast},
	} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Observed: topology.Observed{Members: map[string]*topology.Member{"orders-0": {}}}}
		s.Cluster.Spec.Storage = v1alpha1.StorageSpec{
			Size: ptr.To(resource.MustParse(fmt.Sprintf("%dGi", row.spec.SizeGiB))), Type: v1alpha1.VolumeType(row.spec.Type), IOPS: &row.spec.IOPS}
		if row.spec.Throughput != 0 {
			s.Cluster.Spec.Storage.Throughput = &row.spec.Throughput
		}
		for i, c := range row.present {
			m := &topology.Member{Volumes: []topology.Volume{{SizeGiB: c.SizeGiB, Type: c.Type, IOPS: c.IOPS, Throughput: c.Throughput}}}
			if i == 1 {
				m.ModificationRefused = row.refused
			}
			s.Observed.Members[fmt.Sprintf("orders-%d", i+1)] = m
		}
		if got := VolumeSpec(s, topology.CreateVolume{Member: "orders-0"}).VolumeConfiguration; got != row.want {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}

package execute

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestSizeOfNewVolumes: a new volume has the spec's size and room for what the members have. A size that EC2 refuses the members' volumes is
// not asked for again for a new one.
func TestSizeOfNewVolumes(t *testing.T) {
	for name, row := range map[string]struct {
		spec    string
		present int32
		refused string
		want    int32
	}{
		"the first":              {spec: "20Gi", want: 20},
		"as the others":          {spec: "20Gi", present: 20, want: 20},
		"larger than the others": {spec: "60Gi", present: 20, want: 60},
		"a growth is refused":    {spec: "20Ti", present: 20, refused: "VolumeLimitExceeded", want: 20},
		"set back too late":      {spec: "20Gi", present: 60, want: 60},
	} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}}
		s.Cluster.Spec.Storage.Size = ptr.To(resource.MustParse(row.spec))
		s.Observed.Members = map[string]*topology.Member{"orders-0": {}, "orders-1": {Refusals: topology.Refusals{ModificationRefused: row.refused}}}
		if row.present > 0 {
			s.Observed.Members["orders-1"].Volumes = []topology.Volume{{SizeGiB: row.present}}
		}
		if got := VolumeSpec(s, topology.CreateVolume{Member: "orders-0"}).SizeGiB; got != row.want {
			t.Errorf("%s: %d GiB, want %d", name, got, row.want)
		}
	}
}

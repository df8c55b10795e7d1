package observe

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// TestImpairmentReachesThePlanner: which check of EC2's fails decides what a person is advised to do.
func TestImpairmentReachesThePlanner(t *testing.T) {
	for _, volumes := range []bool{true, false} {
		got := instanceOf(inventory.Instance{ID: "i-1", Health: inventory.Health{Impaired: true, VolumesImpaired: volumes}})
		if !got.Impaired || got.VolumesImpaired != volumes {
			t.Errorf("with impaired volumes %v it is %+v", volumes, got)
		}
	}
}

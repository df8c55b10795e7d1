package observe

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestSizesAreComparedWithTheInstance: what a member has no room for is refused before its mysqld is asked, and an instance type
// without room for what the members have is launched by nobody.
func TestSizesAreComparedWithTheInstance(t *testing.T) {
	const small, large = "m6i.large", "m6i.4xlarge"
	for name, row := range map[string]struct {
		pool, wants, has, state string
		refused, awaited        bool
		shrinks                 bool
	}{
		"it fits":                        {pool: "6G", wants: small, has: small},
		"it does not fit":                {pool: "900G", wants: small, has: small, refused: true},
		"it fits the next instance":      {pool: "40G", wants: large, has: small, refused: true, awaited: true},
		"it fits neither":                {pool: "900G", wants: large, has: small, refused: true},
		"the next instance is too small": {pool: "40G", wants: small, has: large, shrinks: true},
		"the larger instance is gone":    {pool: "40G", wants: small, has: large, state: inventory.StateTerminated},
		"a type that nobody knows":       {pool: "900G", wants: "x9.huge", has: "x9.huge"},
		"EC2 does not say what it is":    {pool: "900G", wants: small, has: "", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pass.Pass{Cache: pass.NewCache(""), Cluster: &v1alpha1.MySQLCluster{}}
			s.Cluster.Spec.AWS.InstanceType = row.wants
			s.Cache.Cloud.Memory = map[string]uint64{small: 8 << 30, large: 64 << 30}
			s.Desired.Settings, s.Desired.SizeGiB = map[string]string{"innodb_buffer_pool_size": row.pool, "max_connections": "500"}, 20
			state := row.state
			if state == "" {
				state = inventory.StateRunning
			}
			s.Seen.Inventory.Instances = []inventory.Instance{{ID: "i-1", Type: row.has, State: state}}
			m := &topology.Member{Name: "orders-0", Instances: []topology.Instance{{ID: "i-1", State: inventory.StateRunning}}}

			found := oversized(s, m)
			if got := len(found) > 0; got != row.refused || row.refused && found["innodb_buffer_pool_size"] != (topology.RefusedSetting{
				Value: row.pool, Why: found["innodb_buffer_pool_size"].Why, Awaited: row.awaited,
			}) {
				t.Errorf("refused: %+v", found)
			}
			if why := found["innodb_buffer_pool_size"].Why; row.refused && !strings.Contains(why, "innodb_buffer_pool_size="+row.pool+" is more than the 7.2 GiB") {
				t.Errorf("why: %s", why)
			}
			if got := slices.Collect(maps.Keys(ShrinksTooFar(s))); len(got) > 0 != row.shrinks {
				t.Errorf("shrinks: %v", got)
			}
		})
	}
}

package decide

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// shelf answers what the tarballs' addresses say, and whether they were asked.
type shelf struct {
	answers string
	asked   bool
}

func (s shelf) Missing([]string) (answers string, asked bool) { return s.answers, s.asked }

// TestChangesWaitForTheirTarball: no member that works is changed for a spec whose tarball is missing or was not asked for, and nothing is
// launched from it unless it is known what ran before. What runs already is not held back by a release that is withdrawn.
func TestChangesWaitForTheirTarball(t *testing.T) {
	const gone = "https://cdn.mysql.com/m: HTTP 404"
	for name, row := range map[string]struct {
		shelf           shelf
		changed, before bool
		holds           string
		unlaunchable    bool
	}{
		"it is there":                          {shelf: shelf{asked: true}, changed: true},
		"it is not there":                      {shelf: shelf{gone, true}, changed: true, before: true, holds: "the tarball of MySQL 9.7.99 is not there"},
		"it is not there, nor is the old spec": {shelf: shelf{gone, true}, changed: true, holds: "the tarball of MySQL 9.7.99 is not there", unlaunchable: true},
		"nobody asked yet":                     {shelf: shelf{}, changed: true, holds: "waiting for the answer whether the tarball of MySQL 9.7.99 is there"},
		"what runs was withdrawn":              {shelf: shelf{gone, true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}}
			s.Cluster.Spec.Version, s.Cluster.Spec.AWS.InstanceType = "9.7.99", "m7i.large"
			s.Cache.Cloud.Inventory.Instances = []inventory.Instance{{Architecture: "x86_64"}}
			s.Desired.Template = "present"
			records := topology.ClusterRecord{Template: "present"}
			if row.changed {
				records.Template = "earlier"
			}
			s.SetRecords(records)
			if row.before {
				s.Seen.Previous = &v1alpha1.MySQLCluster{}
			}
			problem := foresee(&pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Now()), Tarballs: row.shelf}, s)
			if s.Seen.Untried != row.holds || (problem != nil) != row.unlaunchable {
				t.Errorf("held back by %q, nothing is launched because of %v", s.Seen.Untried, problem)
			}
			hint := false
			for _, f := range s.Unmet {
				hint = hint || f.Reason == v1alpha1.ReasonDownloadMissing && strings.Contains(f.Message, gone)
			}
			if hint != (row.shelf.answers != "") {
				t.Errorf("said: %v", s.Unmet)
			}
		})
	}
}

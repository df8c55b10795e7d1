package decide

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/tarball"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// shelf answers what the addresses of tarballs say, and whether they were asked.
type shelf struct {
	answers string
	asked   bool
	want    *tarball.Wanted
}

func (s shelf) Missing(wanted tarball.Wanted) (answers string, asked bool) {
	if s.want != nil {
		*s.want = wanted
	}
	return s.answers, s.asked
}

// TestChangesWaitForTheirTarball: nothing is made of a changed template whose tarball is missing or was not asked for. What runs already is
// not held back by a release that is withdrawn, nor is an image that may bring MySQL.
func TestChangesWaitForTheirTarball(t *testing.T) {
	const gone, missing, waiting = "https://cdn.mysql.com/m: HTTP 404", "the tarball of MySQL 9.7.99 is not there", "waiting for the answer whether the tarball of MySQL 9.7.99 is there"
	mirror := &v1alpha1.DownloadSpec{Mirror: "https://mirror.example"}
	for name, row := range map[string]struct {
		shelf   shelf
		before  string // the template in service
		unknown bool   // EC2 does not say what the instance type is
		image   string
		mirror  *v1alpha1.DownloadSpec
		failing bool
		holds   string
		reports bool
	}{
		"it is there":                          {shelf: shelf{asked: true}, before: "earlier"},
		"it is not there":                      {shelf: shelf{answers: gone, asked: true}, before: "earlier", holds: missing, reports: true},
		"it is not there for a new cluster":    {shelf: shelf{answers: gone, asked: true}, holds: missing, reports: true},
		"it is not there while nobody leads":   {shelf: shelf{answers: gone, asked: true}, before: "earlier", failing: true, holds: missing, reports: true},
		"nobody asked yet":                     {before: "earlier", holds: waiting},
		"the architecture is not known":        {shelf: shelf{answers: gone, asked: true}, before: "earlier", unknown: true, holds: waiting},
		"what runs was withdrawn":              {shelf: shelf{answers: gone, asked: true}, before: "present", reports: true},
		"it was withdrawn, and nobody leads":   {shelf: shelf{answers: gone, asked: true}, before: "present", failing: true},
		"the image brings it":                  {shelf: shelf{answers: gone, asked: true}, before: "earlier", image: "ami-1"},
		"the image may bring it":               {shelf: shelf{answers: gone, asked: true}, before: "earlier", image: "ami-1", mirror: mirror, reports: true},
		"an image, and nobody asked yet":       {before: "earlier", image: "ami-1", mirror: mirror},
		"the policy does not list the address": {shelf: shelf{answers: gone, asked: true}, before: "earlier", mirror: &v1alpha1.DownloadSpec{Mirror: "https://other.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}}
			listed, err := policy.Parse(map[string]string{policy.Key: "namespaces: {shop: {downloads: [\"https://mirror.example/\"]}}"})
			if err != nil {
				t.Fatal(err)
			}
			s.Access.Policy, s.Cluster.Namespace = listed, "shop"
			s.Cluster.Spec.Version, s.Cluster.Spec.AWS = "9.7.99", v1alpha1.AWSSpec{InstanceType: "m7i.large", ImageID: row.image, Download: row.mirror}
			s.Desired.Template = "present"
			s.SetRecords(topology.ClusterRecord{Template: row.before})
			if row.failing {
				s.Cache.Told.FailingSince = time.Now()
			}
			foresee(&pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Now()), Tarballs: row.shelf}, s, func() string {
				if row.unknown {
					return ""
				}
				return "x86_64"
			})
			if s.Desired.Untried != row.holds {
				t.Errorf("held back by %q", s.Desired.Untried)
			}
			reports := slices.ContainsFunc(s.Unmet, func(f topology.Finding) bool {
				return f.Reason == v1alpha1.ReasonDownloadMissing && strings.Contains(f.Message, gone)
			})
			if reports != row.reports {
				t.Errorf("reports %v", s.Unmet)
			}
		})
	}
}

// TestTheTarballOfWhatIsLaunched: the instance type of the spec decides which tarball is asked for, and not the instances that there are.
func TestTheTarballOfWhatIsLaunched(t *testing.T) {
	var wanted tarball.Wanted
	s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: &pass.Cache{}}
	s.Cluster.Spec.Version, s.Cluster.Spec.AWS.InstanceType, s.Cluster.Status.Version = "9.7.5", "r7g.large", "9.7.4"
	s.Cache.Cloud.Inventory.Instances = []inventory.Instance{{Architecture: "x86_64", State: inventory.StateTerminated}}
	foresee(&pass.Ports{Clock: clocktesting.NewFakePassiveClock(time.Now()), Tarballs: shelf{want: &wanted}}, s, func() string { return "arm64" })
	if len(wanted.Addresses) != 2 || !strings.HasSuffix(wanted.Addresses[0], "/mysql-9.7.5-linux-glibc2.28-aarch64.tar.xz") {
		t.Errorf("asked for at %q", wanted.Addresses)
	}
	if len(wanted.InService) != 4 || slices.ContainsFunc(wanted.InService, func(address string) bool { return !strings.Contains(address, "/mysql-9.7.4-") }) {
		t.Errorf("compared with %q", wanted.InService)
	}
}

// TestForesightReachesThePlan: the plan launches nothing from a changed template while nobody knows whether its tarball is there.
func TestForesightReachesThePlan(t *testing.T) {
	now := time.Now()
	for name, row := range map[string]struct {
		template string // in service
		launches bool
	}{"it is as before": {"present", true}, "it is changed": {"earlier", false}} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: pass.NewCache("")}
		s.Cluster.Spec.Version = "9.7.5"
		records := topology.ClusterRecord{Template: row.template, Members: map[string]topology.MemberRecord{"orders-0": {VolumeID: "vol-1", Volume: 1}}}
		s.SetRecords(records)
		s.Desired = topology.Desired{Cluster: "orders", Replicas: 1, TemplateHash: "hash", Template: "present", Subnets: []topology.Subnet{{ID: "subnet-1", Zone: "a"}}}
		s.Observed = topology.Observed{
			Now: now, CloudReachable: true, CloudTaken: now, Records: records, Permitted: topology.Permitted{Launchable: true}, InService: map[string]bool{},
			Members: map[string]*topology.Member{"orders-0": {
				Name: "orders-0", RecordedVolume: "vol-1", Volumes: []topology.Volume{{ID: "vol-1", Incarnation: 1, State: "available", Zone: "a"}},
			}},
		}
		r := New(&pass.Ports{Clock: clocktesting.NewFakePassiveClock(now), Tarballs: shelf{}}, nil)
		if err := errors.Join(r.Preflight(t.Context(), s), r.Decide(t.Context(), s)); err != nil {
			t.Fatal(err)
		}
		launches := slices.ContainsFunc(s.Plan.Actions, func(a topology.Action) bool { _, is := a.(topology.LaunchInstance); return is })
		if launches != row.launches {
			t.Errorf("%s: plan %v, members %+v", name, s.Plan.Actions, s.Plan.Members)
		}
	}
}

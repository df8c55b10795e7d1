package topology

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestAFullSubnetIsSkipped in favour of another of its zone: the one that round-robin names, else the first, of those that were not
// refused; when all were, the one that was refused longest ago.
func TestAFullSubnetIsSkipped(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		ordinal int
		fullFor map[string]time.Duration
		want    string
	}{
		"none is full":               {0, nil, "subnet-a"},
		"the named one is full":      {0, map[string]time.Duration{"subnet-a": time.Second}, "subnet-d"},
		"the other is named":         {3, nil, "subnet-d"},
		"the other is full":          {3, map[string]time.Duration{"subnet-d": time.Second}, "subnet-a"},
		"both, the named one longer": {0, map[string]time.Duration{"subnet-a": 2 * time.Second, "subnet-d": time.Second}, "subnet-a"},
		"both, the other one longer": {0, map[string]time.Duration{"subnet-a": time.Second, "subnet-d": 2 * time.Second}, "subnet-d"},
		"one of another zone":        {0, map[string]time.Duration{"subnet-b": time.Second}, "subnet-a"},
	} {
		d := Desired{Subnets: []Subnet{{ID: "subnet-a", Zone: "1"}, {ID: "subnet-b", Zone: "2"}, {ID: "subnet-c", Zone: "3"}, {ID: "subnet-d", Zone: "1"}}}
		for i, s := range d.Subnets {
			if full, refused := test.fullFor[s.ID]; refused {
				d.Subnets[i].FullAt = now.Add(-full)
			}
		}
		if got, ok := d.subnetInZone("1", test.ordinal, 0); !ok || got.ID != test.want {
			t.Errorf("%s: launches in %q", name, got.ID)
		}
		if _, ok := d.subnetInZone("4", test.ordinal, 0); ok {
			t.Errorf("%s: found a subnet in a zone that has none", name)
		}
	}
}

// TestAMemberIsLaunchedBesideAFullSubnet, and without data in another zone when each subnet of its own is full for a while.
func TestAMemberIsLaunchedBesideAFullSubnet(t *testing.T) {
	d, o := fresh()
	d.Recover = false
	d.Subnets = append(d.Subnets, Subnet{ID: "subnet-4", Zone: "b"})
	d.Subnets[1].FullAt = o.Now
	m := o.Members["orders-1"]
	m.Instances, m.SQL, m.RecordedVolume = nil, SQL{}, ""
	m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
	o.Records.Members["orders-1"] = MemberRecord{Instance: 1, Volume: 1, PendingVolume: "vol-orders-1"}
	if launched := planned[LaunchInstance](pureNext(d, o)); len(launched) != 1 || launched[0].SubnetID != "subnet-4" {
		t.Errorf("with one full subnet: planned %v", launched)
	}
	d.Subnets[3].FullAt = o.Now.Add(-time.Second)
	m.CapacityRefused, m.CapacityRefusedAt = "b", o.Now.Add(time.Second-capacityPatience)
	p := pureNext(d, o)
	if launched := planned[LaunchInstance](p); len(launched) != 1 || launched[0].SubnetID != "subnet-4" || !reports(p, v1alpha1.ReasonInsufficientCapacity, "no free address in the subnets of b") {
		t.Errorf("with two: planned %v, reports %v", p.Actions, p.Degraded)
	}
	m.CapacityRefusedAt = o.Now.Add(-capacityPatience)
	p = pureNext(d, o)
	if rec := p.Records.Members["orders-1"]; len(planned[DeleteVolume](p)) != 1 || d.subnetFor(1, rec.ZoneShift).Zone == "b" {
		t.Errorf("after a while: planned %v, shifted by %d", p.Actions, rec.ZoneShift)
	}
}

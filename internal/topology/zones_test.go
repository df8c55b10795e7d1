package topology

import (
	"testing"
	"time"
)

// TestAMoveIsRecordedOnce: EC2 refuses to retire the volume with data in a zone without capacity. It is asked again and again, and neither
// the zone nor the incarnations move on meanwhile.
func TestAMoveIsRecordedOnce(t *testing.T) {
	s := newScene()
	s.lose(1)
	s.voters(Membership{Epoch: 6, Primary: "orders-0", Voters: []string{"orders-0", "orders-2"}, W: 1})
	for i, zone := range []string{"a", "b", "c"} {
		s.member(i).Instances[0].Zone, s.member(i).Volumes[0].Zone = zone, zone
	}
	m := s.member(1)
	m.Instances = nil
	m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
	m.CapacityRefused, m.CapacityRefusedAt = "b", s.observed.Now.Add(-zoneLossTimeout)
	want := MemberRecord{Instance: 2, Volume: 2, SignedInstance: "i-1"}
	for pass := range 3 {
		p, actions := s.plan()
		if retired := planned[RetireVolume](p); len(retired) != 1 || retired[0].VolumeID != "vol-1" || len(planned[CreateVolume](p))+len(planned[LaunchInstance](p)) > 0 {
			t.Fatalf("pass %d: planned %q", pass, actions)
		}
		rec := p.Records.Members["orders-1"]
		if zone := s.desired.subnetFor(1, rec.ZoneShift).Zone; zone == "b" {
			t.Errorf("pass %d: it moves to %s", pass, zone)
		}
		if pass == 0 {
			want.ZoneShift = rec.ZoneShift
		}
		if rec != want {
			t.Fatalf("pass %d: recorded %+v, want %+v", pass, rec, want)
		}
		s.observed.Records, m.RecordedVolume = p.Records, ""
		s.observed.Now = s.observed.Now.Add(time.Second)
	}
	m.Volumes = nil
	p, actions := s.plan()
	if made := planned[CreateVolume](p); len(made) != 1 || made[0].Incarnation != 2 || made[0].Zone == "b" {
		t.Errorf("once it is retired: planned %q", actions)
	}
}

package ec2

import (
	"slices"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

func (l *lab) status(s moto.Status) {
	l.t.Helper()
	if err := server.moto.SetStatus(l.t.Context(), s); err != nil {
		l.t.Fatal(err)
	}
}

func TestImpairedInstances(t *testing.T) {
	l := newLab(t)
	well := l.running("orders-0")
	sick := map[string]string{}
	for member, status := range map[string]moto.Status{
		"orders-1": {System: "impaired"}, "orders-2": {Instance: "impaired"}, "orders-3": {Volumes: "impaired"},
	} {
		i := l.running(member)
		status.ID = i.ID
		l.status(status)
		sick[i.ID] = member
	}
	l.status(moto.Status{ID: well.ID, System: "initializing", Instance: "insufficient-data", Volumes: "not-applicable"})
	for _, i := range l.observe().Instances {
		if want := sick[i.ID] != ""; i.Impaired != want || len(i.Events) != 0 {
			t.Errorf("%s: impaired is %v with events %v, want %v and none", i.Member, i.Impaired, i.Events, want)
		}
		if want := sick[i.ID] == "orders-3"; i.VolumesImpaired != want {
			t.Errorf("%s: its volumes are impaired is %v, want %v", i.Member, i.VolumesImpaired, want)
		}
	}
}

func TestScheduledEvents(t *testing.T) {
	l := newLab(t)
	i, other := l.running("orders-0"), l.running("orders-1")
	soon, later := l.clock.Now().Add(48*time.Hour).UTC().Truncate(time.Second), l.clock.Now().Add(72*time.Hour).UTC().Truncate(time.Second)
	l.status(moto.Status{ID: i.ID, Events: []moto.Event{
		{Code: "instance-retirement", Description: "The instance is running on degraded hardware", NotBefore: later},
		{Code: "system-reboot", Description: "[Completed] scheduled reboot", NotBefore: soon.Add(-96 * time.Hour)},
		{Code: "system-maintenance", Description: "scheduled maintenance", NotBefore: soon},
		{Code: "instance-stop", Description: "[Canceled] the instance is running on degraded hardware", NotBefore: soon},
	}})
	l.status(moto.Status{ID: other.ID, Events: []moto.Event{{Code: "instance-reboot", Description: "[Completed] scheduled reboot"}}})
	want := []inventory.Event{
		{Code: "system-maintenance", Description: "scheduled maintenance", NotBefore: soon},
		{Code: "instance-retirement", Description: "The instance is running on degraded hardware", NotBefore: later},
	}
	same := func(a, b inventory.Event) bool {
		return a.Code == b.Code && a.Description == b.Description && a.NotBefore.Equal(b.NotBefore)
	}
	for _, seen := range l.observe().Instances {
		if expected := want; seen.ID == other.ID {
			if len(seen.Events) != 0 {
				t.Errorf("what is over is still announced: %+v", seen.Events)
			}
		} else if !slices.EqualFunc(seen.Events, expected, same) {
			t.Errorf("announced are %+v, want %+v", seen.Events, expected)
		}
	}
	if n := l.proxy.Counts()["DescribeInstanceStatus"]; n != 4 {
		t.Errorf("a sweep asks %d times for the status, want 4", n)
	}
}

// A stop moves the instance to another host, and ends what was said of the old one, without a sweep in between.
func TestHealthEndsWithTheHost(t *testing.T) {
	l := newLab(t)
	i := l.running("orders-0")
	l.status(moto.Status{ID: i.ID, System: "impaired", Events: []moto.Event{{Code: "instance-stop", Description: "degraded hardware"}}})
	if seen := l.observe().Instances[0]; !seen.Impaired || len(seen.Events) != 1 {
		t.Fatalf("before: %+v", seen)
	}
	if err := l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower); err != nil {
		t.Fatal(err)
	}
	l.until("stopped", stateOf(i.ID, inventory.StateStopped))
	if err := l.cloud.StartInstance(t.Context(), l.owner.ClusterUID, i.ID); err != nil {
		t.Fatal(err)
	}
	if seen := l.until("running", stateOf(i.ID, inventory.StateRunning)).Instances[0]; seen.Impaired || len(seen.Events) != 0 {
		t.Errorf("on its new host it is still %+v", seen)
	}
}

// stateOf says whether an instance is in a state.
func stateOf(id, state string) func(inventory.Inventory) bool {
	return func(inv inventory.Inventory) bool {
		return find(inv.Instances, func(i inventory.Instance) bool { return i.ID == id && i.State == state }) != nil
	}
}

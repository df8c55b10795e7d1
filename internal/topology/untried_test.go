package topology

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const nobodyAsked = "waiting for the answer whether the tarball is there"

// asleep is a cluster that hibernates.
func asleep(w *world) *world {
	w.desired.Hibernate = true
	for w.pass(-1).Phase != v1alpha1.PhaseHibernated {
	}
	w.desired.Hibernate = false
	return w
}

// TestWakingWithAnUntriedVersion: a cluster without instances comes back with the version that its data has, and is upgraded later.
func TestWakingWithAnUntriedVersion(t *testing.T) {
	w := newWorld(t, 1)
	w.desired.TemplateHash, w.desired.Version, w.desired.SizeGiB = "old", "9.7.4", 10
	w.settle(300)
	asleep(w)
	w.desired.TemplateHash, w.desired.Version, w.desired.Untried = "new", "9.7.5", nobodyAsked
	for range 200 {
		w.pass(-1)
	}
	if got := w.versions(); got[0] != "9.7.4" || w.records.Members["orders-0"].Opened != "9.7.4" {
		t.Errorf("versions %v, %+v", got, w.records.Members["orders-0"])
	}
	w.desired.Untried = ""
	w.changes++
	w.roll(900)
	if got := w.versions(); got[0] != "9.7.5" {
		t.Errorf("versions %v", got)
	}
}

// TestNothingIsLaunchedFromAnUntriedTemplate: where no other template is known, as with another instance type, the launch waits.
func TestNothingIsLaunchedFromAnUntriedTemplate(t *testing.T) {
	w := asleep(withTemplate(t, 1))
	w.desired.TemplateHash, w.desired.Untried = "new", nobodyAsked
	launches := w.launches
	for range 100 {
		if plan := w.pass(-1); w.launches > launches || len(plan.Members) == 1 && plan.Members[0].Step.Waits() && plan.Members[0].Step.Message != nobodyAsked {
			t.Fatalf("%d launches, waits for %v", w.launches-launches, plan.Members)
		}
	}
	w.desired.Untried = ""
	w.changes++
	w.settle(300)
}

// TestUntriedInstanceOpensNothing: an instance that was launched already gets no volume while nobody knows whether it can install MySQL.
func TestUntriedInstanceOpensNothing(t *testing.T) {
	w := upgraded(t, 1)
	var vol *disk
	for _, v := range w.volumes {
		vol = v
	}
	newRuns := func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(w.machines)), func(m *machine) bool { return m.TemplateHash == "new" && m.State == stateRunning })
	}
	for vol.State != volumeAvailable || !newRuns() {
		w.pass(-1)
	}
	w.desired.Untried = nobodyAsked
	for range 100 {
		if w.pass(-1); vol.AttachedTo != "" || w.records.Members["orders-0"].Opened != "9.7.4" {
			t.Fatalf("its volume is %+v, opened by %s", *vol, w.records.Members["orders-0"].Opened)
		}
	}
	w.desired.Untried = ""
	w.changes++
	w.roll(900)
}

// TestOnlyTheUntriedTemplateWaits: members leave and mysqld is restarted where they are, and nobody is replaced or hands over for that.
func TestOnlyTheUntriedTemplateWaits(t *testing.T) {
	w := withTemplate(t, 4)
	w.pass(-1)
	w.desired.Replicas, w.desired.TemplateHash, w.desired.Untried = 3, "new", nobodyAsked
	w.desired.RestartedAt = w.now
	launches := w.launches
	var plan Plan
	for range 300 {
		plan = w.pass(-1)
	}
	if w.launches > launches || w.running() != 3 || len(plan.Membership.Voters) != 3 {
		t.Errorf("%d launches, %d members run, voters %q", w.launches-launches, w.running(), plan.Membership.Voters)
	}
	for _, m := range w.observe().Members {
		if m.Ordinal < 3 && m.SQL.StartedAt.Before(w.desired.RestartedAt) {
			t.Errorf("mysqld of %s was not restarted", m.Name)
		}
	}
	if !strings.Contains(plan.Rolling.Message, "orders-2 is to be replaced next: "+nobodyAsked) {
		t.Errorf("it says %q", plan.Rolling.Message)
	}
	w.desired.Untried = ""
	w.roll(900)
}

// TestUntriedPrimaryKeepsItsRole: it hands over to leave, and not to be replaced.
func TestUntriedPrimaryKeepsItsRole(t *testing.T) {
	for untried, handsOver := range map[string]bool{"": true, nobodyAsked: false} {
		s := newScene()
		s.desired.Untried, s.desired.TemplateHash = untried, "new"
		s.member(0).Instances[0].TemplateHash = "old"
		s.observed.Records.Rolling = "orders-0"
		p, actions := s.plan()
		if got := slices.ContainsFunc(p.Actions, func(a Action) bool { _, is := a.(Switchover); return is }); got != handsOver {
			t.Errorf("%q: %s", untried, actions)
		}
	}
	d := Desired{Replicas: 2, Holds: Holds{Untried: nobodyAsked}}
	if why, holds := d.holds(&Member{Ordinal: 2}); holds {
		t.Errorf("one that leaves waits: %s", why)
	}
}

package topology

import (
	"slices"
	"strings"
	"testing"
)

// TestDeletionKeepsWhatIsLeft: the volume of which the final snapshot is to be taken is gone before that is complete. The others are not
// deleted without one, and the loss is believed only when EC2 has denied the volume for long enough.
func TestDeletionKeepsWhatIsLeft(t *testing.T) {
	for name, returns := range map[string]bool{"it is lost": false, "EC2 does not show it for a moment": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.settle(300)
			w.desired.Deleting = true
			w.pass(-1)
			chosen := slices.Clone(w.records.FinalVolumes)
			if len(chosen) != 1 {
				t.Fatalf("the final snapshot is to be taken of %v", chosen)
			}
			hidden := w.volumes[chosen[0]]
			delete(w.volumes, chosen[0])
			for range 10 {
				if plan := w.pass(-1); len(w.volumes) != 2 || plan.Gone {
					t.Fatalf("%d volumes are left", len(w.volumes))
				}
			}
			want := 2
			if returns {
				want, w.volumes[chosen[0]] = 1, hidden
			}
			if plan := w.settle(300); !plan.Gone || len(w.volumes) > 0 {
				t.Errorf("gone: %t; %d volumes are left; it waits for %q", plan.Gone, len(w.volumes), plan.Waiting.Message)
			}
			taken := 0
			for _, s := range w.snapshots {
				if (s.VolumeID == chosen[0]) != returns || s.State != snapshotCompleted {
					t.Errorf("there is snapshot %+v", s)
				}
				taken++
			}
			if taken != want {
				t.Errorf("%d snapshots, want %d", taken, want)
			}
		})
	}
}

// TestADeletionNamesWhatHoldsItUp: what EC2 does not bring to an end, and a volume that somebody attached to an instance of their own.
func TestADeletionNamesWhatHoldsItUp(t *testing.T) {
	for name, row := range map[string]struct {
		change func(m *Member)
		step   string
		found  string
	}{
		"an instance stays in shutting-down": {func(m *Member) { m.Instances[0].State = stateShuttingDown },
			"terminating instance i-2, which is shutting-down", "orders-2: instance i-2 has been shutting-down"},
		"a volume is in another instance": {func(m *Member) { m.Instances, m.Volumes[0].AttachedTo = nil, "i-9" },
			"volume vol-2 cannot be deleted: it is in-use by instance i-9, which is no instance of the member: detach it there", "orders-2: volume vol-2 has been in-use by instance i-9, which is no instance of the member"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.Deleting, s.desired.DeletionPolicy = true, "Delete"
			for i := range 2 {
				s.member(i).Instances, s.member(i).Volumes = nil, nil
			}
			s.lose(2)
			m := s.member(2)
			row.change(m)
			m.Transition, m.TransitionSince = m.transition(), s.observed.Now.Add(-transitionPatience)
			plan, _ := s.plan()
			if step := plan.Members[2].Step.Message; step != row.step {
				t.Errorf("it waits for %q", step)
			}
			if !slices.ContainsFunc(plan.Degraded, func(f Finding) bool { return strings.HasPrefix(f.Message, row.found) }) {
				t.Errorf("it reports %v", plan.Degraded)
			}
		})
	}
}

package topology

import (
	"slices"
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

package topology

import (
	"strings"
	"testing"
	"time"
)

// TestALookAtAnInstanceSaysThatItIsOff while EC2's lists are old: a primary with durability Async is replaced, and a voter that ended
// loses its vote.
func TestALookAtAnInstanceSaysThatItIsOff(t *testing.T) {
	const down = 40 * time.Second // of a member that is lost
	for name, row := range map[string]struct {
		change func(s *scene, m *Member)
		off    bool
	}{
		"terminated":                          {func(*scene, *Member) {}, true},
		"terminated, seen at once":            {func(s *scene, m *Member) { m.Instances[0].AnsweredAt = s.observed.Now.Add(-down) }, true},
		"terminated, and down since a moment": {func(s *scene, m *Member) { m.DownSince = s.observed.Now.Add(time.Second - lateAnswers) }, false},
		"stopped":                             {func(_ *scene, m *Member) { m.Instances[0].State = stateStopped }, true},
		"stopped, and that may be a late word": {func(s *scene, m *Member) {
			m.Instances[0].State, m.Instances[0].AnsweredAt = stateStopped, s.observed.Now.Add(time.Second-down+lateAnswers-2*time.Second)
		}, false},
		"running":                           {func(_ *scene, m *Member) { m.Instances[0].State = stateRunning }, false},
		"shown by no reading":               {func(_ *scene, m *Member) { m.Instances[0].AnsweredAt = time.Time{} }, false},
		"its volume is in another instance": {func(_ *scene, m *Member) { m.Volumes[0].AttachedTo = "i-9" }, false},
		"its volume is in none":             {func(_ *scene, m *Member) { m.Volumes[0].AttachedTo, m.Volumes[0].State = "", volumeAvailable }, true},
		"its volume is not known":           {func(_ *scene, m *Member) { m.Volumes = nil }, false},
		"nothing of it is known":            {func(_ *scene, m *Member) { m.Instances = nil }, false},
		"another instance of it runs": {func(s *scene, m *Member) {
			m.Instances = append(m.Instances, Instance{ID: "i-9", State: stateRunning, AnsweredAt: s.observed.Now})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lossless := range []bool{true, false} {
				s, ordinal, want := newScene(), 2, "remove"
				s.desired.Lossless = lossless
				if !lossless {
					ordinal, want = 0, "promote"
				}
				s.io(ioOff, 1, 2)
				if lossless {
					s.io(ioOn, 1)
				}
				s.lose(ordinal)
				s.observed.CloudReachable, s.observed.CloudTaken = false, s.observed.Now.Add(-10*time.Minute)
				m := s.member(ordinal)
				m.Instances[0].State, m.Instances[0].AnsweredAt = stateTerminated, s.observed.Now
				row.change(s, m)
				if off := s.observed.off(m); off != row.off {
					t.Errorf("lossless %t: it is off: %t", lossless, off)
				}
				if _, actions := s.plan(); strings.Contains(actions, want) != row.off {
					t.Errorf("lossless %t: planned %q", lossless, actions)
				}
			}
		})
	}
}

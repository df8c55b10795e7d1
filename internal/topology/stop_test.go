package topology

import (
	"strings"
	"testing"
)

// A fence whose stop does not get on is asked for again, and is not done until EC2 says so.
func TestStuckStopIsAskedForAgain(t *testing.T) {
	for name, row := range map[string]struct {
		state          string
		stuck          bool
		stops, promote bool
	}{
		"running":           {stateRunning, false, true, false},
		"stopping":          {stateStopping, false, false, false},
		"stopping for long": {stateStopping, true, true, false},
		"stopped":           {stateStopped, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.desired.Lossless = false // nobody is promoted before the instance is off
			s.lose(0)
			s.io(ioOff, 1, 2)
			s.member(0).SQL.Access = AccessNone
			s.member(0).Instances[0].State, s.member(0).Instances[0].StopStuck = row.state, row.stuck
			_, actions := s.plan()
			if stops := strings.Contains(actions, "stop instance i-0"); stops != row.stops {
				t.Errorf("planned %q; the instance is to be stopped: %v", actions, row.stops)
			}
			if promotes := strings.Contains(actions, "promote"); promotes != row.promote {
				t.Errorf("planned %q; somebody is to be promoted: %v", actions, row.promote)
			}
		})
	}
}

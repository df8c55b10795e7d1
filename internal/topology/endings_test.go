package topology

import (
	"fmt"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestInstancesThatEndAgainAndAgain are launched after pauses that grow, and reported with what EC2 says of the last one.
func TestInstancesThatEndAgainAndAgain(t *testing.T) {
	const reason = "Server.InternalError: Internal error on launch"
	for name, row := range map[string]struct {
		ended    int
		reason   string
		pause    time.Duration
		reported bool
	}{
		"two":                          {2, reason, 0, false},
		"three":                        {3, reason, time.Minute, true},
		"five":                         {5, reason, 4 * time.Minute, true},
		"twenty":                       {20, reason, endsPauseMax, true},
		"twenty that a person ended":   {20, "Client.UserInitiatedShutdown: User initiated shutdown", 0, false},
		"twenty, and EC2 does not say": {20, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.lose(2)
			m := s.member(2)
			m.Instances, m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState, m.Volumes[0].Zone = nil, volumeAvailable, "", "", "c"
			for n := range row.ended {
				m.Instances = append(m.Instances, Instance{ID: fmt.Sprintf("i-2%02d", n), Incarnation: n + 1, State: stateTerminated, StateReason: row.reason, LaunchTime: s.observed.Now.Add(time.Duration(n-row.ended)*2*time.Minute - endsPauseMax)})
			}
			for _, early := range []bool{true, false} {
				m.DownSince = s.observed.Now.Add(-row.pause)
				if early {
					m.DownSince = m.DownSince.Add(time.Second)
				}
				p := pureNext(s.desired, s.observed)
				if launched := len(planned[LaunchInstance](p)) == 1; launched == (early && row.pause > 0) {
					t.Errorf("a second too early %t: planned %v, waits for %v", early, p.Actions, p.Waiting)
				}
				if reported := reports(p, v1alpha1.ReasonBootFailed, fmt.Sprintf("the last one, i-2%02d: %s", row.ended-1, reason)); reported != row.reported {
					t.Errorf("reported %v", p.Degraded)
				}
			}
		})
	}
}

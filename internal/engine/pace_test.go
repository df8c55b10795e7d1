package engine

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestLookAgain: a pass that brought something about is followed at once, one that did not is not repeated hot. What has a pause of its own
// slows the rest down little.
func TestLookAgain(t *testing.T) {
	const soon, later = AfterProgress, 30 * time.Second
	start := []topology.Action{topology.StartInstance{Member: "orders-1", InstanceID: "i-1"}}
	refused := &Problem{After: AfterPerson, Pause: refusedPause}
	waiting, failed, aside := &Problem{After: 5 * time.Second}, &Problem{}, &Problem{After: time.Minute, Aside: true}
	for name, row := range map[string]struct {
		outcome Outcome
		plan    topology.Plan
		want    time.Duration
	}{
		"nothing to do":                            {Outcome{}, topology.Plan{RequeueAfter: later}, later},
		"an action succeeded":                      {Outcome{Acted: 1}, topology.Plan{RequeueAfter: soon, Actions: start}, soon},
		"one succeeded, another failed":            {Outcome{Acted: 1, Problems: []*Problem{failed}}, topology.Plan{RequeueAfter: soon, Actions: start}, soon},
		"EC2 has not answered":                     {Outcome{}, topology.Plan{RequeueAfter: soon, Actions: start}, afterWaitingForEC2},
		"EC2 has not answered, without primary":    {Outcome{}, topology.Plan{RequeueAfter: soon, Actions: start, Failing: true}, afterWaitingForEC2},
		"records changed":                          {Outcome{Moved: true}, topology.Plan{RequeueAfter: later, Actions: start}, AfterProgress},
		"records changed, and an action failed":    {Outcome{Moved: true, Problems: []*Problem{failed}}, topology.Plan{RequeueAfter: soon, Actions: start}, time.Second},
		"a member was promoted":                    {Outcome{Promoted: true, Problems: []*Problem{failed}}, topology.Plan{RequeueAfter: later, Actions: start}, AfterProgress},
		"an action failed":                         {Outcome{Problems: []*Problem{failed}}, topology.Plan{RequeueAfter: soon, Actions: start}, time.Second},
		"an action failed, without primary":        {Outcome{Problems: []*Problem{failed}}, topology.Plan{RequeueAfter: soon, Actions: start, Failing: true}, AfterFailing},
		"something is waited for, without primary": {Outcome{Problems: []*Problem{failed, waiting}}, topology.Plan{RequeueAfter: soon, Actions: start, Failing: true}, AfterFailing},
		"something is waited for":                  {Outcome{Problems: []*Problem{failed, waiting}}, topology.Plan{RequeueAfter: soon, Actions: start}, waiting.After},
		"what nothing waits for has failed":        {Outcome{Problems: []*Problem{aside}}, topology.Plan{RequeueAfter: soon}, time.Second},
		"a problem does not hasten the plan":       {Outcome{Problems: []*Problem{failed}}, topology.Plan{RequeueAfter: later}, later},
		"something is refused, and pauses":         {Outcome{Problems: []*Problem{refused}}, topology.Plan{RequeueAfter: soon, Actions: start}, afterRefused},
		"what may be a fence has failed":           {Outcome{Problems: []*Problem{{After: AfterPerson, Pause: fencePause}}}, topology.Plan{RequeueAfter: soon, Actions: start}, time.Second},
		"something is refused, with time left":     {Outcome{Problems: []*Problem{refused}}, topology.Plan{RequeueAfter: 5 * time.Second, Actions: start}, 5 * time.Second},
		"something is waited for, at the longest":  {Outcome{Problems: []*Problem{{After: time.Hour}}}, topology.Plan{RequeueAfter: soon}, AfterWaiting},
	} {
		if got := row.outcome.LookAgain(row.plan); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

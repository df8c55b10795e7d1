package engine

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// afterWaitingForEC2 is for a pass all of whose actions wait for EC2.
const afterWaitingForEC2 = 250 * time.Millisecond

// afterRefused is for a pass in which EC2 refused something that has a longer pause: SQL has to be looked after meanwhile, and the refusal may
// last for days.
const afterRefused = 3 * time.Second

// Outcome is what a pass brought about, as far as the time of the next one depends on it.
type Outcome struct {
	// Moved is true when the plan changed what is recorded of the cluster, Promoted once a member was made the primary. Acted
	// counts the actions that succeeded, but for upkeep.
	Moved, Promoted bool
	Acted           int
	Problems        []*Problem
}

// LookAgain says after how long the next pass is due: when the plan asks for it, unless a problem asks for longer. Trouble with EC2
// itself does not count: the plan knows of it, and asking too often is the cloud plane's own care. What was refused has a pause of its own
// (Requests.Refusal) and slows the rest down little: a replica that lost its source does not wait for a quota. Nor may any problem slow a
// cluster down that has no primary.
func (o Outcome) LookAgain(plan topology.Plan) time.Duration {
	progress := o.Promoted || o.Moved && len(o.Problems) == 0
	after := plan.RequeueAfter
	if progress {
		after = min(after, AfterProgress)
	}
	if progress || o.Acted > 0 {
		return after // trouble elsewhere must not slow it down
	}
	if len(plan.Actions) > 0 {
		after = max(after, afterWaitingForEC2) // EC2 has yet to answer, which brings the next pass forward, or to show what it accepted
	}
	for _, p := range o.Problems {
		switch {
		case plan.Failing:
			after = max(after, AfterFailing)
		case p.After > 0 && p.Pause == 0 && !p.Aside:
			after = max(after, min(p.After, AfterWaiting))
		case p.Pause > 0 && !p.Aside:
			after = max(after, time.Second, min(p.Pause, afterRefused))
		default:
			after = max(after, time.Second)
		}
	}
	return after
}

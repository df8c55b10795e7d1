package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Execution gives the actions of one plan their effect.
type Execution struct {
	Ports
	Desired  topology.Desired
	Observed topology.Observed
	Plan     topology.Plan
	// Requests is what is remembered of earlier executions.
	Requests *Requests
	// LostTags are resources that lost tags, Outdated volumes whose tag does not say yet which version has opened them, with that
	// version.
	LostTags []LostTags
	Outdated map[string]string

	// mu guards what follows: the actions of several members are taken in parallel.
	mu sync.Mutex
	// Problems are what actions ran into; Acted counts those that succeeded, but for upkeep.
	Problems []*Problem
	Acted    int
	// Promoted is true once a member was made the primary.
	Promoted bool
	// answered are the requests of an earlier pass of which this one took the answer: what was observed may not show it yet.
	answered map[Attempt]bool
}

// LostTags is a resource with the tags that it has lost.
type LostTags struct {
	ID   string
	Tags map[string]string
}

// succeeded records that an action succeeded.
func (x *Execution) succeeded(a topology.Action) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Requests.Succeed(topology.Identity(a))
	if shownByLists(a) {
		x.Requests.take(topology.Identity(a), x.Clock.Now())
	}
	x.Reporter.Succeeded(a)
	if _, upkeep := a.(topology.EnsureSecurityGroup); !upkeep {
		x.Acted++
	}
}

// failed records that an action failed.
func (x *Execution) failed(a topology.Action, p *Problem) {
	x.Reporter.Failed(a, p, x.Requests.Fail(topology.Identity(a), p, x.Clock.Now()))
	x.report(a, p)
}

// report adds what an action met to the problems. What usually passes by itself, and does not, is a person's business.
func (x *Execution) report(a topology.Action, p *Problem) {
	shown := &Problem{Reason: p.Reason, Message: a.String() + ": " + p.Message, After: p.After, Pause: p.Pause, Cause: p}
	if since := x.Requests.lastingSince(topology.Identity(a), x.Clock.Now()); p.Quiet() && !since.IsZero() {
		shown.Reason = v1alpha1.ReasonActionFailing
		shown.Message += "; it has failed since " + since.UTC().Format(time.RFC3339) + " and is tried again"
	}
	x.problem(shown)
}

func (x *Execution) problem(p *Problem) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Problems = append(x.Problems, p)
}

// decisionFresh is how old what a pass has decided may be before it is asked whether this process still leads. Nobody else can have
// become leader sooner: the lease is held for longer after its last renewal than this and the observation together.
const decisionFresh = 3 * time.Second

// stillLeads fails when a pass stood still for so long that another may lead by now, and one does: EC2 knows no lease.
func (x *Execution) stillLeads(ctx context.Context) error {
	if x.Lease == nil || x.Clock.Since(x.Observed.Now) < decisionFresh {
		return nil
	}
	if err := x.Lease(ctx); err != nil {
		return fmt.Errorf("what was decided a while ago is not done any more: %w", err)
	}
	return nil
}

// saveRecord saves what is recorded of one member.
func (x *Execution) saveRecord(ctx context.Context, member string, change func(*topology.MemberRecord)) error {
	return x.Records.Save(ctx, func(records *topology.ClusterRecord) {
		rec := records.Members[member]
		change(&rec)
		records.Members[member] = rec
	})
}

package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Rollout is how far a change that goes from member to member has got.
type Rollout struct {
	// Kind is what is done to the members.
	Kind v1alpha1.RolloutKind
	// Done are the members that were changed, Next those that wait for it, in their order. The primary comes last.
	Done, Next []string
	// Current is the member whose turn it is, empty between two turns; Step is what it waits for, or what the next one does.
	Current, Step string
	// Plan says of the members that are left, the current one included, what is done to them.
	Plan []string
	// Since is when the change began, in Unix seconds; 0 before it did.
	Since int64
	// PreviousVersion is what the primary runs while the spec asks for a newer version of MySQL: the way back leads there.
	PreviousVersion string
}

// Total is how many members the change is about.
func (r Rollout) Total() int {
	total := len(r.Done) + len(r.Next)
	if r.Current != "" {
		total++
	}
	return total
}

// under says whether anything is being changed, or is to be.
func (r Rollout) under() bool { return r.Current != "" || len(r.Next) > 0 }

// turnsLeft are the members that are to be changed, in their order: those that are not wanted, from the highest ordinal down,
// then the outdated replicas in the same way, then the primary.
func (p *rollout) turnsLeft(primary *Member) []*Member {
	var leave, replace, last []*Member
	all := p.ordered()
	slices.Reverse(all)
	for _, m := range all {
		switch {
		case m.Ordinal >= p.Replicas && p.nothingLeft(m):
		case m.Ordinal >= p.Replicas:
			leave = append(leave, m)
		case p.turns.outdated(m) && m == primary:
			last = append(last, m)
		case p.turns.outdated(m):
			replace = append(replace, m)
		}
	}
	return slices.Concat(leave, replace, last)
}

// reportRollout describes the change under way, and forgets what was done when nothing is left to do.
func (p *rollout) reportRollout(primary *Member) {
	rec := &p.plan.Records
	out := Rollout{Kind: v1alpha1.RolloutMachines, Current: rec.Rolling, Since: rec.RollingSince}
	left := p.turnsLeft(primary)
	for _, m := range left {
		if m.Name != rec.Rolling {
			out.Next = append(out.Next, m.Name)
		}
	}
	if m := p.Members[rec.Rolling]; m != nil && !slices.Contains(left, m) {
		left = append(left, m)
	}
	slices.SortStableFunc(left, func(a, b *Member) int { // whose turn it is comes first
		return cmp.Compare(last(b, p.Members[rec.Rolling]), last(a, p.Members[rec.Rolling]))
	})
	for _, m := range left {
		out.Plan = append(out.Plan, m.Name+": "+p.otherRollouts.turnPlan(m, primary))
	}
	for _, name := range p.turns.unopened {
		if name != rec.Rolling && !slices.Contains(out.Next, name) {
			out.Next = append(out.Next, name)
		}
	}
	if !out.under() {
		p.endRollout(out)
		return
	}
	for _, name := range rec.RollingDone {
		if name != out.Current && !slices.Contains(out.Next, name) { // else the spec was changed once more
			out.Done = append(out.Done, name)
		}
	}
	rec.RollingDone = out.Done
	out.PreviousVersion = p.turns.wayBack(primary)
	out.Step = cmp.Or(p.step.Message, waitingForAll)
	p.plan.Rollouts = append(p.plan.Rollouts, out)
}

// endRollout forgets what was done. As long as EC2 has not answered this process, nobody knows whether something is left to do.
func (p *rollout) endRollout(out Rollout) {
	rec := &p.plan.Records
	switch {
	case p.CloudReachable:
		rec.RollingDone, rec.RollingSince = nil, 0
	case rec.RollingSince != 0 && p.CloudTaken.IsZero():
		out.Done, out.Step = rec.RollingDone, "waiting until EC2 says what the members are built from"
		p.plan.Rollouts = append(p.plan.Rollouts, out)
	}
}

// String says it in a line: "member 2 of 3, orders-1: stopping instance i-0aa; then orders-0".
func (r Rollout) String() string {
	text := fmt.Sprintf("%d of %d members done: %s", len(r.Done), r.Total(), r.Step)
	if r.Current != "" {
		text = fmt.Sprintf("member %d of %d, %s: %s", len(r.Done)+1, r.Total(), r.Current, r.Step)
	}
	if len(r.Next) > 0 {
		text += "; then " + strings.Join(r.Next, ", ")
	}
	return text
}

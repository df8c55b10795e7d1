package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// otherRollouts tells how far the changes are that go from member to member.
type otherRollouts struct {
	*pass
	turns    *turns
	handover *handover
}

// RolloutProgress is what is remembered of a change that goes from member to member without taking turns by the records: restarts of
// mysqld, and other volumes. What is left of it is read off the members in each pass. It is there for people who follow it;
// nothing is decided by it.
type RolloutProgress struct {
	// Members are those that it was found to be about, in that order.
	Members []string `json:"members,omitempty"`
	// Since is when the first of them was changed, in Unix seconds; 0 before.
	Since int64 `json:"since,omitempty"`
}

func (c RolloutProgress) clone() RolloutProgress {
	return RolloutProgress{slices.Clone(c.Members), c.Since}
}

// IsZero says whether nothing is under way.
func (c RolloutProgress) IsZero() bool { return c.Since == 0 && len(c.Members) == 0 }

// reportOtherRollouts describes the restarts and the changes of volumes that are under way, after the change of instances if there is
// one. The first that has begun is what a person is told of in a line; before any has, the first.
func (p *otherRollouts) reportOtherRollouts(primary *Member) {
	rec := &p.plan.Records
	p.reportOtherRollout(v1alpha1.RolloutRestarts, &rec.Restarts, p.restartsLeft(primary, rec.Restarts), func(m *Member) bool {
		return !m.verified() || p.views[m.Name].Step.Code == Restarting
	}, p.handover.restartStep.Message, func(m *Member) string {
		return handingOver(m, primary, p.Replicas, "mysqld is restarted")
	})
	p.reportOtherRollout(v1alpha1.RolloutVolumes, &rec.Volumes, p.volumesLeft(rec.Volumes), func(m *Member) bool {
		return slices.ContainsFunc(p.plan.Actions, func(a Action) bool { modify, ok := a.(ModifyVolume); return ok && modify.Member == m.Name })
	}, "", p.volumePlan)
	if len(p.plan.Rollouts) > 0 {
		p.plan.Rollout = p.plan.Rollouts[max(0, slices.IndexFunc(p.plan.Rollouts, func(r Rollout) bool { return r.Since != 0 }))]
		p.plan.Rollout.PreviousVersion = p.plan.Rollouts[0].PreviousVersion // the way back leads there whatever else goes on
		p.plan.Rolling = Finding{v1alpha1.ReasonRolling, p.plan.Rollout.String()}
	}
}

// reportOtherRollout describes one such change. left are the members that it is still to reach, in their order; now says of one whether it
// is being changed, step what the next waits for, and does what is done to a member.
func (p *otherRollouts) reportOtherRollout(kind v1alpha1.RolloutKind, rec *RolloutProgress, left []*Member, now func(*Member) bool, step string, does func(*Member) string) {
	if len(left) == 0 {
		*rec = RolloutProgress{}
		return
	}
	out := Rollout{Kind: kind, Step: step}
	if at := slices.IndexFunc(left, now); at >= 0 {
		out.Current = left[at].Name
		if rec.Since == 0 {
			rec.Since = p.Now.Unix()
		}
	}
	out.Since = rec.Since
	for _, m := range left {
		if rec.Since != 0 && !slices.Contains(rec.Members, m.Name) {
			rec.Members = append(rec.Members, m.Name)
		}
		if m.Name != out.Current {
			out.Next = append(out.Next, m.Name)
		}
		out.Plan = append(out.Plan, m.Name+": "+does(m))
	}
	for _, name := range rec.Members {
		if m := p.Members[name]; m != nil && m.Ordinal < p.Replicas && !slices.Contains(left, m) {
			out.Done = append(out.Done, name)
		}
	}
	out.Step = cmp.Or(p.currentStep(out, left[0]), waitingForAll)
	p.plan.Rollouts = append(p.plan.Rollouts, out)
}

// currentStep is what the member that is being changed waits for, or the next one while none is.
func (p *otherRollouts) currentStep(out Rollout, next *Member) string {
	if v := p.views[out.Current]; v != nil && v.Step.Waits() {
		return v.Step.Message
	}
	if v := p.views[next.Name]; out.Step == "" && v != nil && out.Current == "" {
		return v.Step.Message
	}
	return out.Step
}

// waitingForAll is the step of a change that goes on as soon as nothing else does.
const waitingForAll = "waiting until all members are well"

// restartsLeft are the members whose mysqld is still to be restarted, the primary last, and those that are being restarted.
func (p *otherRollouts) restartsLeft(primary *Member, rec RolloutProgress) []*Member {
	var left []*Member
	for _, m := range p.ordered() {
		if m.Ordinal < p.Replicas && p.views[m.Name] != nil && (p.RestartDue(m, p.Now) || !m.verified() && slices.Contains(rec.Members, m.Name)) {
			left = append(left, m)
		}
	}
	slices.SortStableFunc(left, func(a, b *Member) int { return cmp.Compare(last(a, primary), last(b, primary)) })
	return left
}

// last orders a primary after everybody else.
func last(m, primary *Member) int {
	if m == primary {
		return 1
	}
	return 0
}

// volumesLeft are the members whose volume is not what the spec asks for. One that EC2 is not there to show is as it was.
func (p *otherRollouts) volumesLeft(rec RolloutProgress) []*Member {
	var left []*Member
	for _, m := range p.ordered() {
		if m.Ordinal >= p.Replicas || p.views[m.Name] == nil {
			continue
		}
		if vol := m.volume(); vol != nil && p.unlike(vol) || vol == nil && !p.CloudReachable && slices.Contains(rec.Members, m.Name) {
			left = append(left, m)
		}
	}
	return left
}

// handingOver is what is done to a member, in words; a primary hands over before, where there is somebody.
func handingOver(m, primary *Member, replicas int, does string) string {
	if m == primary && (replicas > 1 || m.Ordinal >= replicas) {
		return "hands over; " + does
	}
	return does
}

// turnPlan is what is done to a member in its turn, in words.
func (p *otherRollouts) turnPlan(m, primary *Member) string {
	switch {
	case m.Ordinal >= p.Replicas:
		return handingOver(m, primary, p.Replicas, "leaves the cluster")
	case p.turns.tooNew(m):
		return "goes back to an instance with the previous version"
	case p.Version != "" && m.SQL.Version != "" && mysql.OlderVersion(m.SQL.Version, p.Version):
		return handingOver(m, primary, p.Replicas, fmt.Sprintf("a snapshot of its volume is taken; MySQL %s instead of %s, on a new instance with the same volume", p.Version, m.SQL.Version))
	}
	return handingOver(m, primary, p.Replicas, "a new instance with the same volume")
}

// volumePlan is what is done to a member's volume, in words.
func (d Desired) volumePlan(m *Member) string {
	vol := m.volume()
	if vol == nil {
		return "its volume is modified"
	}
	var changes []string
	if vol.SizeGiB < d.SizeGiB {
		changes = append(changes, fmt.Sprintf("%d GiB instead of %d", d.SizeGiB, vol.SizeGiB))
	}
	if d.VolumeType != "" && vol.Type != d.VolumeType {
		changes = append(changes, fmt.Sprintf("%s instead of %s", d.VolumeType, vol.Type))
	}
	if d.IOPS != 0 && vol.IOPS != d.IOPS {
		changes = append(changes, fmt.Sprintf("%d IOPS instead of %d", d.IOPS, vol.IOPS))
	}
	if d.Throughput != 0 && vol.Throughput != d.Throughput {
		changes = append(changes, fmt.Sprintf("%d MiB/s instead of %d", d.Throughput, vol.Throughput))
	}
	return fmt.Sprintf("volume %s gets %s", vol.ID, strings.Join(changes, ", "))
}

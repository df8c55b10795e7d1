package topology

import (
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// scaling has members leave that the spec does not want any more.
type scaling struct {
	*pass
	acks    *acks
	turns   *turns
	volumes *volumes
	votes   *votes
	healing *healing
}

// scaleInPrefix begins the purpose of the snapshot that is kept of a member which was taken away.
const scaleInPrefix = "scalein-"

// idleSurplus returns a member that spec.replicas does not ask for, that has no vote and whose turn may come: nobody misses it, however
// the others are. Nil when there is none.
func (p *scaling) idleSurplus(mayLeave func(*Member) bool) *Member {
	for _, m := range p.ordered() {
		if m.Ordinal >= p.Replicas && p.plan.Membership != nil && !p.turns.mayBeNeeded(m) && !p.nothingLeft(m) && mayLeave(m) {
			return m
		}
	}
	return nil
}

// keepsFromVote says whether the present turn can only end once a surplus member has left: the member whose turn it is is well but
// for its vote, and somebody gets no vote because the surplus member, which does not answer, may hold what he lost in a rebuild.
func (p *scaling) keepsFromVote(idle *Member) bool {
	rec := &p.plan.Records
	m := p.Members[rec.Rolling]
	if m == nil || m.Ordinal >= p.Replicas || !m.verified() || idle.verified() || rec.Leaving != "" || rec.Removing != "" {
		return false
	}
	if !p.plan.Membership.Has(m.Name) && rec.Members[m.Name].Tail == "" {
		return false // it is between its vote of before and the next
	}
	for name, rec := range p.plan.Records.Members {
		if other := p.Members[name]; rec.Tail != "" && other != nil && other.Ordinal < p.Replicas && other.verified() && !p.plan.Membership.Has(name) {
			return true
		}
	}
	return false
}

// reportSurplus says of the members that spec.replicas does not ask for that they are to leave.
func (p *scaling) reportSurplus() {
	for _, m := range p.ordered() {
		if v := p.views[m.Name]; m.Ordinal >= p.Replicas {
			v.Phase = v1alpha1.PhaseReplicating
			if p.plan.Records.Rolling != m.Name && !v.Step.Waits() {
				v.Step = waits("not wanted by spec.replicas; it leaves when all others are well")
			}
		}
	}
}

// takeAway takes a member away that spec.replicas no longer asks for, and returns what it waits for: first its vote, then
// its instance, then its volume as the deletion policy says.
func (p *scaling) takeAway(m, primary *Member) Step {
	if primary == nil {
		p.views[m.Name].InService = false
		p.waitAtMost(waitMySQL)
		return waits("waiting for a primary, to leave")
	}
	keep := ""
	if p.DeletionPolicy == v1alpha1.DeletionPolicySnapshot {
		keep = scaleInPrefix
	}
	return p.leave(m, primary, "leaving", keep)
}

// leave takes everything of a member away, and returns what it waits for, beginning with what happens to it. With keep, the
// beginning of a purpose, a snapshot of its volume is left.
func (p *scaling) leave(m, primary *Member, what, keep string) Step {
	p.views[m.Name].InService = false
	if p.mayVote(m) || !p.plan.Membership.Settled() {
		if p.plan.Records.Leaving == "" && p.acks.holdsUp(m, primary) {
			return waits(what + ": " + awaitsOthers)
		}
		if m.verified() {
			p.votes.expel(m, primary) // that of one which does not answer is taken when its instance is off
		} else {
			p.votes.stopSilent(m, primary)
		}
		p.waitAtMost(waitMySQL)
		return waits(what + ": giving its vote back")
	}
	if keep != "" {
		if why := p.lastSnapshot(m, keep); why.Waits() {
			return waits(what + ": " + why.Message)
		}
	}
	for _, in := range m.Instances {
		if in.State == stateTerminated {
			continue
		}
		if in.State != stateShuttingDown {
			p.retry(waitMySQL, TerminateInstance{m.Name, in.ID})
		}
		p.waitAtMost(waitEC2)
		return waits(fmt.Sprintf("%s: instance %s is being terminated", what, in.ID))
	}
	p.giveVolumesUp(m)
	p.waitAtMost(waitEC2)
	return waits(what + ": its volume is being removed")
}

// giveVolumesUp deletes the volumes of a member that leaves, or lets go of them, as the deletion policy says.
func (p *scaling) giveVolumesUp(m *Member) {
	for _, vol := range m.Volumes {
		switch {
		case vol.gone():
		case m.RecordedVolume != "" && vol.ID != m.RecordedVolume:
			p.retry(waitMySQL, RetireVolume{m.Name, vol.ID}) // a copy that somebody made, and may be using
		case vol.State != volumeAvailable && vol.State != volumeError:
		case p.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
			p.retry(waitMySQL, RetireVolume{m.Name, vol.ID})
		default:
			p.volumes.clearPendingVolume(m.Name)
			p.retry(waitMySQL, DeleteVolume{m.Name, vol.ID})
		}
	}
}

// lastSnapshot has the snapshot taken that is kept of a member's volume, with its instance stopped, and returns what is waited
// for.
func (p *scaling) lastSnapshot(m *Member, prefix string) Step {
	vol, rec := m.volume(), p.plan.Records.Members[m.Name]
	if vol == nil || m.RecordedVolume == "" && (vol.Incarnation >= rec.Volume || vol.ID == rec.AbandonedVolume) {
		return Step{} // nothing was ever on it
	}
	purpose := fmt.Sprintf("%s%s-%d", prefix, vol.ID, p.plan.Records.RollingAt)
	taken := p.snapshotFor(vol.ID, purpose)
	in := m.CurrentInstance()
	switch {
	case taken != nil && taken.State == snapshotCompleted:
		return Step{}
	case taken != nil:
		p.waitAtMost(waitEC2)
		return waits(fmt.Sprintf("waiting for snapshot %s: %s", taken.ID, orNone(taken.Progress)))
	case in != nil && in.State == stateRunning:
		p.retry(waitMySQL, StopInstance{Member: m.Name, InstanceID: in.ID, Gracefully: m.verified() || m.Ordinal >= p.Replicas})
		return waits("stopping")
	case in != nil && in.State != stateStopped && in.State != stateTerminated:
		p.waitAtMost(waitMySQL)
		return waits("stopping")
	}
	if why := p.healing.afterFailed(m, vol.ID, purpose); why.Waits() {
		return why
	}
	p.retry(waitMySQL, TakeSnapshot{m.Name, vol.ID, purpose})
	return waits("taking the snapshot that is kept")
}

// endWithoutVolume ends the instance of a member that spec.replicas does not ask for, if its volume is lost before the cluster was restored, and
// returns what it waits for: no primary takes it away, and there may never be one.
func (p *scaling) endWithoutVolume(m *Member, in *Instance) Step {
	if in == nil || !p.recovering() || !p.volumeLost(m) || !p.CloudReachable {
		return Step{}
	}
	p.retry(waitEC2, TerminateInstance{m.Name, in.ID})
	return waits("ending instance " + in.ID + ", whose volume is gone")
}

// nothingLeft says whether EC2 shows nothing of a member any more.
func (st *state) nothingLeft(m *Member) bool {
	return !slices.ContainsFunc(m.Instances, func(in Instance) bool { return in.State != stateTerminated }) &&
		!slices.ContainsFunc(m.Volumes, func(v Volume) bool { return v.State != volumeDeleted })
}

// dropAbsent forgets the members that spec.replicas does not ask for and of which nothing is left but what EC2 still shows
// of their end.
func (p *scaling) dropAbsent() {
	for name, m := range p.Members {
		if m.Ordinal < p.Replicas || !p.CloudReachable || !p.nothingLeft(m) {
			continue
		}
		switch {
		case p.plan.Records.Rolling == name:
			p.turns.forgetMember(m)
			p.turns.endRolling(true)
		case p.volumeLost(m) && (p.recovering() || !p.turns.mayBeNeeded(m)):
			p.turns.forgetMember(m) // lost, or noted once more by an operator that saw it late
		}
		if p.plan.Records.Members[name].VolumeID == "" {
			delete(p.Members, name)
		}
	}
}

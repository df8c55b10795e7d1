package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// removal takes the cluster away: for good, or until it is to wake.
type removal struct {
	*pass
	acks     *acks
	turns    *turns
	volumes  *volumes
	votes    *votes
	failover *failover
}

// delete takes a cluster down: choose what the final snapshot is taken of, stop, take it, terminate, delete volumes,
// delete the security group. Each step waits for EC2 to say that the one before is done.
func (p *removal) delete() {
	for _, m := range p.ordered() {
		v := &View{Name: m.Name, Phase: v1alpha1.PhaseDeleting, Role: v1alpha1.RoleNone, Version: m.SQL.Version}
		p.views[m.Name] = v
		describe(m, v)
		p.reportTransition(m)
	}
	if !p.CloudReachable {
		p.waitAtMost(waitEC2)
		p.plan.Waiting = Finding{v1alpha1.ReasonDeleting, "waiting for EC2's API"}
		return
	}
	p.chooseFinalVolumes()
	if !p.finalSnapshots() || p.endInstances() || p.endVolumes() || p.endQuarantine() || p.volumes.dropSourceCopies() {
		p.waitAtMost(waitEC2)
		return
	}
	if p.SecurityGroup != "" {
		p.plan.Waiting = Finding{v1alpha1.ReasonDeleting, "deleting the security group"}
		p.retry(waitMySQL, DeleteSecurityGroup{p.SecurityGroup})
		return
	}
	if p.Strangers > 0 && p.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
		p.waitAtMost(waitReady)
		p.plan.Waiting = Finding{v1alpha1.ReasonDeleting, "a resource carries this cluster's tag and belongs to no member; correct its tags or delete it"}
		return
	}
	if wait := p.unlisted(); wait.Reason != "" {
		p.waitAtMost(waitEC2)
		p.plan.Waiting = wait
		return
	}
	p.plan.Gone = true
}

// unlisted says what EC2's lists may not show yet although it was made for the cluster; nothing once they show everything. Snapshots
// have a list of their own, which EC2 may not answer for long: one that nobody knows of would stay, and cost.
func (p *removal) unlisted() Finding {
	at := p.shownBy()
	switch {
	case p.Records.Unbegun():
	case p.Now.Before(at) || p.CloudTaken.Before(at):
		return Finding{v1alpha1.ReasonDeleting, "all known EC2 resources are gone; waiting 2 minutes for EC2's eventually consistent lists"}
	case p.Snapshots.Taken.IsZero() || p.Snapshots.Taken.Before(at):
		return Finding{v1alpha1.ReasonSnapshotsUnknown, "all other EC2 resources are gone; waiting for EC2's list of snapshots, because some may have to be deleted" + because(p.Snapshots.Unanswered)}
	}
	return Finding{}
}

// because appends why to a message, if that is known.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// shownBy is when EC2 shows whatever was made for the cluster: once it is to be deleted nothing more is made. A list from before that
// moment proves nothing, however long nothing was made: it lacks what others made since.
func (p *removal) shownBy() time.Time {
	began := time.Unix(p.plan.Records.FinalAt, 0)
	made := p.WatchedSince
	if made.After(began) {
		made = began
	}
	if p.DoubtAt.After(made) {
		made = p.DoubtAt
	}
	if shown := made.Add(settling); !made.IsZero() && shown.After(began) {
		return shown
	}
	return began
}

// chooseFinalVolumes decides once, while mysqld can still be asked, whose volume the final snapshot is taken of: the
// primary's. When no primary is known every voter's, or every volume with data, is taken: too much rather than the
// wrong one. It decides again when a snapshot is wanted and none of the chosen volumes can give one: then the policy was changed on the way,
// or they are lost, and what the others hold is all that is left of the data.
func (p *removal) chooseFinalVolumes() {
	rec := &p.plan.Records
	wanted := p.DeletionPolicy == v1alpha1.DeletionPolicySnapshot && (rec.Bootstrapped != "" || !rec.RebuiltAt.IsZero())
	if rec.FinalChosen && (!wanted || slices.ContainsFunc(rec.FinalVolumes, func(id string) bool { return !p.finalLost(id) })) {
		return
	}
	if !rec.FinalChosen {
		rec.FinalChosen, rec.FinalAt = true, p.Now.Unix()
	}
	if !wanted {
		return
	}
	rec.FinalVolumes = nil
	if primary := p.certainPrimary(); primary != nil {
		rec.FinalVolumes = []string{primary.volume().ID}
		return
	}
	for _, m := range p.ordered() {
		if vol := m.volume(); vol != nil {
			rec.FinalVolumes = append(rec.FinalVolumes, vol.ID)
		}
	}
}

// finalLost says whether a volume that was chosen is lost without a final snapshot. A volume that EC2 does not show is believed lost as that
// of any member, and no snapshot that EC2 does not list counts as missing while it does not answer that list.
func (p *removal) finalLost(volumeID string) bool {
	if p.snapshotOf(volumeID, snapshotCompleted) != nil || p.holderOf(volumeID) != nil || p.Snapshots.Taken.IsZero() || p.Snapshots.Unanswered != "" {
		return false
	}
	for _, m := range p.Members {
		if m.RecordedVolume == volumeID {
			return p.volumeLost(m)
		}
	}
	return true
}

// certainPrimary returns the primary when all voters answer and agree that it is: one that was replaced without our
// knowing would leave newer commits behind.
func (p *removal) certainPrimary() *Member {
	row, writable := p.newestMembership(), p.primaries()
	if row == nil || len(writable) != 1 || writable[0].SQL.Membership == nil || writable[0].SQL.Membership.Epoch != row.Epoch || writable[0].volume() == nil {
		return nil
	}
	for _, name := range row.Voters {
		if m := p.Members[name]; m == nil || !m.verified() {
			return nil
		}
	}
	return writable[0]
}

// finalPurpose marks the snapshots of this deletion.
func (p *removal) finalPurpose() string {
	return fmt.Sprintf("final-%d", p.plan.Records.FinalAt)
}

// finalSnapshots takes the chosen snapshots, each after its instance stopped, and says whether all are completed. None is wanted any more
// when the policy was changed on the way.
func (p *removal) finalSnapshots() bool {
	if p.DeletionPolicy != v1alpha1.DeletionPolicySnapshot {
		return true
	}
	all := true
	for _, id := range p.plan.Records.FinalVolumes {
		if p.snapshotOf(id, snapshotCompleted) != nil {
			continue
		}
		m := p.holderOf(id)
		if m == nil {
			if !p.finalLost(id) {
				all = false
				p.plan.Waiting = Finding{v1alpha1.ReasonDeleting, "volume " + id + " is not shown by EC2 and its final snapshot is not complete; waiting until its loss is certain"}
			}
			continue // nothing is left to take
		}
		all = false
		if why := p.Snapshots.Unanswered; why != "" {
			p.plan.Waiting = Finding{v1alpha1.ReasonSnapshotsUnknown, "waiting for the final snapshot of " + m.Name + ", of which EC2 may not say whether it is complete: " + why}
		}
		v := p.views[m.Name]
		in := m.CurrentInstance()
		switch snapshot := p.snapshotOf(id, ""); {
		case in != nil && in.State != stateStopped:
			p.stop(m, in)
			v.Step = waits(fmt.Sprintf("stopping before the final snapshot; instance %s is %s", in.ID, in.State))
		case snapshot == nil:
			p.retry(waitMySQL, TakeSnapshot{m.Name, id, p.finalPurpose()})
			v.Step = waits("taking the final snapshot")
		case snapshot.State == snapshotError:
			p.degraded(v1alpha1.ReasonDeleting, fmt.Sprintf("%s: the final snapshot %s failed; taking another", m.Name, snapshot.ID))
			p.retry(snapshotPause, TakeSnapshot{m.Name, id, fmt.Sprintf("%s-again-%d", p.finalPurpose(), p.Now.Unix()/int64(snapshotPause.Seconds()))})
			v.Step = waits("taking the final snapshot again")
		default:
			v.Step = waits(fmt.Sprintf("final snapshot %s: %s", snapshot.ID, orNone(snapshot.Progress)))
		}
	}
	return all
}

// snapshotOf returns the snapshot of a volume in a state, or the best of any state when state is "".
func (p *removal) snapshotOf(volumeID, state string) *Snapshot {
	var found *Snapshot
	for i := range p.Snapshots.Known {
		s := &p.Snapshots.Known[i]
		if s.VolumeID == volumeID && strings.HasPrefix(s.Purpose, p.finalPurpose()) && (state == "" || s.State == state) && (found == nil || found.State == snapshotError) {
			found = s
		}
	}
	return found
}

// holderOf returns the member that has a volume.
func (o Observed) holderOf(volumeID string) *Member {
	for _, m := range o.ordered() {
		for _, v := range m.Volumes {
			if v.ID == volumeID && !v.gone() {
				return m
			}
		}
	}
	return nil
}

// endInstances terminates all instances and says whether any is left.
func (p *removal) endInstances() bool {
	left := false
	for _, m := range p.ordered() {
		for _, in := range m.Instances {
			if in.State == stateTerminated {
				continue
			}
			left = true
			p.views[m.Name].Step = waits(fmt.Sprintf("terminating instance %s, which is %s", in.ID, in.State))
			if in.State != stateShuttingDown {
				p.retry(waitMySQL, TerminateInstance{m.Name, in.ID})
			}
		}
	}
	return left
}

// endVolumes deletes the volumes that the policy does not keep and says whether any of those is left.
func (p *removal) endVolumes() bool {
	if p.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return false
	}
	left := false
	for _, m := range p.ordered() {
		for _, vol := range m.Volumes {
			if vol.State == volumeDeleted {
				continue
			}
			if m.RecordedVolume != "" && vol.ID != m.RecordedVolume && vol.ID != p.plan.Records.Members[m.Name].AbandonedVolume {
				if p.CloudReachable && !vol.gone() {
					p.retry(waitMySQL, RetireVolume{m.Name, vol.ID}) // a copy that somebody made, and may be using
				}
				continue
			}
			left = true
			step := fmt.Sprintf("volume %s is being deleted", vol.ID)
			switch {
			case vol.State == volumeAvailable, vol.State == volumeError:
				p.volumes.clearPendingVolume(m.Name)
				p.retry(waitMySQL, DeleteVolume{m.Name, vol.ID})
			case vol.AttachedTo != "":
				step = fmt.Sprintf("volume %s cannot be deleted: it is %s by instance %s, %s", vol.ID, vol.State, vol.AttachedTo, m.holder(&vol))
			}
			p.views[m.Name].Step = waits(step)
		}
	}
	return left
}

// endQuarantine deletes the snapshots of members that were rebuilt or upgraded, unless everything is to be kept, and the final ones of this
// deletion if nothing is to be kept. It says whether any is left.
func (p *removal) endQuarantine() bool {
	if p.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return false
	}
	left := false
	for _, s := range p.Snapshots.Known {
		final := strings.HasPrefix(s.Purpose, p.finalPurpose()) && p.DeletionPolicy == v1alpha1.DeletionPolicyDelete
		if final || strings.HasPrefix(s.Purpose, quarantinePrefix) || strings.HasPrefix(s.Purpose, upgradePrefix) {
			left = true
			p.retry(waitMySQL, DeleteSnapshot{s.Member, s.ID})
		}
	}
	return left
}

package topology

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// A cluster may begin with a copy of a data volume: the first member gets its first volume from a snapshot, its mysqld
// recovers as after a power cut, what was archived after it is replayed where a point in time is asked for, and then what of the old
// cluster's identity is in the data is taken out over SQL. From then on everything goes as after a restored dump. Nothing is written to
// what was copied.

// RecoveryPurpose begins the purpose of the snapshot that is taken of a volume which the cluster is to begin with. It goes when
// that is done.
const RecoveryPurpose = "recovery"

// yetToBegin says whether a cluster that is to begin with a recovery has not, as far as the records know.
func (st *state) yetToBegin() bool {
	rec := st.Records
	return st.Recover && !rec.Recovered && !rec.Established && rec.Bootstrapped == ""
}

// copying says whether the cluster has yet to begin with the copy of a volume. What was chosen once stays chosen, also when
// the MySQLBackup that named it is gone.
func (p *volumes) copying() bool {
	return p.yetToBegin() && (p.Source.Copied || p.plan.Records.Source != "")
}

// foreign says whether what a member's volume holds is another cluster's still: its voters are not ours.
func (st *state) foreign(m *Member) bool {
	vol := m.volume()
	return st.yetToBegin() && vol != nil && vol.Foreign
}

// firstMember is the one that gets the copy: always the same, so that there is never a second one.
func (st *state) firstMember() *Member { return st.Members[st.MemberName(0)] }

// findSource finds the snapshot that the first volume is made from, and has it taken of a volume that is to be copied. Until it
// is there nothing is made at all: instances would only wait, and cost. What was made before goes on without it.
func (p *volumes) findSource() {
	if !p.yetToBegin() {
		p.dropSourceCopies()
		return
	}
	if p.firstMember().volume() != nil || !p.CloudReachable {
		return
	}
	rec := &p.plan.Records
	switch source := p.Source; {
	case source.Why.Reason != "":
		p.unsourced = waits(source.Why.Message)
		if source.Final {
			p.waitAtMost(waitReady)
			p.degraded(source.Why.Reason, source.Why.Message)
			return
		}
	case !p.copying():
		return
	case !rec.RebuiltAt.IsZero():
		// Perhaps it had begun, and has lost its first volume since: a second copy would be a second beginning.
		p.unsourced = waits("the records of this cluster were lost, and it is not known whether its recovery was done")
		advice := "delete the cluster and make it again, with the same spec.bootstrap.recovery"
		if p.holdsVolumes() {
			advice = "wait for the other members, whose volumes may hold everything"
		}
		p.degraded(v1alpha1.ReasonRecoveryFailed, p.unsourced.Message+"; no volume is made from the snapshot again: "+advice)
	case rec.Source != "":
	case source.SnapshotID != "":
		rec.Source, rec.SourceArchive = source.SnapshotID, source.Archive
	default:
		rec.Source, p.unsourced = p.snapshotOfSource(source.VolumeID)
		rec.SourceArchive = source.Archive
	}
	p.waitAtMost(waitEC2)
}

// holdsVolumes says whether any member has a volume that is not a copy yet to be adopted. It may hold the cluster's data.
func (o Observed) holdsVolumes() bool {
	for _, m := range o.Members {
		if vol := m.volume(); vol != nil && !vol.Foreign {
			return true
		}
	}
	return false
}

// snapshotOfSource returns the snapshot of the volume that is to be copied, or what it waits for.
func (p *volumes) snapshotOfSource(volumeID string) (snapshotID string, step Step) {
	taken := p.snapshotFor(volumeID, RecoveryPurpose)
	switch {
	case taken != nil && taken.State == snapshotCompleted:
		return taken.ID, Step{}
	case taken != nil:
		return "", waits(fmt.Sprintf("snapshot %s of volume %s, to begin with: %s", taken.ID, volumeID, orNone(taken.Progress)))
	}
	for _, s := range p.Snapshots.Known {
		if s.VolumeID == volumeID && s.Purpose == RecoveryPurpose && p.Now.Sub(s.StartedAt) < snapshotPause {
			p.degraded(v1alpha1.ReasonRecoveryFailed, fmt.Sprintf("EC2 could not complete snapshot %s of volume %s; retrying in a few minutes", s.ID, volumeID))
			return "", waits("snapshot " + s.ID + " of volume " + volumeID + " failed")
		}
	}
	if !p.Launchable {
		return "", waitsFor("the preflight checks", p.LaunchProblem)
	}
	p.retry(waitMySQL, CopyVolume{p.MemberName(0), volumeID, RecoveryPurpose})
	return "", waits("taking a snapshot of volume " + volumeID + ", to begin with")
}

// snapshotToBeginWith is the snapshot that a new volume of a member is made from; empty for an empty one.
func (p *volumes) snapshotToBeginWith(m *Member) string {
	if m != p.firstMember() || !p.copying() {
		return ""
	}
	return p.plan.Records.Source
}

// dropSourceCopies deletes the snapshots that were taken to begin with, and says whether any is left.
func (p *volumes) dropSourceCopies() bool {
	left := false
	for _, s := range p.Snapshots.Known {
		if strings.HasPrefix(s.Purpose, RecoveryPurpose) && p.CloudReachable {
			left = true
			p.retry(waitEC2, DeleteSnapshot{s.Member, s.ID})
		}
	}
	return left
}

// recoverCopy has the data on the copy made this cluster's own, once its mysqld answers and it is at the point that is asked for. The
// replay comes first: it writes to tables of the old cluster's operator, too, which go with its identity.
func (p *volumes) recoverCopy() {
	m := p.firstMember()
	vol := m.volume()
	wait := func(message string) { p.plan.Waiting = Finding{v1alpha1.ReasonRecovering, message} }
	if vol == nil && p.unsourced.Waits() {
		wait(p.unsourced.Message) // findSource says when to look again
		return
	}
	p.waitAtMost(waitMySQL)
	switch {
	case vol == nil:
		wait(m.Name + ": " + orNone(p.views[m.Name].Step.Message))
	case !m.verified():
		wait(fmt.Sprintf("%s has volume %s, made from %s: %s", m.Name, vol.ID, p.plan.Records.Source, orNone(p.views[m.Name].Step.Message)))
	case m.SQL.Clone.unread():
		wait(saysUnread(m))
	case m.cloning() || m.cloneCutOff():
		wait(m.Name + " holds what a CLONE that was cut off has left behind")
		p.degraded(v1alpha1.ReasonRecoveryFailed, fmt.Sprintf("%s was taken while its member was being seeded: it does not hold what it says. Delete the cluster and restore from another", p.plan.Records.Source))
		p.waitAtMost(waitReady)
	case m.SQL.Replication != nil:
		wait(m.Name + " still has the source of its volume's first owner")
	case p.ToPoint && p.plan.Records.Replayed != vol.ID:
		p.plan.Records.Recovering = vol.ID
		wait(m.Name + ": what was archived after its copy was taken is being replayed")
		p.retry(waitEC2, Recover{Member: m.Name, Copy: vol.ID})
	default:
		p.plan.Records.Recovering = vol.ID
		wait(m.Name + ": its data is being made this cluster's own")
		p.retry(waitMySQL, Adopt{m.Name, vol.ID})
	}
}

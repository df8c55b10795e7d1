package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// recovering says whether the cluster still has to be given what it begins with. One that has ever served, or whose
// records were lost, is never restored into.
func (st *state) recovering() bool {
	rec := st.Records
	return st.Recover && !rec.Recovered && !rec.Established && rec.Bootstrapped == "" && rec.RebuiltAt.IsZero() && len(st.primaries()) == 0
}

// beingRestored says whether a member is yet to hold what the cluster begins with. Until then its server keeps the
// settings of its launch: a scheduled event of half of the data must not run.
func (st *state) beingRestored(m *Member) bool {
	vol := m.volume()
	return vol != nil && st.yetToBegin() && (vol.Foreign || vol.ID == st.Records.Recovering)
}

// recoveryForgotten says whether a cluster that was to begin with a recovery has lost its records before it began. Nobody
// knows then how far the recovery had got, and to begin empty would be a cluster without the data that it was made for.
func (p *failover) recoveryForgotten() bool {
	rec := p.Records
	if !p.Recover || rec.Recovered || rec.Bootstrapped != "" {
		return false
	}
	if rec.RebuiltAt.IsZero() {
		// A member is writable although nothing was restored. The cluster does not begin on it, nor with another.
		p.plan.Waiting = Finding{v1alpha1.ReasonRecovering, "waiting until no member takes writes, to be restored into"}
		p.waitAtMost(waitMySQL)
		p.unseat(p.primaries())
		return true
	}
	p.waitAtMost(waitMySQL)
	p.plan.Waiting = Finding{v1alpha1.ReasonRecoveryFailed, "the records of this cluster were lost, and it is not known whether its recovery was done; waiting until all members answer"}
	if len(rec.Members) == 0 {
		return true
	}
	for name := range rec.Members {
		if m := p.Members[name]; m == nil || !m.verified() || !m.SQL.MembershipKnown {
			return true // it may know the voters: then the cluster has begun, and goes on
		}
	}
	p.waitAtMost(waitReady)
	p.degraded(v1alpha1.ReasonRecoveryFailed, "the records of this cluster were lost before its recovery was done, and no member holds data; the cluster does not start empty. Delete the cluster and make it again, with the same spec.bootstrap.recovery")
	p.plan.Waiting = Finding{v1alpha1.ReasonRecoveryFailed, "it is not known how far the recovery had got"}
	return true
}

// recover has the first member that answers restored into. The volume is remembered before: an attempt that was cut off
// goes on there, and nowhere else, also when spec.replicas does not ask for its member any more.
func (p *failover) recover() {
	if p.volumes.unsourced.Waits() {
		p.plan.Waiting = Finding{v1alpha1.ReasonRecovering, p.volumes.unsourced.Message} // findSource says when to look again
		return
	}
	p.waitAtMost(waitMySQL)
	p.plan.Waiting = Finding{v1alpha1.ReasonRecovering, "waiting for a member to restore into"}
	for _, m := range p.ordered() {
		vol := m.volume()
		if !m.verified() || vol == nil || m.Ordinal >= p.Replicas && p.plan.Records.Recovering == "" || m.SQL.Replication != nil || m.SQL.Clone != nil {
			continue
		}
		if p.plan.Records.Recovering == "" {
			p.plan.Records.Recovering = vol.ID
		}
		if vol.ID != p.plan.Records.Recovering {
			continue
		}
		p.plan.Waiting = Finding{v1alpha1.ReasonRecovering, m.Name + ": being restored into"}
		p.retry(waitEC2, Recover{Member: m.Name})
		return
	}
	if lost := p.plan.Records.Recovering; lost != "" {
		p.plan.Waiting = Finding{v1alpha1.ReasonRecovering, "waiting for the member with volume " + lost + ", which is being restored"}
		if !p.recorded(lost) {
			p.recoveredInVain(lost)
		}
	}
	if unread := firstUnread(p.ordered()); unread != nil {
		p.plan.Waiting.Message += "; " + saysUnread(unread)
	}
}

// recorded says whether a volume carries the data of a member, by the records.
func (p *pass) recorded(volumeID string) bool {
	for _, rec := range p.plan.Records.Members {
		if rec.VolumeID == volumeID {
			return true
		}
	}
	return false
}

// recoveredInVain returns what the cluster waits for when the volume that it was to begin on is lost after it was given the
// data, or while a dump was restored into it: then nobody has them, and an empty volume in its place would be no beginning. A
// copy that is not the cluster's own yet is made once more instead.
func (p *failover) recoveredInVain(volumeID string) Step {
	rec := p.plan.Records
	if !p.Recover || rec.Bootstrapped != "" || rec.Established || rec.Recovering != volumeID || p.volumes.copying() {
		return Step{}
	}
	p.waitAtMost(waitEC2)
	p.degraded(v1alpha1.ReasonRecoveryFailed, fmt.Sprintf("volume %s, which held the data to begin with, was lost before the cluster started on it; it is not replaced, because its content is not known. Delete the cluster and make it again, with the same spec.bootstrap.recovery", volumeID))
	p.plan.Waiting = Finding{v1alpha1.ReasonRecoveryFailed, "volume " + volumeID + ", on which the cluster was to begin, is gone"}
	return waits("volume " + volumeID + " is gone")
}

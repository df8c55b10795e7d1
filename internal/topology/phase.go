package topology

import (
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// phaseRank orders the phases of members by how far they are.
var phaseRank = map[v1alpha1.Phase]int{
	v1alpha1.PhaseDeleting: -1, v1alpha1.PhaseProvisioning: 0, v1alpha1.PhaseEC2Ready: 1, v1alpha1.PhaseReplicating: 2, v1alpha1.PhaseReady: 3,
	v1alpha1.PhaseHibernated: 4,
}

// clusterPhase returns the phase of the cluster, and records when all members are Ready. On its way up a cluster is as far as its least
// advanced member. Once all members were Ready, it says why one of them no longer is.
func (p *pass) clusterPhase() v1alpha1.Phase {
	least := p.leastAdvanced()
	switch {
	case p.Deleting:
		return v1alpha1.PhaseDeleting
	case least == v1alpha1.PhaseHibernated:
		p.plan.Records.ReadyMembers = 0 // when it wakes, it is on its way up again
		return least
	case least == v1alpha1.PhaseReady && p.plan.Primary != "":
		p.plan.Records.ReadyMembers = p.Replicas
		return least
	case least == v1alpha1.PhaseReady || p.plan.Records.ReadyMembers == 0:
		return least
	case p.onlyChanges():
		return v1alpha1.PhaseUpdating
	}
	return v1alpha1.PhaseRepairing
}

// leastAdvanced returns the phase of the least advanced member; of a cluster without any, where it is to come to.
func (p *pass) leastAdvanced() v1alpha1.Phase {
	least := v1alpha1.PhaseReady
	if p.Hibernate {
		least = v1alpha1.PhaseHibernated
	}
	for _, v := range p.views {
		if phaseRank[v.Phase] < phaseRank[least] {
			least = v.Phase
		}
	}
	return least
}

// onlyChanges says whether a change that a person asked for explains every member that is not Ready: the cluster is to hibernate, the
// member joins or leaves, it is its turn, or the primary hands over.
func (p *pass) onlyChanges() bool {
	turn := func(name string) bool {
		return slices.ContainsFunc(p.plan.Rollouts, func(r Rollout) bool { return r.Current == name })
	}
	changing := p.SwitchoverTo != "" || slices.ContainsFunc(p.plan.Rollouts, func(r Rollout) bool { return r.Current != "" })
	for _, m := range p.ordered() {
		v := p.views[m.Name]
		switch {
		case v == nil || v.Phase == v1alpha1.PhaseReady:
		case p.Hibernate, m.Ordinal >= min(p.Replicas, p.plan.Records.ReadyMembers), turn(m.Name):
		case v.Phase == v1alpha1.PhaseReplicating && (changing || p.repointed(m)):
		default:
			return false
		}
	}
	return true
}

// repointed says whether a member does not follow the primary yet because that was handed over to.
func (p *pass) repointed(m *Member) bool {
	primary := p.Members[p.plan.Primary]
	if ended := p.plan.Records.Promotion; primary == nil || ended.To != primary.Name || ended.Failover || !m.verified() {
		return false
	}
	return m == primary || m.SQL.Replication == nil || p.memberAt(m.SQL.Replication.SourceHost) != primary
}

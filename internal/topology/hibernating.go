package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// hibernate takes the instances of a cluster away and keeps its volumes: the voters acknowledge from disk, writes end, the replicas catch
// up, then every instance is terminated. What the volumes hold then is the same, so that any of them proves a primary when it wakes.
func (p *removal) hibernate() {
	p.volumes.recordVolumes()
	p.turns.recordVersions() // the spec may ask for a newer one when it wakes
	p.plan.Membership = p.newestMembership()
	p.plan.Records.Restarts, p.plan.Records.Volumes = RolloutProgress{}, RolloutProgress{}
	p.plan.Records.RollingDone, p.plan.Records.RollingSince = nil, 0 // a change goes on after the sleep, as if it began then
	left := false
	for _, m := range p.ordered() {
		v := &View{Name: m.Name, Phase: v1alpha1.PhaseHibernated, Role: v1alpha1.RoleNone, Version: m.SQL.Version}
		p.views[m.Name] = v
		describe(m, v)
		for _, in := range m.Instances {
			if in.State != stateTerminated {
				left, v.Phase, v.Step = true, v1alpha1.PhaseReplicating, waits("hibernating")
			}
		}
	}
	if !left {
		return
	}
	p.waitAtMost(waitMySQL)
	switch {
	case !p.CloudReachable:
		p.plan.Waiting = Finding{v1alpha1.ReasonHibernated, "waiting for EC2's API"}
	case p.leaveMemory() || p.endWrites() || p.replicasBehind():
	default:
		p.waitAtMost(waitEC2)
		p.endInstances()
	}
}

// leaveMemory has the voters that keep up acknowledge from disk, because their memory ends with their instances, and says whether one does
// not yet. Where writes wait it is left: nobody would answer the row that says so.
func (p *removal) leaveMemory() bool {
	row, writable := p.plan.Membership, p.primaries()
	if row == nil || len(row.Memory) == 0 || len(writable) != 1 || row.Primary != writable[0].Name || !p.acks.suffice(*row, writable[0], "") {
		return false
	}
	primary := writable[0]
	p.certificates.setRelaySync()
	p.certificates.certify(primary)
	for _, name := range row.Voters {
		if m := p.Members[name]; row.Memory[name] != "" && m != nil && (m == primary || p.receives(m, primary) && p.caughtUp(m)) {
			p.views[name].Step = waits("acknowledging from disk before it hibernates")
			return true
		}
	}
	return false
}

// endWrites plans to make every writable member read-only, and says whether one still is. Commits that wait for an
// acknowledgement nobody is left to give can only be cut off with their instance; that answers none of them.
func (p *removal) endWrites() bool {
	writable := p.primaries()
	for _, m := range writable {
		in := m.CurrentInstance()
		if m.SQL.PendingCommits > 0 && in != nil && !p.anyoneFollows(m) {
			p.stop(m, in)
			p.views[m.Name].Step = waits("powered off: commits wait for acknowledgements that nobody is left to give")
			continue
		}
		p.retry(waitMySQL/4, Demote{m.Name})
		p.views[m.Name].Step = waits("ending writes")
	}
	return len(writable) > 0
}

func (o Observed) anyoneFollows(source *Member) bool {
	for _, m := range o.Members {
		if m.following() && o.memberAt(m.SQL.Replication.SourceHost) == source {
			return true
		}
	}
	return false
}

// replicasBehind says whether a replica that still receives does not hold yet what its source does.
func (p *removal) replicasBehind() bool {
	behind := false
	for _, m := range p.ordered() {
		if !m.following() {
			continue // it is brought up to date when the cluster wakes
		}
		source := p.memberAt(m.SQL.Replication.SourceHost)
		if source != nil && source.verified() && !m.SQL.Executed.Contains(source.SQL.Executed) {
			behind = true
			p.views[m.Name].Step = waits(fmt.Sprintf("catching up with %s before it hibernates", source.Name))
		}
	}
	return behind
}

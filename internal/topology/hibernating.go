package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// hibernate takes the instances of a cluster away and keeps its volumes: the voters acknowledge from disk, writes end, the replicas catch
// up, then every instance is terminated. What the volumes hold then is the same, so that any of them proves a primary when it wakes.
func (p *removal) hibernate() {
	p.plan.Hibernating = true
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

// mayHibernate says whether a primary can be proven when the cluster wakes. The sleep ends all memories: where a voter has in its memory alone
// what it acknowledged, and no disk is known to hold all of it, a primary has to lead first.
func (p *removal) mayHibernate() bool {
	remember := p.remembering()
	if len(remember) == 0 {
		return true
	}
	p.plan.Waiting = Finding{v1alpha1.ReasonHibernated, fmt.Sprintf("the cluster hibernates once a primary leads; until then %s must keep running, which have in memory alone what they acknowledged", strings.Join(remember, ", "))}
	return false
}

// remembering returns the members that have in their memory alone, or may have, what they acknowledged. A voter that runs on its disk and is not reached may;
// where none is reached that knows the voters, any member that runs may, unless the one that led last is off and has its disk.
func (p *removal) remembering() []string {
	row := p.newestMembership()
	leader := p.Members[cmp.Or(p.Records.Leader, p.Records.Bootstrapped)]
	switch {
	case row != nil && p.diskProves(*row):
		return nil
	case row == nil && (leader == nil || leader.volume().readable() && !leader.running()):
		return nil
	}
	var found []string
	for _, m := range p.ordered() {
		silent := m.running() && !m.verified() && m.volume().readable()
		if row == nil && silent && m != leader || row != nil && row.remembers(m, silent) {
			found = append(found, m.Name)
		}
	}
	return found
}

// remembers says whether a voter has in its memory what it acknowledged. One that is silent may.
func (row Membership) remembers(m *Member, silent bool) bool {
	return slices.Contains(row.electorate(), m.Name) && row.Memory[m.Name] != "" && (silent || counts(m) && m.certified(row))
}

// readable says whether a volume is there and has not failed.
func (v *Volume) readable() bool { return v != nil && v.State != volumeError }

// diskProves says whether the disk is there of the member that led last and has written a row since: all that was acknowledged is on it. One
// whose instance runs has to answer, because EC2's lists are late in showing that its volume is lost.
func (p *removal) diskProves(row Membership) bool {
	leader, rec := p.Members[row.Primary], p.Records
	return leader != nil && leader.volume().readable() && (leader.verified() || !leader.running()) && rec.ledLast(leader.Name) && (rec.Leader == "" || rec.inTerm(row))
}

// leaveMemory has the voters that keep up acknowledge from disk, because their memory ends with their instances, and says whether one does
// not yet. As ever that takes a primary that is known to lead, and voters that are confirmed. Where writes wait it is left: nobody would
// answer the row that says so.
func (p *removal) leaveMemory() bool {
	row, writable := p.plan.Membership, p.primaries()
	if row == nil || len(row.Memory) == 0 || len(writable) != 1 || row.Primary != writable[0].Name {
		return false
	}
	if !p.acks.suffice(*row, writable[0], "") {
		return p.judgedSoon(writable[0])
	}
	if p.failover.choosePrimary() == nil || p.unconfirmed {
		p.views[row.Primary].Step = waits("waiting until its membership row is confirmed, before it hibernates")
		return !p.stalledFor(writable[0], stallPatience)
	}
	primary := writable[0]
	if p.leaverIsAway(primary) {
		return false
	}
	p.votes.keepWait(primary, false)
	for _, name := range row.Voters {
		if m := p.Members[name]; row.Memory[name] != "" && m != nil && (m == primary || p.receives(m, primary) && p.caughtUp(m)) {
			p.views[name].Step = waits("acknowledging from disk before it hibernates")
			return true
		}
	}
	return false
}

// judgedSoon says whether a voter that receives is still to be judged: a process that has just begun, or a primary that has, is looked at twice
// for that.
func (p *removal) judgedSoon(primary *Member) bool {
	for _, name := range p.plan.Membership.Voters {
		m := p.Members[name]
		if m == nil || m == primary || !p.receives(m, primary) || m.SQL.Replication.UpToDate || !m.SQL.Replication.LateSince.IsZero() {
			continue
		}
		if p.Now.Sub(p.Exposure.Since) < bridgePatience {
			p.waitAtMost(waitMySQL)
			p.views[name].Step = waits("being looked at once more, before the cluster hibernates")
			return true
		}
	}
	return false
}

// leaverIsAway ends the acknowledgements of the voter that leaves with a row that is not confirmed, and says whether that is not reached and
// may acknowledge: then the row cannot be confirmed, and nothing else written.
func (p *removal) leaverIsAway(primary *Member) bool {
	row := p.plan.Membership
	for _, name := range row.Previous {
		m := p.Members[name]
		switch {
		case row.Has(name) || m == nil || !m.verified() && p.off(m):
		case m.verified():
			p.votes.expel(m, primary)
		default:
			p.degraded(v1alpha1.ReasonMemberUnreachable, fmt.Sprintf("%s does not answer, so that it cannot be recorded that voters acknowledge from disk; the cluster hibernates without that. Keep the volumes of all members until it is Ready again", name))
			return true
		}
	}
	return false
}

// endWrites plans to make every writable member read-only, and says whether one still is. Commits that wait for an
// acknowledgement nobody is left to give, or too few, can only be cut off with their instance; that answers none of them.
func (p *removal) endWrites() bool {
	writable := p.primaries()
	for _, m := range writable {
		in := m.CurrentInstance()
		if m.SQL.PendingCommits > 0 && in != nil && (!p.anyoneFollows(m) || p.stalledFor(m, bridgePatience)) {
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
		if source != nil && source.verified() && !m.SQL.Executed.Contains(source.SQL.Executed.Subtract(source.SQL.Purged)) { // nobody sends that
			behind = true
			if m.applierIsSource() {
				p.retry(waitMySQL/2, m.endApplierWait())
			}
			p.views[m.Name].Step = waits(fmt.Sprintf("catching up with %s before it hibernates", source.Name))
		}
	}
	return behind
}

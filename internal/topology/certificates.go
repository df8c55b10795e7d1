package topology

import (
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// certificates has the membership row say in which memory each voter holds what it acknowledged. What a voter acknowledges from memory a
// loss of power takes from it, so that its word about what it does not hold counts only in that memory; see prove.
type certificates struct {
	*pass
	acks *acks
}

// admits is the memory in which a replica that is to become a voter acknowledges; empty for from disk.
func (p *certificates) admits(m *Member) string {
	if !p.wanted() {
		return ""
	}
	return m.SQL.Memory
}

// wanted says whether voters are to acknowledge from memory.
func (p *certificates) wanted() bool { return p.AckFromMemory && p.Lossless && !p.Hibernate }

// relaySync is what sync_relay_log is to be on a member. A replica that is heard by nobody need not sync: without semi-synchronous
// replication, or while it is no voter and has yet to catch up.
func (p *certificates) relaySync(m *Member, braked bool) string {
	row := p.plan.Membership
	unheard := m.SQL.Replication != nil && !m.mayBeHeard() && !slices.Contains(p.plan.Records.MayAckNonVoters, m.Name)
	switch {
	case p.wanted() && m.ownMemory() && !braked:
		return relayUnsynced
	case !p.Lossless && unheard && !m.ownMemory():
		return relayUnsynced
	case p.wanted() && unheard && row != nil && !p.mayVote(m) && !p.caughtUp(m):
		return relayUnsynced
	}
	return relaySynced
}

// brakes says whether voters are to acknowledge from disk for a while, which slows writes to what their disks sync one after the other: a
// failover to any of them would have to apply for longer than it may. They do so until one is down to half of that.
func (p *certificates) brakes() bool {
	var replicas []*Member
	limit := p.MaxApplyLag
	for _, m := range p.ordered() {
		if !m.verified() || m.SQL.Replication == nil || !p.mayVote(m) {
			continue
		}
		if replicas = append(replicas, m); m.SQL.RelaySync == relaySynced {
			limit = p.MaxApplyLag / 2
		}
	}
	return p.wanted() && limit > 0 && len(replicas) > 0 && !slices.ContainsFunc(replicas, func(m *Member) bool { return m.SQL.Replication.Applier.within(limit) })
}

// reportBrake reports that writes are slowed.
func (p *certificates) reportBrake() {
	p.degraded(v1alpha1.ReasonApplierBehind, fmt.Sprintf("writes are slowed to what the voters' disks sync, because a failover would wait longer than replication.maxApplyLag (%s) for an applier. Raise replica_parallel_workers, take a larger instance type, or reduce the write rate",
		p.MaxApplyLag))
}

// setRelaySync plans to have each member sync its relay log as often as it must.
func (p *certificates) setRelaySync() {
	braked := p.brakes()
	if braked {
		p.reportBrake()
	}
	for _, m := range p.ordered() {
		if want := p.relaySync(m, braked); m.verified() && !m.cloning() && m.SQL.RelaySync != "" && m.SQL.RelaySync != want && !p.busy(m.Name) {
			p.retry(waitMySQL/2, SetRelaySync{m.Name, want})
		}
	}
}

// certify plans the next row about the memory of voters, if one is to be written. First one row for all voters that acknowledge from
// disk and are to do so from memory. Then a row for one voter at a time: one that runs in another memory than its row names, or that is
// to acknowledge from disk; it must have executed what the primary had.
func (p *certificates) certify(primary *Member) {
	row := *p.plan.Membership
	if !p.maySay(row, primary) {
		return
	}
	if next := p.named(row); len(next.Memory) > len(row.Memory) || p.wanted() && len(row.Memory) > 0 && p.missesRow(row) {
		p.retry(waitMySQL/4, Certify{Member: primary.Name, From: row, Next: p.at(next)})
		return
	}
	for _, name := range row.Voters {
		if m := p.Members[name]; m != nil && m.verified() && p.recertifies(m, primary, row) {
			p.retry(waitMySQL/4, Certify{Member: primary.Name, Voter: name, From: row, Next: p.at(row.Confirmed().from(name, p.admits(m)))})
			return
		}
	}
}

// maySay says whether a row may be written that changes nothing but what is said of memories.
func (p *certificates) maySay(row Membership, primary *Member) bool {
	return (p.Lossless || len(row.Memory) > 0) && !p.unconfirmed && row.Settled() && !p.acks.changingVotes() && !p.busy(primary.Name) && p.plan.Records.ledLast(primary.Name)
}

// missesRow says whether the primary has not written a row since it leads, without which it does not prove by itself what it holds.
func (p *certificates) missesRow(row Membership) bool {
	rec := &p.plan.Records
	return rec.Leader != "" && !rec.inTerm(row)
}

// named is a row with the memory of each voter that acknowledges from disk, and is to do so from memory: it has forgotten nothing.
func (p *certificates) named(row Membership) Membership {
	next := row.Confirmed()
	if !p.wanted() || len(row.Voters) == 1 {
		return next
	}
	for _, name := range row.Voters {
		if m := p.Members[name]; m != nil && m.verified() && row.Memory[name] == "" && m.SQL.Memory != "" && m.SQL.RelaySync == relaySynced {
			next = next.from(name, m.SQL.Memory)
		}
	}
	return next
}

// recertifies says whether the row is to say something else of a voter's memory, and can.
func (p *certificates) recertifies(m, primary *Member, row Membership) bool {
	switch {
	case row.Memory[m.Name] == "":
		return false
	case m != primary && (!p.receives(m, primary) || !p.caughtUp(m)):
		return false
	case p.wanted():
		return !m.certified(row) && m.SQL.Memory != ""
	}
	return m.SQL.RelaySync == relaySynced
}

package topology

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// restoreRow has the primary of a cluster that runs write a membership row again, when nobody shows one of this cluster any more: somebody
// dropped it, or loaded another cluster's dump over it. It returns whether that is so. The new row makes a voter of every member that may
// acknowledge. That is sound once all of them are reached and hold what the primary had a moment ago, and its commits wait for as many as
// the row says: what was acknowledged before is held by all of them, and nobody acknowledges who is not one of them.
func (p *failover) restoreRow() bool {
	m := p.certainPrimary()
	if m == nil {
		return false
	}
	what := "the membership row is gone that says who may acknowledge: somebody dropped database nairobi_mysql or columns of its table membership, or loaded another cluster's dump over it. "
	if v := p.views[m.Name]; m.SQL.Writable {
		v.Role, v.InService = v1alpha1.RolePrimary, true // clients find it as before
		what += m.Name + ", the primary, takes writes as before, and writes the row again"
	} else {
		p.plan.Failing = true
		what += m.Name + ", which led last, is opened for writes and writes the row again"
	}
	p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, what}
	p.waitAtMost(waitMySQL)
	row, missing := p.everybody(m)
	semiSync := p.Lossless && row.W > 0
	switch {
	case len(missing) > 0:
		what += "; that waits until all members are reached and hold what it has: " + strings.Join(missing, ", ")
	case !m.SQL.Writable:
		next := p.at(row)
		p.retry(waitMySQL, Promote{Member: m.Name, Membership: Membership{Epoch: next.Epoch - 1, W: row.W}, Next: next, SemiSync: semiSync, MustHold: m.SQL.Executed.String()})
	case semiSync && (!m.SQL.SemiSync.Waits() || m.SQL.SemiSync.WaitCount < row.W):
		what += fmt.Sprintf("; that waits until its commits wait for %d acknowledgements: set rpl_semi_sync_source_wait_for_replica_count to that and rpl_semi_sync_source_enabled to ON", row.W)
	default:
		p.retry(waitMySQL, RecordPrimary{Member: m.Name, Next: p.at(row), SemiSync: semiSync})
	}
	p.degraded(v1alpha1.ReasonMemberUntrusted, what)
	return true
}

// certainPrimary is the primary of a cluster that runs, as far as that is certain without a row; nil if it is not. Where nobody takes writes
// it is who led last: what was acknowledged is on its disk.
func (p *failover) certainPrimary() *Member {
	writable := p.primaries()
	if !p.Records.Established || len(writable) > 1 {
		return nil
	}
	candidates := writable
	if len(writable) == 0 {
		candidates = p.ordered()
	}
	for _, m := range candidates {
		if m.verified() && m.SQL.MembershipKnown && !p.foreign(m) && p.isLastLeader(m) {
			return m
		}
	}
	return nil
}

// isLastLeader says whether the records know that a member led last, with the data that it has.
func (p *failover) isLastLeader(m *Member) bool {
	rec := p.Records
	if rec.Leader == "" && rec.LeaderServer == "" { // nobody was promoted since the cluster began
		return m.volume() != nil && m.volume().ID == rec.BootstrappedVolume && rec.ledLast(m.Name)
	}
	return rec.LeaderServer != "" && rec.LeaderServer == m.SQL.ServerUUID && rec.ledLast(m.Name)
}

// everybody is a row in which every member votes that has a volume and may acknowledge, from the memory that it runs in where its relay log
// is not synced; and those of them that lack what the primary had, or where it takes no writes have more. Who does not follow is pointed
// at it.
func (p *failover) everybody(primary *Member) (row Membership, missing []string) {
	row.Primary = primary.Name
	for _, v := range p.ordered() {
		if v.volume() == nil || v != primary && p.mustBeSeeded(v, primary) {
			continue // it holds nothing that counts, and acknowledges nothing
		}
		row.Voters = append(row.Voters, v.Name)
		if v.SQL.RelaySync != relaySynced && v.SQL.Memory != "" {
			row = row.from(v.Name, v.SQL.Memory) // it holds in it what it acknowledges, and must not be silenced: the row itself needs it
		}
		switch {
		case !v.verified() || !v.SQL.MembershipKnown:
		case v == primary, primary.SQL.Writable && v.following() && v.SQL.Replication.UpToDate:
			continue
		case !primary.SQL.Writable && primary.SQL.Executed.Contains(v.position()):
			continue
		case primary.SQL.Writable:
			p.reconnect(v, primary)
		}
		missing = append(missing, v.Name)
	}
	row.W = WaitFor(len(row.Voters))
	return row, missing
}

// mustBeSeeded says whether a member needs the data of another before it can follow, and acknowledges nothing until then.
func (p *failover) mustBeSeeded(m, primary *Member) bool {
	return m.verified() && !m.following() && !m.mayBeHeard() && (m.cloning() || m.cloneCutOff() || m.SQL.Executed.IsEmpty() || outOfReach(m, primary))
}

// reconnect points a member at the primary that does not follow it. It acknowledges, if that is where the row says, as the row needs it that
// makes it a voter; whom a restart silenced would leave that waiting for ever.
func (p *failover) reconnect(m, primary *Member) {
	r, source := m.SQL.Replication, primary.CurrentInstance()
	idle := r == nil || r.IOState == ioOff
	if source != nil && !m.SQL.Writable && !m.cloning() && (!r.isOf(source.Address) || (idle || !r.SQLRunning) && !r.Broken()) {
		p.do(ReplicateFrom{m.Name, primary.Name, source.Address, idle && (m.SQL.SemiSync.ReplicaEnabled || m.mayAcknowledge())})
	}
}

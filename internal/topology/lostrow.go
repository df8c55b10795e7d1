package topology

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// restoreRow has the primary of a cluster that runs write a membership row again, when nobody shows one of this cluster any more: somebody
// dropped it, or loaded another cluster's dump over it. It returns whether that is so. The new row makes a voter of every member. That is
// sound once all of them are reached and hold what the primary had a moment ago, and its commits wait for as many as the row says: what was
// acknowledged before is held by all of them, and nobody acknowledges who is not one of them.
func (p *failover) restoreRow() bool {
	m := p.certainPrimary()
	if m == nil {
		return false
	}
	v := p.views[m.Name]
	v.Role, v.InService = v1alpha1.RolePrimary, true // clients find it as before
	row, missing := p.everybody(m)
	semiSync := p.Lossless && row.W > 0
	what := fmt.Sprintf("the membership row is gone that says who may acknowledge: somebody dropped database nairobi_mysql, or loaded another cluster's dump over it. %s, the primary, takes writes as before, and writes the row again", m.Name)
	p.plan.Waiting = Finding{v1alpha1.ReasonNoPrimary, what}
	p.waitAtMost(waitMySQL)
	switch {
	case len(missing) > 0:
		what += "; that waits until all members are reached and hold what it has: " + strings.Join(missing, ", ")
	case semiSync && (!m.SQL.SemiSync.Waits() || m.SQL.SemiSync.WaitCount < row.W):
		what += fmt.Sprintf("; that waits until its commits wait for %d acknowledgements: set rpl_semi_sync_source_wait_for_replica_count to that and rpl_semi_sync_source_enabled to ON", row.W)
	default:
		p.retry(waitMySQL, RecordPrimary{Member: m.Name, Next: p.at(row), SemiSync: semiSync})
	}
	p.degraded(v1alpha1.ReasonMemberUntrusted, what)
	return true
}

// certainPrimary is the primary of a cluster that runs, as far as that is certain without a row; nil if it is not.
func (p *failover) certainPrimary() *Member {
	writable := p.primaries()
	if !p.Records.Established || len(writable) != 1 {
		return nil
	}
	m, rec := writable[0], p.Records
	same := rec.LeaderServer != "" && rec.LeaderServer == m.SQL.ServerUUID
	if rec.Leader == "" && rec.LeaderServer == "" { // nobody was promoted since the cluster began
		same = m.volume() != nil && m.volume().ID == rec.BootstrappedVolume
	}
	if p.foreign(m) || !rec.ledLast(m.Name) || !same || !m.SQL.MembershipKnown {
		return nil
	}
	return m
}

// everybody is a row in which every member that has a volume votes, from the memory that it runs in where its relay log is not synced; and
// those of them that do not follow the primary or lack what it had.
func (p *failover) everybody(primary *Member) (row Membership, missing []string) {
	row.Primary = primary.Name
	for _, v := range p.ordered() {
		if v.volume() == nil {
			continue // it holds nothing
		}
		row.Voters = append(row.Voters, v.Name)
		if v.SQL.RelaySync != relaySynced && v.SQL.Memory != "" {
			row = row.from(v.Name, v.SQL.Memory) // it holds in it what it acknowledges, and must not be silenced: the row itself needs it
		}
		if !v.verified() || !v.SQL.MembershipKnown || v != primary && (!v.following() || !v.SQL.Replication.UpToDate) {
			missing = append(missing, v.Name)
		}
	}
	row.W = WaitFor(len(row.Voters))
	return row, missing
}

package topology

import (
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// Gap is remembered of a replica that may hold other data than its GTIDs say: what its applier left out or changed counts as executed.
// Only a copy of another member's data fills it. The zero value is none.
type Gap struct {
	// Why says what the applier did, for people.
	Why string `json:"why,omitempty"`
	// Doubt is true when nobody knows whether anything is lacking: who has no other gap may lead, when no other member can.
	Doubt bool `json:"doubt,omitempty"`
	// After identifies the member's last CLONE when the gap was found, see Clone.Began, and Volume is the incarnation of its volume: after
	// another CLONE, and on another volume, there is no gap.
	After  string `json:"after,omitempty"`
	Volume int    `json:"volume,omitempty"`
}

func (g Gap) found() bool { return g.Why != "" }

// looseApplier is the variable with which an applier passes over rows that are missing, or there already.
const looseApplier = "replica_exec_mode"

// leavesOut says how a member's applier treats what it receives otherwise than the source did. The member that led last, by the records and
// its own row, received nothing from another since: what somebody else's server sends it changes what it holds, and not what its GTIDs say.
func (r ClusterRecord) leavesOut(m *Member) []string {
	own := m.SQL.Membership
	if own != nil && own.Primary == m.Name && r.ledLast(m.Name) {
		return nil
	}
	var why []string
	if !m.Claimed.IsEmpty() {
		why = append(why, "it counts transaction "+strings.Join(m.Claimed.First(3), ", ")+" as executed and never got it, as after SET GLOBAL gtid_purged there or RESET BINARY LOGS AND GTIDS on the primary")
	}
	if m.SQL.Replication == nil {
		return why
	}
	why = append(why, m.SQL.Replication.Filters...)
	if m.drifted(looseApplier) {
		why = append(why, looseApplier+" is not STRICT")
	}
	if dropped := m.SQL.Replication.Dropped; !dropped.IsEmpty() {
		why = append(why, "it lacks transaction "+strings.Join(dropped.First(3), ", ")+" and holds later ones of the same server, as after a time in which it had that server's server_id")
	}
	if skipped := m.SQL.Replication.Stops.Skipped; !skipped.IsEmpty() {
		why = append(why, "somebody skipped transaction "+strings.Join(skipped.First(3), ", ")+" after its applier had stopped at it")
	}
	return why
}

// mayLack says whether a member may lack what its GTIDs say that it holds: it has a gap, or its binary log is still read for one.
func (r ClusterRecord) mayLack(m *Member) bool {
	return r.gap(m).found() || m.SQL.Replication.readsStops()
}

// mayLead says whether a member may be promoted for all that is known of what it lacks.
func (r ClusterRecord) mayLead(m *Member) bool {
	gap := r.gap(m)
	return (!gap.found() || gap.Doubt) && !m.SQL.Replication.readsStops()
}

func (r *Replication) readsStops() bool { return r != nil && r.Stops.Reading }

// inDoubt says whether nobody knows if a member lacks something.
func (r ClusterRecord) inDoubt(m *Member) bool { return r.doubted(m).Doubt }

// gap returns the gap of a member, which it has had or gets now.
func (r ClusterRecord) gap(m *Member) Gap {
	rec := r.Members[m.Name]
	if why := r.leavesOut(m); len(why) > 0 && (!rec.Gap.found() || rec.Gap.Doubt) {
		return Gap{Why: strings.Join(why, ", "), After: m.lastClone(), Volume: rec.Volume}
	}
	return rec.Gap
}

// unread says of which transactions at which a member's applier stopped nobody knows whether somebody skipped them.
func (m *Member) unread() gtid.Set {
	if m.SQL.Replication == nil {
		return gtid.Set{}
	}
	return m.SQL.Replication.Stops.Unread
}

// doubted is gap, and that nobody knows whether somebody skipped what a member's applier had stopped at.
func (r ClusterRecord) doubted(m *Member) Gap {
	gap, unread := r.gap(m), m.unread()
	if unread.IsEmpty() || gap.found() {
		return gap
	}
	why := "its applier stopped at transaction " + strings.Join(unread.First(3), ", ") + ", which counts as executed now, and its binary log could not be read for whether somebody skipped it"
	return Gap{Why: why, Doubt: true, After: m.lastClone(), Volume: r.Members[m.Name].Volume}
}

// keepDoubt records for a member that is to be promoted what its channel shows of it, which goes with the promotion.
func (r *ClusterRecord) keepDoubt(m *Member) {
	if gap := r.doubted(m); gap.found() {
		rec := r.Members[m.Name]
		rec.Gap = gap
		r.Members[m.Name] = rec
	}
}

// recordGaps remembers the members that have a gap, and forgets those that were filled. It comes before everything else: a promotion takes
// the replication filters away with the channel. What nobody can know of a replica counts as a gap while there is a primary, from which it can
// be rebuilt; without one the replica comes last, and has the gap once it is promoted.
func (p *pass) recordGaps() {
	for name, m := range p.Members {
		rec := p.plan.Records.Members[name]
		gap := p.plan.Records.gap(m)
		if AnyWritable(&p.Observed) {
			gap = p.plan.Records.doubted(m)
		}
		if gap.After == unknownClone {
			gap.After = m.lastClone()
		}
		if len(p.plan.Records.leavesOut(m)) == 0 && (m.clonedAfter(gap.After) || rec.Volume != gap.Volume) {
			gap = Gap{}
		}
		if known := m.verified() && !m.cloning() || !m.Claimed.IsEmpty(); known && gap != rec.Gap {
			rec.Gap = gap
			p.plan.Records.Members[name] = rec
		}
	}
}

// clonedAfter says whether a CLONE was completed since another one.
func (m *Member) clonedAfter(clone string) bool {
	return m.verified() && !m.blind() && m.SQL.Clone != nil && m.SQL.Clone.State == cloneCompleted && m.SQL.Clone.Began != clone
}

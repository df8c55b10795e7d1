package topology

import (
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// WaitFor returns W for a number of voters: how many replicas must acknowledge a commit, so that any N−W voters
// together hold every acknowledged commit at least once. W = ⌊N/2⌋.
func WaitFor(voters int) int { return voters / 2 }

// With returns the next membership with one more voter.
func (m Membership) With(member string) Membership {
	voters := append(slices.Clone(m.Voters), member)
	slices.Sort(voters)
	return Membership{Epoch: m.Epoch + 1, Primary: m.Primary, Voters: voters, W: WaitFor(len(voters))}
}

// Without returns the next membership with one voter less.
func (m Membership) Without(member string) Membership {
	voters := slices.DeleteFunc(slices.Clone(m.Voters), func(v string) bool { return v == member })
	return Membership{Epoch: m.Epoch + 1, Primary: m.Primary, Voters: voters, W: WaitFor(len(voters))}
}

// LedBy returns the next membership, with another primary.
func (m Membership) LedBy(member string) Membership {
	return Membership{Epoch: m.Epoch + 1, Primary: member, Voters: slices.Clone(m.Voters), W: m.W}
}

// newestMembership returns the membership row of the highest epoch among the members that were reached.
func (p *planner) newestMembership() *Membership {
	var newest *Membership
	for _, m := range p.Members {
		if row := m.SQL.Membership; m.verified() && row != nil && (newest == nil || row.Epoch > newest.Epoch) {
			newest = row
		}
	}
	return newest
}

// primaries returns the members that are writable, by ordinal.
func (p *planner) primaries() []*Member {
	var writable []*Member
	for _, m := range p.ordered() {
		if m.verified() && m.SQL.Writable {
			writable = append(writable, m)
		}
	}
	return writable
}

// Proof says whether a new primary can be chosen so that no acknowledged commit is lost.
type Proof struct {
	// Candidate is the member to promote, empty when there is none.
	Candidate string
	// MustHold is what the candidate must have executed before it is promoted: all that it holds.
	MustHold gtid.Set
	// MayBeAcknowledged is the set of transactions that a client may have been told are committed.
	MayBeAcknowledged gtid.Set
	// Unreached are the voters that were not reached.
	Unreached []string
	// Needed is how many voters must be reached.
	Needed int
	// Needs is a member without which nothing can be proven, and that was not reached; empty when there is none.
	Needs string
}

// prove applies the rule of promotion to the voters of a membership. With h holders among the reached voters and u
// unreached ones, a transaction may have been acknowledged only if h + u ≥ W + 1: its primary and W replicas held it.
// The caller has made sure that no voter that was reached acknowledges any more.
//
// The row of a cluster whose primary was left alone is known to that primary only. Under an older row the one who left
// must not pass for a holder of everything: the records say so, and while they are lost nobody of two is left out.
func prove(row Membership, members map[string]*Member, records Records) Proof {
	proof := Proof{Needed: len(row.Voters) - row.W}
	if len(row.Voters) == 2 && !records.RebuiltAt.IsZero() {
		proof.Needed = 2
	}
	var reached []*Member
	var positions []gtid.Set
	for _, name := range row.Voters {
		m := members[name]
		if m == nil || !m.verified() || m.cloning() {
			proof.Unreached = append(proof.Unreached, name)
			continue
		}
		reached = append(reached, m)
		positions = append(positions, m.position())
	}
	if len(reached) < proof.Needed {
		return proof
	}
	holders := max(row.W+1-len(proof.Unreached), 1)
	proof.MayBeAcknowledged = gtid.HeldByAtLeast(holders, positions)
	if row.Epoch < records.AloneSince {
		alone := members[records.Alone]
		if alone == nil || !alone.verified() || !row.Has(alone.Name) {
			proof.Needs = records.Alone
			return proof
		}
		proof.MayBeAcknowledged = proof.MayBeAcknowledged.Union(alone.position())
	}
	slices.SortStableFunc(reached, func(a, b *Member) int { return a.Ordinal - b.Ordinal })
	var best *Member
	for _, m := range reached {
		if m.attainable().Contains(proof.MayBeAcknowledged) && (best == nil || betterCandidate(m, best)) {
			best = m
		}
	}
	if best != nil {
		proof.Candidate, proof.MustHold = best.Name, best.attainable()
	}
	return proof
}

// attainable is what a member could have executed when it is promoted: its position without what lies in a relay log that its
// applier cannot get through.
func (m *Member) attainable() gtid.Set {
	if m.broken() && !m.SQL.Replication.SQLRunning {
		return m.SQL.Executed
	}
	return m.position()
}

// betterCandidate prefers the member that holds more: what it has beyond the acknowledged set was committed on the
// old primary and would otherwise be errant on every member that holds it.
func betterCandidate(a, b *Member) bool {
	pa, pb := a.attainable(), b.attainable()
	switch {
	case !pa.Contains(pb):
		return false
	case !pb.Contains(pa):
		return true
	}
	// With equal holdings the one without a source, which was the primary until now: then nothing else has to change.
	return a.SQL.Replication == nil && b.SQL.Replication != nil
}

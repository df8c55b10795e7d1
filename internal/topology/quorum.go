package topology

import (
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// unseenEpochs is how many epochs are skipped after the records were lost: rows with them may wait somewhere to be acknowledged.
const unseenEpochs = 100

// at gives a membership the next epoch, and remembers it: rows planned later always have a higher one.
func (p *pass) at(m Membership) Membership {
	p.plan.Records.Epoch = p.nextEpoch()
	m.Epoch = p.plan.Records.Epoch
	return m
}

// nextEpoch is the lowest epoch that a row planned from now on can have.
func (p *pass) nextEpoch() uint64 {
	if p.plan.Records.Epoch == 0 && !p.Records.RebuiltAt.IsZero() {
		return p.newestEpoch + unseenEpochs + 1
	}
	return max(p.plan.Records.Epoch, p.newestEpoch) + 1
}

// names says whether a row is of this cluster: another's comes with its dump.
func (d Desired) names(row Membership) bool {
	_, ours := d.Ordinal(row.Primary)
	return ours || slices.ContainsFunc(row.electorate(), func(member string) bool { _, ours := d.Ordinal(member); return ours })
}

// newestMembership returns the membership row of the highest epoch among the members reached; of two with the same, which
// lost records alone could bring about, that of the first member by ordinal.
func (p *pass) newestMembership() *Membership {
	var newest *Membership
	for _, m := range p.ordered() {
		row := m.SQL.Membership
		if !m.verified() || row == nil || p.foreign(m) {
			continue
		}
		p.newestEpoch = max(p.newestEpoch, row.Epoch)
		if p.names(*row) && (newest == nil || row.Epoch > newest.Epoch) {
			newest = row
		}
	}
	return newest
}

// mayVote says whether a member is a voter by the primary's row, or by a newer one that waits: what it acknowledges of that may be all
// that others have of it.
func (p *pass) mayVote(m *Member) bool {
	return p.plan.Membership.Has(m.Name) || p.unconfirmed && p.newestMembership().Has(m.Name)
}

// primaries returns the members that are writable, by ordinal.
func (o Observed) primaries() []*Member {
	var writable []*Member
	for _, m := range o.ordered() {
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
	// Void is what is not in that set only because members that hold everything acknowledged lack it.
	Void gtid.Set
	// Unreached are the voters that were not reached. Forgetful are those that were, and run in another memory than the one in which they
	// held all that they had acknowledged.
	Unreached, Forgetful []string
	// Needed is how many voters must be reached that are not forgetful.
	Needed int
	// Needs is a member without which nothing can be proven, and that was not reached; empty when there is none.
	Needs string
	// reached is how many voters were.
	reached int
}

// prove applies the rule of promotion to the voters of a membership, and while a change of the voters is under way to
// those before it as well. The caller has made sure that no voter that was reached acknowledges any more.
//
// The row of a cluster whose primary was left alone is known to that primary only. Under an older row the one who left
// must not pass for a holder of everything: the records say so, and while they are lost nobody is left out.
//
// Where nobody can be proven, and a person gave up the voters that are missing, the best of those that are reached is named.
func prove(row Membership, members map[string]*Member, records ClusterRecord) Proof {
	proof := proveAll(row, members, records)
	if proof.Candidate == "" && records.LossAccepted == row.Epoch && row.Epoch != 0 {
		best := candidate(row, members, records, gtid.Set{}, (*Member).attainable)
		if best == nil {
			best = candidate(row, members, ClusterRecord{}, gtid.Set{}, (*Member).position)
		}
		if best != nil {
			proof.name(best)
			proof.MayBeAcknowledged = gtid.Set{} // what was acknowledged is not proven
		}
	}
	return proof
}

// proveAll is prove without regard to what a person gave up.
func proveAll(row Membership, members map[string]*Member, records ClusterRecord) Proof {
	proof := mayBeAcknowledged(row, members, records)
	if !proof.enough() {
		return proof
	}
	if row.Epoch < records.AloneSince {
		alone := members[records.Alone]
		if alone == nil || !alone.verified() {
			proof.Needs = records.Alone
			return proof
		}
		proof.MayBeAcknowledged = proof.MayBeAcknowledged.Union(alone.position())
	}
	voided := proof.MayBeAcknowledged.Intersect(loggedHarmless(row, members))
	if row.Epoch >= records.AloneSince {
		voided = voided.Union(void(row, members, records, proof.MayBeAcknowledged))
	}
	counted := proof.MayBeAcknowledged.Subtract(voided)
	// An applier that stopped may well go on when it is started again: whose did comes last, when nobody else can take over.
	var best *Member
	for _, holds := range []func(*Member) gtid.Set{(*Member).attainable, (*Member).position} {
		if best = candidate(row, members, records, proof.MayBeAcknowledged, holds); best != nil {
			break
		}
		if best = candidate(row, members, records, counted, holds); best != nil && !wouldReuse(best, voided) {
			proof.Void, proof.MayBeAcknowledged = voided, counted
			break
		}
		best = nil
	}
	if best == nil {
		proof.Void, proof.MayBeAcknowledged = voided, counted
	} else {
		proof.name(best)
	}
	return proof
}

// mayBeAcknowledged finds what may have been acknowledged, if enough is reached to know: by the voters that have forgotten nothing; else
// by all voters together, of whom one led last; else by the member that led last, on whose disk all of it is.
func mayBeAcknowledged(row Membership, members map[string]*Member, records ClusterRecord) Proof {
	proof := countBoth(row, members, records, false)
	if proof.enough() {
		return proof
	}
	if all := countBoth(row, members, records, true); all.enough() {
		return all
	}
	if leader, acknowledged := leaderShows(row, members, records); leader != nil {
		proof.MayBeAcknowledged, proof.reached = acknowledged, proof.Needed
	}
	return proof
}

// countBoth counts for the voters of a row, and while a change of the voters is under way for those before it as well.
func countBoth(row Membership, members map[string]*Member, records ClusterRecord, forgetful bool) Proof {
	proof := row.count(row.Voters, row.W, members, records, forgetful)
	if row.Settled() {
		return proof
	}
	before := row.count(row.Previous, WaitFor(len(row.Previous)), members, records, forgetful)
	proof.MayBeAcknowledged = proof.MayBeAcknowledged.Union(before.MayBeAcknowledged)
	if !before.enough() && proof.enough() {
		proof.Unreached, proof.Forgetful, proof.Needed, proof.reached = before.Unreached, before.Forgetful, before.Needed, before.reached
	}
	return proof
}

// name makes a member the candidate.
func (proof *Proof) name(best *Member) {
	proof.Candidate, proof.MustHold = best.Name, best.position()
	if best.attainable().Contains(proof.MayBeAcknowledged) {
		proof.MustHold = best.attainable()
	}
}

// certified says whether a voter holds all that it ever acknowledged, by what a row says of its memory. One of which the row says nothing
// acknowledges from its disk. One that was opened, and replicates from nobody since, had executed all before its channel was dropped.
func (m *Member) certified(row Membership) bool {
	memory, own := row.Memory[m.Name], m.SQL.Membership
	return memory == "" || memory == m.SQL.Memory || m.SQL.Replication == nil && own != nil && own.Primary == m.Name
}

// durableLeader returns the member that led last and has written a row since, if it is reached: all that was acknowledged it had
// committed before, or held when it was opened, and so executed. Nil if there is none.
func durableLeader(row Membership, members map[string]*Member, records ClusterRecord) *Member {
	m := members[row.Primary]
	if !counts(m) || !records.ledLast(m.Name) || m.SQL.Membership.Epoch != row.Epoch || m.SQL.Membership.Primary != m.Name {
		return nil
	}
	if records.Leader == "" || len(row.Voters) == 1 || records.inTerm(row) && records.LeaderServer == m.SQL.ServerUUID {
		return m
	}
	return nil
}

// leaderShows returns the member that led last, if it is reached, and all that may have been acknowledged. In its term that is its position;
// see durableLeader. Until it has written a row, it is what its proof found (ClusterRecord.LeaderAcknowledged) and what it has committed
// since: nobody else was opened for writes or led on (ClusterRecord.ledLast), and its own commits are on its disk. So what it has forgotten
// does not matter, nor whether it was opened. Nil if the records do not know what the proof found, or if a row shows that they are outdated.
func leaderShows(row Membership, members map[string]*Member, records ClusterRecord) (*Member, gtid.Set) {
	if m := durableLeader(row, members, records); m != nil {
		return m, m.position()
	}
	m := members[records.Leader]
	acknowledged, known := records.setOf(records.LeaderAcknowledged)
	if !known || !counts(m) || m.SQL.ServerUUID != records.LeaderServer || row.Epoch >= records.LeaderEpoch {
		return nil, gtid.Set{}
	}
	if !records.unopened(m) {
		acknowledged = acknowledged.Union(m.position())
	}
	return m, acknowledged
}

// anyForgets says whether a voter was reached that may have forgotten something.
func anyForgets(row Membership, members map[string]*Member) bool {
	return slices.ContainsFunc(row.Voters, func(name string) bool { return counts(members[name]) && !members[name].certified(row) })
}

// void is what of a set was acknowledged to nobody although enough voters hold it.
func void(row Membership, members map[string]*Member, records ClusterRecord, set gtid.Set) gtid.Set {
	var found gtid.Set
	if records.LeaderEpoch != 0 && !records.inTerm(row) && !anyForgets(row, members) {
		// The leader that was noted has not written a row yet: what the proof for it stood on still holds. What somebody has
		// received and not executed may come from it.
		found = records.void()
		for _, name := range row.Voters {
			if m := members[name]; counts(m) {
				found = found.Subtract(m.position().Subtract(m.SQL.Executed))
			}
		}
	}
	if leader, acknowledged := leaderShows(row, members, records); leader != nil {
		found = found.Union(set.Subtract(acknowledged).WithoutSource(leader.SQL.ServerUUID))
	}
	if records.ledLast(row.Primary) {
		if row.Memory[row.Primary] == "" {
			found = found.Union(unknownTo(members[row.Primary], row, set))
		}
		found = found.Union(unknownToFollowers(row, members, records, set))
	}
	return set.Intersect(found)
}

// wouldReuse says whether a member lacks transactions of a set that it had committed itself: as a primary it would use their GTIDs
// for others.
func wouldReuse(m *Member, set gtid.Set) bool {
	lacks := set.Subtract(m.position())
	return !lacks.Equal(lacks.WithoutSource(m.SQL.ServerUUID))
}

// unknownTo is what of a set the primary that the newest row names shows to be errant, if nobody was opened for writes or led on
// since it was (Records.ledLast). All that was acknowledged since then it had committed first, and all of before it held when it
// was promoted. What it lacks was therefore acknowledged to nobody: the former primary's last commits, or what somebody wrote on a
// replica. Its own commits are no such thing: lacking those, it has lost what it had. A member that is not reached, that was made
// anew, or whose own row is older, shows nothing.
func unknownTo(primary *Member, row Membership, set gtid.Set) gtid.Set {
	if !counts(primary) || primary.SQL.ServerUUID == "" || primary.SQL.Membership.Epoch != row.Epoch || primary.SQL.Membership.Primary != primary.Name {
		return gtid.Set{}
	}
	return set.Subtract(primary.position()).WithoutSource(primary.SQL.ServerUUID)
}

// unknownToFollowers is what of a set the other voters show to be errant in the same way when that primary is not reached, or shows
// nothing. Whoever has executed a row that it wrote in its present term (Records.LeaderEpoch) holds all that it had committed before,
// which is all that was acknowledged before the term; in the term nothing is acknowledged but what that one server commits. A row of a
// term before says nothing: others may have led in between. Only what those have executed is looked at who have not executed such a
// row: what they got from that primary after it, they have not either. So this holds for what a person has it commit under another UUID.
func unknownToFollowers(row Membership, members map[string]*Member, records ClusterRecord, set gtid.Set) gtid.Set {
	if records.LeaderServer == "" {
		return gtid.Set{}
	}
	var known, unknown gtid.Set
	witnesses := 0
	for _, name := range row.Voters {
		m := members[name]
		switch {
		case !counts(m):
		case name == row.Primary:
			known = known.Union(m.position())
		case records.inTerm(*m.SQL.Membership):
			witnesses++
			known = known.Union(m.position())
		default:
			unknown = unknown.Union(m.SQL.Executed)
			known = known.Union(m.position().Subtract(m.SQL.Executed))
		}
	}
	if witnesses == 0 {
		return gtid.Set{}
	}
	return set.Intersect(unknown).Subtract(known).WithoutSource(records.LeaderServer)
}

// candidate returns the best voter that holds a set of transactions, and lacks none of them.
func candidate(row Membership, members map[string]*Member, records ClusterRecord, mustHold gtid.Set, holds func(*Member) gtid.Set) *Member {
	var best *Member
	for _, name := range row.Voters {
		m := members[name]
		if !row.Settled() && !slices.Contains(row.Previous, name) {
			continue // as a primary it would need one acknowledgement more than the row says
		}
		if counts(m) && records.mayLead(m) && holds(m).Contains(mustHold) && (best == nil || records.prefers(m, best)) {
			best = m
		}
	}
	return best
}

// prefers says whether a candidate is better than another. Who may lack something comes last.
func (r ClusterRecord) prefers(m, other *Member) bool {
	if doubt := r.inDoubt(m); doubt != r.inDoubt(other) {
		return !doubt
	}
	return betterCandidate(m, other)
}

// counts says whether a member's word counts in a proof. Every voter holds a membership row, that of its admission or a later one:
// one without was rebuilt, and knows nothing of what it once acknowledged.
func counts(m *Member) bool {
	return m != nil && m.verified() && !m.cloning() && !m.cloneCutOff() && m.forgets() == nil && m.SQL.Membership != nil
}

// count finds what may have been acknowledged under one set of voters. With h holders among the voters that have forgotten nothing and u
// others that is a transaction only if h + u ≥ W + 1: its primary and W replicas held it. Where the others alone are so many, it is on the
// disk of its primary, which is one of them: so it must be known that everybody was reached, which forgetful asks for.
func (row Membership) count(voters []string, w int, members map[string]*Member, records ClusterRecord, forgetful bool) Proof {
	proof := Proof{Needed: len(voters) - w}
	if records.AloneUnknown || forgetful {
		proof.Needed = len(voters)
	}
	var positions, all []gtid.Set
	for _, name := range voters {
		m := members[name]
		if !counts(m) {
			switch {
			case m == nil || !m.verified():
			case m.forgets() != nil:
				name += " (reached, but what it holds cannot be relied on: its " + m.forgets().String() + ")"
			case m.SQL.Membership == nil && !m.cloning() && !m.cloneCutOff():
				name += " (reached, but it shows no membership row)"
			}
			proof.Unreached = append(proof.Unreached, name)
			continue
		}
		all = append(all, m.position())
		if m.certified(row) {
			positions = append(positions, m.position())
		} else {
			proof.Forgetful = append(proof.Forgetful, name)
		}
	}
	proof.reached = len(positions)
	if forgetful {
		proof.reached = len(all)
	}
	switch others := len(proof.Unreached) + len(proof.Forgetful); {
	case !proof.enough():
	case others > w:
		proof.MayBeAcknowledged = gtid.HeldByAtLeast(1, all)
	default:
		proof.MayBeAcknowledged = gtid.HeldByAtLeast(w+1-others, positions)
	}
	return proof
}

// enough says whether enough voters were reached to know what may have been acknowledged.
func (proof Proof) enough() bool { return proof.reached >= proof.Needed }

// attainable is what a member could have executed when it is promoted: its position without what lies in a relay log that its
// applier cannot get through.
func (m *Member) attainable() gtid.Set {
	if m.broken() && !m.SQL.Replication.SQLRunning {
		return m.SQL.Executed
	}
	return m.position()
}

// betterCandidate prefers, in this order,
//   - a member that is writable already: two that were promoted without each other would otherwise unseat one another for ever;
//   - one whose replication no error stopped: the other may never get through what it received;
//   - one that does not keep crashing;
//   - the one that holds more: what it has beyond the acknowledged set was committed on the old primary, and would otherwise be errant
//     on every member that holds it. Of two of which each holds what the other lacks, the one with the newer row: the other's last
//     commits, a row among them, were never acknowledged;
//   - the one that has applied more: it takes writes sooner, and one that applies for long is passed over once another has applied all;
//   - the one without a source, which was the primary until now: then nothing else has to change.
func betterCandidate(a, b *Member) bool {
	pa, pb := a.attainable(), b.attainable()
	switch {
	case a.SQL.Writable != b.SQL.Writable:
		return a.SQL.Writable
	case a.broken() != b.broken():
		return b.broken()
	case a.unstable() != b.unstable():
		return b.unstable()
	case !pa.Contains(pb):
		return !pb.Contains(pa) && a.SQL.Membership.Epoch > b.SQL.Membership.Epoch
	case !pb.Contains(pa):
		return true
	case !a.SQL.Executed.Equal(b.SQL.Executed):
		return a.SQL.Executed.Contains(b.SQL.Executed)
	}
	return a.SQL.Replication == nil && b.SQL.Replication != nil
}

// doubtOldRecords has records that are an old copy, from a backup of the API server or of the ConfigMap, count as little as lost ones do. A
// row is written after its epoch was recorded, so one that is newer than the records proves it: who leads, and whether a primary went on
// alone, may have changed since.
func (p *pass) doubtOldRecords() {
	newest := p.newestMembership()
	if newest == nil || p.Records.Epoch == 0 || newest.Epoch <= p.Records.Epoch {
		return
	}
	for _, rec := range []*ClusterRecord{&p.Records, &p.plan.Records} { // this pass goes by it too
		rec.Epoch, rec.LeaderDoubted, rec.AloneUnknown = newest.Epoch, true, true
	}
}

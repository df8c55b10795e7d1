package model

// RelayLogs says when a replica acknowledges.
type RelayLogs int

const (
	// Synced is sync_relay_log=1: what is acknowledged is on the replica's disk. Rows carry no certificates.
	Synced RelayLogs = iota
	// Unsynced is sync_relay_log≠1: a loss of power may take what was acknowledged and not applied. Rows carry certificates.
	Unsynced
	// Upgraded begins as Synced. Each replica goes over to Unsynced by itself.
	Upgraded
)

// Rules are the operator's. Each field is a rule of its own, so that a broken operator differs from a sound one in one field.
type Rules struct {
	name      string
	relayLogs RelayLogs
	proofRules
	leadershipRules
	certificateRules
	voterRules
}

// proofRules say who may be promoted.
type proofRules struct {
	// certified says whether the word of a reached voter counts: it has forgotten nothing that it acknowledged.
	certified func(p *pass, voter int) bool
	// settles returns the primary whose position is all that may be acknowledged, whoever else is away; -1 for none.
	settles func(p *pass) int
	// recalls returns all that may be acknowledged by what an earlier proof found and the member that it named shows; false when that is
	// not known.
	recalls func(p *pass) (transactions, bool)
	// unopened says whether a member shows that it was not opened since it is recorded as the leader.
	unopened func(s *state, m int) bool
	// allReached has a proof count everybody, certified or not, when all voters are reached.
	allReached bool
	// void is what of a set was acknowledged to nobody although enough voters hold it.
	void func(p *pass, set transactions) transactions
	// mayOpen says whether a candidate that has applied what it received is still the one that was proven.
	mayOpen func(s *state) bool
}

// leadershipRules say whom the operator goes by as the primary.
type leadershipRules struct {
	// leadsUnproven says whether a writable member that the newest row names is the primary without a proof.
	leadsUnproven func(p *pass, m int) bool
	// mayLeadBehind says that such a member may lack what was acknowledged, as long as it acknowledges nothing.
	mayLeadBehind bool
}

// certificateRules say how a voter is certified.
type certificateRules struct {
	// certifiedHolds is what a voter must have executed before it is certified under a primary.
	certifiedHolds func(s *state, primary int) transactions
	// certifiedMemory is the memory that a certificate names, of the one seen when it was begun and the present one.
	certifiedMemory func(seen, present uint8) uint8
	// firstRow changes the certificates in the first row of a member that was promoted.
	firstRow func(s *state, r *row, m int)
	// certifiesWithoutPrimary lets the records certify whoever holds all that the reached members hold.
	certifiesWithoutPrimary bool
	// mayStopSyncing says whether a replica may acknowledge from its memory from now on.
	mayStopSyncing func(s *state, m int) bool
}

// voterRules say who acknowledges, and when a change of the voters counts.
type voterRules struct {
	// acknowledges says whether a replica is to acknowledge under the primary's row.
	acknowledges func(s *state, r *row, m int) bool
	// changeIsAcknowledged says whether a change of the voters may be confirmed on a primary.
	changeIsAcknowledged func(p *pass, primary int) bool
}

func (r Rules) String() string { return r.name }

// WithSyncedRelayLogs are the rules of internal/topology: what a voter has acknowledged is on its disk, so every reached voter counts. A
// member that the newest row names may lead without a proof although the records do not name it, and lack what was acknowledged. It
// acknowledges nothing then: W + 1 voters hold what it lacks, and those do not replicate from it.
func WithSyncedRelayLogs() Rules {
	return Rules{
		name:      "synced relay logs",
		relayLogs: Synced,
		proofRules: proofRules{
			certified: func(*pass, int) bool { return true },
			settles:   func(*pass) int { return -1 },
			recalls:   recallsProof,
			unopened:  hasChannel,
			void:      unknownTo,
			mayOpen:   holdsWhatItMust,
		},
		leadershipRules: leadershipRules{leadsUnproven: noOtherMayLead, mayLeadBehind: true},
		certificateRules: certificateRules{
			certifiedHolds:  func(*state, int) transactions { return 0 },
			certifiedMemory: func(seen, _ uint8) uint8 { return seen },
			firstRow:        func(*state, *row, int) {},
			mayStopSyncing:  func(*state, int) bool { return false },
		},
		voterRules: voterRules{acknowledges: isVoterThatStays, changeIsAcknowledged: votersHoldTheChange},
	}
}

// WithCertificates are the rules for relay logs that are not synced: a voter counts while its memory is the one that the row certifies.
func WithCertificates() Rules {
	r := WithSyncedRelayLogs()
	r.name, r.relayLogs = "certificates", Unsynced
	r.certified = showsItsCertificate
	r.settles = durablePrimary
	r.allReached = true
	r.void = unknownToFollowers
	r.leadershipRules = leadershipRules{leadsUnproven: func(p *pass, m int) bool { return p.s.records.ledLast(m) }}
	r.certifiedHolds = (*state).positionOf
	r.firstRow = certifyPrimary
	r.mayStopSyncing = func(s *state, m int) bool { return s.shown(m).memory[m] != onDisk }
	return r
}

// Upgrading are the same rules in a cluster that begins with synced relay logs.
func Upgrading() Rules {
	r := WithCertificates()
	r.name, r.relayLogs = "certificates after synced relay logs", Upgraded
	return r
}

func (s *state) positionOf(m int) transactions { return s.position(m) }

// showsItsCertificate compares a voter's memory with the one in the newest row.
func showsItsCertificate(p *pass, voter int) bool {
	switch p.newest().memory[voter] {
	case onDisk, p.s.member[voter].memory:
		return true
	}
	return p.s.records.certified[voter] == p.s.member[voter].memory
}

// durablePrimary is the primary that the newest row names. It has written that row in its term: the records know of nobody who was
// opened after it, and when it wrote the row it had applied all that was acknowledged before. What it committed is on its disk.
func durablePrimary(p *pass) int {
	if primary := recordedPrimary(p); primary >= 0 && p.newest().epoch >= p.s.records.leaderEpoch {
		return primary
	}
	return -1
}

// recordedPrimary is the primary that the newest row names and the records know as the last one, in its term or not.
func recordedPrimary(p *pass) int {
	if primary := namedPrimary(p); primary >= 0 && p.s.records.ledLast(primary) {
		return primary
	}
	return -1
}

// namedPrimary is the primary that the newest row names, if it is reached and has executed that row.
func namedPrimary(p *pass) int {
	primary := int(p.newest().primary)
	if p.reached.has(primary) && p.s.ownRow(primary) == p.row {
		return primary
	}
	return -1
}

// recallsProof is what may have been acknowledged when a proof named the leader, and what that has committed since. Nobody else was opened,
// and whoever is opened has executed the former. It ends when the leader, or another, has written a row.
func recallsProof(p *pass) (transactions, bool) {
	rec := &p.s.records
	leader := int(rec.leader)
	if !rec.ledLast(leader) || rec.acknowledged == 0 || !p.reached.has(leader) || p.newest().epoch >= rec.leaderEpoch {
		return 0, false
	}
	if p.rules.unopened(p.s, leader) {
		return rec.acknowledged, true
	}
	return rec.acknowledged | p.s.position(leader), true
}

// hasChannel says whether a member that is to lead has its replication channel still, which is dropped before it is opened. It gets another
// one under another primary only, which is recorded or casts doubt.
func hasChannel(s *state, m int) bool {
	return s.member[m].channel && !s.member[m].writable && !inTerm(&s.records, s.shown(m))
}

// inTerm says whether a row is one that the leader has written since it is recorded.
func inTerm(rec *records, r *row) bool {
	return r.primary == rec.leader && r.epoch >= rec.leaderEpoch
}

// unknownTo is what of a set the last primary shows to be acknowledged to nobody, or its followers do: all that was acknowledged since
// it was promoted it had committed, and it held all from before. Its own commits do not count: lacking those it has lost what it had.
func unknownTo(p *pass, set transactions) transactions {
	found := unknownToFollowers(p, set)
	if primary := recordedPrimary(p); primary >= 0 {
		found |= set &^ p.s.position(primary) &^ p.s.committedBy(primary)
	}
	return found
}

// unknownToFollowers finds the same when the last primary is away. Who has executed a row of its term holds all that was acknowledged
// before the term, and in the term only what that primary commits is. Of the others only what they executed counts as unknown: a row
// that a witness has received and not executed, and what it forgot, decide nothing.
func unknownToFollowers(p *pass, set transactions) transactions {
	rec, r := &p.s.records, p.newest()
	if !rec.ledLast(int(r.primary)) || rec.leaderEpoch == 0 {
		return 0
	}
	witnesses := 0
	var known, unknown transactions
	for i := range p.bounds.Members {
		if !p.reached.has(i) || !r.voters.has(i) {
			continue
		}
		position, executed, own := p.s.position(i), p.s.executed(i), p.s.shown(i)
		switch {
		case i == int(r.primary):
			known |= position
		case own.primary == rec.leader && own.epoch >= rec.leaderEpoch:
			witnesses++
			known |= position
		default:
			unknown |= executed
			known |= position &^ executed
		}
	}
	if witnesses == 0 {
		return 0
	}
	return set & unknown &^ known &^ p.s.committedBy(int(rec.leader))
}

// holdsWhatItMust says whether the candidate still holds all that it held when it was chosen, and whether its own row, now that it has
// applied everything, is still none newer than that of the proof.
func holdsWhatItMust(s *state) bool {
	return s.position(int(s.promotion.candidate)).contains(s.promotion.mustHold) && rowIsNotNewer(s)
}

func rowIsNotNewer(s *state) bool {
	return s.shown(int(s.promotion.candidate)).epoch <= s.promotion.rowEpoch
}

// noOtherMayLead says whether a writable member that the newest row names is led on although the records do not name it: they were
// lost, or who they name was not opened, which its replication channel shows.
func noOtherMayLead(p *pass, m int) bool {
	leader := p.s.records.leader
	return leader == nobody || int(leader) == m || p.reached.has(int(leader)) && p.s.member[leader].channel
}

// certifyPrimary certifies the member that was promoted, by its own word. The other certificates are copied: their memories may be others
// than those under which they acknowledged.
func certifyPrimary(s *state, r *row, m int) { r.memory[m] = s.member[m].memory }

// isVoterThatStays says whether a member votes under a row, and its removal was not begun.
func isVoterThatStays(s *state, r *row, m int) bool {
	return r.mayAcknowledge(m) && int(s.records.leaving) != m
}

// votersHoldTheChange says whether W voters besides the primary show its row, or hold all that it has executed. That the primary shows
// it proves nothing: crash recovery commits a row that nobody acknowledged.
func votersHoldTheChange(p *pass, primary int) bool {
	r, holders := p.s.shown(primary), 0
	for i := range p.bounds.Members {
		if i == primary || !p.reached.has(i) || !r.voters.has(i) {
			continue
		}
		if p.s.shown(i).epoch >= r.epoch || p.s.position(i).contains(p.s.executed(primary)) {
			holders++
		}
	}
	return holders >= r.waitCount()
}

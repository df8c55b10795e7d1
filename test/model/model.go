package model

// Model is the cluster under one set of rules, within bounds. It is safe for concurrent use.
type Model struct {
	rules    Rules
	bounds   Bounds
	renamers []renaming
}

// New returns the model of a cluster.
func New(rules Rules, bounds Bounds) (*Model, error) {
	if err := bounds.check(); err != nil {
		return nil, err
	}
	return &Model{rules: rules, bounds: bounds, renamers: renamings(bounds.Members)}, nil
}

// all is the set of all members.
func (m *Model) all() members { return 1<<m.bounds.Members - 1 }

// initial is a cluster that is well: the first member is the primary, the others replicate from it and acknowledge, and everybody has
// executed the first row.
func (m *Model) initial() state {
	var s state
	s.promotion.candidate, s.certifying.voter = nobody, nobody
	s.records = records{epoch: 1, leaderEpoch: 1, leaving: nobody}
	first := row{epoch: 1, voters: m.all()}
	for i := range maxMembers {
		s.member[i].source, s.records.certified[i] = nobody, nobody
	}
	for i := range m.bounds.Members {
		if m.rules.relayLogs != Unsynced {
			first.memory[i], s.member[i].synced = onDisk, true
		}
	}
	s.commit(0, transaction{isRow: true, row: first})
	s.member[0].executed, s.member[0].writable, s.member[0].waitFor = 1, true, uint8(m.all().waitFor())
	for i := 1; i < m.bounds.Members; i++ {
		s.receive(i, 0)
		mem := &s.member[i]
		mem.executed, mem.source, mem.channel, mem.receiving, mem.acknowledging = 1, 0, true, true, true
	}
	return s
}

// tidy sets what decides nothing any more to one value, so that states which differ in nothing else are one.
func (m *Model) tidy(s *state) {
	if s.promotion.stage == proven && int(s.spent.promotions) >= m.bounds.Promotions {
		s.promotion.stage = noPromotion
	}
	if s.promotion.stage == noPromotion {
		s.promotion = promotion{candidate: nobody}
	}
	if m.bounds.Members != 2 {
		s.records.aloneUnknown = false
	}
	if rec := &s.records; rec.leader == nobody || rec.doubted || inTerm(rec, s.shown(int(rec.leader))) {
		rec.acknowledged, rec.ended = 0, term{} // nobody asks for it any more
	}
	m.tidyCertification(s)
	for i := range m.bounds.Members {
		m.tidyMember(s, i)
	}
}

// tidyCertification forgets a certificate that would name a memory that is gone, unless a broken rule names the present one.
func (m *Model) tidyCertification(s *state) {
	c := &s.certifying
	if c.voter == nobody || s.member[c.voter].memory != m.rules.certifiedMemory(c.memory, s.member[c.voter].memory) {
		*c = certification{voter: nobody}
	}
}

func (m *Model) tidyMember(s *state, i int) {
	mem := &s.member[i]
	if !mem.receiving {
		mem.acknowledging, mem.source = false, nobody
	}
	for r := range m.bounds.Members {
		// Who takes no writes waits for nobody, and what is executed needs no acknowledgement any more.
		if !mem.writable || mem.answered[r] <= mem.executed {
			mem.answered[r] = 0
		}
		if !mem.writable || s.member[r].sent[i] <= mem.executed {
			s.member[r].sent[i] = 0
		}
	}
}

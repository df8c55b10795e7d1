package model

// pass is what the operator decides on: the state, of which it sees the members that it reaches, and the records.
type pass struct {
	*Model
	s       *state
	reached members
	row     int // the newest row that a reached member has executed: the number of its transaction
}

func (m *Model) pass(s *state, reached members) pass {
	p := pass{Model: m, s: s, reached: reached, row: -1}
	for i := range m.bounds.Members {
		if !reached.has(i) {
			continue
		}
		if own := s.ownRow(i); p.row < 0 || s.transaction[own].row.epoch > p.newest().epoch {
			p.row = own
		}
	}
	return p
}

// newest is the content of the newest row.
func (p *pass) newest() *row { return &p.s.transaction[p.row].row }

// writable returns the reached members that take writes.
func (p *pass) writable() (set members) {
	for i := range p.bounds.Members {
		if p.reached.has(i) && p.s.member[i].writable {
			set |= 1 << i
		}
	}
	return set
}

// proof says who may be promoted so that no acknowledged commit is lost.
type proof struct {
	mayBeAcknowledged transactions
	candidates        members // each of them: the model tries all, and not only the best as the operator does
}

// prove applies the rule of promotion. The caller has made sure that no reached voter acknowledges any more.
func (p *pass) prove() proof {
	may, ok := p.mayBeAcknowledged()
	if !ok {
		return proof{}
	}
	if found := p.holders(may); found != 0 {
		return proof{may, found}
	}
	void := p.rules.void(p, may)
	if void == 0 {
		return proof{mayBeAcknowledged: may}
	}
	result := proof{mayBeAcknowledged: may &^ void}
	for i := range p.bounds.Members {
		if p.holders(result.mayBeAcknowledged).has(i) && !p.wouldReuse(i, void) {
			result.candidates |= 1 << i
		}
	}
	return result
}

// mayBeAcknowledged is the set of transactions that a client may have been answered. It is false when that cannot be known.
func (p *pass) mayBeAcknowledged() (transactions, bool) {
	if primary := p.rules.settles(p); primary >= 0 {
		return p.s.position(primary), true
	}
	if may, ok := p.rules.recalls(p); ok {
		return may, true
	}
	may, ok := p.countVoters(p.newest().voters)
	if !ok || p.newest().settled() {
		return may, ok
	}
	before, ok := p.countVoters(p.newest().previous)
	return may | before, ok
}

// countVoters finds what may have been acknowledged under one set of voters. Of h holders among those that count, with u others, at most
// h + u voters hold a transaction: with fewer than W + 1 no client was answered.
func (p *pass) countVoters(voters members) (transactions, bool) {
	n, w := voters.count(), voters.waitFor()
	var counting, all []transactions
	for i := range p.bounds.Members {
		if !voters.has(i) || !p.reached.has(i) {
			continue
		}
		position := p.s.position(i)
		all = append(all, position)
		// Who is writable was opened by the operator, after it had applied all that it must hold.
		if p.s.member[i].writable || p.rules.certified(p, i) {
			counting = append(counting, position)
		}
	}
	needed := n - w
	if p.s.records.aloneUnknown && n == 2 {
		needed = n
	}
	if len(counting) < needed && (!p.rules.allReached || len(all) < n) {
		return 0, false
	}
	others := n - len(counting)
	if others > w { // none of those that count need hold it: its primary does, whatever it forgot
		return heldByAtLeast(1, all), true
	}
	return heldByAtLeast(w+1-others, counting), true
}

// heldByAtLeast returns the transactions that are in so many positions.
func heldByAtLeast(n int, positions []transactions) (found transactions) {
	for id := range maxTransactions {
		holders := 0
		for _, position := range positions {
			if position.has(id) {
				holders++
			}
		}
		if holders >= n {
			found |= 1 << id
		}
	}
	return found
}

// holders returns the reached voters that hold a set. While the voters change, only who was a voter before may be promoted.
func (p *pass) holders(set transactions) (found members) {
	r := p.newest()
	for i := range p.bounds.Members {
		if p.reached.has(i) && r.voters.has(i) && (r.settled() || r.previous.has(i)) && p.s.position(i).contains(set) {
			found |= 1 << i
		}
	}
	return found
}

// wouldReuse says whether a member lacks transactions of a set that it had committed itself: it would use their GTIDs for others.
func (p *pass) wouldReuse(m int, set transactions) bool {
	return set&^p.s.position(m)&p.s.committedBy(m) != 0
}

// leadership says how the operator goes by a writable member as the primary.
type leadership struct {
	// recorded says that the newest row names it, and the records allow to go by that without a proof; proven that a proof names it.
	recorded, proven bool
	// acknowledged is what may be, by that proof.
	acknowledged transactions
	// confirmed says that it is recorded and has executed the newest row itself. Only then it may change the voters.
	confirmed bool
}

func (p *pass) leadership(m int) leadership {
	if p.writable() != 1<<m {
		return leadership{}
	}
	if int(p.newest().primary) == m && p.rules.leadsUnproven(p, m) {
		return leadership{recorded: true, confirmed: p.s.ownRow(m) == p.row}
	}
	// Those that receive from another member have to be fenced before a proof.
	for i := range p.bounds.Members {
		other := &p.s.member[i]
		if i != m && p.reached.has(i) && other.receiving && int(other.source) != m {
			return leadership{}
		}
	}
	result := p.prove()
	return leadership{proven: result.candidates.has(m), acknowledged: result.mayBeAcknowledged}
}

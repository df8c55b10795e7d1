package model

import "fmt"

// operator visits each single step of an operator that reaches any set of members. The operator decides by what it observes in that moment,
// or continues a promotion or certification that it has begun. It may also die at any time, and begin another pass.
func (t *transitions) operator(s *state) {
	t.s = s
	for reached := members(1); reached <= t.all(); reached++ {
		if reached.count() < t.bounds.Reached {
			continue
		}
		p := t.pass(s, reached)
		t.provePromotion(&p)
		for i := range t.bounds.Members {
			if p.writable().has(i) {
				t.unseat(&p, i)
				t.lead(&p, i)
			}
		}
		t.certifyWithoutPrimary(&p)
		t.takeBack(&p)
	}
	for i := range t.bounds.Members {
		t.stopSyncing(i)
	}
	t.open()
	t.writeFirstRow()
}

// step visits a state that a pass leads to.
func (t *transitions) step(p *pass, n *state, broken error, format string, args ...any) {
	t.visit(n, func() string {
		return fmt.Sprintf("the operator reaches %s and ", p.reached) + fmt.Sprintf(format, args...)
	}, broken)
}

// newPass is a copy of the present state in which a promotion under way is given up.
func (t *transitions) newPass() *state {
	n := t.next()
	n.promotion.stage = noPromotion
	return n
}

// provePromotion fences all reached members and proves who may be promoted. A single writable member that a proof names is led on.
func (t *transitions) provePromotion(p *pass) {
	writable := p.writable()
	if !below(t.s.spent.promotions, t.bounds.Promotions) || writable.count() > 1 {
		return
	}
	current := writable.only()
	if current != nobody && p.leadership(current).recorded {
		return
	}
	fenced := t.next()
	for i := range t.bounds.Members {
		if p.reached.has(i) && (current == nobody || int(fenced.member[i].source) != current) {
			fenced.member[i].receiving = false
		}
	}
	behind := t.pass(fenced, p.reached)
	result := behind.prove()
	for i := range t.bounds.Members {
		if result.candidates.has(i) && (current == nobody || current == i) {
			t.begin(p, fenced, i, result)
		}
	}
}

// begin records a candidate.
func (t *transitions) begin(p *pass, fenced *state, candidate int, result proof) {
	n := t.copy(fenced)
	n.promotion = promotion{stage: proven, candidate: uint8(candidate), rowEpoch: p.newest().epoch, mustHold: n.position(candidate)}
	var broken error
	if mem := &n.member[candidate]; !mem.writable {
		n.records.recordPromotion(candidate, result.mayBeAcknowledged)
	} else {
		n.records.recordLeader(candidate, result.mayBeAcknowledged)
		n.promotion.stage = opened
		if mem.executed < mem.held {
			n.promotion.stage = noPromotion // a commit waits, which may be its row
		}
		broken = n.lead(candidate)
	}
	n.certifying.voter = nobody
	if *n == *t.s {
		return
	}
	t.step(p, n, broken, "proves %s by the row of t%d (%s may be acknowledged), with all fenced", name(candidate), p.row, result.mayBeAcknowledged)
}

// takeBack gives a promotion up whose candidate shows that it was not opened: who led last goes on doing so.
func (t *transitions) takeBack(p *pass) {
	rec := &t.s.records
	if !rec.ended.known || !p.reached.has(int(rec.leader)) || !p.reached.has(int(rec.ended.leader)) || !t.rules.unopened(t.s, int(rec.leader)) {
		return
	}
	n := t.newPass()
	n.records.takeBack()
	t.step(p, n, nil, "takes the promotion of %s back, which was not opened", name(rec.leader))
}

// open opens a candidate for writes, once it has applied all that it received.
func (t *transitions) open() {
	c := int(t.s.promotion.candidate)
	if t.s.promotion.stage != proven || !below(t.s.spent.promotions, t.bounds.Promotions) {
		return
	}
	mem := &t.s.member[c]
	if mem.writable || mem.executed != mem.held || !t.rules.mayOpen(t.s) {
		return
	}
	n := t.next()
	opening := &n.member[c]
	opening.source, opening.channel, opening.receiving, opening.writable = nobody, false, false, true
	opening.answered = [maxMembers]uint8{}
	opening.waitFor = uint8(n.shown(c).waitCount())
	n.promotion.stage = opened
	n.spent.promotions++
	broken := n.lead(c)
	t.visit(n, func() string { return fmt.Sprintf("the operator opens %s for writes", name(c)) }, broken)
}

// writeFirstRow writes the row that names the member which was opened.
func (t *transitions) writeFirstRow() {
	c := int(t.s.promotion.candidate)
	if t.s.promotion.stage != opened || !t.s.member[c].writable || !t.room() {
		return
	}
	n := t.next()
	n.promotion.stage = noPromotion
	id := nobody
	if rowIsNotNewer(t.s) {
		next := *n.shown(c)
		t.rules.firstRow(n, &next, c)
		id = n.commitRow(c, next)
	}
	broken := t.answer(n, c)
	t.visit(n, func() string {
		if id == nobody {
			return fmt.Sprintf("the operator finds that the row of %s is newer than its proof", name(c))
		}
		return fmt.Sprintf("the operator writes row t%d on %s, which names it", id, name(c))
	}, broken)
}

// unseat makes a writable member read-only that a newer row does not name. Its instance is powered off when commits wait on it; both answer
// nobody.
func (t *transitions) unseat(p *pass, m int) {
	if p.newest().epoch <= t.s.shown(m).epoch || int(p.newest().primary) == m {
		return
	}
	n := t.newPass()
	n.stopServer(m)
	t.step(p, n, nil, "makes %s read-only, which the newest row does not name", name(m))
}

// lead visits what the operator does for the member that it goes by as the primary.
func (t *transitions) lead(p *pass, primary int) {
	l := p.leadership(primary)
	if !l.recorded && !l.proven {
		return
	}
	for i := range t.bounds.Members {
		if i != primary && p.reached.has(i) && !t.s.member[i].writable {
			t.pointAt(p, i, primary, l)
			if l.confirmed && t.room() && !t.s.rowWaits(primary) {
				t.beginCertificate(p, i, primary)
				t.certify(p, i, primary)
				t.remove(p, i, primary)
				t.admit(p, i, primary)
			}
		}
	}
	if l.confirmed {
		t.forgetLeaver(p, primary)
		t.confirmChange(p, primary)
		t.recordComplete(p, primary)
	}
}

// led is a copy of the present state in which the operator goes by a primary without a proof. If that is not the last one, it casts doubt on
// what the records know. A primary that has executed the newest row shows whether it is alone.
func (t *transitions) led(primary int, confirmed bool) *state {
	n := t.newPass()
	if !n.records.ledLast(primary) {
		n.records.doubted = true
	}
	if confirmed {
		n.records.aloneUnknown = false
	}
	return n
}

// pointAt has a replica receive from the primary. It has applied what it received, which changing the source would delete, and it holds
// nothing that the primary lacks.
func (t *transitions) pointAt(p *pass, m, primary int, l leadership) {
	mem := &t.s.member[m]
	if mem.executed != mem.held || mem.receiving && int(mem.source) == primary || !t.s.position(primary).contains(t.s.position(m)) {
		return
	}
	n := t.led(primary, l.confirmed)
	replica := &n.member[m]
	replica.source, replica.channel, replica.receiving = uint8(primary), true, true
	replica.acknowledging = t.rules.acknowledges(t.s, t.s.shown(primary), m)
	var broken error
	if l.proven {
		n.records.recordLeader(primary, l.acknowledged)
		broken = n.lead(primary)
	} else {
		broken = t.leadRecorded(n, primary)
	}
	how := "without acknowledgements"
	if replica.acknowledging {
		how = "with acknowledgements"
	}
	t.step(p, n, broken, "has %s replicate from %s %s", name(m), name(primary), how)
}

// recordComplete records a primary as the last one when every voter is reached and shows that it lacks nothing, although the records knew
// of none.
func (t *transitions) recordComplete(p *pass, primary int) {
	rec := &t.s.records
	if rec.leader != nobody && !rec.doubted || !p.newest().settled() || p.newest().voters&^p.reached != 0 {
		return
	}
	for i := range t.bounds.Members {
		if p.newest().voters.has(i) && t.s.position(i)&^t.s.position(primary)&^t.s.committedBy(primary) != 0 {
			return
		}
	}
	n := t.newPass()
	n.records.leader, n.records.leaderEpoch, n.records.doubted, n.records.aloneUnknown = uint8(primary), rec.epoch+1, false, false
	n.records.acknowledged, n.records.ended = 0, term{}
	t.step(p, n, nil, "records %s as the last primary: no voter holds anything that it lacks", name(primary))
}

package model

import "fmt"

// beginCertificate begins to certify a voter whose memory is another than in the row: its memory is seen first, and after that the
// primary's position is read, with what waits there (an empty commit that is answered is the barrier). An acknowledgement from before
// covers nothing that is not in it.
func (t *transitions) beginCertificate(p *pass, m, primary int) {
	r, c := t.s.shown(primary), &t.s.certifying
	memory := t.s.member[m].memory
	if t.rules.relayLogs == Synced || !r.voters.has(m) || r.memory[m] == memory || !below(t.s.spent.certificates, t.bounds.Certificates) {
		return
	}
	if int(c.voter) == m && c.memory == memory && int(c.primary) == primary {
		return
	}
	n := t.led(primary, true)
	n.certifying = certification{voter: uint8(m), primary: uint8(primary), memory: memory}
	if r.memory[m] != onDisk { // a voter that syncs has forgotten nothing
		n.certifying.mustHold = t.rules.certifiedHolds(t.s, primary)
	}
	t.step(p, n, nil, "begins to certify %s with memory %d: it has to execute %s", name(m), memory, n.certifying.mustHold)
}

// certify writes the row that certifies a voter which has executed what it must.
func (t *transitions) certify(p *pass, m, primary int) {
	c, r := &t.s.certifying, *t.s.shown(primary)
	if int(c.voter) != m || int(c.primary) != primary || !r.voters.has(m) || !below(t.s.spent.certificates, t.bounds.Certificates) {
		return
	}
	if !t.s.executed(m).contains(c.mustHold) {
		return
	}
	n := t.led(primary, true)
	r.memory[m] = t.rules.certifiedMemory(c.memory, t.s.member[m].memory)
	id := n.commitRow(primary, r)
	n.certifying.voter = nobody
	n.spent.certificates++
	broken := t.answer(n, primary)
	t.step(p, n, broken, "writes row t%d on %s: %s is certified with memory %d", id, name(primary), name(m), r.memory[m])
}

// certifyWithoutPrimary is a broken rule: whoever holds what all reached members hold is certified in the records, with no primary there.
func (t *transitions) certifyWithoutPrimary(p *pass) {
	if !t.rules.certifiesWithoutPrimary || p.reached.count() < 2 {
		return
	}
	var held transactions
	for i := range t.bounds.Members {
		if p.reached.has(i) {
			held |= t.s.position(i)
		}
	}
	for i := range t.bounds.Members {
		memory := t.s.member[i].memory
		if !p.reached.has(i) || !p.newest().voters.has(i) || !t.s.position(i).contains(held) || p.newest().memory[i] == memory || t.s.records.certified[i] == memory {
			continue
		}
		n := t.next()
		n.records.certified[i] = memory
		t.step(p, n, nil, "certifies %s in its records", name(i))
	}
}

// stopSyncing lets a replica acknowledge from its memory. The operator reaches it alone.
func (t *transitions) stopSyncing(m int) {
	if !t.s.member[m].synced || !t.rules.mayStopSyncing(t.s, m) {
		return
	}
	n := t.newPass()
	n.member[m].synced = false
	t.visit(n, func() string { return fmt.Sprintf("the operator sets sync_relay_log=10000 on %s", name(m)) }, nil)
}

package model

// mayChangeVoters says whether a change of the voters may begin. It takes two rows.
func (t *transitions) mayChangeVoters(primary int) bool {
	return below(t.s.spent.voterChanges, t.bounds.VoterChanges) && t.s.shown(primary).settled() && int(t.s.count)+1 < t.bounds.limit()
}

// remove writes the first row of the removal of a voter that receives nothing any more. The last two stay.
func (t *transitions) remove(p *pass, m, primary int) {
	r, leaving := *t.s.shown(primary), t.s.records.leaving
	if !t.mayChangeVoters(primary) || !r.voters.has(m) || t.s.member[m].receiving || r.voters.count() <= 2 || leaving != nobody && int(leaving) != m {
		return
	}
	n := t.led(primary, true)
	n.records.leaving = uint8(m)
	n.spent.voterChanges++
	r.previous = r.voters
	r.voters &^= 1 << m
	id := n.commitRow(primary, r)
	broken := t.answer(n, primary)
	t.step(p, n, broken, "writes row t%d on %s, which removes %s", id, name(primary), name(m))
}

// admit writes the first row of the admission of a replica that holds what the primary has executed. The wait count is raised before.
func (t *transitions) admit(p *pass, m, primary int) {
	r := *t.s.shown(primary)
	if !t.mayChangeVoters(primary) || r.voters.has(m) || !t.s.executed(m).contains(t.s.executed(primary)) {
		return
	}
	n := t.led(primary, true)
	n.spent.voterChanges++
	r.previous = r.voters
	r.voters |= 1 << m
	r.memory[m] = t.s.member[m].memory
	if t.rules.relayLogs == Synced {
		r.memory[m] = onDisk
	}
	mem := &n.member[primary]
	mem.waitFor = max(mem.waitFor, uint8(r.voters.waitFor()))
	id := n.commitRow(primary, r)
	broken := t.answer(n, primary)
	t.step(p, n, broken, "writes row t%d on %s, which admits %s", id, name(primary), name(m))
}

// confirmChange writes the second row of a change. A voter that leaves must be silent: it would be counted by a row that does not ask it.
func (t *transitions) confirmChange(p *pass, primary int) {
	r := *t.s.shown(primary)
	if r.settled() || !t.room() || t.s.rowWaits(primary) || !t.rules.changeIsAcknowledged(p, primary) {
		return
	}
	for i := range t.bounds.Members {
		mem := &t.s.member[i]
		if r.previous.has(i) && !r.voters.has(i) && mem.receiving && mem.acknowledging {
			return
		}
	}
	n := t.led(primary, true)
	r.previous = 0
	id := n.commitRow(primary, r)
	broken := t.answer(n, primary)
	t.step(p, n, broken, "writes row t%d on %s, which confirms the voters %s", id, name(primary), r.voters)
}

// forgetLeaver forgets whose removal was begun, once the primary's row is settled without it, or it is certain that no row removes it: it is
// reached, still a voter, and nothing waits at the primary.
func (t *transitions) forgetLeaver(p *pass, primary int) {
	r, leaving, mem := t.s.shown(primary), t.s.records.leaving, &t.s.member[primary]
	if leaving == nobody || !r.settled() || r.voters.has(int(leaving)) && (!p.reached.has(int(leaving)) || mem.executed < mem.held) {
		return
	}
	n := t.led(primary, true)
	n.records.leaving = nobody
	t.step(p, n, nil, "forgets that %s leaves", name(leaving))
}

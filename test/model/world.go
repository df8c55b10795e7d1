package model

import "fmt"

// world visits everything that happens without the operator: clients, replication, losses.
func (t *transitions) world(s *state) {
	t.s = s
	for i := range t.bounds.Members {
		t.write(i)
		t.receive(i)
		t.apply(i)
		t.acknowledge(i)
		t.kill(i)
		t.cutPower(i)
	}
	t.loseRecords()
}

// write has a client commit a transaction. It is in the primary's binary log, and waits there.
func (t *transitions) write(m int) {
	if !t.s.member[m].writable || !below(t.s.spent.writes, t.bounds.Writes) || !t.room() {
		return
	}
	n := t.next()
	n.spent.writes++
	id := n.commit(m, transaction{})
	broken := t.answer(n, m)
	t.visit(n, func() string { return fmt.Sprintf("a client commits t%d on %s", id, name(m)) }, broken)
}

// receive has the IO thread of a replica receive the next transaction that it lacks, and send its acknowledgement. A primary sends what
// waits as well (AFTER_SYNC), another source only what it has executed.
func (t *transitions) receive(m int) {
	mem := &t.s.member[m]
	if !mem.receiving || mem.writable {
		return
	}
	from := int(mem.source)
	source := &t.s.member[from]
	end := source.executed
	if source.writable {
		end = source.held
	}
	position := t.s.position(m)
	for i, id := range source.log[:end] {
		if position.has(int(id)) {
			continue
		}
		n, how := t.next(), "and does not acknowledge it"
		n.receive(m, int(id))
		if mem.acknowledging {
			n.member[m].sent[from], how = max(mem.sent[from], uint8(i+1)), "and sends its acknowledgement"
		}
		t.visit(n, func() string { return fmt.Sprintf("%s receives t%d from %s %s", name(m), id, name(from), how) }, nil)
		return
	}
}

// apply has the applier of a replica commit the next transaction of its relay log. From then on it is on its disk.
func (t *transitions) apply(m int) {
	mem := &t.s.member[m]
	if mem.writable || mem.executed == mem.held {
		return
	}
	n := t.next()
	n.member[m].executed++
	t.visit(n, func() string { return fmt.Sprintf("%s applies t%d", name(m), mem.log[mem.executed]) }, nil)
}

// acknowledge has an acknowledgement arrive at a primary.
func (t *transitions) acknowledge(primary int) {
	mem := &t.s.member[primary]
	if !mem.writable {
		return
	}
	for r := range t.bounds.Members {
		sent := t.s.member[r].sent[primary]
		if sent <= mem.answered[r] {
			continue
		}
		n := t.next()
		n.member[primary].answered[r] = sent
		broken := t.answer(n, primary)
		t.visit(n, func() string {
			return fmt.Sprintf("the acknowledgement of %s arrives at %s, for all up to t%d", name(r), name(primary), mem.log[sent-1])
		}, broken)
	}
}

// kill ends the mysqld of a primary. That of a replica would lose nothing, and change nothing that matters here.
func (t *transitions) kill(m int) {
	if !t.s.member[m].writable || !below(t.s.spent.kills, t.bounds.Kills) {
		return
	}
	n := t.next()
	n.spent.kills++
	n.stopServer(m)
	t.visit(n, func() string { return fmt.Sprintf("mysqld of %s is killed and starts again, read-only", name(m)) }, nil)
}

// cutPower has a member lose power. A replica whose relay log is not synced loses any end of what it has received and not applied.
func (t *transitions) cutPower(m int) {
	if !below(t.s.spent.powerCuts, t.bounds.PowerCuts) {
		return
	}
	mem := &t.s.member[m]
	least := mem.executed
	if mem.writable || mem.synced {
		least = mem.held
	}
	for keeps := least; keeps <= mem.held; keeps++ {
		n := t.next()
		n.spent.powerCuts++
		n.stopServer(m)
		n.member[m].held = keeps
		n.member[m].memory++
		t.visit(n, func() string {
			if keeps == mem.held {
				return fmt.Sprintf("%s loses power and nothing of its data", name(m))
			}
			return fmt.Sprintf("%s loses power and, of what it received, %s", name(m), listed(mem.log[keeps:mem.held]))
		}, nil)
	}
}

// loseRecords has somebody delete the operator's ConfigMap. Epochs go on above all that were planned (topology.unseenEpochs).
func (t *transitions) loseRecords() {
	if !below(t.s.spent.lostRecords, t.bounds.LostRecords) {
		return
	}
	n := t.next()
	n.spent.lostRecords++
	n.records.leader, n.records.leaderEpoch, n.records.doubted, n.records.aloneUnknown = nobody, 0, false, true
	n.records.acknowledged, n.records.ended = 0, term{}
	t.visit(n, func() string { return "the operator's records are lost" }, nil)
}

package simulation

import (
	"errors"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// netTimeout is after how long a replica gives up a silent source (fact 14).
	netTimeout = 4 * second
	// burst is how many transactions a thread handles at most in one turn.
	burst = 6
)

// wake makes sure that replication goes on.
func (w *world) wake() {
	if !w.ticking {
		w.ticking = true
		w.after(w.between(1, 30), w.tick)
	}
}

// tick gives the threads of all servers a turn, in random order. Some miss theirs: networks and disks differ.
func (w *world) tick() {
	w.ticking = false
	work := false
	all := w.cloud.instances
	first := 0
	if len(all) > 1 {
		first = w.rng.IntN(len(all))
	}
	for n := range all {
		s := all[(first+n)%len(all)].server
		if s == nil || s.on.frozen {
			continue
		}
		if w.chance(25) {
			work = work || s.busy()
			continue
		}
		s.receive()
		s.apply()
		work = work || s.busy()
	}
	if work {
		w.wake()
	}
}

// busy says whether a server's replication has something left that it can do now.
func (s *mysqld) busy() bool {
	if s.st.source == "" {
		return false
	}
	if s.sqlRunning && s.st.applied < len(s.st.relay) && s.lagUntil <= s.w.now && !s.sourceEnabled {
		return true
	}
	switch s.io {
	case ioConnecting:
		return s.reachable(s.w.serverAt(s.st.source))
	case ioOn:
		return s.from.alive() && s.w.net.open(s.from.on.node, s.on.node) && !s.from.on.frozen &&
			(s.unsent || s.cursor < len(s.from.st.binlog))
	}
	return false
}

func (s *mysqld) alive() bool { return s != nil && s.on.server == s }

// reachable says whether a replica can connect to a source.
func (s *mysqld) reachable(source *mysqld) bool {
	return source.alive() && !source.on.frozen && source.on.signed && s.w.net.open(source.on.node, s.on.node)
}

// receive is a turn of the IO thread.
func (s *mysqld) receive() {
	s.settle()
	switch s.io {
	case ioConnecting:
		if source := s.w.serverAt(s.st.source); s.reachable(source) {
			s.connect(source)
		}
	case ioOn:
		s.acknowledge()
		s.fetch()
	}
}

// settle notices that the source is gone: at once when its instance says so, after netTimeout when there is silence.
func (s *mysqld) settle() {
	if s.io != ioOn {
		return
	}
	w := s.w
	silent := s.from.on.frozen || !w.net.open(s.from.on.node, s.on.node) || !s.from.on.powered
	if s.from.alive() && !silent {
		s.heard = w.now
		return
	}
	if !silent || w.now-s.heard >= netTimeout {
		s.disconnect(ioConnecting)
	}
}

func (s *mysqld) disconnect(state string) {
	s.io, s.from, s.unsent = state, nil, false
	if state == ioConnecting {
		s.ioError, s.ioRetries = "error 2003: error reconnecting to source", true
	}
	s.w.roles = true
	s.w.wake()
}

// errRelayLog is what START REPLICA fails with when the applier's relay log is missing (fact 31).
var errRelayLog = errors.New("error 1872: Replica failed to initialize applier metadata structure from the repository")

// startReplica is START REPLICA.
func (s *mysqld) startReplica() error {
	if s.st.relayMissing {
		s.stopOnError(errRelayLog.Error())
		return errRelayLog
	}
	if !s.sqlRunning {
		s.startSQL()
	}
	s.startIO()
	return nil
}

// startIO starts the IO thread. What it acknowledges is decided now (fact 8).
func (s *mysqld) startIO() {
	if s.io == ioOff && s.st.source != "" {
		s.io, s.ioError, s.ioRetries, s.acknowledges = ioConnecting, "", false, s.replicaEnabled
		checkUnsynced(s.w, s)
		s.w.roles = true
		s.w.wake()
	}
}

func (s *mysqld) stopIO() {
	if s.io != ioOff {
		s.disconnect(ioOff)
	}
	if !s.unsynced {
		s.st.synced = len(s.st.relay) // what was received is on its way to the disk; the thread ends after it is there
	}
}

func (s *mysqld) startSQL() {
	s.sqlRunning, s.sqlError = s.st.source != "", ""
	if s.st.hollow || s.st.diverged {
		s.stopOnError("the replica's data differs from the source's")
	}
	s.w.wake()
}

func (s *mysqld) stopOnError(why string) { s.sqlRunning, s.sqlError = false, why }

// connect begins to read a source's binary log by auto-position.
func (s *mysqld) connect(source *mysqld) {
	w := s.w
	for _, id := range source.st.purged.without(s.st.executed.bitset) {
		if !s.knows(id) {
			s.ioRetries, s.ioError = false, "error 1236: the source has purged transactions that the replica needs"
			s.disconnect(ioOff)
			return
		}
	}
	// A replica that has more of the source's own transactions than the source is refused (fact 15).
	for _, id := range w.ledger.byServer[source.st.uuid] {
		if (s.st.executed.has(id) || s.st.retrieved.has(id)) && !source.knows(id) {
			s.ioRetries, s.ioError = false, "error 1236: the replica has more of the source's transactions than the source"
			s.disconnect(ioOff)
			return
		}
	}
	s.io, s.ioError, s.ioRetries = ioOn, "", false
	s.from, s.cursor, s.heard, s.claims = source, 0, w.now, claims{}
	w.roles = true
}

// fetch receives what the source's binary log holds and the replica does not.
func (s *mysqld) fetch() {
	w, st := s.w, s.st
	if !s.from.alive() || s.from.on.frozen || !w.net.passes(s.from.on.node, s.on.node) {
		return
	}
	for received := 0; received < burst && s.cursor < len(s.from.st.binlog); {
		id := s.from.st.binlog[s.cursor]
		s.cursor++
		if s.knows(id) && !isSent(s, id) {
			continue // by auto-position it is not sent again, and so not acknowledged
		}
		st.relay = append(st.relay, id)
		st.retrieved.add(id)
		st.received = true
		s.unsent, s.reached = true, s.cursor
		received++
	}
}

// acknowledge syncs what was received and tells the source. The answer is about a position: it covers all before it.
func (s *mysqld) acknowledge() {
	w := s.w
	if !s.unsynced && s.st.received {
		s.st.synced, s.st.received = len(s.st.relay), false // all of the file, with the next event (fact 32)
	}
	if !s.unsent || !w.net.open(s.on.node, s.from.on.node) || !s.from.alive() || s.from.on.frozen {
		return
	}
	s.unsent = false
	if s.acknowledges {
		hear(s.from, s.st, s.reached)
	}
}

// apply is a turn of the applier. With the source side of semi-sync on it would wait for acknowledgements of its own and
// stands still (fact 7).
func (s *mysqld) apply() {
	w, st := s.w, s.st
	if !s.sqlRunning || s.lagUntil > w.now || s.sourceEnabled {
		return
	}
	for range burst {
		if st.applied >= len(st.relay) {
			break
		}
		if st.diverged || st.hollow {
			s.stopOnError("the replica's data differs from the source's")
			return
		}
		id := st.relay[st.applied]
		st.applied++
		if !w.ledger.knows(st.executed.bitset, id) {
			st.binlog = append(st.binlog, id)
			st.committed = len(st.binlog)
			s.execute(id)
			w.wake()
		}
	}
}

// forgetRelay is what CHANGE REPLICATION SOURCE does with both threads stopped, and RESET REPLICA (facts 12, 24).
func (s *mysqld) forgetRelay() {
	st := s.st
	st.relay, st.applied, st.synced, st.received = nil, 0, 0, false
	st.retrieved.clear()
	s.w.roles = true
}

// resetReplica is RESET REPLICA.
func (s *mysqld) resetReplica() {
	s.forgetRelay()
	s.st.relayMissing, s.sqlError = false, ""
}

// cloneLives says whether a CLONE still runs on the server that began it, and is the newest.
func (s *mysqld) cloneLives(seeding int) bool {
	return s.alive() && s.st.seeding == seeding && s.st.clone != nil && s.st.clone.State == mysql.CloneInProgress
}

// cloneFrom begins a CLONE: the user data is dropped at once, the copy comes at the end.
func (s *mysqld) cloneFrom(donorAddress string) {
	w, st := s.w, s.st
	w.checkEmptied(s)
	st.seeding++
	seeding := st.seeding
	began := strconv.FormatInt(w.now, 10)
	st.clone = &mysql.CloneProgress{State: mysql.CloneInProgress, Source: donorAddress + ":3306", Began: began}
	st.hollow, st.content, st.row = true, nil, nil
	w.roles = true
	w.after(w.between(second/2, 20*second), func() { s.endClone(seeding, donorAddress, 0) })
}

// endClone copies the donor's committed data, or waits for a donor that went away until it gives up (fact 19).
func (s *mysqld) endClone(seeding int, donorAddress string, waited int64) {
	w, st := s.w, s.st
	if !s.cloneLives(seeding) {
		return
	}
	if s.on.frozen {
		w.after(second, func() { s.endClone(seeding, donorAddress, waited) })
		return
	}
	donor := w.serverAt(donorAddress)
	if !s.reachable(donor) || donor.st.hollow {
		if waited >= 300*second {
			st.clone = &mysql.CloneProgress{State: mysql.CloneFailed, Source: donorAddress + ":3306", Error: "the donor went away", Began: st.clone.Began}
			s.superReadOnly = true
			w.say("%s: CLONE failed", s.on.member)
			return
		}
		w.after(10*second, func() { s.endClone(seeding, donorAddress, waited+10*second) })
		return
	}
	st.executed.copyOf(&donor.st.executed)
	st.purged.copyOf(&donor.st.executed)
	st.content = append(bitset(nil), donor.st.content...)
	st.row, st.hollow, st.diverged, st.damaged = donor.st.row, false, false, false
	st.binlog, st.committed, st.source = nil, 0, donor.st.source
	st.clone = &mysql.CloneProgress{State: mysql.CloneCompleted, Source: donorAddress + ":3306", Began: st.clone.Began}
	s.resetReplica()
	w.say("%s: CLONE is complete, executed %s, %s", s.on.member, w.ledger.print(&st.executed), rowText(st.row))
	s.shutdown()
	w.bootMySQL(s.on, w.between(second, 4*second))
}

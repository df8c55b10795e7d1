package simulation

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// strangersSeed begins the numbers from which is drawn what replicas that are no members do, and who changes settings by hand.
const strangersSeed = 0x73747261

// meddled says whether, in a schedule, replicas that are no members acknowledge and people change settings by hand. None of the
// schedules that broke something before is among these, so that each goes on telling its story.
func meddled(schedule uint64) bool { return schedule%5 == 3 }

// meddling is what people do who are no friends of the operator.
type meddling struct {
	rng       *rand.Rand
	strangers []*stranger
	sessions  uint64 // those of strangers, so far
	// uncovered are the commits that were answered in spite of the row because of them, by id.
	uncovered map[int]uncoveredCommit
	settled   bitset // those of them that a promotion was judged by
	// opened is when each server was last opened for writes.
	opened map[*store]int64
}

// uncoveredCommit is a commit that was answered without the acknowledgements that the row asks for.
type uncoveredCommit struct {
	on *store // of the server that answered
	// at is when it answered, opened when it had been opened for writes.
	at, opened int64
	// strangers are those whose acknowledgements did it; none when a setting did.
	strangers []*stranger
}

// seen says whether the operator could know: it observed the server after that, and a setting was still wrong or has left its trace,
// or one of the strangers was still connected. One that came and left in between leaves no trace.
func (c uncoveredCommit) seen() bool {
	return c.on.observed > c.at && (len(c.strangers) == 0 || slices.ContainsFunc(c.strangers, func(st *stranger) bool {
		return st.from != nil && st.from.st == c.on || st.left > c.on.observed
	}))
}

// outwaitedWithin is within how many passes the operator has the source wait for a stranger as well. What one answers after that is no
// stranger's fault.
const outwaitedWithin = 5

// stranger is a replica that is no member. The operator does not reach it and the network never parts it from anybody: so it
// acknowledges when no voter does.
type stranger struct {
	w    *world
	name string
	id   *store // what the source knows it by: its server_id
	from *mysqld
	// semiSync says whether it acknowledges; delay is how late, in milliseconds, retry how long it takes to connect again.
	semiSync     bool
	delay, retry int64
	session      uint64
	since, left  int64 // when it was connected and disconnected last
	passes       int   // how many passes have observed its source since
	gone         bool
}

// drawMeddling lets strangers come and people change settings, in some schedules.
func (w *world) drawMeddling(seed, schedule uint64) {
	if !meddled(schedule) || w.scenario != nil && schedule%2 == 0 {
		return
	}
	w.meddle(seed, schedule)
	drawTimeOuts(w, seed, schedule)
	m := w.meddling
	for n := range m.rng.IntN(3) {
		w.after(m.between(0, w.shape.span), func() { w.strangerComes(strconv.Itoa(n), 0) })
	}
	for range m.between(0, 3) {
		w.after(m.between(0, w.shape.span), w.meddleOnce)
	}
}

func (w *world) meddle(seed, schedule uint64) {
	w.meddling = &meddling{rng: rand.New(rand.NewPCG(seed^strangersSeed, schedule)), uncovered: map[int]uncoveredCommit{}, opened: map[*store]int64{}}
}

func (m *meddling) between(low, high int64) int64 { return low + m.rng.Int64N(high-low+1) }

// strangerComes connects a replica that is no member. Some lie: they use the server_id of a voter.
func (w *world) strangerComes(name string, stay int64) *stranger {
	m := w.meddling
	st := &stranger{w: w, name: name, id: &store{}, semiSync: m.rng.IntN(5) > 0, delay: m.between(1, 50), retry: m.between(1, 60) * second}
	if m.rng.IntN(4) == 0 {
		st.delay = m.between(second, 20*second)
	}
	if voters := w.otherStores(w.kube.primary); m.rng.IntN(5) == 0 && len(voters) > 0 {
		st.id = voters[m.rng.IntN(len(voters))]
	}
	if stay == 0 {
		stay = m.between(100, w.shape.span+second)
	}
	m.strangers = append(m.strangers, st)
	st.connect()
	w.after(stay, st.leave)
	return st
}

// otherStores are the volumes of the members that are not at an address, by ordinal.
func (w *world) otherStores(address string) []*store {
	var found []*store
	for n := range w.desired.Replicas {
		if s := w.serverOf(n); s != nil && s.on.Address != address {
			found = append(found, s.st)
		}
	}
	return found
}

// connect has the source send it everything, and keeps trying when there is none.
func (st *stranger) connect() {
	w := st.w
	if st.gone || w.healed > 0 {
		return
	}
	s := w.serverAt(w.kube.primary)
	if s == nil || !s.alive() || s.on.frozen {
		w.after(st.retry, st.connect)
		return
	}
	w.meddling.sessions++
	st.from, st.session, st.since, st.passes = s, w.meddling.sessions, w.now, 0
	w.roles = true
	w.say("STRANGER %s is connected to %s, acknowledges: %t", st.name, s.on.member, st.semiSync)
	st.receive(len(s.st.binlog))
	w.after(second, st.look)
}

// look notices that its source is gone, and follows the Service.
func (st *stranger) look() {
	switch {
	case st.from == nil:
	case !st.from.alive() || st.w.healed > 0:
		st.disconnect()
		st.w.after(st.retry, st.connect)
	default:
		st.w.after(second, st.look)
	}
}

// receive acknowledges, after a while, everything in its source's binary log up to a position.
func (st *stranger) receive(upTo int) {
	s := st.from
	if !st.semiSync {
		return
	}
	at := upTo + s.st.dropped
	st.w.after(st.delay, func() {
		upTo := max(at-s.st.dropped, 0)
		if st.from == s && s.alive() && !s.on.frozen && s.sourceEnabled {
			if s.foreign == nil {
				s.foreign = map[*store]int{}
			}
			s.foreign[st.id] = max(s.foreign[st.id], upTo)
			hear(s, st.id, upTo)
		}
	})
}

func (st *stranger) disconnect() {
	if st.from != nil {
		st.from, st.left = nil, st.w.now
		st.w.roles = true
	}
}

func (st *stranger) leave() {
	st.gone = true
	if st.from != nil {
		st.w.say("STRANGER %s leaves", st.name)
	}
	st.disconnect()
}

// strangersOf are those that acknowledge to a server.
func (w *world) strangersOf(s *mysqld) []*stranger {
	if w.meddling == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.meddling.strangers), func(st *stranger) bool { return st.from != s || !st.semiSync })
}

// sendToStrangers is told of every commit that a server has written to its binary log.
func (w *world) sendToStrangers(s *mysqld) {
	for _, st := range w.strangersOf(s) {
		st.receive(len(s.st.binlog))
	}
}

// disconnectStrangers is KILL of their sessions. Their replicas come back.
func (w *world) disconnectStrangers(s *mysqld) {
	for _, st := range w.strangersOf(s) {
		w.say("STRANGER %s is disconnected", st.name)
		st.disconnect()
		w.after(st.retry, st.connect)
	}
}

// meddleOnce lets a person change one thing on a server.
func (w *world) meddleOnce() {
	if w.healed > 0 || w.desired.Deleting || w.lossy {
		return
	}
	s, m := w.serverAt(w.kube.primary), w.meddling
	if s == nil || !s.writable {
		return
	}
	switch m.rng.IntN(6) {
	case 0, 1:
		w.switchOff(s)
		if m.rng.IntN(2) == 0 {
			w.after(m.between(1, 3*second), func() { w.switchOn(s) })
		}
	case 2:
		if s.sourceEnabled {
			w.say("MEDDLING: %s waits for one acknowledgement", s.on.member)
			s.meddled, s.meddledAt = true, w.now
			s.setWait(1)
		}
	case 3:
		if len(s.waiting) == 0 || !s.sourceEnabled {
			w.say("MEDDLING: %s is made read-only", s.on.member)
			s.writable, s.superReadOnly, w.roles = false, m.rng.IntN(2) == 0, true
		}
	case 4:
		if all := w.otherStores(s.on.Address); len(all) > 0 {
			w.meddleWithReplica(w.serverOf(m.rng.IntN(w.desired.Replicas)))
		}
	default:
		w.say("MEDDLING: the operator's sessions are killed")
		for n := range w.desired.Replicas {
			if s := w.serverOf(n); s != nil {
				s.control = nil
			}
		}
	}
	w.wake()
}

// meddleWithReplica stops a replica, or lets it acknowledge without a vote. Nothing is thrown away that is not applied: that would
// be a lost disk.
func (w *world) meddleWithReplica(s *mysqld) {
	if s == nil || s.writable || s.st.source == "" {
		return
	}
	switch w.meddling.rng.IntN(3) {
	case 0:
		w.say("MEDDLING: STOP REPLICA on %s", s.on.member)
		s.stopIO()
		s.sqlRunning = false
	case 1:
		if s.allApplied() {
			w.say("MEDDLING: RESET REPLICA ALL on %s", s.on.member)
			s.stopIO()
			s.sqlRunning = false
			s.resetReplica()
			s.st.source = ""
		}
	default:
		w.say("MEDDLING: %s does not acknowledge any more", s.on.member)
		s.replicaEnabled = false
		s.stopIO()
		s.startIO()
	}
}

// switchOff is SET GLOBAL rpl_semi_sync_source_enabled=OFF by a person: it answers everybody who waits (fact 4).
func (w *world) switchOff(s *mysqld) {
	if s.alive() && s.sourceEnabled {
		w.say("MEDDLING: semi-sync of %s is switched off", s.on.member)
		s.meddled, s.meddledAt = true, w.now
		s.setSource(false)
	}
}

func (w *world) switchOn(s *mysqld) {
	if s.alive() && !s.sourceEnabled && s.writable && s.meddled {
		w.say("MEDDLING: semi-sync of %s is switched on again", s.on.member)
		s.setSource(true)
	}
}

// unseen says whether something happened to a server after the operator observed it as the primary the last time. What it then
// answers to its clients nobody can know of.
func (s *mysqld) unseen(at int64) bool { return s.st.observed <= at }

// knownStrangers counts those that acknowledge to a server and that the operator may have seen.
func (s *mysqld) knownStrangers() int {
	n := 0
	for _, st := range s.w.strangersOf(s) {
		if !s.unseen(st.since) {
			n++
		}
	}
	return n
}

// uncover says whether a commit that too few voters hold was answered because of somebody's meddling, and remembers that.
func (w *world) uncover(s *mysqld, c *commit) bool {
	if w.meddling == nil {
		return false
	}
	var theirs []*stranger
	for _, st := range w.meddling.strangers {
		if s.foreign[st.id] > c.at && st.passes < outwaitedWithin {
			theirs = append(theirs, st)
		}
	}
	if !s.meddled && !s.timedOut && len(theirs) == 0 {
		return false
	}
	w.say("#%d is answered without the voters", c.id)
	w.meddling.uncovered[c.id] = uncoveredCommit{s.st, w.now, w.meddling.opened[s.st], theirs}
	return true
}

// covered says whether the promise holds for a commit that was answered.
func (w *world) covered(id int) bool {
	if w.meddling == nil {
		return true
	}
	_, uncovered := w.meddling.uncovered[id]
	return !uncovered && !w.meddling.settled.has(id)
}

// reported says whether status has reported an uncovered time of the member that answered, which had begun by then, and not before it
// was opened for writes. What a former primary answers until it is off belongs to that time.
func (c uncoveredCommit) reported(w *world) bool {
	for _, v := range w.cloud.volumes {
		since, reported := w.kube.uncovered[v.member]
		if began := time.Unix(since, 0); v.st == c.on && reported && began.Before(w.at(c.at)) && !began.Before(w.at(c.opened).Truncate(time.Second)) {
			return true
		}
	}
	return false
}

// checkTold is told of every member that is opened for writes. What another one had answered uncovered before the operator observed it
// the last time, and this one lacks, must stand in the records, so that nobody is told that nothing was lost.
func (w *world) checkTold(s *mysqld) {
	if w.meddling == nil {
		return
	}
	w.meddling.opened[s.st] = w.now
	for id, c := range w.meddling.uncovered {
		if c.on == s.st && s.st.content.has(id) {
			continue
		}
		if !s.st.content.has(id) && c.seen() && len(w.kube.records.Uncovered) == 0 && !c.reported(w) {
			w.fail(untold, "%s is opened without%s, which was answered in an uncovered time, and the records know of none", s.on.member, w.ledger.names([]int{id}))
		}
		delete(w.meddling.uncovered, id) // the promotion is over
		w.meddling.settled.add(id)
	}
}

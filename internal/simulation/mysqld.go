package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// store is what lies on a data volume. It outlives mysqld and the instance.
type store struct {
	uuid int
	// opened is the newest version of mysqld that opened it: no older one does.
	opened string
	// binlog holds the transactions in the order of their commits. Those from committed on are prepared and wait for
	// acknowledgements: sent to replicas, not visible, and committed by crash recovery (fact 1).
	binlog    []int
	committed int
	executed  gtidSet
	// purged are the transactions that the binary log no longer holds.
	purged gtidSet
	// content are the transactions whose effect is really there. It differs from executed once user data was dropped by a
	// CLONE that was cut off (fact 19).
	content bitset
	hollow  bool
	// row is the visible membership row.
	row *mysql.Membership
	relayLog
	// source is the address of the configured source, empty without a channel.
	source string
	clone  *mysql.CloneProgress
	// seeding counts the CLONE operations, so that one that was overtaken knows.
	seeding int
	// diverged makes the applier stop on an error, however often it is started.
	diverged bool
	// damaged are pages that end mysqld whenever it reads them.
	damaged   bool
	persisted map[string]string
	// dropped counts the transactions that were purged from binlog.
	dropped int
	// observed is when a pass last saved what followed from observing it as the primary.
	observed int64
}

// relayLog is what a store holds of what was received.
type relayLog struct {
	// relay is the relay log; applied counts its entries that were executed, synced those that a power cut does not take.
	relay           []int
	applied, synced int
	received        bool // something since it was synced last
	retrieved       gtidSet
	// relayMissing: the file of it that the applier's metadata names is not there (fact 31).
	relayMissing bool
}

const (
	ioOff        = mysql.IOOff
	ioConnecting = mysql.IOConnecting
	ioOn         = mysql.IOOn
)

// startup is when mysqld was started, and what it then begins with.
type startup struct {
	started int64
	memory  string
	// boot names the boot of the instance, shutDown says whether the run in front of this one was shut down.
	boot     string
	shutDown bool
	// unsynced is true while the relay log is not synced before what it holds is acknowledged.
	unsynced bool
}

// relaySyncs is sync_relay_log, by whether the relay log is unsynced.
var relaySyncs = map[bool]string{false: "1", true: "10000"}

// mysqld is one run of a member's server, from its start to its end.
type mysqld struct {
	w  *world
	on *instance
	st *store
	startup

	writable, superReadOnly bool
	// Semi-synchronous replication, source side (fact 6: all gone with the process).
	sourceSwitch
	wait     int
	waiting  []*commit
	answered int            // how many commits got their acknowledgements
	acks     map[*store]int // how far each replica acknowledged, as an index into the binlog; by server_id, which goes with the volume
	offTimes int            // how often it was switched off
	foreign  map[*store]int // like acks, of strangers alone
	handChange
	// And the replica side: the setting, and what the running IO thread goes by (fact 8).
	replicaEnabled, acknowledges bool

	io, ioError string
	ioRetries   bool    // ioError is of a lost connection, and stays when the thread is stopped
	from        *mysqld // the source that the IO thread is connected to
	cursor      int     // in its binlog
	unsent      bool    // something received was not acknowledged yet
	reached     int     // how far in the source's binlog the newest thing goes that it received from this connection
	heard       int64   // when the source was last heard of
	sqlRunning  bool
	sqlError    string
	lagUntil    int64 // the applier stands still until then without an error
	blockUntil  int64 // open transactions or locks hold up Demote until then (facts 13, 22)

	ignored bool // what is persisted was left out
	claims  claims
	control *session // whoever holds the operator's lock
}

// handChange is a change of a server's settings that a person made, and that the operator has not put back.
type handChange struct {
	meddled   bool
	meddledAt int64
}

// commit is a transaction that waits to be answered.
type commit struct {
	id    int
	at    int // index in the binlog
	done  bool
	lost  bool // the server went away before it answered
	heard func(ok bool)
}

// start runs mysqld on a volume. Crash recovery commits everything that is in the binary log (fact 1), and no role
// survives: the server is read-only, its threads stand still (skip_replica_start), semi-sync is off.
func (w *world) start(in *instance, st *store) {
	if !w.opens(in, st) {
		return
	}
	persisted, now := in.startsWith(st)
	if !now {
		w.say("%s: mysqld does not start with what is persisted", in.member)
		w.bootMySQL(in, w.between(2*second, 5*second))
		return
	}
	boot, shutDown := in.begin()
	s := &mysqld{w: w, startup: startup{started: w.now, memory: fmt.Sprintf("%s/%d", in.ID, w.now), boot: boot, shutDown: shutDown}, ignored: !persisted, on: in, st: st, superReadOnly: true, wait: 1, acks: map[*store]int{}, io: ioOff}
	if st.clone != nil && st.clone.State == mysql.CloneInProgress {
		st.clone = &mysql.CloneProgress{State: mysql.CloneInterrupted, Source: st.clone.Source, Began: st.clone.Began}
		st.seeding++
	}
	for st.committed < len(st.binlog) {
		s.execute(st.binlog[st.committed])
		st.committed++
	}
	in.server = s
	w.readDamaged(s)
	w.roles = true
	w.say("%s: mysqld is up on %s, executed %s, retrieved %s, %s", in.member, in.ID, w.ledger.print(&st.executed), w.ledger.print(&st.retrieved), rowText(st.row))
}

// opens says whether an instance's mysqld comes up on a volume. A version that does not start may have changed the data all the
// same, and what a newer one has opened no older one does.
func (w *world) opens(in *instance, st *store) bool {
	if versionBelow(st.opened, in.version) {
		st.opened = in.version
	}
	if versionBelow(in.version, st.opened) {
		w.fail(tooOld, "%s: mysqld %s is started on what %s has opened", in.member, in.version, st.opened)
	}
	if w.broken[in.version] || versionBelow(in.version, st.opened) {
		w.say("%s: mysqld %s does not start on %s, which %s has opened", in.member, in.version, in.ID, st.opened)
		return false
	}
	return true
}

// versionBelow says whether version a, 9.7.z, is below b. None is below all.
func versionBelow(a, b string) bool {
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// end is kill -9: whoever waits loses the connection, and nobody is answered (fact 1). A power cut also takes what was
// not synced to the disk.
func (s *mysqld) end(powerCut bool) {
	if s.on.server != s {
		return
	}
	s.on.server = nil
	s.w.roles = true
	for _, c := range s.waiting {
		c.lost = true
		c.answer(false)
	}
	s.waiting = nil
	if powerCut && !s.w.cloud.rotation.loses(s) && s.st.synced < len(s.st.relay) {
		keep := s.st.synced + s.w.rng.IntN(len(s.st.relay)-s.st.synced+1)
		s.tear(keep)
	}
	s.w.wake()
}

// tear cuts off the end of the relay log, as a power cut does (fact 11).
func (s *mysqld) tear(keep int) {
	st := s.st
	st.relay = st.relay[:keep]
	st.synced, st.applied = min(st.synced, keep), min(st.applied, keep)
	st.retrieved.clear()
	st.retrieved.changed = true
	for _, id := range st.relay {
		st.retrieved.add(id)
	}
}

// shutdown is a graceful end: it answers OK to everybody who waits (fact 3).
func (s *mysqld) shutdown() {
	for len(s.waiting) > 0 {
		s.finish()
	}
	s.end(false)
	s.on.shutDown = true
}

func (c *commit) answer(ok bool) {
	if c.heard != nil {
		c.heard(ok)
		c.heard = nil
	}
}

// execute makes a transaction visible.
func (s *mysqld) execute(id int) {
	st := s.st
	st.executed.add(id)
	if !s.w.ledger.all[id].harmless {
		st.content.add(id)
	}
	if row := s.w.ledger.all[id].row; row != nil {
		st.row = row
	}
}

// commit writes a transaction of a client, or of the operator when row is set. The server must be writable.
func (s *mysqld) commit(t transaction, heard func(bool)) *commit {
	st := s.st
	t.uuid = st.uuid
	prepared := bitset(nil)
	for _, id := range st.binlog[st.committed:] {
		prepared.add(id)
	}
	t.number = s.w.ledger.next(st.uuid, st.executed.bitset, prepared)
	return s.log(t, heard)
}

// log writes a transaction that has its GTID.
func (s *mysqld) log(t transaction, heard func(bool)) *commit {
	w, st := s.w, s.st
	c := &commit{id: w.ledger.record(t), at: len(st.binlog), heard: heard}
	if twins := w.ledger.twins[c.id]; t.client >= 0 && !t.harmless && !w.forgot && !w.ledger.givenTwice && len(twins) > 0 { // lost records knew what was lost
		w.fail(reissued, "%s commits%s, which another transaction had", s.on.member, w.ledger.names([]int{c.id}))
	}
	st.binlog = append(st.binlog, c.id)
	s.waiting = append(s.waiting, c)
	w.sendToStrangers(s)
	s.release()
	w.wake()
	return c
}

// release answers the commits that have the acknowledgements that they wait for.
func (s *mysqld) release() {
	for len(s.waiting) > 0 {
		if s.waits() && s.acknowledgements(s.waiting[0].at) < s.wait {
			return
		}
		s.w.ledger.acknowledged(s.waiting[0].id)
		s.finish()
	}
}

func (s *mysqld) acknowledgements(at int) int {
	n := 0
	for _, upTo := range s.acks {
		if upTo > at {
			n++
		}
	}
	return n
}

// finish commits the first of those that wait.
func (s *mysqld) finish() {
	c := s.waiting[0]
	s.waiting = s.waiting[1:]
	s.st.committed = c.at + 1
	s.execute(c.id)
	c.done = true
	s.answered++
	s.w.answered(s, c)
	c.answer(true)
}

// setSource switches the source side. Off releases everybody who waits (fact 4).
func (s *mysqld) setSource(on bool) {
	if s.sourceEnabled && !on {
		s.offTimes++
	}
	s.sourceEnabled, s.timedOut = on, false
	s.w.roles = true
	if !on {
		clear(s.acks)
		clear(s.foreign)
	}
	s.release()
	s.w.wake()
}

// sourceSwitch says whether commits of a source wait.
type sourceSwitch struct {
	sourceEnabled bool
	timedOut      bool // a commit has waited for too long, at timedOutAt: it waits for nobody, although it is enabled (fact 38)
	timedOutAt    int64
}

// waits says whether commits wait for acknowledgements.
func (s sourceSwitch) waits() bool { return s.sourceEnabled && !s.timedOut }

// timeOut is a commit that has waited for too long: everybody is answered, until a replica has caught up (fact 38).
func timeOut(s *mysqld) {
	s.offTimes++
	s.timedOut, s.timedOutAt, s.w.roles = true, s.w.now, true
	clear(s.acks)
	clear(s.foreign)
	s.release()
	s.w.wake()
}

// hear takes an acknowledgement that reaches a source, of everything in the binary log up to a position.
func hear(s *mysqld, from *store, upTo int) {
	if !s.sourceEnabled {
		return
	}
	if s.timedOut && upTo == len(s.st.binlog) {
		s.timedOut, s.w.roles = false, true
	}
	if s.waits() {
		s.acks[from] = max(s.acks[from], upTo)
		s.release()
	}
}

func (s *mysqld) setWait(n int) {
	s.wait = n
	s.w.roles = true
	s.release()
}

// knows says whether the server has a transaction or lies to itself that it has: by GTID.
func (s *mysqld) knows(id int) bool {
	st := s.st
	return s.w.ledger.knows(st.executed.bitset, id) || s.w.ledger.knows(st.retrieved.bitset, id) || slices.Contains(st.binlog[st.committed:], id)
}

// observation is what the server says of itself when it is asked.
func (s *mysqld) observation() mysql.Observation {
	st, l := s.st, s.w.ledger
	o := mysql.Observation{
		Access: mysql.AccessVerified, ServerUUID: uuidText(st.uuid), Version: s.on.version, ReadOnly: !s.writable, SuperReadOnly: s.superReadOnly,
		Start: mysql.Start{StartedAt: s.w.at(s.started), Run: s.w.at(s.started).Unix(), Memory: s.memory, Boot: s.boot, ShutDown: s.shutDown}, Executed: l.print(&st.executed), Purged: l.print(&st.purged), MembershipKnown: true,
		SemiSync: mysql.SemiSync{
			SourceEnabled: s.sourceEnabled, SourceActive: s.waits(), WaitCount: s.wait, ReplicaEnabled: s.replicaEnabled,
			ReplicaActive: s.acknowledges && s.io == ioOn, Clients: s.counted(), OffTimes: s.offTimes,
		},
		ClockSkew: s.on.clockAhead, PendingCommits: len(s.waiting), AnsweredCommits: s.answered, Clone: st.clone, Persisted: st.persisted,
		PersistedIgnored: s.ignored, Settings: map[string]string{mysql.RelaySync: relaySyncs[s.unsynced]},
	}
	if !s.waits() {
		o.PendingCommits = 0
	}
	if waiting := st.binlog[st.committed:]; len(waiting) > 0 {
		var set gtidSet
		for _, id := range waiting {
			set.add(id)
		}
		o.Waiting = l.print(&set)
	}
	for _, st := range s.w.strangersOf(s) {
		o.SemiSync.Strangers = append(o.SemiSync.Strangers, mysql.Stranger{Session: st.session, Account: st.name + "@10.0.9.1"})
	}
	if st.row != nil && !st.hollow {
		row := *st.row
		row.Voters, row.Previous, row.Memory = slices.Clone(row.Voters), slices.Clone(row.Previous), maps.Clone(row.Memory)
		o.Membership = &row
	}
	if st.source != "" {
		o.Replication = &mysql.Replication{
			SourceHost: st.source, SourcePort: 3306, IOState: s.io, SQLRunning: s.sqlRunning, Retrieved: l.print(&st.retrieved),
			LastIOError: s.ioError, ReceiverRetries: s.ioRetries, LastSQLError: s.sqlError,
			RelayLogMissing: s.sqlError == errRelayLog.Error(),
			SourceSilence:   -1,
		}
		if s.heard > 0 {
			o.Replication.SourceSilence = time.Duration(s.w.now-s.heard) * time.Millisecond
		}
		if s.sqlRunning && s.io == ioOn {
			lag := 0.0
			if st.applied < len(st.relay) {
				lag = float64(max(s.lagUntil-s.w.now, 0)) / 1000
			}
			o.Replication.LagSeconds = &lag
		}
	}
	return o
}

// counted is how many acknowledging replicas the source counts.
func (s *mysqld) counted() int {
	n := len(s.w.strangersOf(s))
	for _, other := range s.w.cloud.instances {
		if r := other.server; r != nil && r.from == s && r.io == ioOn && r.acknowledges {
			n++
		}
	}
	return n
}

func address(n int) string { return "10.0.0." + strconv.Itoa(n) }

package model

import "math/bits"

const (
	maxMembers      = 5
	maxTransactions = 16
	nobody          = 0xFF
	// onDisk in a row stands for a voter whose relay log is synced before it acknowledges: it needs no certificate.
	onDisk = 0xFF
)

// transactions is a set of transactions, as a GTID set is in the product; members is a set of members.
type (
	transactions uint16
	members      uint8
)

func (t transactions) contains(o transactions) bool { return o&^t == 0 }
func (t transactions) has(id int) bool              { return t&(1<<id) != 0 }

func (m members) has(member int) bool { return m&(1<<member) != 0 }
func (m members) count() int          { return bits.OnesCount8(uint8(m)) }

// only returns the one member of a set that has one, and nobody of another.
func (m members) only() int {
	if m.count() != 1 {
		return nobody
	}
	return bits.TrailingZeros8(uint8(m))
}

// waitFor is W: how many replicas must acknowledge a commit, so that any N−W voters hold it at least once.
func (m members) waitFor() int { return m.count() / 2 }

// transaction is an entry of a binary log: a client's transaction, or one that writes the membership row.
type transaction struct {
	isRow  bool
	server uint8 // the member whose UUID is in its GTID
	row    row
}

// row is the membership row. Its fields are those of topology.Membership; W follows from the voters.
type row struct {
	epoch, primary   uint8
	voters, previous members
	// memory is the certificate of each voter: it held all that it had acknowledged when its memory was this one.
	memory [maxMembers]uint8
}

func (r *row) settled() bool { return r.previous == 0 }

// waitCount is how many acknowledgements the primary waits for: enough for both sets of voters.
func (r *row) waitCount() int { return max(r.voters.waitFor(), r.previous.waitFor()) }

// mayAcknowledge says whether a member's acknowledgements count: it is a voter, and was one before a change under way, or its row asks for
// one acknowledgement more than the row before.
func (r *row) mayAcknowledge(m int) bool {
	return r.voters.has(m) && (r.settled() || r.previous.has(m) || r.voters.waitFor() > r.previous.waitFor())
}

// member is a mysqld with its volume.
type member struct {
	// log is what it holds, in the order of its binary log. Entries from executed on wait for acknowledgements when it is
	// writable, and lie in its relay log when it is not.
	log            [maxTransactions]uint8
	held, executed uint8
	// memory changes with each loss of power. It is the identity that a certificate names.
	memory        uint8
	writable      bool
	channel       bool  // it has a replication channel, running or not
	source        uint8 // whom its IO thread receives from
	receiving     bool  // the IO thread runs
	acknowledging bool
	synced        bool  // sync_relay_log=1: a loss of power takes nothing that it received
	waitFor       uint8 // as a primary: rpl_semi_sync_source_wait_for_replica_count
	// sent is, by source, up to which position of that source's binary log it has sent acknowledgements; answered is, as a
	// source and by replica, up to which position those have arrived. A source keeps them by server_id, so they outlive a
	// restart of the replica.
	sent, answered [maxMembers]uint8
}

// records are what the operator keeps outside the database: the ConfigMap of the product.
type records struct {
	epoch       uint8 // the highest that was planned for a row
	leader      uint8 // the member that was to be opened last; nobody when the records were lost
	leaderEpoch uint8 // the lowest epoch of a row that it can have written since
	doubted     bool  // another member was led on since, without a proof
	// acknowledged is what may have been when a proof named the leader, until that has written a row. Empty when it is not known.
	acknowledged transactions
	ended        term
	// aloneUnknown is set while it is not known whether a primary had acknowledged alone.
	aloneUnknown bool
	leaving      uint8             // the voter whose removal was begun
	certified    [maxMembers]uint8 // used by a broken rule alone: certificates that are in no row
}

// ledLast says whether nobody was opened for writes, or led on, after a member was.
func (r *records) ledLast(m int) bool { return !r.doubted && int(r.leader) == m }

// term is one that the promotion of the present leader is to end. It is not known when that was not promoted, or when it was in doubt or
// forgotten who led in it.
type term struct {
	known               bool
	leader, leaderEpoch uint8
	acknowledged        transactions
}

// recordLeader records who is opened for writes or led on by a proof, and what may be acknowledged by that. A member that is recorded again
// stays in its term.
func (r *records) recordLeader(m int, acknowledged transactions) {
	if !r.ledLast(m) || r.leaderEpoch == 0 {
		r.leader, r.leaderEpoch, r.doubted = uint8(m), r.epoch+1, false
	}
	r.acknowledged, r.ended = acknowledged, term{}
}

// recordPromotion records who is to be promoted, and the term that ends with it.
func (r *records) recordPromotion(m int, acknowledged transactions) {
	ended := r.ended
	if !ended.known || int(r.leader) != m {
		ended = term{true, r.leader, r.leaderEpoch, r.acknowledged}
	}
	if r.doubted || r.leader == nobody {
		ended = term{}
	}
	r.recordLeader(m, acknowledged)
	r.ended = ended
}

// takeBack continues the term that a promotion was to end.
func (r *records) takeBack() {
	r.leader, r.leaderEpoch, r.acknowledged, r.ended = r.ended.leader, r.ended.leaderEpoch, r.ended.acknowledged, term{}
}

// stage is how far a promotion has come.
type stage uint8

const (
	noPromotion stage = iota
	proven            // the candidate is recorded, and is to be opened once it has applied what it received
	opened            // its first row is to be written
)

// promotion is one that an operator carries out. The operator may die between any two of its steps.
type promotion struct {
	stage     stage
	candidate uint8
	rowEpoch  uint8        // of the row that the proof stands on
	mustHold  transactions // what the candidate held when it was chosen
}

// certification is a voter that is to be certified: its memory was seen, then the primary's position was read.
type certification struct {
	voter, primary uint8
	memory         uint8
	mustHold       transactions
}

// spent counts what happened so far of what Bounds limits.
type spent struct {
	writes, powerCuts, kills, promotions, lostRecords, certificates, voterChanges uint8
}

// state is everything that decides what may happen next.
type state struct {
	count        uint8 // of transactions
	transaction  [maxTransactions]transaction
	member       [maxMembers]member
	records      records
	promotion    promotion
	certifying   certification
	acknowledged transactions // what a client was answered: the model knows, nobody in it does
	leads        uint8        // where clients write: the member that was opened, or led on, last
	spent        spent
}

// position is what a member has executed or received.
func (s *state) position(m int) transactions {
	mem := &s.member[m]
	return listed(mem.log[:mem.held])
}

// executed is what a member has committed. Crash recovery keeps it.
func (s *state) executed(m int) transactions {
	mem := &s.member[m]
	return listed(mem.log[:mem.executed])
}

func listed(log []uint8) (set transactions) {
	for _, id := range log {
		set |= 1 << id
	}
	return set
}

// committedBy is what a member has committed under its own UUID.
func (s *state) committedBy(m int) (set transactions) {
	for id := range int(s.count) {
		if int(s.transaction[id].server) == m {
			set |= 1 << id
		}
	}
	return set
}

// ownRow is the row that a member shows: the newest that it has executed. It is the number of the transaction that wrote it.
func (s *state) ownRow(m int) int {
	mem := &s.member[m]
	best := -1
	for _, id := range mem.log[:mem.executed] {
		if s.transaction[id].isRow && (best < 0 || s.transaction[id].row.epoch > s.transaction[best].row.epoch) {
			best = int(id)
		}
	}
	return best
}

// shown is the content of ownRow.
func (s *state) shown(m int) *row { return &s.transaction[s.ownRow(m)].row }

// rowWaits says whether a row waits at a primary for its acknowledgements.
func (s *state) rowWaits(primary int) bool {
	mem := &s.member[primary]
	for _, id := range mem.log[mem.executed:mem.held] {
		if s.transaction[id].isRow {
			return true
		}
	}
	return false
}

// commit adds a transaction and appends it to the binary log of the member that commits it. It waits there.
func (s *state) commit(m int, t transaction) int {
	id := int(s.count)
	t.server = uint8(m)
	s.transaction[id] = t
	s.count++
	s.receive(m, id)
	return id
}

// commitRow commits a row with the next epoch that names the member as the primary.
func (s *state) commitRow(m int, r row) int {
	s.records.epoch++
	r.epoch, r.primary = s.records.epoch, uint8(m)
	return s.commit(m, transaction{isRow: true, row: r})
}

// receive appends a transaction to what a member holds.
func (s *state) receive(m, id int) {
	mem := &s.member[m]
	mem.log[mem.held] = uint8(id)
	mem.held++
}

// stopServer ends mysqld and starts it again, read-only and without replication. Crash recovery commits what a primary had written and
// nobody had acknowledged yet. The connections are gone, and with them the acknowledgements on their way to it.
func (s *state) stopServer(m int) {
	mem := &s.member[m]
	if mem.writable {
		mem.executed = mem.held
	}
	mem.writable, mem.receiving, mem.acknowledging, mem.waitFor = false, false, false, 0
	mem.answered = [maxMembers]uint8{}
	for r := range s.member {
		s.member[r].sent[m] = 0
	}
}

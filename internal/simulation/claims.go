package simulation

import (
	"fmt"
	"slices"
)

// claims are the GTIDs of a server that a person made it count as executed.
type claims struct {
	// sent are those that it claims since its receiver connected: the source sends these transactions all the same (fact 39).
	sent bitset
}

// claim has a replica count as executed what its primary is to commit next: SET GLOBAL gtid_purged.
func claim(s *mysqld, primary *mysqld, transactions int) error {
	if primary == nil || s == primary {
		return fmt.Errorf("%s replicates from nobody that takes writes", s.on.member)
	}
	w, uuid := s.w, primary.st.uuid
	prepared := bitset(nil)
	for _, id := range primary.st.binlog[primary.st.committed:] {
		prepared.add(id)
	}
	next := w.ledger.next(uuid, primary.st.executed.bitset, prepared)
	w.ledger.givenTwice = true
	for n := range transactions {
		id := w.ledger.record(transaction{uuid: uuid, number: next + n, client: -1, harmless: true})
		s.st.executed.add(id)
		s.st.purged.add(id)
		s.claims.sent.add(id)
	}
	w.wake()
	return nil
}

// resetGTIDs has a server forget which transactions it executed, and its binary log with them: RESET BINARY LOGS AND GTIDS. Its replicas are cut
// off (fact 40).
func resetGTIDs(s *mysqld) error {
	st := s.st
	if st.committed < len(st.binlog) {
		return fmt.Errorf("commits wait on %s", s.on.member)
	}
	s.w.ledger.givenTwice = true
	st.executed.clear()
	st.purged.clear()
	st.binlog, st.committed, st.dropped = nil, 0, 0
	clear(s.acks)
	for _, in := range s.w.cloud.instances {
		if r := in.server; r != nil && r.from == s {
			r.disconnect(ioOff)
			r.ioRetries, r.ioError = false, "error 1236: could not find next log"
		}
	}
	s.w.wake()
	return nil
}

// isSent says whether a source sends a transaction although the server claims it: it did not when the receiver connected.
func isSent(s *mysqld, id int) bool {
	return !s.st.executed.has(id) && !s.st.retrieved.has(id) && slices.ContainsFunc(s.w.ledger.twins[id], s.claims.sent.has)
}

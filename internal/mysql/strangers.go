package mysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Semi-synchronous replication counts the acknowledgements of every replica that asks for it, whoever that is: a source has no
// list of those whose word counts. So the operator finds the sessions that acknowledge and are not the members', and has the source
// wait for as many more acknowledgements.

const (
	// strangerThreads are the sessions that read the binary log with semi-sync on and another account than the members'. A
	// replica asks for semi-sync by a user variable, whose name was rpl_semi_sync_slave before MySQL 8.0.26.
	strangerThreads = `FROM performance_schema.threads WHERE PROCESSLIST_COMMAND IN ('Binlog Dump', 'Binlog Dump GTID') AND PROCESSLIST_USER <> '` + ReplicationUser + `'
		AND EXISTS (SELECT 1 FROM performance_schema.user_variables_by_thread v WHERE v.THREAD_ID = threads.THREAD_ID
			AND v.VARIABLE_NAME IN ('rpl_semi_sync_replica', 'rpl_semi_sync_slave') AND v.VARIABLE_VALUE NOT IN ('', '0'))`

	// strangerSessions reads them as facts.
	strangerSessions = `SELECT '` + factStranger + `', CONVERT(PROCESSLIST_ID USING utf8mb4), CONVERT(CONCAT(PROCESSLIST_USER, '@', PROCESSLIST_HOST) USING utf8mb4) ` + strangerThreads
)

// Variables with which a server turns clients or their writes away.
const (
	offlineMode         = "offline_mode"
	transactionReadOnly = "transaction_read_only"
)

// refusing returns those that do, with the value that does not. transaction_read_only may be asked for in the spec; the
// caller knows.
func refusing(settings map[string]string) map[string]string {
	found := map[string]string{}
	for _, name := range []string{offlineMode, transactionReadOnly} {
		if isOn(settings[name]) {
			found[name] = "OFF"
		}
	}
	return found
}

// Stranger is the session of a replica that acknowledges and is no member.
type Stranger struct {
	// Session is its connection id on the source: a replica that connects again has another one.
	Session uint64
	// Account is whose session it is, as user@host.
	Account string
}

// strangersIn returns them from accounts by connection id, in order.
func strangersIn(facts map[string]string) []Stranger {
	var found []Stranger
	for session, account := range facts {
		if id, err := strconv.ParseUint(session, 10, 64); err == nil {
			found = append(found, Stranger{id, account})
		}
	}
	slices.SortFunc(found, func(a, b Stranger) int { return cmp.Compare(a.Session, b.Session) })
	return found
}

// countStrangers counts the sessions that acknowledge and are not the members'.
func countStrangers(ctx context.Context, s *session) (int, error) {
	var n int
	if err := s.row(ctx, "SELECT COUNT(*) "+strangerThreads, nil, &n); err != nil {
		return 0, fmt.Errorf("count the replicas that are no members and acknowledge: %w", err)
	}
	return n, nil
}

// DisconnectStrangers ends the sessions that read the member's binary log with semi-sync on and do not belong to the replication
// account of the members. Their replicas connect again at once: it helps against sessions whose replica is gone or hangs.
func (m *Member) DisconnectStrangers(ctx context.Context) (err error) {
	defer m.annotate(&err, "disconnect replicas that are no members")
	return m.control(ctx, func(s *session) error {
		_, err := endSessions(ctx, s, "SELECT PROCESSLIST_ID "+strangerThreads)
		return err
	})
}

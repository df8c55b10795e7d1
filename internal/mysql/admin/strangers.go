package admin

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// Semi-synchronous replication counts the acknowledgements of every replica that asks for it, whoever that is: a source has no
// list of those whose word counts. So the operator finds the sessions that acknowledge and are not the members', and has the source
// wait for as many more acknowledgements.

// countStrangers counts the sessions that acknowledge and are not the members'.
func countStrangers(ctx context.Context, s *conn.Session) (int, error) {
	var n int
	if err := s.Row(ctx, "SELECT COUNT(*) "+observe.StrangerThreads, nil, &n); err != nil {
		return 0, fmt.Errorf("count the replicas that are no members and acknowledge: %w", err)
	}
	return n, nil
}

// DisconnectStrangers ends the sessions that read the member's binary log with semi-sync on and do not belong to the replication
// account of the members. Their replicas connect again at once: it helps against sessions whose replica is gone or hangs.
func (m *Member) DisconnectStrangers(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "disconnect replicas that are no members")
	return m.h.Control(ctx, func(s *conn.Session) error {
		_, err := conn.EndSessions(ctx, s, "SELECT PROCESSLIST_ID "+observe.StrangerThreads)
		return err
	})
}

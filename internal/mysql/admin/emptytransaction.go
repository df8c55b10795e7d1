package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// emptyTransaction is logged as a transaction of its own, whether or not there is such a table, and touches no row and no lock of
// anybody's. Each session names another table: one that waits for its acknowledgement holds the lock on the name.
const emptyTransaction = "DROP TABLE IF EXISTS nairobi_mysql.nudge_%d"

// acknowledgedWithin is how long a commit of the operator's own may wait for its acknowledgement: as long as it does nobody looks at the members,
// nor says in status that writes wait. It is tried again.
const acknowledgedWithin = 5 * time.Second

// commit is Change of a statement that waits for acknowledgements.
func commit(ctx context.Context, s *conn.Session, op, query string, args ...any) error {
	return s.ChangeWithin(ctx, min(s.Options().ChangeTimeout, acknowledgedWithin), op, query, args...)
}

// CommitEmptyTransaction commits an empty transaction on a primary. A replica acknowledges only what it receives while it does so: what it
// had received before stays unacknowledged, and its commit waits, until something newer is acknowledged, which covers all
// that precedes it. On a primary that nobody else writes to that would be never.
//
// It needs the writing session only as the proof that we are the one writer: the commit that it is to release may well be
// the operator's own. It fails with ErrCommitsPending when it is not acknowledged either.
func (m *Member) CommitEmptyTransaction(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "commit an empty transaction")
	return m.h.Control(ctx, func(control *conn.Session) error { return m.commitEmptyBeside(ctx, control) })
}

// commitEmptyBeside commits an empty transaction in a session beside the writing session.
func (m *Member) commitEmptyBeside(ctx context.Context, control *conn.Session) error {
	s, err := m.h.DialBeside(ctx, control)
	if err != nil {
		return conn.Unreachable(err)
	}
	defer s.Close()
	if err := commit(ctx, s, "nudge", fmt.Sprintf(emptyTransaction, s.ID())); err != nil {
		if errors.Is(err, conn.ErrDeadline) {
			return conn.PendingOr(ctx, control, err)
		}
		return err
	}
	return nil
}

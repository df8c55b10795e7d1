package admin

import (
	"context"
	"errors"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// coverAfter is how long a commit may wait before something newer is committed after it.
const coverAfter = 100 * time.Millisecond

// AdoptTransactions commits on a primary an empty transaction under each of these GTIDs, each uuid:number. One that the primary has
// executed is left as it is. A replica that has such a transaction does not receive it, and so does not acknowledge it; when nobody else
// does, another empty transaction follows, which the replica acknowledges and which covers what precedes it.
//
// It fails with ErrCommitsPending when that is not acknowledged either. What was committed by then stays.
func (m *Member) AdoptTransactions(ctx context.Context, gtids []string) (err error) {
	defer m.h.Annotate(&err, "adopt transactions that change no data")
	return m.h.Control(ctx, func(control *conn.Session) error {
		return m.h.TransactUnder(ctx, control, func(s *conn.Session) error {
			for _, id := range gtids {
				if err := m.adoptTransaction(ctx, control, s, id); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// adoptTransaction commits one of them, and has it covered when its commit waits.
func (m *Member) adoptTransaction(ctx context.Context, control, s *conn.Session, id string) error {
	ended := make(chan error, 1)
	go func() { ended <- commitEmptyAs(ctx, s, id) }()
	timer := time.NewTimer(coverAfter)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
	}
	covered := m.commitEmptyBeside(ctx, control)
	return errors.Join(<-ended, covered)
}

// commitEmptyAs commits an empty transaction under a GTID. The end of the session before the commit gives the GTID back.
func commitEmptyAs(ctx context.Context, s *conn.Session, id string) error {
	for _, step := range []struct{ op, query string }{
		{"adopt-transactions/next", "SET SESSION gtid_next = " + conn.QuoteText(id)},
		{"adopt-transactions/begin", "BEGIN"},
		{"adopt-transactions/commit", "COMMIT"},
		{"adopt-transactions/automatic", "SET SESSION gtid_next = 'AUTOMATIC'"},
	} {
		if err := s.Change(ctx, step.op, step.query); err != nil {
			return err
		}
	}
	return nil
}

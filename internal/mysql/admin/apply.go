package admin

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// ApplyReceived starts the applier of a member that stands still although its relay log holds more, and waits until the
// given transactions are executed. A member that restarted stands still until somebody starts it; what it acknowledged
// lies in its relay log. A former primary that receives already may still wait for acknowledgements itself, as its applier
// would (fact 7): that ends before. Sessions of clients that hold the applier up are ended. Errors are those of WaitApplied, and ErrCommitsPending.
func (m *Member) ApplyReceived(ctx context.Context, gtids string, timeout time.Duration) (err error) {
	defer m.h.Annotate(&err, "apply what was received")
	return m.h.Control(ctx, func(s *conn.Session) error {
		status, err := observe.ReplicationStatus(ctx, s)
		if err != nil {
			return err
		}
		if status != nil && !status.SQLRunning {
			applied, err := retrievedApplied(ctx, s)
			if err != nil {
				return err
			}
			if !applied {
				if err := leaveSource(ctx, s); err != nil {
					return err
				}
				if err := s.Change(ctx, "promote/start-applier", "START REPLICA SQL_THREAD"); err != nil {
					return err
				}
			}
		}
		return applyAll(ctx, s, gtids, timeout)
	})
}

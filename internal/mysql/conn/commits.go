package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// PendingOr makes err an ErrCommitsPending when sessions wait for acknowledgements.
func PendingOr(ctx context.Context, s *Session, err error) error {
	if waiting, e := PendingCommits(ctx, s); e == nil && waiting > 0 {
		return fmt.Errorf("%w (%d): %w", mysql.ErrCommitsPending, waiting, err)
	}
	return err
}

// PendingCommits counts the sessions that wait for a semi-sync acknowledgement.
func PendingCommits(ctx context.Context, s *Session) (int, error) {
	var waiting int
	err := s.Row(ctx, `SELECT COALESCE(MAX(CAST(VARIABLE_VALUE AS SIGNED)), 0) FROM performance_schema.global_status
		WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_wait_sessions'`, nil, &waiting)
	if err != nil {
		return 0, fmt.Errorf("count the waiting commits: %w", err)
	}
	return waiting, nil
}

// RefuseWhilePending fails with ErrCommitsPending when sessions wait for a semi-sync acknowledgement.
func RefuseWhilePending(ctx context.Context, s *Session) error {
	waiting, err := PendingCommits(ctx, s)
	if err == nil && waiting > 0 {
		err = fmt.Errorf("%w (%d)", mysql.ErrCommitsPending, waiting)
	}
	return err
}

// refuseUnacknowledged fails when a commit would wait because fewer replicas are connected than have to acknowledge it. A statement that
// changes a table's definition keeps everybody from reading the table while its commit waits, and cannot be ended (fact 2).
func refuseUnacknowledged(ctx context.Context, s *Session) error {
	var clients, needed int
	err := s.Row(ctx, `SELECT COALESCE(MAX(CAST(VARIABLE_VALUE AS SIGNED)), 0),
			COALESCE((SELECT CAST(c.VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_variables AS c JOIN performance_schema.global_variables AS e
				WHERE c.VARIABLE_NAME = 'rpl_semi_sync_source_wait_for_replica_count' AND e.VARIABLE_NAME = 'rpl_semi_sync_source_enabled' AND e.VARIABLE_VALUE = 'ON'), 0)
		FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_clients'`, nil, &clients, &needed)
	if err != nil {
		return fmt.Errorf("count the replicas that acknowledge: %w", err)
	}
	if clients < needed {
		return fmt.Errorf("%d replicas acknowledge, and a commit waits for %d", clients, needed)
	}
	return nil
}

// Pause waits, unless ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

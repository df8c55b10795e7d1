package mysql

import (
	"context"
	"fmt"
	"time"
)

// pendingOr makes err an ErrCommitsPending when sessions wait for acknowledgements.
func pendingOr(ctx context.Context, s *session, err error) error {
	if waiting, e := pendingCommits(ctx, s); e == nil && waiting > 0 {
		return fmt.Errorf("%w (%d): %w", ErrCommitsPending, waiting, err)
	}
	return err
}

// pendingCommits counts the sessions that wait for a semi-sync acknowledgement.
func pendingCommits(ctx context.Context, s *session) (int, error) {
	var waiting int
	err := s.row(ctx, `SELECT COALESCE(MAX(CAST(VARIABLE_VALUE AS SIGNED)), 0) FROM performance_schema.global_status
		WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_wait_sessions'`, nil, &waiting)
	if err != nil {
		return 0, fmt.Errorf("count the waiting commits: %w", err)
	}
	return waiting, nil
}

// refuseWhilePending fails with ErrCommitsPending when sessions wait for a semi-sync acknowledgement.
func refuseWhilePending(ctx context.Context, s *session) error {
	waiting, err := pendingCommits(ctx, s)
	if err == nil && waiting > 0 {
		err = fmt.Errorf("%w (%d)", ErrCommitsPending, waiting)
	}
	return err
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// MySQL lets any account take a lock by its name. Here is how the operator gets one that others want too: a session waits in the lock's
// queue, which MySQL serves in order, while another session ends those that are ahead. To ask without waiting would never be served while
// there are others who wait.

const (
	// takeOverTries and takeOverPause bound the attempts without a second session, on a full server: two seconds in all.
	takeOverTries = 20
	takeOverPause = 100 * time.Millisecond
	// queueWait, in seconds, bounds the wait in the queue, and queuePause is how often those ahead are ended meanwhile.
	queueWait  = 3
	queuePause = 20 * time.Millisecond
)

// errLockTaken is a lock of ours that another session of ours has.
var errLockTaken = errors.New("another session of the operator has the lock")

// seize takes controlLock for s, whoever holds it. got is false when those who are ahead did not go.
func (m *Handle) seize(ctx context.Context, s *Session) (got bool, err error) {
	end := func(ctx context.Context, by *Session) error {
		if _, err := EndSessions(ctx, by, strangers(controlLock)); err != nil {
			return err
		}
		return killHolder(ctx, by, s, controlLock)
	}
	for range takeOverTries {
		if got, err = tryLock(ctx, s, controlLock); err != nil || got {
			return got, err
		}
		if err := end(ctx, s); err != nil {
			return false, err
		}
		helper, err := m.pool.dial(ctx, m.e, verified)
		if err == nil {
			got, err = queue(ctx, s, helper, controlLock, end)
			helper.Close()
			return got, err
		}
		if !answered(err) {
			return false, err
		}
		if err := Pause(ctx, takeOverPause); err != nil {
			return false, err
		}
	}
	return false, nil
}

// takeFromClients takes a lock for s, also from clients, which helper ends. It fails with errLockTaken when another session of the operator
// has it, and with ErrLockHeld when the clients did not go.
func takeFromClients(ctx context.Context, s, helper *Session, lock string) error {
	got, err := tryLock(ctx, s, lock)
	if err != nil || got {
		return err
	}
	if err := refuseOwn(ctx, helper, lock); err != nil {
		return err
	}
	got, err = queue(ctx, s, helper, lock, func(ctx context.Context, by *Session) error {
		_, err := EndSessions(ctx, by, strangers(lock))
		return err
	})
	if err != nil || got {
		return err
	}
	if err := refuseOwn(ctx, helper, lock); err != nil {
		return err
	}
	return mysql.ErrLockHeld
}

// refuseOwn fails with errLockTaken when a session of the operator has the lock.
func refuseOwn(ctx context.Context, s *Session, lock string) error {
	var own bool
	const query = "SELECT COUNT(*) FROM performance_schema.processlist WHERE ID = IS_USED_LOCK(?) AND USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
	if err := s.Row(ctx, query, []any{lock}, &own); err != nil {
		return err
	}
	if own {
		return errLockTaken
	}
	return nil
}

// tryLock takes a lock that nobody holds.
func tryLock(ctx context.Context, s *Session, lock string) (bool, error) {
	var got sql.Null[int64]
	err := s.Row(ctx, "SELECT GET_LOCK(?, 0)", []any{lock}, &got)
	return got.V == 1, err
}

// queue waits for a lock in s, and ends those who are ahead in helper meanwhile. With an error s is of no use any more.
func queue(ctx context.Context, s, helper *Session, lock string, end func(context.Context, *Session) error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queueWait*time.Second+s.pool.options.StatementTimeout)
	defer cancel()
	var got sql.Null[int64]
	done := make(chan error, 1)
	go func() { done <- s.LongRow(ctx, fmt.Sprintf("SELECT GET_LOCK('%s', %d)", lock, queueWait), &got) }()
	for {
		select {
		case err := <-done:
			return got.V == 1, err
		case <-time.After(queuePause):
			if err := end(ctx, helper); err != nil {
				cancel()
				return false, errors.Join(err, <-done)
			}
		}
	}
}

// killHolder has a session kill the one that holds the lock, if there is one and it is not s.
func killHolder(ctx context.Context, by, s *Session, lock string) error {
	var holder sql.Null[uint64]
	if err := by.Row(ctx, "SELECT IS_USED_LOCK(?)", []any{lock}, &holder); err != nil {
		return err
	}
	if !holder.Valid || holder.V == s.id {
		return nil
	}
	return by.Kill(ctx, holder.V)
}

// strangers are the clients' sessions that hold a lock of ours or wait for it: MySQL asks for no privilege. Who holds it is found also where
// metadata locks are not shown.
func strangers(lock string) string {
	return `SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE (PROCESSLIST_ID = IS_USED_LOCK('` + lock + `') OR THREAD_ID IN (
		SELECT OWNER_THREAD_ID FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND OBJECT_NAME = '` + lock + `')) AND ` + OfClients
}

// killIdle kills the session that holds the lock, if there is one and it runs no statement.
func killIdle(ctx context.Context, s *Session, lock string) error {
	var idle sql.Null[uint64]
	// Not by INFO, which is empty now and then while CLONE runs.
	err := s.Row(ctx, "SELECT MAX(ID) FROM performance_schema.processlist WHERE ID = IS_USED_LOCK(?) AND COMMAND = 'Sleep'", []any{lock}, &idle)
	if err != nil || !idle.Valid {
		return err
	}
	return s.Kill(ctx, idle.V)
}

package podclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// freezeWait and freezeWaitServing, in seconds, are how long the global read lock may wait for statements that run: on a
	// replica, where nothing else commits meanwhile and nobody's acknowledgement waits for that, and on a server that clients
	// write to, whose writes wait behind it: well below what the operator's probe takes for an outage.
	freezeWait, freezeWaitServing = 10, 2
	// freezeAttempts and freezePause: a statement that runs for longer is waited for without holding anybody up.
	freezeAttempts = 6
	freezePause    = 10 * time.Second
	// freezeLife, in seconds, is how long the server keeps the lock of a pod that is no longer there.
	freezeLife = 30
)

// Freeze lets nothing commit on the server until Thaw. What else wants a view of this very moment takes it meanwhile:
// mysqldump, which takes the same lock for a moment (both hold it at the same time, tried on 9.7.4), and the session of
// TakeSnapshot. The lock does not outlive the connection; nothing else should be asked on that, so that closing it gives the lock
// back at once. serving says that clients write to the server. asking is called right before each attempt at the lock: from then on
// whoever writes waits, until the attempt is in vain or the lock is given back.
func (v *Visit) Freeze(ctx context.Context, serving bool, asking func()) error {
	limit := freezeWait
	if serving {
		limit = freezeWaitServing
	}
	if err := v.exec(ctx, "SET SESSION lock_wait_timeout = ?, SESSION wait_timeout = ?", limit, freezeLife); err != nil {
		return fmt.Errorf("prepare the lock: %w", err)
	}
	for attempt := 1; ; attempt++ {
		// Whatever runs long is waited for by the first, which holds up nobody but who wants the same tables.
		err := v.exec(ctx, "FLUSH LOCAL TABLES")
		if err == nil {
			asking()
			err = v.exec(ctx, "FLUSH TABLES WITH READ LOCK")
		}
		if err == nil {
			return nil
		}
		if !conn.IsServerError(err, mysql.ErLockWaitTimeout) || attempt == freezeAttempts {
			if conn.IsServerError(err, mysql.ErLockWaitTimeout) {
				err = errors.Join(mysql.ErrBlocked, err)
			}
			return fmt.Errorf("lock the server for a moment: %w", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(freezePause):
		}
	}
}

// Prepared counts the distributed transactions that are prepared on the server (XA PREPARE) and neither committed nor rolled back. Each
// has a GTID already, and what it wrote is in no snapshot.
func (v *Visit) Prepared(ctx context.Context) (int, error) {
	count := 0
	err := v.s.Rows(ctx, "XA RECOVER", nil, func(*sql.Rows) error { count++; return nil })
	switch {
	case conn.IsServerError(err, mysql.ErXAERRMErr):
		return 0, errors.New("look for prepared transactions: the account may not, which the operator mends within ten minutes (XA_RECOVER_ADMIN)")
	case err != nil:
		return 0, fmt.Errorf("look for prepared transactions: %w", err)
	}
	return count, nil
}

// Thaw ends Freeze.
func (v *Visit) Thaw(ctx context.Context) error {
	if err := v.exec(ctx, "UNLOCK TABLES"); err != nil {
		return fmt.Errorf("unlock the server: %w", err)
	}
	return nil
}

// TakeSnapshot gives the session a view of the database as it is now, which it keeps until the connection is closed.
func (v *Visit) TakeSnapshot(ctx context.Context) error {
	for _, statement := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	} {
		if err := v.exec(ctx, statement); err != nil {
			return fmt.Errorf("take a snapshot of the database: %w", err)
		}
	}
	return nil
}

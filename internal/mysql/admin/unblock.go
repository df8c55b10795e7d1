package admin

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// appliers are the threads that apply what a replica receives.
const appliers = `(SELECT THREAD_ID FROM performance_schema.replication_applier_status_by_worker WHERE CHANNEL_NAME = ''
	UNION SELECT THREAD_ID FROM performance_schema.replication_applier_status_by_coordinator WHERE CHANNEL_NAME = '')`

// obstacles are the clients' sessions that an applier of this server waits for: for a lock on a table, a schema or the server
// (LOCK TABLES, FLUSH TABLES WITH READ LOCK, a transaction that has read a table which is to be altered), or for locks on rows (SELECT ...
// FOR SHARE; 9.7.4 refuses FOR UPDATE). super_read_only forbids none of them, and the applier waits for a year.
const obstacles = `SELECT DISTINCT PROCESSLIST_ID FROM performance_schema.threads JOIN (
	SELECT held.OWNER_THREAD_ID AS HOLDER FROM performance_schema.metadata_locks waits JOIN performance_schema.metadata_locks held
		ON held.OBJECT_TYPE = waits.OBJECT_TYPE AND held.OBJECT_SCHEMA <=> waits.OBJECT_SCHEMA AND held.OBJECT_NAME <=> waits.OBJECT_NAME
		WHERE waits.LOCK_STATUS = 'PENDING' AND held.LOCK_STATUS = 'GRANTED' AND waits.OWNER_THREAD_ID IN ` + appliers + `
	UNION SELECT BLOCKING_THREAD_ID FROM performance_schema.data_lock_waits WHERE REQUESTING_THREAD_ID IN ` + appliers + `
	) blocking ON THREAD_ID = HOLDER WHERE ` + conn.OfClients

// serverLocks are the clients' sessions that lock the whole server: with LOCK INSTANCE FOR BACKUP, under which STOP REPLICA is refused
// (fact 13), or with FLUSH TABLES WITH READ LOCK, under which nobody could write to a new primary.
const serverLocks = `SELECT DISTINCT PROCESSLIST_ID FROM performance_schema.threads JOIN performance_schema.metadata_locks ON OWNER_THREAD_ID = THREAD_ID
	WHERE OBJECT_TYPE IN ('BACKUP LOCK', 'GLOBAL', 'COMMIT') AND LOCK_TYPE = 'SHARED' AND LOCK_STATUS = 'GRANTED' AND ` + conn.OfClients

// clients are the sessions of clients, without those whose commit waits for an acknowledgement.
const clients = `SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE TYPE = 'FOREGROUND' AND PROCESSLIST_COMMAND NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID')
	AND COALESCE(PROCESSLIST_STATE, '') NOT LIKE 'Waiting for semi-sync ACK%' AND ` + conn.OfClients

// hiddenWait asks whether an applier waits for a lock that performance_schema.metadata_locks shows nobody to hold: it was taken, or asked
// for, while the instrument was off. The state of a thread shows the wait all the same.
const hiddenWait = `SELECT COUNT(*) > 0 FROM performance_schema.threads applier WHERE THREAD_ID IN (` + appliers + `) AND PROCESSLIST_STATE LIKE 'Waiting for % lock' AND NOT EXISTS (
	SELECT 1 FROM performance_schema.metadata_locks waits JOIN performance_schema.metadata_locks held
		ON held.OBJECT_TYPE = waits.OBJECT_TYPE AND held.OBJECT_SCHEMA <=> waits.OBJECT_SCHEMA AND held.OBJECT_NAME <=> waits.OBJECT_NAME
		WHERE waits.OWNER_THREAD_ID = applier.THREAD_ID AND waits.LOCK_STATUS = 'PENDING' AND held.LOCK_STATUS = 'GRANTED' AND held.OWNER_THREAD_ID <> applier.THREAD_ID)`

// lockInstruments are what performance_schema.metadata_locks needs to show the locks that are taken from then on. Anybody who may write to
// the Performance Schema switches them off.
var lockInstruments = []string{
	"UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'global_instrumentation'",
	"UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'",
}

const (
	// endingTries and endingPause bound the wait for sessions that were killed to give their locks back: two seconds in all.
	endingTries = 40
	endingPause = 50 * time.Millisecond
)

// watchLocks has the locks shown that are taken from now on, where somebody has switched that off.
func watchLocks(ctx context.Context, s *conn.Session) error {
	var blind bool
	if err := s.Row(ctx, conn.Blindness, nil, &blind); err != nil || !blind {
		return err
	}
	s.Options().Logger.Info("the Performance Schema shows no metadata locks; switching global_instrumentation and wait/lock/metadata/sql/mdl on")
	_, err := enableLockInstruments(ctx, s)
	return err
}

// enableLockInstruments switches lockInstruments on. locked says that a lock keeps everybody from writing to a table, even to these:
// FLUSH TABLES WITH READ LOCK, whether or not it is shown.
func enableLockInstruments(ctx context.Context, s *conn.Session) (locked bool, err error) {
	for _, update := range lockInstruments {
		switch err := s.Change(ctx, "unblock/watch-locks", update); {
		case conn.IsServerError(err, mysql.ErLockWaitTimeout):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// endAndAwait ends the sessions that a query finds, waits a while until they are gone, and counts them.
func endAndAwait(ctx context.Context, s *conn.Session, which string) (int, error) {
	ended, err := conn.EndSessions(ctx, s, which)
	if err != nil || len(ended) == 0 {
		return 0, err
	}
	for range endingTries {
		var left int
		const present = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL AND FIND_IN_SET(PROCESSLIST_ID, ?)"
		if err := s.Row(ctx, present, []any{conn.List(ended)}, &left); err != nil || left == 0 {
			return len(ended), err
		}
		if err := conn.Pause(ctx, endingPause); err != nil {
			return len(ended), err
		}
	}
	return len(ended), nil
}

// endHidden ends all clients' sessions, because what one of them holds stands in the way and nobody sees which.
func endHidden(ctx context.Context, s *conn.Session, inTheWay string) error {
	ended, err := endAndAwait(ctx, s, clients)
	s.Options().Logger.Info("ended the sessions of all clients, because one of them holds a lock that the Performance Schema does not show", "inTheWayOf", inTheWay, "sessions", ended)
	return err
}

// unlockServer ends the clients' sessions that lock the whole server. Locks that are not shown are found by what they refuse: the global
// read lock here, and LOCK INSTANCE FOR BACKUP by STOP REPLICA.
func unlockServer(ctx context.Context, s *conn.Session) error {
	if err := watchLocks(ctx, s); err != nil {
		return err
	}
	if _, err := endAndAwait(ctx, s, serverLocks); err != nil {
		return err
	}
	locked, err := enableLockInstruments(ctx, s)
	if err != nil || !locked {
		return err
	}
	if err := endHidden(ctx, s, "writes"); err != nil {
		return err
	}
	_, err = enableLockInstruments(ctx, s)
	return err
}

// clearTheWay ends the clients' sessions on a replica that keep its applier from what it has received. Only what cannot wait calls it:
// a member that is to be promoted, or pointed at another primary, whose clients' writes wait for it, or that is to be seeded anew. What
// they read, they read again.
func clearTheWay(ctx context.Context, s *conn.Session) error {
	if err := watchLocks(ctx, s); err != nil {
		return err
	}
	var hidden bool
	if err := s.Row(ctx, hiddenWait, nil, &hidden); err != nil {
		return err
	}
	if ended, err := conn.EndSessions(ctx, s, obstacles); err != nil || len(ended) > 0 || !hidden {
		return err
	}
	// Once more: it may have begun to wait, or got the lock, while it was looked at.
	if err := s.Row(ctx, hiddenWait, nil, &hidden); err != nil || !hidden {
		return err
	}
	return endHidden(ctx, s, "an applier")
}

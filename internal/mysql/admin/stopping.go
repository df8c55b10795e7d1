package admin

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// StopIOThread stops receiving, and with it acknowledging, and checks that it did. A member without a channel is done.
// It works where STOP REPLICA as a whole does not: under LOCK INSTANCE FOR BACKUP (fact 13) and local row locks (fact 27).
func (m *Member) StopIOThread(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "stop receiving")
	return m.h.Control(ctx, func(s *conn.Session) error { return stopIOThread(ctx, s) })
}

func stopIOThread(ctx context.Context, s *conn.Session) error {
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil || status == nil || status.IOState == mysql.IOOff {
		return err
	}
	if err := s.Change(ctx, "replicate/stop-io", "STOP REPLICA IO_THREAD"+ofOurs); err != nil {
		return err
	}
	if status, err = observe.ReplicationStatus(ctx, s); err == nil && status != nil && status.IOState != mysql.IOOff {
		err = fmt.Errorf("%w: the IO thread is %s", mysql.ErrStepNotEffective, status.IOState)
	}
	return err
}

// stopReplica stops both threads and checks that they did.
func stopReplica(ctx context.Context, s *conn.Session) error {
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil || status == nil || (status.IOState == mysql.IOOff && !status.SQLRunning) {
		return err
	}
	if err := stopThreads(ctx, s, "STOP REPLICA"+ofOurs); err != nil {
		return err
	}
	if status, err = observe.ReplicationStatus(ctx, s); err == nil && status != nil && (status.IOState != mysql.IOOff || status.SQLRunning) {
		err = fmt.Errorf("%w: IO thread %s, applier running: %t", mysql.ErrStepNotEffective, status.IOState, status.SQLRunning)
	}
	return err
}

// stopApplier stops the applier of a channel. What it was doing when the time was over ends after that.
func stopApplier(ctx context.Context, s *conn.Session) error {
	return stopThreads(ctx, s, "STOP REPLICA SQL_THREAD"+ofOurs)
}

// stopThreads runs a statement that stops an applier, alone or with the receiver.
func stopThreads(ctx context.Context, s *conn.Session, statement string, args ...any) error {
	if err := s.Change(ctx, "replicate/bound-stop", "SET GLOBAL rpl_stop_replica_timeout = ?", stopReplicaTimeout); err != nil {
		return err
	}
	// It would hang behind whatever an applier waits for (fact 27).
	if err := clearTheWay(ctx, s); err != nil {
		return err
	}
	err := s.Change(ctx, "replicate/stop", statement, args...)
	for _, unlock := range []func(context.Context, *conn.Session) error{unlockServer, endBackup} {
		if !conn.IsServerError(err, mysql.ErCantStopReplicaWhileLockedBackup) {
			break
		}
		if err := unlock(ctx, s); err != nil {
			return err
		}
		err = s.Change(ctx, "replicate/stop", statement, args...)
	}
	return err
}

// endBackup ends the backup whose lock refuses STOP REPLICA and is not shown: it is a client's.
func endBackup(ctx context.Context, s *conn.Session) error { return endHidden(ctx, s, "STOP REPLICA") }

package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

const (
	// applyWait bounds the wait for the applier before a change of source. Longer waits are the caller's, in passes.
	applyWait = 5 * time.Second
	// receiverWait bounds that before a change of the receiver alone.
	receiverWait = time.Second
	// applyStep is how often the wait looks whether the applier still runs.
	applyStep = time.Second
	// stopReplicaTimeout, in seconds, lets a STOP REPLICA that hangs behind a local lock (fact 27) return with an error
	// before our own deadline. MySQL's default is a year.
	stopReplicaTimeout = 8
	// applierWorkers is how many workers apply unless spec.mysqld says otherwise. They wait for the disk most of the time: on two vCPUs 16
	// apply 2.4 times as much as MySQL's default of 4 (docs/benchmarks.md).
	applierWorkers = 16
)

// ReplicateFrom makes the member a replica of the source at host and port, with auto-position and mutual TLS, and starts
// both threads. Nothing is done when it is that already. Received transactions are applied before the source changes,
// because the change can delete the relay log (facts 12, 24): until they are, the error is ErrNotApplied or ErrApplierStopped.
// host must be a name in the source's certificate.
// Channels of other names end: what they write is no other member's.
func (m *Member) ReplicateFrom(ctx context.Context, sourceHost string, port int) (err error) {
	defer m.h.Annotate(&err, "replicate from "+sourceHost)
	if err := checkHost(sourceHost); err != nil {
		return err
	}
	if err := checkPort(port); err != nil {
		return err
	}
	return m.h.Control(ctx, func(s *conn.Session) error {
		status, err := observe.ReplicationStatus(ctx, s)
		if err != nil {
			return err
		}
		if status == nil {
			return joinSource(ctx, s, sourceHost, port)
		}
		if err := leaveSource(ctx, s); err != nil {
			return err
		}
		if err := dropNamedChannels(ctx, s); err != nil {
			return err
		}
		if err := restoreApplier(ctx, s, status); err != nil {
			return err
		}
		if err := settleChannel(ctx, s, status, sourceHost, port); err != nil {
			return err
		}
		return startReplica(ctx, s)
	})
}

// joinSource gives a member without a channel its source. A former primary receives, and acknowledges, before it ends its
// own wait for acknowledgements: that takes MySQL up to a second, and in a cluster of two no commit goes through meanwhile.
// Only the applier has to wait for it (fact 7).
func joinSource(ctx context.Context, s *conn.Session, host string, port int) error {
	if err := refuseWritable(ctx, s); err != nil {
		return err
	}
	if err := dropNamedChannels(ctx, s); err != nil {
		return err
	}
	enabled, _, err := sourceWait(ctx, s)
	if err != nil {
		return err
	}
	if enabled {
		if err := conn.RefuseWhilePending(ctx, s); err != nil {
			return err
		}
	}
	if err := changeSource(ctx, s, nil, false, host, port); err != nil {
		return err
	}
	if enabled {
		if err := s.Change(ctx, "replicate/start-io", "START REPLICA IO_THREAD"+ofOurs); err != nil {
			return err
		}
		if err := leaveSource(ctx, s); err != nil {
			return err
		}
	}
	return startReplica(ctx, s)
}

// settleChannel has a channel lead to a source, with all that we set besides.
func settleChannel(ctx context.Context, s *conn.Session, status *mysql.Replication, host string, port int) error {
	same := status.SourceHost == host && status.SourcePort == port
	if same && status.SQLRunning {
		if err := restoreReceiver(ctx, s); err != nil {
			return err
		}
	}
	settled, err := channelSettled(ctx, s)
	if err != nil || same && settled {
		return err
	}
	return changeSource(ctx, s, status, settled, host, port)
}

// restoreReceiver sets the options of a receiver whose source stays, once all that it received is applied: with both threads at rest the change
// would delete the rest, which the member may have acknowledged. It waits for that for receiverWait only, and the receiver goes on until the
// next attempt: all replicas of a cluster may be corrected side by side, so that commits wait for as long.
func restoreReceiver(ctx context.Context, s *conn.Session) error {
	var asSet bool
	if err := s.Row(ctx, "SELECT "+observe.ReceivingDiffers+" = ''", nil, &asSet); err != nil || asSet {
		return err
	}
	if err := stopIOThread(ctx, s); err != nil {
		return err
	}
	status, err := observe.ReplicationStatus(ctx, s)
	if err == nil && status != nil {
		err = waitApplied(ctx, s, status.Retrieved, receiverWait)
	}
	if err != nil {
		return errors.Join(err, s.Change(ctx, "replicate/start-io", "START REPLICA IO_THREAD"+ofOurs))
	}
	return s.Change(ctx, "replicate/receiver-options", "CHANGE REPLICATION SOURCE TO "+observe.ReceivingOptions+ofOurs)
}

// channelSettled says whether the default channel has all that we set besides the source's address.
func channelSettled(ctx context.Context, s *conn.Session) (settled bool, err error) {
	err = s.Row(ctx, "SELECT "+observe.ChannelDiffers+" = ''", nil, &settled)
	return settled, err
}

// changeSource points the channel at another source without losing what was received.
func changeSource(ctx context.Context, s *conn.Session, status *mysql.Replication, settled bool, host string, port int) error {
	if status != nil {
		if err := drainRelayLog(ctx, s, status); err != nil {
			return err
		}
		if settled {
			// The applier goes on: then the relay log stays (fact 12), and nothing can hang behind a local lock (fact 27).
			return s.Change(ctx, "replicate/change-host", "CHANGE REPLICATION SOURCE TO SOURCE_HOST = ?, SOURCE_PORT = ?, "+observe.AddressOptions+ofOurs, host, port)
		}
		if err := stopReplica(ctx, s); err != nil {
			return err
		}
	}
	return s.Change(ctx, "replicate/change-source", "CHANGE REPLICATION SOURCE TO SOURCE_HOST = ?, SOURCE_PORT = ?, "+observe.ChannelOptions+ofOurs, host, port)
}

// drainRelayLog stops receiving and waits until everything received is applied.
func drainRelayLog(ctx context.Context, s *conn.Session, status *mysql.Replication) error {
	if err := stopIOThread(ctx, s); err != nil {
		return err
	}
	if !status.SQLRunning {
		// A relay log that holds nothing more needs no applier, and an applier may not be able to start on it.
		if applied, err := retrievedApplied(ctx, s); err != nil || applied {
			return err
		}
		if err := raiseWorkers(ctx, s); err != nil {
			return err
		}
		if err := s.Change(ctx, "replicate/start-applier", "START REPLICA SQL_THREAD"+ofOurs); err != nil {
			return err
		}
	}
	after, err := observe.ReplicationStatus(ctx, s)
	if err != nil || after == nil || after.Retrieved == "" {
		return err
	}
	return applyAll(ctx, s, after.Retrieved, applyWait)
}

// retrievedApplied says whether everything that was received is applied.
func retrievedApplied(ctx context.Context, s *conn.Session) (bool, error) {
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil {
		return false, err
	}
	if status == nil || status.Retrieved == "" {
		return true, nil
	}
	var applied bool
	err = s.Row(ctx, "SELECT GTID_SUBSET(?, @@GLOBAL.gtid_executed)", []any{status.Retrieved}, &applied)
	return applied, err
}

// ResetRelayLog throws away the relay log of a replica whose applier cannot start because the relay log that its metadata name is
// missing (fact 31). The channel keeps its settings, and its threads stay stopped. Nothing is done on any other member: its relay log may
// hold what only it has acknowledged.
func (m *Member) ResetRelayLog(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "reset the relay log")
	return m.h.Control(ctx, func(s *conn.Session) error {
		if err := refuseWritable(ctx, s); err != nil {
			return err
		}
		status, err := observe.ReplicationStatus(ctx, s)
		if err != nil || status == nil || !status.RelayLogMissing {
			return err
		}
		if err := stopReplica(ctx, s); err != nil {
			return err
		}
		return s.Change(ctx, "replicate/reset-relay-log", "RESET REPLICA"+ofOurs)
	})
}

// StartReplica starts both threads of a configured channel.
func (m *Member) StartReplica(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "start replication")
	return m.h.Control(ctx, func(s *conn.Session) error {
		if err := leaveSource(ctx, s); err != nil {
			return err
		}
		return startReplica(ctx, s)
	})
}

// leaveSource ends a former primary's wait for acknowledgements: its applier would wait for some of its own (fact 7).
// It refuses with ErrWritable on a primary, and with ErrCommitsPending while a commit waits that it would release.
func leaveSource(ctx context.Context, s *conn.Session) error {
	if err := refuseWritable(ctx, s); err != nil {
		return err
	}
	return setSourceWait(ctx, s, false, 0)
}

// startReplica starts the threads that do not run. On running threads START REPLICA is a no-op with a note.
func startReplica(ctx context.Context, s *conn.Session) error {
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil || (status != nil && status.SQLRunning && status.IOState != mysql.IOOff) {
		return err
	}
	if err := raiseWorkers(ctx, s); err != nil {
		return err
	}
	return s.Change(ctx, "replicate/start", "START REPLICA"+ofOurs)
}

// raiseWorkers has applierWorkers apply from the applier's next start on, where the number is MySQL's own default.
func raiseWorkers(ctx context.Context, s *conn.Session) error {
	var untouched bool
	err := s.Row(ctx, "SELECT COUNT(*) FROM performance_schema.variables_info WHERE VARIABLE_NAME = 'replica_parallel_workers' AND VARIABLE_SOURCE = 'COMPILED'", nil, &untouched)
	if err != nil || !untouched {
		return err
	}
	return s.Change(ctx, "replicate/workers", "SET GLOBAL replica_parallel_workers = ?", applierWorkers)
}

// WaitApplied waits until the member has executed gtids, at most timeout. It ends early with ErrApplierStopped when the
// applier does not run, with ErrNotApplied when the time is over.
func (m *Member) WaitApplied(ctx context.Context, gtids string, timeout time.Duration) (err error) {
	defer m.h.Annotate(&err, "wait for received transactions")
	return m.h.Control(ctx, func(s *conn.Session) error { return waitApplied(ctx, s, gtids, timeout) })
}

func waitApplied(ctx context.Context, s *conn.Session, gtids string, timeout time.Duration) error {
	return awaitApplied(ctx, s, gtids, timeout, func() error { return nil })
}

// applyAll is waitApplied where clients on the replica must not hold it up: those that an applier waits for are ended.
func applyAll(ctx context.Context, s *conn.Session, gtids string, timeout time.Duration) error {
	return awaitApplied(ctx, s, gtids, timeout, func() error { return clearTheWay(ctx, s) })
}

// awaitApplied waits in steps, and calls late after each that was in vain.
func awaitApplied(ctx context.Context, s *conn.Session, gtids string, timeout time.Duration, late func() error) error {
	if conn.Compact(gtids) == "" {
		return nil
	}
	now := s.Options().Clock.Now
	for deadline := now().Add(timeout); ; {
		step := max(0, min(applyStep, deadline.Sub(now()), s.Options().StatementTimeout/2))
		var missing int
		// Seconds with a fraction, as text: 0 would wait without end.
		seconds := strconv.FormatFloat(max(step.Seconds(), 0.001), 'f', 3, 64)
		if err := s.Row(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, "+seconds+")", []any{gtids}, &missing); err != nil {
			return err
		}
		if missing == 0 {
			return nil
		}
		if err := late(); err != nil {
			return err
		}
		status, err := observe.ReplicationStatus(ctx, s)
		if err != nil {
			return err
		}
		if status != nil && !status.SQLRunning {
			return fmt.Errorf("%w: %s", mysql.ErrApplierStopped, status.LastSQLError)
		}
		if !now().Before(deadline) {
			return mysql.ErrNotApplied
		}
	}
}

// SetAcknowledging makes the member acknowledge what it receives, or stop doing so. The IO thread is restarted when it
// runs otherwise, because the setting counts only from its start on (fact 8). A stopped thread stays stopped. Off is said while the
// thread stands still: cut off in between, no thread is left that acknowledges although the setting says that it does not.
func (m *Member) SetAcknowledging(ctx context.Context, on bool) (err error) {
	defer m.h.Annotate(&err, "set acknowledging to "+onOff(on))
	return m.h.Control(ctx, func(s *conn.Session) error {
		var enabled bool
		if err := s.Row(ctx, "SELECT @@GLOBAL.rpl_semi_sync_replica_enabled", nil, &enabled); err != nil {
			return err
		}
		status, err := observe.ReplicationStatus(ctx, s)
		if err != nil {
			return err
		}
		active, err := acknowledging(ctx, s)
		if err != nil {
			return err
		}
		stopped := status == nil || status.IOState == mysql.IOOff
		if enabled == on && (stopped || active == on && status.IOState == mysql.IOOn) {
			return nil
		}
		set := func() error {
			if enabled == on {
				return nil
			}
			return s.Change(ctx, "acknowledge/set", "SET GLOBAL rpl_semi_sync_replica_enabled = ?", onOff(on))
		}
		if on || stopped {
			if err := set(); err != nil || stopped {
				return err
			}
		}
		if err := stopIOThread(ctx, s); err != nil {
			return err
		}
		if !on {
			if err := set(); err != nil {
				return err
			}
		}
		return s.Change(ctx, "acknowledge/start-io", "START REPLICA IO_THREAD"+ofOurs)
	})
}

// acknowledging says whether the running IO thread acknowledges.
func acknowledging(ctx context.Context, s *conn.Session) (bool, error) {
	var active bool
	err := s.Row(ctx, `SELECT COUNT(*) FROM performance_schema.global_status
		WHERE VARIABLE_NAME = 'Rpl_semi_sync_replica_status' AND VARIABLE_VALUE = 'ON'`, nil, &active)
	return active, err
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

package admin

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

func checkPromotion(spec mysql.PromoteSpec) error {
	if spec.SemiSync && spec.W < 1 {
		return fmt.Errorf("%w: semi-sync with a wait for %d", mysql.ErrInvalidArgument, spec.W)
	}
	return nil
}

// Promote makes the member the writable primary. It drops the channel, sets the wait for acknowledgements and only then
// opens the member for writes, so that no commit can slip through unprotected (facts 6, 13).
// It refuses with ErrNotApplied while received transactions are not applied: dropping the channel deletes them (fact 12).
// On a writable primary it only puts the wait right, and lets events run that were held back.
func (m *Member) Promote(ctx context.Context, spec mysql.PromoteSpec) (err error) {
	defer m.h.Annotate(&err, "promote")
	if err := checkPromotion(spec); err != nil {
		return err
	}
	return m.h.Control(ctx, func(s *conn.Session) error {
		if err := dropChannel(ctx, s); err != nil {
			return err
		}
		if err := setSourceWait(ctx, s, spec.SemiSync, spec.W); err != nil {
			return err
		}
		if err := setReadOnly(ctx, s, false); err != nil {
			return err
		}
		return resumeEvents(ctx, s)
	})
}

// resumeEvents starts the scheduler of events on a server whose data came from elsewhere: its instance has started it without
// one, by an argument of mysqld, so that nobody's events ran before the data was the cluster's own. Whatever a setting says of
// the scheduler since then stays.
func resumeEvents(ctx context.Context, s *conn.Session) error {
	var held bool
	const query = `SELECT @@GLOBAL.event_scheduler = 'OFF' AND
		EXISTS (SELECT 1 FROM performance_schema.variables_info WHERE VARIABLE_NAME = 'event_scheduler' AND VARIABLE_SOURCE = 'COMMAND_LINE')`
	if err := s.Row(ctx, query, nil, &held); err != nil || !held {
		return err
	}
	return s.Change(ctx, "promote/events", "SET GLOBAL event_scheduler = ON")
}

// dropChannel ends replication for good, after everything received is applied.
func dropChannel(ctx context.Context, s *conn.Session) error {
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil || status == nil {
		return err
	}
	if err := stopIOThread(ctx, s); err != nil {
		return err
	}
	if applied, err := retrievedApplied(ctx, s); err != nil || !applied {
		if err == nil {
			err = mysql.ErrNotApplied
		}
		return err
	}
	if err := unlockServer(ctx, s); err != nil {
		return err
	}
	if err := stopReplica(ctx, s); err != nil {
		return err
	}
	if err := s.Change(ctx, "promote/reset-replica", "RESET REPLICA ALL"+ofOurs); err != nil {
		return err
	}
	if status, err = observe.ReplicationStatus(ctx, s); err == nil && status != nil {
		err = fmt.Errorf("%w: the channel to %s is still there", mysql.ErrStepNotEffective, status.SourceHost)
	}
	return err
}

// setReadOnly sets super_read_only and read_only alike, each only if it differs, and reads both back.
func setReadOnly(ctx context.Context, s *conn.Session, on bool) error {
	readOnly, superReadOnly, err := readOnlyState(ctx, s)
	if err != nil || (readOnly == on && superReadOnly == on) {
		return err
	}
	// On: super_read_only brings read_only with it. The session's lock_wait_timeout bounds the wait for open transactions,
	// and a SET that fails leaves things as they were (fact 2). Off: in the opposite order.
	if superReadOnly != on {
		if err := s.Change(ctx, "role/super-read-only", "SET GLOBAL super_read_only = ?", onOff(on)); err != nil {
			return err
		}
	}
	if !on {
		if err := s.Change(ctx, "role/read-only", "SET GLOBAL read_only = OFF"); err != nil {
			return err
		}
	}
	if readOnly, superReadOnly, err = readOnlyState(ctx, s); err == nil && (readOnly != on || superReadOnly != on) {
		err = fmt.Errorf("%w: read_only is %s, super_read_only is %s", mysql.ErrStepNotEffective, onOff(readOnly), onOff(superReadOnly))
	}
	return err
}

// closeHalfOpen sets super_read_only on a server with read_only alone. One that was opened for writes since it was observed stays open, and so does
// one that a CLONE writes to.
func closeHalfOpen(ctx context.Context, s *conn.Session) error {
	var halfOpen bool
	err := s.Row(ctx, "SELECT @@GLOBAL.read_only AND NOT @@GLOBAL.super_read_only AND NOT "+observe.CloneRuns, nil, &halfOpen)
	if err != nil || !halfOpen {
		return err
	}
	return setReadOnly(ctx, s, true)
}

func readOnlyState(ctx context.Context, s *conn.Session) (readOnly, superReadOnly bool, err error) {
	err = s.Row(ctx, "SELECT @@GLOBAL.read_only, @@GLOBAL.super_read_only", nil, &readOnly, &superReadOnly)
	return readOnly, superReadOnly, err
}

// refuseWritable fails with ErrWritable on a member that takes writes from clients. super_read_only alone being off does
// not count: a CLONE that was cut off leaves it so.
func refuseWritable(ctx context.Context, s *conn.Session) error {
	readOnly, _, err := readOnlyState(ctx, s)
	if err == nil && !readOnly {
		err = mysql.ErrWritable
	}
	return err
}

// maxSourceWait is the largest value of rpl_semi_sync_source_wait_for_replica_count.
const maxSourceWait = 65535

// SetSourceWait sets for how many acknowledgements of members a commit on this primary waits at least, or, with enabled false, that it
// waits for none. The source's own count is higher by one for each replica that acknowledges and is no member: however many of those
// answer, w members have. It never lowers the count of a source that waits; see LowerSourceWait. Switching off releases every
// waiting commit as done, acknowledged or not, so it fails with ErrCommitsPending while there is one.
func (m *Member) SetSourceWait(ctx context.Context, enabled bool, w int) (err error) {
	defer m.h.Annotate(&err, "set the wait for acknowledgements")
	if enabled && w < 1 {
		return fmt.Errorf("%w: a wait for %d acknowledgements", mysql.ErrInvalidArgument, w)
	}
	return m.h.Control(ctx, func(s *conn.Session) error { return setSourceWait(ctx, s, enabled, w) })
}

// LowerSourceWait has a commit on this primary wait for no more than w acknowledgements of members, and for one more for each replica
// that acknowledges and is no member: as many as there are, and at least as many as the caller knows of. MySQL remembers the
// acknowledgements of those that have left.
func (m *Member) LowerSourceWait(ctx context.Context, w, strangers int) (err error) {
	defer m.h.Annotate(&err, "lower the wait for acknowledgements")
	if w < 1 {
		return fmt.Errorf("%w: a wait for %d acknowledgements", mysql.ErrInvalidArgument, w)
	}
	return m.h.Control(ctx, func(s *conn.Session) error {
		isEnabled, count, err := sourceWait(ctx, s)
		if err != nil {
			return err
		}
		present, err := countStrangers(ctx, s)
		total := w + max(strangers, present)
		if err != nil || !isEnabled || count <= total {
			return err
		}
		return changeSourceWait(ctx, s, true, total)
	})
}

func setSourceWait(ctx context.Context, s *conn.Session, enabled bool, w int) error {
	isEnabled, count, err := sourceWait(ctx, s)
	if err != nil {
		return err
	}
	if enabled {
		strangers, err := countStrangers(ctx, s)
		if err != nil {
			return err
		}
		if w += strangers; isEnabled {
			w = max(w, count)
		}
	}
	if !enabled && isEnabled {
		if err := conn.RefuseWhilePending(ctx, s); err != nil {
			return err
		}
	}
	return changeSourceWait(ctx, s, enabled, min(w, maxSourceWait))
}

// changeSourceWait sets both variables where they differ, has the source do what they say, and reads everything back.
func changeSourceWait(ctx context.Context, s *conn.Session, enabled bool, w int) error {
	isEnabled, count, err := sourceWait(ctx, s)
	if err != nil {
		return err
	}
	// The count first: switching on with the old count could let a commit through with too few.
	if enabled && count != w {
		if err := s.Change(ctx, "role/wait-count", "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = ?", w); err != nil {
			return err
		}
	}
	if isEnabled != enabled {
		if err := s.Change(ctx, "role/source-enabled", "SET GLOBAL rpl_semi_sync_source_enabled = ?", onOff(enabled)); err != nil {
			return err
		}
	}
	isActive, err := settleSource(ctx, s, enabled)
	if err != nil {
		return err
	}
	if isEnabled, count, err = sourceWait(ctx, s); err == nil && (isEnabled != enabled || isActive != enabled || (enabled && count != w)) {
		err = fmt.Errorf("%w: semi-sync source is %s and in effect %s, its count %d", mysql.ErrStepNotEffective, onOff(isEnabled), onOff(isActive), count)
	}
	return err
}

// settleSource says whether commits of a source wait, and has one that is to be enabled wait again that waits for nobody because a commit
// waited for too long (fact 38). Switching the variable off and on would do so as well, and answer whoever waits meanwhile: the source may
// have become active by itself. This answers somebody only while no replica acknowledges, and then it has not.
func settleSource(ctx context.Context, s *conn.Session, enabled bool) (active bool, err error) {
	if active, err = sourceActive(ctx, s); err != nil || active || !enabled {
		return active, err
	}
	for _, value := range []string{"OFF", "ON"} {
		if err := s.Change(ctx, "role/source-active", "SET GLOBAL rpl_semi_sync_source_wait_no_replica = "+value); err != nil {
			return false, err
		}
	}
	return sourceActive(ctx, s)
}

// sourceActive says whether commits do wait.
func sourceActive(ctx context.Context, s *conn.Session) (active bool, err error) {
	err = s.Row(ctx, "SELECT VARIABLE_VALUE = 'ON' FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_status'", nil, &active)
	return active, err
}

func sourceWait(ctx context.Context, s *conn.Session) (enabled bool, count int, err error) {
	err = s.Row(ctx, "SELECT @@GLOBAL.rpl_semi_sync_source_enabled, @@GLOBAL.rpl_semi_sync_source_wait_for_replica_count", nil, &enabled, &count)
	return enabled, count, err
}

// ReleaseWaiting makes a source wait for nobody any more, and so answers the commits that wait (fact 4). It is right
// in one case only: every other voter is known never to acknowledge again and to hold nothing that anybody could be
// promoted with, so that what is on the source's own disk is all there is.
func (m *Member) ReleaseWaiting(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "stop waiting for acknowledgements")
	return m.h.Control(ctx, func(s *conn.Session) error {
		if err := s.Change(ctx, "role/release", "SET GLOBAL rpl_semi_sync_source_enabled = OFF"); err != nil {
			return err
		}
		enabled, _, err := sourceWait(ctx, s)
		if err == nil && enabled {
			err = fmt.Errorf("%w: semi-sync source is ON", mysql.ErrStepNotEffective)
		}
		return err
	})
}

package admin

import (
	"context"
	"errors"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
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
		if status != nil {
			if err := restoreApplier(ctx, s, status); err != nil {
				return err
			}
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
				if err := s.Change(ctx, "promote/start-applier", "START REPLICA SQL_THREAD"+ofOurs); err != nil {
					return err
				}
			}
		}
		return applyAll(ctx, s, gtids, timeout)
	})
}

// noFilters takes away each rule by which an applier leaves out or changes what it has received. It names no channel: a rule that was set
// for all would come back with the next source. No other channel may run.
const noFilters = `CHANGE REPLICATION FILTER REPLICATE_DO_DB = (), REPLICATE_IGNORE_DB = (), REPLICATE_DO_TABLE = (), REPLICATE_IGNORE_TABLE = (),
	REPLICATE_WILD_DO_TABLE = (), REPLICATE_WILD_IGNORE_TABLE = (), REPLICATE_REWRITE_DB = ()`

// restoreApplier has the applier of a channel carry out all that it receives, at once and with all privileges, whatever somebody set for it.
// What it has received stays, because nothing of the receiver is changed. An applier that ran goes on.
func restoreApplier(ctx context.Context, s *conn.Session, status *mysql.Replication) error {
	var asSet bool
	err := s.Row(ctx, "SELECT "+observe.ApplyingDiffers+" = ''", nil, &asSet)
	if err != nil || asSet && len(status.Filters) == 0 {
		return err
	}
	if err := refuseWritable(ctx, s); err != nil {
		return err
	}
	if err := dropNamedChannels(ctx, s); err != nil {
		return err
	}
	if err := stopApplier(ctx, s); err != nil {
		return err
	}
	if len(status.Filters) > 0 {
		if err := s.Change(ctx, "applier/filters", noFilters); err != nil {
			return err
		}
	}
	if !asSet {
		if err := resetApplier(ctx, s, status); err != nil {
			return err
		}
	}
	if !status.SQLRunning {
		return nil
	}
	return s.Change(ctx, "applier/start", "START REPLICA SQL_THREAD"+ofOurs)
}

// resetApplier sets the options of a stopped applier. The statement would throw the relay log away if the receiver stood still as well
// (Reference Manual, CHANGE REPLICATION SOURCE TO): one that does is started for the time of it, as an account that no source knows, so
// that it receives and acknowledges nothing.
func resetApplier(ctx context.Context, s *conn.Session, status *mysql.Replication) error {
	stands := status.IOState == mysql.IOOff
	if stands {
		if err := s.Change(ctx, "applier/hold-relay-log", "START REPLICA IO_THREAD USER = 'nairobi_nobody'"+ofOurs); err != nil {
			return err
		}
	}
	err := s.Change(ctx, "applier/options", "CHANGE REPLICATION SOURCE TO "+observe.ApplyingOptions+ofOurs)
	if stands {
		err = errors.Join(err, stopIOThread(ctx, s))
	}
	return err
}

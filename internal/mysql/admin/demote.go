package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

const (
	// shortWrite is how long a statement may hold up a demotion without being worth a word: ordinary writes are over by
	// then. It is also how long the first look at the server takes.
	shortWrite = 100 * time.Millisecond
	// demoteLook is the pause between two looks at what holds the demotion up.
	demoteLook = 25 * time.Millisecond
	// demoteTry bounds one attempt. While it waits, nobody on the server can begin to write; when it is given up, all go on.
	demoteTry = 400 * time.Millisecond
	// demoteTries: what may still fail an attempt began to write after the last look.
	demoteTries = 3
	// rollbackWait bounds the wait for killed sessions to let go. Undoing a statement takes about as long as it ran.
	rollbackWait = 5 * time.Second
)

// DemoteSpec says how much consideration the clients of a primary get when it is demoted. The zero value demotes an idle
// primary, or one with ordinary short writes.
type DemoteSpec struct {
	// Patience bounds the wait for transactions that were open at the beginning, for long statements and table locks.
	// Everybody goes on writing meanwhile. Once it is over, open transactions no longer count: their COMMIT would fail.
	Patience time.Duration
	// Kill ends the sessions whose statements or table locks still stand in the way after that. Without it they fail the
	// demotion.
	Kill bool
}

// Demote is DemoteBounded without patience and without killing.
func (m *Member) Demote(ctx context.Context) error { return m.DemoteBounded(ctx, DemoteSpec{}) }

// DemoteBounded makes the member read-only for everybody, or leaves everything as it was. It waits for the clients as
// spec says while writes go on, and asks for the lock only when it can be had at once: whoever begins to write behind
// that request waits too, at most 0.4 s an attempt, three attempts at most.
//
// It fails with ErrCommitsPending while commits wait for acknowledgements that do not come: it would hang behind them
// (fact 2), and they are never killed. It fails with ErrBlocked while clients stand in the way: running writes, DDL and
// events, LOCK TABLES ... WRITE. Readers, idle transactions, FLUSH TABLES WITH READ LOCK and LOCK INSTANCE FOR BACKUP do not.
//
// Afterwards no commit can be waiting, and sessions with open changes or row locks are ended: they could not commit any
// more but by XA PREPARE and XA COMMIT, which MySQL lets through on a read-only server, and their locks would stop the
// applier later (fact 13). A transaction that was prepared before can still be committed here by anybody: whoever relies
// on the executed set being final reads it again when no replica can acknowledge any more.
//
// Channels of people stop, because an applier writes to a read-only server.
//
// The source side of semi-sync stays as it is, for Reopen, and because switching it off takes MySQL up to a second.
func (m *Member) DemoteBounded(ctx context.Context, spec DemoteSpec) (err error) {
	defer m.h.Annotate(&err, "demote")
	return m.h.Control(ctx, func(s *conn.Session) error {
		readOnly, superReadOnly, err := readOnlyState(ctx, s)
		if err != nil {
			return err
		}
		if readOnly && superReadOnly {
			return stopNamedChannels(ctx, s)
		}
		helper, err := m.h.DialBeside(ctx, s)
		if err != nil {
			return conn.Unreachable(err)
		}
		defer helper.Close()
		if err := watchLocks(ctx, helper); err != nil {
			return err
		}
		d := &demotion{control: s, helper: helper, spec: spec, now: s.Options().Clock.Now}
		if err := d.run(ctx); err != nil {
			return err
		}
		if err := endOpenChanges(ctx, s); err != nil {
			return err
		}
		return stopNamedChannels(ctx, s)
	})
}

// closeToWrites waits until nobody writes.
const closeToWrites = "SET GLOBAL super_read_only = ON"

// demotion is one attempt to make a primary read-only. control asks for the lock, and helper looks and kills meanwhile.
type demotion struct {
	control, helper *conn.Session
	spec            DemoteSpec
	now             func() time.Time
}

// hold is a lock that a client's session took with one of its statements.
type hold struct {
	session   uint64
	statement uint64 // MySQL's number of the event that took the lock
}

// sessionsOf returns the sessions that have locks.
func sessionsOf(holds []hold) (sessions []uint64) {
	for _, h := range holds {
		sessions = append(sessions, h.session)
	}
	return sessions
}

func (d *demotion) run(ctx context.Context) error {
	deadline := d.now().Add(d.spec.Patience)
	if err := refuseWhileStuck(ctx, d.helper); err != nil {
		return err
	}
	if err := d.awaitOpenChanges(ctx, deadline); err != nil {
		return err
	}
	var blocked error
	for range demoteTries {
		left, err := d.awaitQuiet(ctx, deadline)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			if !d.spec.Kill {
				return fmt.Errorf("%w: %s", mysql.ErrBlocked, d.helper.WritersAmong(ctx, sessionsOf(left)))
			}
			// They may stand in the way only because they wait for a row of a commit that waits itself.
			if err := refuseWhileStuck(ctx, d.helper); err != nil {
				return err
			}
			// Before the lock is asked for: everybody else writes on while they are rolled back.
			if err := d.end(ctx, left); err != nil {
				return err
			}
		}
		if blocked = d.try(ctx); !errors.Is(blocked, mysql.ErrBlocked) {
			return blocked
		}
	}
	return blocked
}

// awaitOpenChanges waits until the transactions are over that have changed or locked something by now.
func (d *demotion) awaitOpenChanges(ctx context.Context, deadline time.Time) error {
	first, err := openChanges(ctx, d.helper)
	for err == nil && len(first) > 0 && d.now().Before(deadline) {
		if err = conn.Pause(ctx, demoteLook); err != nil {
			return err
		}
		var still []hold
		still, err = openChanges(ctx, d.helper)
		first = slices.DeleteFunc(first, func(h hold) bool { return !slices.Contains(still, h) })
	}
	return err
}

// awaitQuiet waits until nothing that is longer than an ordinary write stands in the way, and returns what still does at
// the deadline.
func (d *demotion) awaitQuiet(ctx context.Context, deadline time.Time) ([]hold, error) {
	began, since := d.now(), map[hold]time.Time{}
	for {
		now := d.now()
		present, err := blockers(ctx, d.helper)
		if err != nil {
			return nil, err
		}
		var long []hold
		for _, b := range present {
			if since[b].IsZero() {
				since[b] = now
			}
			if now.Sub(since[b]) >= shortWrite {
				long = append(long, b)
			}
		}
		switch {
		case len(present) == 0, len(long) == 0 && now.Sub(began) >= shortWrite:
			return nil, nil
		case len(long) > 0 && !now.Before(deadline):
			return long, nil
		}
		if err := conn.Pause(ctx, demoteLook); err != nil {
			return nil, err
		}
	}
}

// end kills the blockers and waits until their locks are gone.
func (d *demotion) end(ctx context.Context, killed []hold) error {
	for _, b := range killed {
		if err := d.helper.Kill(ctx, b.session); err != nil {
			return err
		}
	}
	for deadline := d.now().Add(rollbackWait); ; {
		present, err := blockers(ctx, d.helper)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(present, func(b hold) bool { return slices.Contains(killed, b) }) {
			return nil
		}
		if !d.now().Before(deadline) {
			return fmt.Errorf("%w: what killed sessions wrote is still being undone", mysql.ErrBlocked)
		}
		if err := conn.Pause(ctx, demoteLook); err != nil {
			return err
		}
	}
}

// try asks for the lock and gives up after demoteTry. A SET that is interrupted leaves nothing behind (fact 2).
func (d *demotion) try(ctx context.Context) error {
	done := make(chan error, 1)
	// An end of ctx must not cut the connection: the server would go on waiting, and might get the lock when nobody
	// expects it any more. The session's lock_wait_timeout ends it when the interruption does not get through.
	whole := context.WithoutCancel(ctx)
	go func() { done <- d.control.Change(whole, "role/super-read-only", closeToWrites) }()
	timer := time.NewTimer(demoteTry)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
	case <-timer.C:
		err = errors.Join(d.interrupt(whole), <-done)
	case <-ctx.Done():
		err = errors.Join(conn.ContextError(ctx), d.interrupt(whole), <-done)
	}
	// Through the helper: an interruption that came too late may hit the next statement of the other session.
	readOnly, superReadOnly, e := readOnlyState(whole, d.helper)
	switch {
	case e != nil:
		return errors.Join(err, e)
	case err != nil && !conn.IsServerError(err, mysql.ErQueryInterrupted, mysql.ErLockWaitTimeout):
		return err
	case readOnly && superReadOnly:
		return nil
	case err != nil:
		if pending := refuseWhileStuck(ctx, d.helper); pending != nil {
			return pending
		}
		if errors.Is(err, mysql.ErrBlocked) {
			return err
		}
		return fmt.Errorf("%w: %s: %w", mysql.ErrBlocked, d.helper.Holders(ctx, closeToWrites), err)
	}
	return fmt.Errorf("%w: read_only is %s, super_read_only is %s", mysql.ErrStepNotEffective, onOff(readOnly), onOff(superReadOnly))
}

func (d *demotion) interrupt(ctx context.Context) error {
	return d.helper.Interrupt(ctx, d.control.ID())
}

// blockers reads which clients' statements and table locks keep the server from becoming read-only. Commits that wait for
// an acknowledgement are left out: they cannot be ended.
func blockers(ctx context.Context, s *conn.Session) ([]hold, error) {
	return holds(ctx, s, "OBJECT_TYPE = 'GLOBAL' AND LOCK_TYPE = 'INTENTION_EXCLUSIVE' AND COALESCE(PROCESSLIST_STATE, '') NOT LIKE 'Waiting for semi-sync ACK%'")
}

// openChanges reads which clients' transactions have changed something, or locked rows in order to. What they leave on a
// table until they end says so at once; information_schema.innodb_trx shows an old picture to whoever asks more often
// than ten times a second.
func openChanges(ctx context.Context, s *conn.Session) ([]hold, error) {
	return holds(ctx, s, "OBJECT_TYPE = 'TABLE' AND LOCK_TYPE LIKE 'SHARED_WRITE%' AND LOCK_DURATION = 'TRANSACTION'")
}

// holds reads the metadata locks of clients that meet a condition.
func holds(ctx context.Context, s *conn.Session, condition string) ([]hold, error) {
	var found []hold
	err := s.Rows(ctx, `SELECT DISTINCT PROCESSLIST_ID, OWNER_EVENT_ID FROM performance_schema.metadata_locks JOIN performance_schema.threads ON THREAD_ID = OWNER_THREAD_ID
		WHERE LOCK_STATUS = 'GRANTED' AND `+condition+` AND `+conn.OfClients, nil,
		conn.Append(&found, func(h *hold) []any { return []any{&h.session, &h.statement} }))
	if err != nil {
		return nil, fmt.Errorf("look for what holds up the demotion: %w", err)
	}
	return found, nil
}

// endOpenChanges ends the sessions of a read-only server whose transactions have changed or locked something.
func endOpenChanges(ctx context.Context, s *conn.Session) error {
	open, err := openChanges(ctx, s)
	if err != nil {
		return err
	}
	for _, h := range open {
		if err := s.Kill(ctx, h.session); err != nil {
			return err
		}
	}
	return nil
}

// refuseWhileStuck fails with ErrCommitsPending when commits wait for acknowledgements and none comes in. Under load some
// commit waits at every moment; that alone says nothing.
func refuseWhileStuck(ctx context.Context, s *conn.Session) error {
	var acknowledged [2]int
	for i := range acknowledged {
		if i > 0 {
			if err := conn.Pause(ctx, shortWrite); err != nil {
				return err
			}
		}
		waiting, err := conn.PendingCommits(ctx, s)
		if err != nil || waiting == 0 {
			return err
		}
		if err := s.Row(ctx, `SELECT CAST(VARIABLE_VALUE AS UNSIGNED) FROM performance_schema.global_status
			WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_yes_tx'`, nil, &acknowledged[i]); err != nil {
			return fmt.Errorf("count the acknowledged commits: %w", err)
		}
	}
	if acknowledged[0] != acknowledged[1] {
		return nil
	}
	return conn.RefuseWhilePending(ctx, s)
}

// Reopen makes a member writable again that was demoted and has got no source since, with its wait for acknowledgements
// as spec says. It refuses with ErrReplicates when the member has a source: then somebody else may be the primary.
func (m *Member) Reopen(ctx context.Context, spec mysql.PromoteSpec) (err error) {
	defer m.h.Annotate(&err, "reopen")
	if err := checkPromotion(spec); err != nil {
		return err
	}
	return m.h.Control(ctx, func(s *conn.Session) error {
		status, err := observe.ReplicationStatus(ctx, s)
		if err != nil {
			return err
		}
		if status != nil {
			return fmt.Errorf("%w: %s", mysql.ErrReplicates, status.SourceHost)
		}
		if err := setSourceWait(ctx, s, spec.SemiSync, spec.W); err != nil {
			return err
		}
		return setReadOnly(ctx, s, false)
	})
}

// DisconnectClients ends the sessions of all clients, so that they connect again and find the present primary: a session
// that outlives a demotion gets errors for its writes and never comes upon the idea to look elsewhere. Sessions whose
// commit waits for an acknowledgement stay: ending them would tell their client nothing. It returns how many it ended.
func (m *Member) DisconnectClients(ctx context.Context) (ended int, err error) {
	defer m.h.Annotate(&err, "disconnect clients")
	err = m.h.Control(ctx, func(s *conn.Session) error {
		sessions, err := conn.EndSessions(ctx, s, clients)
		ended = len(sessions)
		return err
	})
	return ended, err
}

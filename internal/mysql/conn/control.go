package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// controlLock is the lock of the one hand: whoever holds it on a member may change the member.
	controlLock = "nairobi-mysql-operator"
	// transactionLock is held by the session that runs a transaction of ours. It is apart from controlLock because a
	// commit that waits for its acknowledgement cannot be killed (fact 2): it must not lock out the repair of the very
	// settings that it waits for. It also bounds us to one waiting transaction a member.
	transactionLock = "nairobi-mysql-operator-transaction"
	// CloneLock is held by the session that is about to run CLONE, and goes on to hold it while that runs.
	CloneLock = "nairobi-mysql-operator-clone"

	// restAfter is how long a writing session is kept without a use.
	restAfter = time.Minute
)

// Claim opens the writing session, and closes it again unless the server is filling up.
func (m *Handle) Claim(ctx context.Context) error {
	if err := m.Control(ctx, func(*Session) error { return nil }); err != nil {
		return err
	}
	m.rest(0)
	return nil
}

// Control runs f in the member's writing session, one caller at a time.
func (m *Handle) Control(ctx context.Context, f func(*Session) error) error {
	slot := &m.e.writer
	if err := slot.take(ctx); err != nil {
		return err
	}
	defer slot.give()
	defer func() { slot.used = m.pool.options.Clock.Now() }()
	if slot.session != nil {
		if held, err := holdsControl(ctx, slot.session); err != nil || !held {
			slot.drop()
		}
	}
	if slot.session == nil {
		s, err := m.openControl(ctx)
		if err != nil {
			return err
		}
		slot.session = s
	}
	return f(slot.session)
}

// rest closes the writing session when nobody used it for a while: of a thousand clusters there are thousands. The lock goes with it,
// and protects as before: whoever led before us was killed there when we claimed the member, and has to ask for the lease before it
// opens a session, and again when it has the lock.
//
// That of a server that fills up is kept. Its clients may take every place that it has while their commits wait for the operator.
func (m *Handle) rest(unused time.Duration) {
	slot := &m.e.writer
	if m.e.fillsUp.Load() || !slot.tryTake() {
		return
	}
	defer slot.give()
	if slot.session != nil && m.pool.options.Clock.Since(slot.used) >= unused {
		slot.drop()
	}
}

func holdsControl(ctx context.Context, s *Session) (bool, error) {
	var holder sql.Null[uint64]
	err := s.Row(ctx, "SELECT IS_USED_LOCK(?)", []any{controlLock}, &holder)
	return holder.Valid && holder.V == s.id, err
}

// openControl opens a session that holds the lock. The lease is asked for again when the lock is held: we may have stood still
// in between, for as long as it takes another to become leader, and to claim this member before us. From then on a new leader's
// claim kills the session, whenever it comes.
func (m *Handle) openControl(ctx context.Context) (*Session, error) {
	if err := m.AskLease(ctx); err != nil {
		return nil, err
	}
	s, err := m.dialControl(ctx)
	if err != nil {
		return nil, Unreachable(err)
	}
	err = m.takeControl(ctx, s)
	if err == nil {
		err = m.AskLease(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// AskLease fails with ErrLeaseRefused unless the lease is confirmed.
func (m *Handle) AskLease(ctx context.Context) error {
	if err := m.pool.options.Lease(ctx); err != nil {
		return fmt.Errorf("%w: %w", mysql.ErrLeaseRefused, err)
	}
	return nil
}

// takeControl takes the lock for s, killing whoever holds it, and ends what another hand left behind: a transaction that runs, and
// a CLONE that has not begun.
func (m *Handle) takeControl(ctx context.Context, s *Session) error {
	got, err := m.seize(ctx, s)
	switch {
	case err != nil:
		return err
	case !got:
		return mysql.ErrLockHeld
	}
	return errors.Join(killHolder(ctx, s, s, transactionLock), killIdle(ctx, s, CloneLock))
}

// Transact runs f in a session of its own, while the writing session proves that we are the one hand.
// A commit in f may wait for acknowledgements without end: then the error is ErrCommitsPending, the commit stays
// where it is (fact 2), and Transact refuses to start another until it is over.
func (m *Handle) Transact(ctx context.Context, f func(*Session) error) error {
	return m.Control(ctx, func(control *Session) error { return m.TransactUnder(ctx, control, f) })
}

// TransactUnder is Transact for whoever has the writing session already, and needs it besides.
func (m *Handle) TransactUnder(ctx context.Context, control *Session, f func(*Session) error) error {
	s, err := m.DialBeside(ctx, control)
	if err != nil {
		return Unreachable(err)
	}
	defer s.Close()
	defer s.release(ctx, transactionLock)
	switch err := underControl(ctx, s, control, transactionLock); {
	case errors.Is(err, errLockTaken):
		return fmt.Errorf("an earlier transaction of the operator is still waiting: %w", mysql.ErrCommitsPending)
	case err != nil:
		return err
	}
	if err := f(s); err != nil {
		// A lock wait that timed out is most likely for the row of a commit that waits itself.
		if errors.Is(err, ErrDeadline) || IsServerError(err, mysql.ErLockWaitTimeout) {
			return PendingOr(ctx, control, err)
		}
		return err
	}
	return nil
}

// underControl takes the lock of a session that changes something beside the writing session, and sees that that one is still in
// control. The lock comes first, then the look: a new leader takes control first and then kills the holder of this lock, so that
// one of the two always sees the other.
func underControl(ctx context.Context, s, control *Session, lock string) error {
	if err := takeFromClients(ctx, s, control, lock); err != nil {
		return err
	}
	var holder sql.Null[uint64]
	if err := s.Row(ctx, "SELECT IS_USED_LOCK(?)", []any{controlLock}, &holder); err != nil {
		return err
	}
	if holder.V != control.id {
		return mysql.ErrLockHeld
	}
	return nil
}

// Detached runs f in a session of its own, which outlives the call and ctx, under CloneLock: a new leader ends it as long as f runs no
// statement. The channel gets what f returns, unless nobody is there to see it. Forget and Close cut it off.
func (m *Handle) Detached(ctx context.Context, control *Session, f func(context.Context, *Session) error) (<-chan error, error) {
	s, err := m.DialBeside(ctx, control)
	if err != nil {
		return nil, Unreachable(err)
	}
	if err := underControl(ctx, s, control, CloneLock); err != nil {
		s.Close()
		if errors.Is(err, errLockTaken) {
			err = errors.Join(err, killIdle(ctx, control, CloneLock)) // of an attempt that we gave up
		}
		return nil, err
	}
	result := make(chan error, 1)
	m.pool.running.Add(1)
	go func() {
		defer m.pool.running.Done()
		defer s.Close()
		detached := context.WithoutCancel(ctx)
		err := f(detached, s)
		s.release(detached, CloneLock)
		result <- err
	}()
	return result, nil
}

// release gives a lock back that the session may hold, before it is closed: a server that is busy notices the end of a session
// some time later, and until then the next one would take it for one that still waits.
func (s *Session) release(ctx context.Context, lock string) {
	if s.broken {
		return
	}
	var had sql.Null[int64]
	_ = s.Row(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)", []any{lock}, &had) // the end of the session does the same
}

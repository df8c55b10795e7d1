package simulation

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

var (
	errDeadline = errors.New("the statement's time is over")
	errHangUp   = errors.New("the connection is lost")
	errReadOnly = errors.New("the server is read-only")
)

// statementTimeout is how long a statement may take before the SQL plane gives it up.
const statementTimeout = 3 * second

// Session is a connection of an operator to one run of a mysqld.
type session struct{ op *operator }

// slot holds an operator's one writing session with an instance. Its users take turns.
type slot struct {
	busy   bool
	open   *session
	server *mysqld
	used   int64 // when it was used last
}

// member is an operator's handle of a member: what *admin.Member is to the real one.
type member struct {
	op *operator
	in *instance
}

type processKey struct{}

func (p *process) context() context.Context {
	return context.WithValue(context.Background(), processKey{}, p)
}

func processOf(ctx context.Context) *process { return ctx.Value(processKey{}).(*process) }

// exchange sends something to the member's mysqld and waits for the answer. Packets may get lost either way: on the way
// there nothing happens, on the way back it did.
func (m *member) exchange(p *process, f func(*mysqld) error) error {
	w := p.w
	m.op.point(p)
	if w.chance(30) {
		p.sleep(w.between(1, 15))
	}
	in := m.in
	if !in.powered || in.frozen || !w.net.passes(operatorNode, in.node) {
		p.sleep(statementTimeout)
		return fmt.Errorf("%w: %w", mysql.ErrUnreachable, errDeadline)
	}
	var err error
	if s := in.server; s == nil {
		err = fmt.Errorf("%w: connection refused", mysql.ErrUnreachable)
	} else {
		err = f(s)
		w.check()
	}
	if !w.net.passes(in.node, operatorNode) {
		p.sleep(statementTimeout)
		return fmt.Errorf("%w: %w", mysql.ErrUnreachable, errDeadline)
	}
	if in.server != nil {
		w.net.hear(in, w.now)
	}
	m.op.point(p)
	return err
}

// writer is the turn of somebody who uses the writing session.
type writer struct {
	m    *member
	p    *process
	slot *slot
}

// do runs one statement in the writing session. It fails when the server restarted, or when a new leader killed the session.
func (c writer) do(f func(*mysqld) error) error {
	return c.m.exchange(c.p, func(s *mysqld) error {
		if c.slot.open == nil || s != c.slot.server || s.control != c.slot.open {
			c.slot.open = nil
			return errHangUp
		}
		return f(s)
	})
}

// control runs f with the writing session, opening it when it is not: the lease is asked for, whoever holds the lock on the
// member is killed, and the lease is asked for once more. See internal/mysql/conn/control.go.
func (m *member) control(ctx context.Context, f func(writer) error) error {
	p := processOf(ctx)
	turn := m.op.slots[m.in]
	if turn == nil {
		turn = &slot{}
		m.op.slots[m.in] = turn
	}
	for turn.busy {
		p.sleep(50)
	}
	turn.busy = true
	defer func() { turn.busy, turn.used = false, p.w.now }()
	c := writer{m, p, turn}
	if turn.open != nil {
		if err := c.do(func(*mysqld) error { return nil }); err != nil {
			turn.open = nil
			if !errors.Is(err, errHangUp) {
				return err
			}
		}
	}
	if turn.open == nil {
		if err := c.take(); err != nil {
			return err
		}
	}
	return f(c)
}

// take opens the writing session.
func (c writer) take() error {
	op, w := c.m.op, c.p.w
	c.p.sleep(w.between(1, 20))
	if !w.holdsLease(op) {
		return fmt.Errorf("%w: %s", mysql.ErrLeaseRefused, op.name)
	}
	err := c.m.exchange(c.p, func(s *mysqld) error {
		c.slot.open, c.slot.server = &session{op}, s
		s.control = c.slot.open
		return nil
	})
	if err == nil && !w.holdsLease(op) { // it was frozen since it asked, and another leads
		c.slot.open = nil
		return fmt.Errorf("%w: %s", mysql.ErrLeaseRefused, op.name)
	}
	return err
}

// stranded says whether an earlier transaction of an operator still waits on the server.
func (s *mysqld) stranded() bool {
	for _, c := range s.waiting {
		if s.w.ledger.all[c.id].client < 0 {
			return true
		}
	}
	return false
}

// refuseStranded fails while an earlier transaction of an operator waits.
func (c writer) refuseStranded() error {
	return c.do(func(s *mysqld) error {
		if s.stranded() {
			return fmt.Errorf("an earlier transaction of the operator is still waiting: %w", mysql.ErrCommitsPending)
		}
		return nil
	})
}

// transact commits a transaction of the operator's, see internal/mysql/conn/control.go: a commit that is not acknowledged in
// time stays where it is, and no other is begun until it is over.
func (m *member) transact(ctx context.Context, prepare func(*mysqld) (*transaction, error)) error {
	return m.control(ctx, func(c writer) error {
		if err := c.refuseStranded(); err != nil {
			return err
		}
		return m.commit(c.p, func(s *mysqld) (*transaction, error) {
			if s != c.slot.server || s.control != c.slot.open {
				return nil, errHangUp
			}
			return prepare(s)
		})
	})
}

// commit commits a transaction and waits for its acknowledgements, for a while.
func (m *member) commit(p *process, prepare func(*mysqld) (*transaction, error)) error {
	var pending *commit
	if err := m.exchange(p, func(s *mysqld) error {
		if s.superReadOnly {
			return errReadOnly
		}
		t, err := prepare(s)
		if err != nil || t == nil {
			return err
		}
		t.client = -1
		pending = s.commit(*t, nil)
		return nil
	}); err != nil || pending == nil {
		return err
	}
	for waited := int64(0); !pending.done; waited += 100 {
		switch {
		case pending.lost:
			return errHangUp
		case waited >= statementTimeout:
			return fmt.Errorf("%w (%d)", mysql.ErrCommitsPending, 1)
		}
		p.sleep(100)
	}
	return m.exchange(p, func(*mysqld) error { return nil })
}

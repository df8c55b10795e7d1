package conn

import (
	"context"
	"errors"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// A server takes max_connections clients, and one administrator beyond. Here is how the operator's sessions find a place on one that
// is full.

const (
	// placeTries and placePause bound the wait for a place on a full server: half a second in all.
	placeTries = 10
	placePause = 50 * time.Millisecond
	// mostRoom is by how much the limit of connections of a full server is raised at most while the operator connects.
	mostRoom = 4
	opRoom   = "connections/room"
)

// dialPersistently opens a session on a server that may be full. MySQL has one place beyond its limit, for administrators, but
// clients that are about to be refused are in it for a moment, one after the other.
func (m *Handle) dialPersistently(ctx context.Context) (s *Session, err error) {
	for range placeTries {
		if s, err = m.pool.dial(ctx, m.e, verified); !IsServerError(err, mysql.ErConCount) || Pause(ctx, placePause) != nil {
			break
		}
	}
	return s, err
}

// DialBeside opens a session beside the writing session, which may be in the last place of a full server, as the reading session
// may: the limit is raised for as long as it takes to connect. What is to be done there may be a promotion.
//
// It is raised by one at a time. So we always come in by the last place, and no client comes in that stays beyond the limit when that
// is put back: then nobody of ours could connect again.
func (m *Handle) DialBeside(ctx context.Context, control *Session) (*Session, error) {
	s, err := m.dialPersistently(ctx)
	if !IsServerError(err, mysql.ErConCount) {
		return s, err
	}
	var limit int
	if e := control.Row(ctx, "SELECT @@GLOBAL.max_connections", nil, &limit); e != nil {
		return nil, errors.Join(err, e)
	}
	for room := 1; room <= mostRoom && IsServerError(err, mysql.ErConCount); room++ {
		if e := control.Change(ctx, opRoom, "SET GLOBAL max_connections = ?", limit+room); e != nil {
			err = errors.Join(err, e)
			break
		}
		s, err = m.dialPersistently(ctx)
	}
	// An operator that dies before this leaves the limit raised, until the next start of mysqld where the spec does not set it.
	if e := control.Change(context.WithoutCancel(ctx), opRoom, "SET GLOBAL max_connections = ?", limit); e != nil && err == nil {
		s.Close()
		return nil, e
	}
	return s, err
}

// dialControl opens what becomes the writing session. On a server that is full, or lets in nobody any more, the reading session becomes it:
// what somebody set there that turns everybody away is put back over what is still open. It gives up no place: another is opened beside it for the
// next look.
func (m *Handle) dialControl(ctx context.Context) (*Session, error) {
	s, err := m.pool.dial(ctx, m.e, verified)
	if err == nil || ctx.Err() != nil || !answered(err) {
		return s, err
	}
	if s := m.takeReader(ctx); s != nil {
		return s, nil
	}
	if !IsServerError(err, mysql.ErConCount) {
		return nil, err
	}
	return m.dialPersistently(ctx)
}

// answered says whether a server is there that refused a session.
func answered(err error) bool {
	access, _ := Classify(err)
	return access == mysql.AccessDenied || access == mysql.AccessUnverified
}

// takeReader takes the reading session away from those who look, when they are done; nil if there is none that can be used.
func (m *Handle) takeReader(ctx context.Context) *Session {
	ctx, cancel := context.WithTimeout(ctx, m.pool.options.StatementTimeout)
	defer cancel()
	slot := &m.e.reader
	if slot.take(ctx) != nil {
		return nil
	}
	defer slot.give()
	s := slot.session
	if s == nil || s.broken {
		return nil
	}
	slot.session = nil
	return s
}

// dialReader opens what becomes the reading session: on a full server beside the writing session, if that is open and at rest.
func (m *Handle) dialReader(ctx context.Context) (*Session, error) {
	resumes := m.e.looks.kept()
	s, err := m.pool.dialAgain(ctx, m.e, verified, &m.e.looks)
	if err == nil && s.brief && !s.resumed {
		s.Close()
		m.e.looks.forget()
		s, err = m.pool.dialAgain(ctx, m.e, verified, &m.e.looks)
	}
	if err != nil {
		m.e.looks.forget()
		if resumes && ctx.Err() == nil && !isTimeout(err) && !IsServerError(err, mysql.ErConCount) {
			s, err = m.pool.dial(ctx, m.e, verified) // whatever the server has against resuming, it is no reason not to reach it
		}
	}
	if !IsServerError(err, mysql.ErConCount) {
		return s, err
	}
	if s := m.dialByWriter(ctx); s != nil {
		return s, nil
	}
	return m.dialPersistently(ctx)
}

// dialByWriter is dialBeside, for somebody who is not in control; nil if the writing session is not open, or in use.
func (m *Handle) dialByWriter(ctx context.Context) *Session {
	slot := &m.e.writer
	if !slot.tryTake() {
		return nil
	}
	defer slot.give()
	if slot.session == nil {
		return nil
	}
	if held, err := holdsControl(ctx, slot.session); err != nil || !held {
		return nil
	}
	s, err := m.DialBeside(ctx, slot.session)
	if err != nil {
		return nil
	}
	return s
}

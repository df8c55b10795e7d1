package conn

import (
	"context"
	"time"
)

// seldomLooks is how far apart the looks at a member are when nothing is wrong, at least.
const seldomLooks = 15 * time.Second

// Usage is what was read of a server that says which sessions with it are worth keeping.
type Usage struct {
	// FillsUp is true when clients have more than half of the server's places.
	FillsUp bool
	// ReadOnly is true for a replica, of which a session is only kept while it is looked at often.
	ReadOnly bool
	// CertNotAfter is the end of the certificate that the server shows to new connections.
	CertNotAfter time.Time
}

// Read runs f in the member's reading session, one caller at a time. When a kept session turns out to be dead, f runs once more in a
// new one; silence is not waited for twice.
func (m *Handle) Read(ctx context.Context, f func(*Session) error) error {
	slot := &m.e.reader
	if err := slot.take(ctx); err != nil {
		return err
	}
	defer slot.give()
	return m.readIn(ctx, slot, f)
}

// Observe is Read for whoever reads all that there is to know of the member. It ends sessions that need not be kept.
func (m *Handle) Observe(ctx context.Context, f func(*Session) (Usage, error)) error {
	slot := &m.e.reader
	if err := slot.take(ctx); err != nil {
		return err
	}
	defer slot.give()
	var usage Usage
	if err := m.readIn(ctx, slot, func(s *Session) (err error) {
		usage, err = f(s)
		return err
	}); err != nil {
		return err
	}
	if !usage.CertNotAfter.Equal(slot.session.cert.NotAfter) {
		// The server took another certificate since this connection was made: the next pass verifies that one.
		slot.session.broken = true
		m.e.looks.forget()
	}
	m.e.fillsUp.Store(usage.FillsUp)
	m.rest(restAfter)
	m.endLook(usage, slot)
	return nil
}

// readIn runs f in the slot's session, opening it if there is none.
func (m *Handle) readIn(ctx context.Context, slot *slot, f func(*Session) error) error {
	kept := slot.session != nil
	err := m.readOnce(ctx, slot, f)
	if err != nil && kept && !isTimeout(err) && ctx.Err() == nil && ServerErrorNumber(err) == 0 {
		slot.drop()
		err = m.readOnce(ctx, slot, f)
	}
	return err
}

func (m *Handle) readOnce(ctx context.Context, slot *slot, f func(*Session) error) error {
	if slot.session == nil {
		s, err := m.dialReader(ctx)
		if err != nil {
			return err
		}
		slot.session = s
		// What was given up earlier may still hang on the server: end it, so that such sessions never pile up.
		if slot.abandoned != 0 {
			if err := s.killOwn(ctx, slot.abandoned); err != nil {
				return err
			}
			slot.abandoned = 0
		}
	}
	return f(slot.session)
}

// endLook closes the reading session of a replica that is looked at now and then, when there are very many sessions; the next look
// resumes it. In trouble members are looked at more often, and keep theirs; so does a server that fills up.
func (m *Handle) endLook(usage Usage, slot *slot) {
	now := m.pool.options.Clock.Now()
	seldom := now.Sub(slot.used) >= seldomLooks
	slot.used = now
	if seldom && usage.ReadOnly && !usage.FillsUp && m.pool.open.Load() > int64(m.pool.options.MostKept) {
		slot.drop()
	} else {
		m.e.looks.forget()
	}
}

// Redial closes the kept reading session, and lets none be resumed: it was made under an older certificate.
func (m *Handle) Redial(ctx context.Context) error {
	if err := m.e.reader.take(ctx); err != nil {
		return err
	}
	m.e.reader.drop()
	m.e.looks.forget()
	m.e.reader.give()
	return nil
}

// Keep runs f in a session that is kept for the next call, and that no lock is held in: for whoever has nothing to do with the
// operator's control of the member. greet prepares a new session. An error of either ends it, and so does ended.
func (m *Handle) Keep(ctx context.Context, ended func(*Session) bool, greet, f func(*Session) error) error {
	slot := &m.e.writer
	if err := slot.take(ctx); err != nil {
		return err
	}
	defer slot.give()
	if slot.session != nil && ended(slot.session) {
		slot.drop()
	}
	if slot.session == nil {
		s, err := m.dialReader(ctx)
		if err != nil {
			return Unreachable(err)
		}
		slot.session = s
		if err := greet(s); err != nil {
			s.broken = true
			return err
		}
	}
	err := f(slot.session)
	if err != nil {
		slot.session.broken = true
	}
	return err
}

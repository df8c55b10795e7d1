package simulation

import (
	"context"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// SetSourceWait is what *admin.Member does.
func (m *member) SetSourceWait(ctx context.Context, enabled bool, w int) error {
	if enabled && w < 1 {
		return mysql.ErrInvalidArgument
	}
	return m.control(ctx, func(c writer) error { return c.setSourceWait(enabled, w) })
}

// LowerSourceWait is what *admin.Member does.
func (m *member) LowerSourceWait(ctx context.Context, w, strangers int) error {
	return m.control(ctx, func(c writer) error {
		return c.do(func(s *mysqld) error {
			if count := w + max(strangers, len(s.w.strangersOf(s))); s.sourceEnabled && s.wait > count {
				s.setWait(count)
			}
			return nil
		})
	})
}

// DisconnectStrangers is what *admin.Member does.
func (m *member) DisconnectStrangers(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		return c.do(func(s *mysqld) error { s.w.disconnectStrangers(s); return nil })
	})
}

// ReleaseWaiting is what *admin.Member does.
func (m *member) ReleaseWaiting(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		return c.do(func(s *mysqld) error {
			s.w.say("%s: %s waits for nobody any more", m.op.name, s.on.member)
			s.setSource(false)
			return nil
		})
	})
}

// RestoreReplicationAccount is what *admin.Member does. No schedule takes the account away.
func (m *member) RestoreReplicationAccount(context.Context) error { return nil }

func (c writer) setSourceWait(on bool, w int) error {
	if err := c.do(func(s *mysqld) error {
		if !on && s.sourceEnabled && len(s.waiting) > 0 {
			return mysql.ErrCommitsPending
		}
		return nil
	}); err != nil {
		return err
	}
	if on {
		if err := c.do(func(s *mysqld) error {
			count := w + len(s.w.strangersOf(s))
			if s.sourceEnabled {
				count = max(count, s.wait)
			}
			s.setWait(count)
			return nil
		}); err != nil {
			return err
		}
	}
	return c.do(func(s *mysqld) error {
		if s.sourceEnabled != on {
			s.setSource(on)
		}
		if s.timedOut {
			s.timedOut, s.w.roles = false, true
		}
		s.meddled = false
		return nil
	})
}

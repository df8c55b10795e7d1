package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/steps"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The methods of a member are those of *admin.Member, statement by statement, so that an operator can die between any two.
var _ steps.Server = (*member)(nil)

const (
	applyWait = 5 * second
	applyStep = second
	// lockWait is how long a SET of read_only waits for open transactions.
	lockWait = second
)

// Claim takes the writing session, and lets it go again.
func (m *member) Claim(ctx context.Context) error {
	if err := m.control(ctx, func(writer) error { return nil }); err != nil {
		return err
	}
	m.rest(processOf(ctx), 0)
	return nil
}

// StopIOThread is what *admin.Member does.
func (m *member) StopIOThread(ctx context.Context) error {
	return m.control(ctx, func(c writer) error { return c.stopIO() })
}

func (c writer) stopIO() error {
	slow := false
	if err := c.do(func(s *mysqld) error { slow = s.io == ioConnecting; return nil }); err != nil {
		return err
	}
	if slow && c.p.w.chance(30) {
		c.p.sleep(2 * second) // fact 14
	}
	return c.do(func(s *mysqld) error { s.stopIO(); return nil })
}

func (c writer) stopReplica() error {
	return c.do(func(s *mysqld) error { s.stopIO(); s.sqlRunning = false; return nil })
}

func (s *mysqld) allApplied() bool {
	return s.st.source == "" || s.w.ledger.covers(&s.st.executed, s.w.ledger.print(&s.st.retrieved))
}

// ApplyReceived is what *admin.Member does.
func (m *member) ApplyReceived(ctx context.Context, gtids string, timeout time.Duration) error {
	return m.control(ctx, func(c writer) error {
		stands := false
		if err := c.do(func(s *mysqld) error {
			stands = s.st.source != "" && !s.sqlRunning && !s.allApplied()
			return nil
		}); err != nil {
			return err
		}
		if stands {
			if err := c.setSourceWait(false, 0); err != nil {
				return err
			}
			if err := c.do(func(s *mysqld) error { s.startSQL(); return nil }); err != nil {
				return err
			}
		}
		return c.waitApplied(gtids, timeout.Milliseconds())
	})
}

// WaitApplied is what *admin.Member does.
func (m *member) WaitApplied(ctx context.Context, gtids string, timeout time.Duration) error {
	return m.control(ctx, func(c writer) error { return c.waitApplied(gtids, timeout.Milliseconds()) })
}

func (c writer) waitApplied(gtids string, timeout int64) error {
	deadline := c.p.w.now + timeout
	for {
		there, runs := false, false
		if err := c.do(func(s *mysqld) error {
			there, runs = s.w.ledger.covers(&s.st.executed, gtids), s.st.source == "" || s.sqlRunning
			return nil
		}); err != nil {
			return err
		}
		switch {
		case there:
			return nil
		case !runs:
			return mysql.ErrApplierStopped
		case c.p.w.now >= deadline:
			return mysql.ErrNotApplied
		}
		c.p.sleep(min(applyStep/4, deadline-c.p.w.now))
	}
}

// Promote is what *admin.Member does.
func (m *member) Promote(ctx context.Context, spec mysql.PromoteSpec) error {
	if spec.SemiSync && spec.W < 1 {
		return fmt.Errorf("%w: semi-sync with a wait for %d", mysql.ErrInvalidArgument, spec.W)
	}
	return m.control(ctx, func(c writer) error {
		if err := c.dropChannel(); err != nil {
			return err
		}
		if err := c.setSourceWait(spec.SemiSync, spec.W); err != nil {
			return err
		}
		if err := c.open(); err != nil {
			return err
		}
		c.p.w.net.opened(c.p.w, m.in)
		return nil
	})
}

// Reopen is what *admin.Member does.
func (m *member) Reopen(ctx context.Context, spec mysql.PromoteSpec) error {
	return m.control(ctx, func(c writer) error {
		if err := c.do(func(s *mysqld) error {
			if s.st.source != "" {
				return mysql.ErrReplicates
			}
			return nil
		}); err != nil {
			return err
		}
		if err := c.setSourceWait(spec.SemiSync, spec.W); err != nil {
			return err
		}
		return c.open()
	})
}

func (c writer) dropChannel() error {
	none := false
	if err := c.do(func(s *mysqld) error { none = s.st.source == ""; return nil }); err != nil || none {
		return err
	}
	if err := c.stopIO(); err != nil {
		return err
	}
	if err := c.do(func(s *mysqld) error {
		if !s.allApplied() {
			return mysql.ErrNotApplied
		}
		return nil
	}); err != nil {
		return err
	}
	if err := c.stopReplica(); err != nil {
		return err
	}
	return c.do(func(s *mysqld) error {
		s.w.checkRelay(s)
		s.resetReplica()
		s.st.source = ""
		return nil
	})
}

// open makes the server writable.
func (c writer) open() error {
	if err := c.do(func(s *mysqld) error { s.superReadOnly = false; return nil }); err != nil {
		return err
	}
	return c.do(func(s *mysqld) error {
		if !s.writable {
			s.w.checkTold(s)
			s.w.ledger.covered.opened(s.st.executed.bitset)
			s.w.ledger.inForceFrom(s.st.row)
			s.writable, s.w.roles = true, true
			s.w.say("%s: %s is writable", c.m.op.name, s.on.member)
		}
		return nil
	})
}

// shut makes the server read-only. It waits for open transactions, and in vain behind a commit that waits (fact 2).
func (c writer) shut() error {
	blocked := func() (bool, error) {
		held := false
		err := c.do(func(s *mysqld) error {
			held = len(s.waiting) > 0 && s.sourceEnabled || s.blockUntil > s.w.now
			if !held {
				s.writable, s.superReadOnly, s.w.roles = false, true, true
				s.w.say("%s: %s is read-only", c.m.op.name, s.on.member)
				s.w.commitPrepared(s)
			}
			return nil
		})
		return held, err
	}
	held, err := blocked()
	if err != nil || !held {
		return err
	}
	c.p.sleep(lockWait)
	if held, err = blocked(); err != nil || !held {
		return err
	}
	return errors.Join(mysql.ErrBlocked, mysql.ErrCommitsPending)
}

// Demote is what *admin.Member does.
func (m *member) Demote(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		done := false
		if err := c.do(func(s *mysqld) error {
			if s.sourceEnabled && len(s.waiting) > 0 {
				return mysql.ErrCommitsPending
			}
			done = !s.writable && s.superReadOnly
			return nil
		}); err != nil || done {
			return err
		}
		return c.shut()
	})
}

// WriteMembership is what *admin.Member does.
func (m *member) WriteMembership(ctx context.Context, oldEpoch uint64, row mysql.Membership) error {
	row.Voters, row.Previous = slices.Sorted(slices.Values(row.Voters)), slices.Sorted(slices.Values(row.Previous))
	if row.Epoch <= oldEpoch || len(row.Voters) == 0 || row.W < 0 {
		return mysql.ErrInvalidArgument
	}
	return m.transact(ctx, func(s *mysqld) (*transaction, error) {
		var epoch uint64
		if present := s.st.row; present != nil {
			epoch = present.Epoch
			if epoch == row.Epoch && present.Primary == row.Primary && present.W == row.W && slices.Equal(present.Voters, row.Voters) && slices.Equal(present.Previous, row.Previous) && maps.Equal(present.Memory, row.Memory) {
				return nil, nil
			}
		}
		if epoch != oldEpoch {
			return nil, fmt.Errorf("%w: %d, not %d", mysql.ErrEpochChanged, epoch, oldEpoch)
		}
		s.w.say("%s: on %s: write the row %s", m.op.name, s.on.member, rowText(&row))
		s.w.checkRow(s, &row)
		return &transaction{row: &row}, nil
	})
}

// SetAcknowledging is what *admin.Member does. Off is said while the thread stands still.
func (m *member) SetAcknowledging(ctx context.Context, on bool) error {
	return m.control(ctx, func(c writer) error {
		set := func(s *mysqld) error { s.replicaEnabled = on; return nil }
		stopped, right := false, false
		if err := c.do(func(s *mysqld) error {
			stopped = s.st.source == "" || s.io == ioOff
			right = s.replicaEnabled == on && s.io == ioOn && s.acknowledges == on
			return nil
		}); err != nil || right {
			return err
		}
		if on || stopped {
			if err := c.do(set); err != nil || stopped {
				return err
			}
		}
		if err := c.stopIO(); err != nil {
			return err
		}
		if !on {
			if err := c.do(set); err != nil {
				return err
			}
		}
		return c.do(func(s *mysqld) error { s.startIO(); return nil })
	})
}

// ReplicateFrom is what *admin.Member does. A former primary receives before it ends its own wait for acknowledgements.
func (m *member) ReplicateFrom(ctx context.Context, host string, _ int) error {
	return m.control(ctx, func(c writer) error {
		fresh, waits := false, false
		if err := c.do(func(s *mysqld) error {
			fresh, waits = s.st.source == "", s.sourceEnabled
			switch {
			case s.writable:
				return mysql.ErrWritable
			case waits && len(s.waiting) > 0:
				return mysql.ErrCommitsPending
			}
			return nil
		}); err != nil {
			return err
		}
		if fresh && waits {
			if err := c.changeSource(host); err != nil {
				return err
			}
			if err := c.do(func(s *mysqld) error { s.startIO(); return nil }); err != nil {
				return err
			}
		}
		if err := c.setSourceWait(false, 0); err != nil {
			return err
		}
		if err := c.changeSource(host); err != nil {
			return err
		}
		return c.do((*mysqld).startReplica)
	})
}

// ResetRelayLog is what *admin.Member does.
func (m *member) ResetRelayLog(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		missing := false
		if err := c.do(func(s *mysqld) error {
			missing = s.st.source != "" && s.sqlError == errRelayLog.Error()
			if s.writable {
				return mysql.ErrWritable
			}
			return nil
		}); err != nil || !missing {
			return err
		}
		if err := c.stopReplica(); err != nil {
			return err
		}
		return c.do(func(s *mysqld) error {
			s.w.say("%s: RESET REPLICA on %s", c.m.op.name, s.on.member)
			s.w.checkRelay(s)
			s.resetReplica()
			return nil
		})
	})
}

// changeSource points the channel at another source, after everything received is applied.
func (c writer) changeSource(host string) error {
	same, fresh, received := false, false, ""
	if err := c.do(func(s *mysqld) error {
		same, fresh = s.st.source == host, s.st.source == ""
		return nil
	}); err != nil || same {
		return err
	}
	if !fresh {
		if err := c.stopIO(); err != nil {
			return err
		}
		if err := c.do(func(s *mysqld) error {
			if !s.sqlRunning && !s.allApplied() {
				s.startSQL()
			}
			received = s.w.ledger.print(&s.st.retrieved)
			return nil
		}); err != nil {
			return err
		}
		if err := c.waitApplied(received, applyWait); err != nil {
			return err
		}
	}
	return c.do(func(s *mysqld) error {
		if s.io == ioOff && !s.sqlRunning {
			s.w.checkRelay(s)
			s.forgetRelay() // fact 12: with both threads stopped the relay log is deleted
		}
		s.st.source, s.ioError, s.ioRetries = host, "", false
		s.w.roles = true
		return nil
	})
}

// CloneFrom is what *admin.Member does.
func (m *member) CloneFrom(ctx context.Context, donorAddress string) error {
	donor, _, err := net.SplitHostPort(donorAddress)
	if err != nil {
		return err
	}
	return m.control(ctx, func(c writer) error {
		running := false
		if err := c.do(func(s *mysqld) error {
			if s.writable {
				return mysql.ErrWritable
			}
			running = s.st.clone != nil && s.st.clone.State == mysql.CloneInProgress
			return nil
		}); err != nil || running {
			return err
		}
		if err := c.stopReplica(); err != nil {
			return err
		}
		if err := c.do(func(s *mysqld) error { s.superReadOnly = false; return nil }); err != nil {
			return err
		}
		return c.do(func(s *mysqld) error {
			source := s.w.serverAt(donor)
			if !s.reachable(source) {
				s.superReadOnly = true
				return fmt.Errorf("error 3862: the donor %s does not answer", donor)
			}
			if !seedable(s, source) {
				s.superReadOnly = true
				return fmt.Errorf("error 3864: the donor's version %s is another than the recipient's %s", source.on.version, s.on.version)
			}
			s.cloneFrom(donor)
			return nil
		})
	})
}

// Restart is what *admin.Member does.
func (m *member) Restart(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		if err := c.do(func(s *mysqld) error {
			if s.writable {
				return mysql.ErrWritable
			}
			if s.sourceEnabled && len(s.waiting) > 0 {
				return mysql.ErrCommitsPending
			}
			return nil
		}); err != nil {
			return err
		}
		err := c.do(func(s *mysqld) error {
			s.w.say("%s: mysqld restarts", s.on.member)
			s.shutdown()
			s.w.bootMySQL(s.on, s.w.between(second, 4*second))
			return nil
		})
		c.slot.open = nil
		return err
	})
}

// CommitEmptyTransaction is what *admin.Member does: a transaction beside the one session, which may wait itself.
func (m *member) CommitEmptyTransaction(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		if err := c.do(func(*mysqld) error { return nil }); err != nil {
			return err
		}
		return m.commit(c.p, func(*mysqld) (*transaction, error) { return &transaction{}, nil })
	})
}

// EnsureDatabase makes the application's database: one transaction.
func (m *member) EnsureDatabase(ctx context.Context) error {
	if err := m.transact(ctx, func(*mysqld) (*transaction, error) { return &transaction{}, nil }); err != nil {
		return err
	}
	return processOf(ctx).op.stored.Save(ctx, func(r *topology.ClusterRecord) { r.Database = "made" })
}

// settingsRefused is how often in a hundred times mysqld does not take settings, which it takes later.
const settingsRefused = 5

// ApplySettings persists settings; they count from the next restart on.
func (m *member) ApplySettings(ctx context.Context, a topology.ApplySettings, before func(context.Context) error) (restart bool, err error) {
	if restart = len(a.Want)+len(a.Drop) > 0; !restart {
		return false, nil
	}
	err = m.control(ctx, func(c writer) error {
		if err := before(ctx); err != nil {
			return err
		}
		if c.p.w.chance(settingsRefused) {
			restart = false
			return mysql.ErrSettingRefused
		}
		return c.do(func(s *mysqld) error {
			maps.Copy(s.st.persisted, a.Want)
			for _, name := range a.Drop {
				delete(s.st.persisted, name)
			}
			return nil
		})
	})
	return restart, err
}

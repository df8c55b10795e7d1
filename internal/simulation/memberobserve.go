package simulation

import (
	"context"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// restAfter is how long a writing session is kept without a use.
const restAfter = minute

// Observe reads the member in two round trips, between which the world goes on.
func (m *member) Observe(ctx context.Context) mysql.Observation {
	p := processOf(ctx)
	in, w := m.in, p.w
	switch {
	case in.server != nil && !in.signed && w.net.open(operatorNode, in.node) && !in.frozen:
		return mysql.Observation{Access: mysql.AccessUnverified}
	case in.powered && !in.frozen && in.server == nil && w.net.open(operatorNode, in.node):
		return mysql.Observation{Access: mysql.AccessRefused, Reason: "connection refused"}
	}
	var first, second mysql.Observation
	var run *mysqld
	if m.exchange(p, func(s *mysqld) error { first, run = s.observation(), s; return nil }) != nil {
		return m.unseen()
	}
	if m.exchange(p, func(s *mysqld) error {
		if s != run {
			return errHangUp
		}
		second = s.observation()
		return nil
	}) != nil {
		return m.unseen()
	}
	second.Executed, second.Purged, second.ReadOnly, second.SuperReadOnly = first.Executed, first.Purged, first.ReadOnly, first.SuperReadOnly
	m.rest(p, restAfter)
	return second
}

func (m *member) unseen() mysql.Observation {
	if m.in.powered && !m.in.frozen && m.in.server == nil {
		return mysql.Observation{Access: mysql.AccessRefused, Reason: "connection refused"}
	}
	return mysql.Observation{Access: mysql.AccessSilent, Reason: "no answer"}
}

// rest closes the writing session of a member that was not written to for a while, in milliseconds.
func (m *member) rest(p *process, unused int64) {
	turn := m.op.slots[m.in]
	if turn == nil || turn.busy || turn.open == nil || p.w.now-turn.used < unused {
		return
	}
	if s := m.in.server; s != nil && s.control == turn.open {
		s.control = nil
	}
	turn.open = nil
}

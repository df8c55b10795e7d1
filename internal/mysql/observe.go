package mysql

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unique"
)

// Observer reads members.
type Observer struct{ h *Handle }

// NewObserver returns one for the member of a handle.
func NewObserver(h *Handle) *Observer { return &Observer{h} }

// watch is what is observed of a member besides what is of every other.
type watch struct {
	mu    sync.Mutex
	names []string              // variables, sorted
	query unique.Handle[string] // the statement that reads them; most members' is the same
}

// set replaces the names.
func (w *watch) set(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(names, w.names) {
		w.names, w.query = slices.Clone(names), unique.Make(factsQuery(names))
	}
}

// asks is the statement that reads what is observed.
func (w *watch) asks() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names) == 0 {
		return plainFacts.Value()
	}
	return w.query.Value()
}

// WatchSettings makes Observe report the present values of these variables too. It replaces earlier calls.
// Names that are no names of variables are left out.
func (m *Observer) WatchSettings(names []string) {
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return CheckVariable(name) != nil })
	slices.Sort(known)
	State[watch](m.h).set(slices.Compact(known))
}

// Observe reads everything that decisions are made on, in five round trips. It never fails: a member that cannot be
// reached, or whose answers do not come in time, is an Observation with that Access. A kept connection that turns out to
// be dead is dialled again once; silence is not waited for twice.
func (m *Observer) Observe(ctx context.Context) Observation {
	var o Observation
	if err := m.h.Observe(ctx, func(s *Session) (Usage, error) {
		var err error
		o, err = m.read(ctx, s)
		return Usage{FillsUp: o.Connections > o.MaxConnections/2, ReadOnly: o.SuperReadOnly, CertNotAfter: o.CertNotAfter}, err
	}); err != nil {
		return unobserved(err)
	}
	return o
}

func unobserved(err error) Observation {
	access, reason := Classify(err)
	return Observation{Access: access, Reason: reason}
}

// read reads a member through an open session. What can mislead when it is missing fails the whole pass.
func (m *Observer) read(ctx context.Context, s *Session) (Observation, error) {
	cert := s.Certificate()
	o := Observation{Access: AccessVerified, CertSerial: serialText(cert.SerialNumber), CertNotBefore: cert.NotBefore, CertNotAfter: cert.NotAfter}
	if err := s.Row(ctx, `SELECT @@server_uuid, @@version, @@server_id, @@read_only, @@super_read_only, @@gtid_executed, @@gtid_purged`, nil,
		&o.ServerUUID, &o.Version, &o.ServerID, &o.ReadOnly, &o.SuperReadOnly, &o.Executed, &o.Purged); err != nil {
		return o, fmt.Errorf("read the server's identity: %w", err)
	}
	o.Executed, o.Purged = Compact(o.Executed), Compact(o.Purged)
	facts, err := m.readFacts(ctx, s)
	if err != nil {
		return o, fmt.Errorf("read the server's variables: %w", err)
	}
	m.interpret(facts, &o)
	if o.Replication, err = ReplicationStatus(ctx, s); err != nil {
		return o, fmt.Errorf("read the state of replication: %w", err)
	}
	if o.Replication != nil {
		o.Replication.SourceSilence = facts.silence()
	}
	o.Membership, o.MembershipKnown = ReadMembership(ctx, s)
	o.Clone = readClone(ctx, s)
	return o, s.Err()
}

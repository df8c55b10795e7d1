package observe

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Observer reads members.
type Observer struct{ h *conn.Handle }

// NewObserver returns one for the member of a handle.
func NewObserver(h *conn.Handle) *Observer { return &Observer{h} }

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
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return mysql.CheckVariable(name) != nil })
	slices.Sort(known)
	conn.State[watch](m.h).set(slices.Compact(known))
}

// Observe reads everything that decisions are made on, in five round trips. It never fails: a member that cannot be
// reached, or whose answers do not come in time, is an Observation with that Access. A kept connection that turns out to
// be dead is dialled again once; silence is not waited for twice.
func (m *Observer) Observe(ctx context.Context) mysql.Observation {
	var o mysql.Observation
	if err := m.h.Observe(ctx, func(s *conn.Session) (conn.Usage, error) {
		var err error
		o, err = m.read(ctx, s)
		return conn.Usage{FillsUp: o.Connections > o.MaxConnections/2, ReadOnly: o.SuperReadOnly, CertNotAfter: o.CertNotAfter}, err
	}); err != nil {
		return unobserved(err)
	}
	return o
}

func unobserved(err error) mysql.Observation {
	access, reason := conn.Classify(err)
	return mysql.Observation{Access: access, Reason: reason}
}

// read reads a member through an open session. What can mislead when it is missing fails the whole pass.
func (m *Observer) read(ctx context.Context, s *conn.Session) (mysql.Observation, error) {
	cert := s.Certificate()
	o := mysql.Observation{Access: mysql.AccessVerified, CertSerial: serialText(cert.SerialNumber), CertNotBefore: cert.NotBefore, CertNotAfter: cert.NotAfter}
	if err := s.Row(ctx, `SELECT @@server_uuid, @@version, @@server_id, @@read_only, @@super_read_only, @@gtid_executed, @@gtid_purged`, nil,
		&o.ServerUUID, &o.Version, &o.ServerID, &o.ReadOnly, &o.SuperReadOnly, &o.Executed, &o.Purged); err != nil {
		return o, fmt.Errorf("read the server's identity: %w", err)
	}
	o.Executed, o.Purged = conn.Compact(o.Executed), conn.Compact(o.Purged)
	facts, err := m.readFacts(ctx, s)
	if err != nil {
		return o, fmt.Errorf("read the server's variables: %w", err)
	}
	m.interpret(facts, &o)
	if o.Memory = facts.memory(); o.Memory == "" {
		o.Memory = nameMemory(ctx, s)
	}
	if o.Replication, err = ReplicationStatus(ctx, s); err != nil {
		return o, fmt.Errorf("read the state of replication: %w", err)
	}
	if o.Replication != nil {
		o.Replication.SourceSilence = facts.silence()
		facts.findTampering(&o.Replication.Tampering)
	}
	o.Membership, o.MembershipKnown = ReadMembership(ctx, s)
	o.Clone, o.Settings[mysql.ClonePlugin] = m.readClone(ctx, s, o)
	return o, s.Err()
}

// readFacts reads what factsQuery asks for.
func (m *Observer) readFacts(ctx context.Context, s *conn.Session) (facts, error) {
	found := facts{values: map[string]map[string]string{
		factVariable: {}, factPersisted: {}, factStatus: {}, factTLS: {}, factLink: {}, factInstance: {}, factStranger: {}, factMemory: {}, factChannel: {},
	}}
	began := m.h.Options().Clock.Now()
	var kind, name, value sql.RawBytes // of the one row
	into := []any{&kind, &name, &value}
	err := s.Rows(ctx, conn.State[watch](m.h).asks(), nil, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if of := found.values[string(kind)]; of != nil {
			of[string(name)] = string(value)
		}
		return nil
	})
	found.middle = began.Add(m.h.Options().Clock.Now().Sub(began) / 2)
	return found, err
}

// interpret puts into o what follows from the facts.
func (m *Observer) interpret(f facts, o *mysql.Observation) {
	status := f.values[factStatus]
	o.Settings, o.Persisted = f.values[factVariable], f.values[factPersisted]
	if redo, known := status[redoLog]; known {
		o.Settings[mysql.RedoLog] = redo
	}
	pinned := mysql.PinnedSettings()
	for name, property := range mysql.TLSInForce() {
		if current, known := f.values[factTLS][property]; known && mysql.EqualSetting(pinned[name], o.Settings[name]) {
			o.Settings[name] = current // what was put back and not taken again
		}
	}
	o.PersistedIgnored = o.Settings[mysql.PersistedLoad] == "OFF"
	// Empty when performance_schema is off. The handshake's certificate is used then.
	const asOpenSSLPrints = "Jan _2 15:04:05 2006 MST"
	if t, err := time.Parse(asOpenSSLPrints, f.values[factTLS]["Ssl_server_not_after"]); err == nil {
		o.CertNotAfter = t
	}
	if t, err := time.Parse(asOpenSSLPrints, f.values[factTLS]["Ssl_server_not_before"]); err == nil {
		o.CertNotBefore = t
	}
	if now, ok := f.clock(); ok {
		o.Run = now.Unix() - int64(number(status["Uptime"])) // both by the start of one statement
	}
	o.StartedAt = m.h.Options().Clock.Now().Add(-time.Duration(number(status["Uptime"])) * time.Second).Truncate(time.Second)
	o.Boot, o.ShutDown = bootOf(f.values[factInstance]["boot"])
	o.Connections, o.MaxConnections = number(status["Threads_connected"]), number(o.Settings[mysql.MaxConnections])
	o.PendingCommits = number(status["Rpl_semi_sync_source_wait_sessions"])
	o.AnsweredCommits = number(status["Rpl_semi_sync_source_yes_tx"])
	o.SemiSync = mysql.SemiSync{
		SourceEnabled:  isOn(o.Settings["rpl_semi_sync_source_enabled"]),
		SourceActive:   isOn(status["Rpl_semi_sync_source_status"]),
		ReplicaEnabled: isOn(o.Settings["rpl_semi_sync_replica_enabled"]),
		ReplicaActive:  isOn(status["Rpl_semi_sync_replica_status"]),
		WaitCount:      number(o.Settings["rpl_semi_sync_source_wait_for_replica_count"]),
		Clients:        number(status["Rpl_semi_sync_source_clients"]),
		OffTimes:       number(status["Rpl_semi_sync_source_no_times"]),
		Strangers:      strangersIn(f.values[factStranger]),
	}
	o.Refusing = refusing(o.Settings)
	o.Waiting = conn.Compact(threadOfGTID.ReplaceAllString(f.values[factInstance]["owned"], ""))
	if now, ok := f.clock(); ok {
		o.ClockSkew = now.Sub(f.middle)
		o.Disk = diskOf(f.values[factInstance]["disk"], now)
	}
}

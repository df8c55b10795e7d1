package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// seldomLooks is how far apart the looks at a member are when nothing is wrong, at least.
const seldomLooks = 15 * time.Second

// WatchSettings makes Observe report the present values of these variables too. It replaces earlier calls.
// Names that are no names of variables are left out.
func (m *Member) WatchSettings(names []string) {
	m.e.watch(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return checkVariable(name) != nil }))
}

// Observe reads everything that decisions are made on, in five round trips. It never fails: a member that cannot be
// reached, or whose answers do not come in time, is an Observation with that Access. A kept connection that turns out to
// be dead is dialled again once; silence is not waited for twice.
func (m *Member) Observe(ctx context.Context) Observation {
	slot := &m.e.reader
	if err := slot.take(ctx); err != nil {
		return unobserved(err)
	}
	defer slot.give()
	kept := slot.session != nil
	o, err := m.observeOnce(ctx, slot)
	if err != nil && kept && !isTimeout(err) && ctx.Err() == nil && serverErrorNumber(err) == 0 {
		slot.drop()
		o, err = m.observeOnce(ctx, slot)
	}
	if err != nil {
		return unobserved(err)
	}
	m.e.fillsUp.Store(o.Connections > o.MaxConnections/2)
	m.rest(restAfter)
	m.endLook(o, slot)
	return o
}

// endLook closes the reading session of a replica that is looked at now and then, when there are very many sessions; the next look
// resumes it. In trouble members are looked at more often, and keep theirs; so does a server that fills up.
func (m *Member) endLook(o Observation, slot *slot) {
	now := m.pool.options.Clock.Now()
	seldom := now.Sub(slot.used) >= seldomLooks
	slot.used = now
	if seldom && o.SuperReadOnly && !m.e.fillsUp.Load() && m.pool.open.Load() > int64(m.pool.options.MostKept) {
		slot.drop()
	} else {
		m.e.looks.forget()
	}
}

func unobserved(err error) Observation {
	access, reason := classify(err)
	return Observation{Access: access, Reason: reason}
}

// observeOnce makes one pass through the slot's session, opening it if there is none.
func (m *Member) observeOnce(ctx context.Context, slot *slot) (Observation, error) {
	if slot.session == nil {
		s, err := m.dialReader(ctx)
		if err != nil {
			return Observation{}, err
		}
		slot.session = s
		// What was given up earlier may still hang on the server: end it, so that such sessions never pile up.
		if slot.abandoned != 0 {
			if err := s.kill(ctx, slot.abandoned); err != nil {
				return Observation{}, err
			}
			slot.abandoned = 0
		}
	}
	o, err := m.read(ctx, slot.session)
	if err == nil && !o.CertNotAfter.Equal(slot.session.cert.NotAfter) {
		// The server took another certificate since this connection was made: the next pass verifies that one.
		slot.session.broken = true
		m.e.looks.forget()
	}
	return o, err
}

// read reads a member through an open session. What can mislead when it is missing fails the whole pass.
func (m *Member) read(ctx context.Context, s *session) (Observation, error) {
	o := Observation{Access: AccessVerified, CertSerial: serialText(s.cert.SerialNumber), CertNotBefore: s.cert.NotBefore, CertNotAfter: s.cert.NotAfter}
	if err := s.row(ctx, `SELECT @@server_uuid, @@version, @@server_id, @@read_only, @@super_read_only, @@gtid_executed, @@gtid_purged`, nil,
		&o.ServerUUID, &o.Version, &o.ServerID, &o.ReadOnly, &o.SuperReadOnly, &o.Executed, &o.Purged); err != nil {
		return o, fmt.Errorf("read the server's identity: %w", err)
	}
	o.Executed, o.Purged = compact(o.Executed), compact(o.Purged)
	facts, err := m.readFacts(ctx, s)
	if err != nil {
		return o, fmt.Errorf("read the server's variables: %w", err)
	}
	m.interpret(facts, &o)
	if o.Replication, err = replicationStatus(ctx, s); err != nil {
		return o, fmt.Errorf("read the state of replication: %w", err)
	}
	if o.Replication != nil {
		o.Replication.SourceSilence = facts.silence()
	}
	o.Membership, o.MembershipKnown = readMembership(ctx, s)
	o.Clone = readClone(ctx, s)
	if s.broken {
		return o, s.failure
	}
	return o, nil
}

// replicationStatus reads the default channel; nil says that there is none.
// SHOW REPLICA STATUS has over fifty columns whose number depends on the version, so they are taken by name.
func replicationStatus(ctx context.Context, s *session) (*Replication, error) {
	var found *Replication
	err := s.rows(ctx, "SHOW REPLICA STATUS", nil, func(rows *sql.Rows) error {
		row, err := named(rows)
		if err != nil {
			return err
		}
		if row["Channel_Name"].V == "" && row["Source_Host"].V != "" {
			found = replicationOf(row)
		}
		return nil
	})
	return found, err
}

func replicationOf(row map[string]sql.Null[string]) *Replication {
	r := &Replication{
		SourceHost:   row["Source_Host"].V,
		SourcePort:   number(row["Source_Port"].V),
		SourceUUID:   row["Source_UUID"].V,
		SQLRunning:   row["Replica_SQL_Running"].V == "Yes",
		Retrieved:    compact(row["Retrieved_Gtid_Set"].V),
		LastIOError:  row["Last_IO_Error"].V,
		SourceIsFull: number(row["Last_IO_Errno"].V) == erTooManyConnections,
		LastSQLError: row["Last_SQL_Error"].V,
		AutoPosition: row["Auto_Position"].V == "1",
		IOState:      IOOff,

		SourceSilence: never,
	}
	switch row["Replica_IO_Running"].V {
	case "Yes":
		r.IOState = IOOn
	case "Connecting":
		r.IOState = IOConnecting
	}
	// NULL while a thread is not running. Zero only says that everything received is applied: a source that went silent
	// shows in IOState after replica_net_timeout, not here.
	if lag, err := strconv.ParseFloat(row["Seconds_Behind_Source"].V, 64); err == nil {
		r.LagSeconds = &lag
	}
	return r
}

// readClone reads how far the last CLONE came. Nothing depends on it alone, so that errors read as "never".
func readClone(ctx context.Context, s *session) *CloneProgress {
	var progress *CloneProgress
	err := s.rows(ctx, `SELECT s.STATE, s.SOURCE, s.ERROR_MESSAGE, p.STAGE, p.STATE, p.ESTIMATE, p.DATA, `+cloneRuns+`, `+cloneOutlived+`
		FROM performance_schema.clone_status s LEFT JOIN performance_schema.clone_progress p ON p.ID = s.ID`, nil,
		func(rows *sql.Rows) error {
			var state, source, message, stage, stageState sql.Null[string]
			var estimate, data sql.Null[uint64]
			var runs, outlived bool
			if err := rows.Scan(&state, &source, &message, &stage, &stageState, &estimate, &data, &runs, &outlived); err != nil {
				return err
			}
			if progress == nil {
				progress = &CloneProgress{State: state.V, Source: source.V, Error: message.V}
				if state.V == CloneInProgress && !runs && (outlived || message.V != "") {
					progress.State = CloneInterrupted
				}
			}
			if stageState.V != "Not Started" && stage.V != "" {
				progress.Stage = stage.V
			}
			progress.BytesDone += data.V
			progress.BytesTotal += estimate.V
			return nil
		})
	if err != nil {
		return nil
	}
	return progress
}

package mysql

import (
	"cmp"
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
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return checkVariable(name) != nil })
	slices.Sort(known)
	m.e.watch(slices.Compact(known))
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
			if err := s.killOwn(ctx, slot.abandoned); err != nil {
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
		var row replicaStatus
		if err := row.scan(rows); err != nil {
			return err
		}
		if len(row.channelName) == 0 && len(row.sourceHost) != 0 {
			found = row.read()
		}
		return nil
	})
	return found, err
}

// replicaStatus is what is read of a row of SHOW REPLICA STATUS. The bytes are the driver's, until the next row.
type replicaStatus struct {
	channelName, sourceHost, sourcePort, sourceUUID, ioRunning, sqlRunning, retrieved sql.RawBytes
	ioErrno, ioError, sqlError, autoPosition, secondsBehind                           sql.RawBytes
}

// scan reads the present row. Columns that are not there read as empty ones.
func (r *replicaStatus) scan(rows *sql.Rows) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var other sql.RawBytes
	into := make([]any, len(columns))
	for i, name := range columns {
		into[i] = cmp.Or(r.column(name), &other)
	}
	return rows.Scan(into...)
}

// column is where a column's value goes; nil for one that nobody reads.
func (r *replicaStatus) column(name string) *sql.RawBytes {
	switch name {
	case "Channel_Name":
		return &r.channelName
	case "Source_Host":
		return &r.sourceHost
	case "Source_Port":
		return &r.sourcePort
	case "Source_UUID":
		return &r.sourceUUID
	case "Replica_IO_Running":
		return &r.ioRunning
	case "Replica_SQL_Running":
		return &r.sqlRunning
	case "Retrieved_Gtid_Set":
		return &r.retrieved
	case "Last_IO_Errno":
		return &r.ioErrno
	case "Last_IO_Error":
		return &r.ioError
	case "Last_SQL_Error":
		return &r.sqlError
	case "Auto_Position":
		return &r.autoPosition
	case "Seconds_Behind_Source":
		return &r.secondsBehind
	}
	return nil
}

// read copies and interprets the row.
func (r *replicaStatus) read() *Replication {
	read := &Replication{
		SourceHost:   string(r.sourceHost),
		SourcePort:   number(string(r.sourcePort)),
		SourceUUID:   string(r.sourceUUID),
		SQLRunning:   string(r.sqlRunning) == "Yes",
		Retrieved:    compact(string(r.retrieved)),
		LastIOError:  string(r.ioError),
		SourceIsFull: number(string(r.ioErrno)) == erTooManyConnections,
		LastSQLError: string(r.sqlError),
		AutoPosition: string(r.autoPosition) == "1",
		IOState:      IOOff,

		SourceSilence:   never,
		ReceiverRetries: receiverRetries(number(string(r.ioErrno))),
	}
	switch string(r.ioRunning) {
	case "Yes":
		read.IOState = IOOn
	case "Connecting":
		read.IOState = IOConnecting
	}
	// NULL while a thread is not running. Zero only says that everything received is applied: a source that went silent
	// shows in IOState after replica_net_timeout, not here.
	if lag, err := strconv.ParseFloat(string(r.secondsBehind), 64); err == nil {
		read.LagSeconds = &lag
	}
	return read
}

// readClone reads how far the last CLONE came. Nothing depends on it alone, so that errors read as "never".
func readClone(ctx context.Context, s *session) *CloneProgress {
	var progress *CloneProgress
	err := s.rows(ctx, `SELECT s.STATE, s.SOURCE, s.ERROR_MESSAGE, UNIX_TIMESTAMP(s.BEGIN_TIME), p.STAGE, p.STATE, p.ESTIMATE, p.DATA, `+cloneRuns+`, `+cloneOutlived+`
		FROM performance_schema.clone_status s LEFT JOIN performance_schema.clone_progress p ON p.ID = s.ID`, nil,
		func(rows *sql.Rows) error {
			var state, source, message, began, stage, stageState sql.Null[string]
			var estimate, data sql.Null[uint64]
			var runs, outlived bool
			if err := rows.Scan(&state, &source, &message, &began, &stage, &stageState, &estimate, &data, &runs, &outlived); err != nil {
				return err
			}
			if progress == nil {
				progress = &CloneProgress{State: state.V, Source: source.V, Error: message.V, Began: began.V}
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

package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// statusVariables are the server's counters that Observe reads.
var statusVariables = []string{
	"Uptime",
	"Rpl_semi_sync_replica_status",
	"Rpl_semi_sync_source_clients",
	"Rpl_semi_sync_source_wait_sessions",
}

// semiSyncVariables are read besides the pinned variables: they belong to a member's role.
var semiSyncVariables = []string{
	"rpl_semi_sync_replica_enabled",
	"rpl_semi_sync_source_enabled",
	"rpl_semi_sync_source_wait_for_replica_count",
}

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
	return o
}

func unobserved(err error) Observation {
	access, reason := classify(err)
	return Observation{Access: access, Reason: reason}
}

// observeOnce makes one pass through the slot's session, opening it if there is none.
func (m *Member) observeOnce(ctx context.Context, slot *slot) (Observation, error) {
	if slot.session == nil {
		s, err := m.pool.dial(ctx, m.e, verified)
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
	}
	return o, err
}

// read reads a member through an open session. What can mislead when it is missing fails the whole pass.
func (m *Member) read(ctx context.Context, s *session) (Observation, error) {
	o := Observation{Access: AccessVerified, CertSerial: serialText(s.cert.SerialNumber), CertNotAfter: s.cert.NotAfter}
	if err := s.row(ctx, `SELECT @@server_uuid, @@version, @@server_id, @@read_only, @@super_read_only, @@gtid_executed, @@gtid_purged`, nil,
		&o.ServerUUID, &o.Version, &o.ServerID, &o.ReadOnly, &o.SuperReadOnly, &o.Executed, &o.Purged); err != nil {
		return o, fmt.Errorf("read the server's identity: %w", err)
	}
	o.Executed, o.Purged = compact(o.Executed), compact(o.Purged)
	if err := m.readVariables(ctx, s, &o); err != nil {
		return o, fmt.Errorf("read the server's variables: %w", err)
	}
	var err error
	if o.Replication, err = replicationStatus(ctx, s); err != nil {
		return o, fmt.Errorf("read the state of replication: %w", err)
	}
	o.Membership, o.MembershipKnown = readMembership(ctx, s)
	o.Clone = readClone(ctx, s)
	if s.broken {
		return o, s.failure
	}
	return o, nil
}

// readVariables reads everything that is a name and a value, in one statement.
func (m *Member) readVariables(ctx context.Context, s *session, o *Observation) error {
	wanted := slices.Concat(slices.Sorted(maps.Keys(PinnedSettings())), slices.Sorted(maps.Keys(ReadOnlyPins())), semiSyncVariables, m.e.watching())
	query := `SELECT 'variable', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME IN (` + marks(len(wanted)) + `)
		UNION ALL SELECT 'persisted', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables
		UNION ALL SELECT 'status', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN (` + marks(len(statusVariables)) + `)
		UNION ALL SELECT 'tls', PROPERTY, VALUE FROM performance_schema.tls_channel_status WHERE CHANNEL = 'mysql_main' AND PROPERTY = 'Ssl_server_not_after'`
	arguments := make([]any, 0, len(wanted)+len(statusVariables))
	for _, name := range slices.Concat(wanted, statusVariables) {
		arguments = append(arguments, name)
	}
	status := map[string]string{}
	o.Settings, o.Persisted = map[string]string{}, map[string]string{}
	err := s.rows(ctx, query, arguments, func(rows *sql.Rows) error {
		var kind, name, value sql.Null[string]
		if err := rows.Scan(&kind, &name, &value); err != nil {
			return err
		}
		switch kind.V {
		case "variable":
			o.Settings[name.V] = value.V
		case "persisted":
			o.Persisted[name.V] = value.V
		case "status":
			status[name.V] = value.V
		case "tls":
			// Empty when performance_schema is off. The handshake's certificate is used then.
			if t, err := time.Parse("Jan _2 15:04:05 2006 MST", value.V); err == nil {
				o.CertNotAfter = t
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.StartedAt = m.pool.options.Clock.Now().Add(-time.Duration(number(status["Uptime"])) * time.Second).Truncate(time.Second)
	o.PendingCommits = number(status["Rpl_semi_sync_source_wait_sessions"])
	o.SemiSync = SemiSync{
		SourceEnabled:  isOn(o.Settings["rpl_semi_sync_source_enabled"]),
		ReplicaEnabled: isOn(o.Settings["rpl_semi_sync_replica_enabled"]),
		ReplicaActive:  isOn(status["Rpl_semi_sync_replica_status"]),
		WaitCount:      number(o.Settings["rpl_semi_sync_source_wait_for_replica_count"]),
		Clients:        number(status["Rpl_semi_sync_source_clients"]),
	}
	return nil
}

// replicationStatus reads the default channel; nil says that there is none.
// SHOW REPLICA STATUS has over fifty columns whose number depends on the version, so they are taken by name.
func replicationStatus(ctx context.Context, s *session) (*Replication, error) {
	var found *Replication
	err := s.rows(ctx, "SHOW REPLICA STATUS", nil, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values, into := make([]sql.Null[string], len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make(map[string]sql.Null[string], len(columns))
		for i, name := range columns {
			row[name] = values[i]
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
		LastSQLError: row["Last_SQL_Error"].V,
		AutoPosition: row["Auto_Position"].V == "1",
		IOState:      IOOff,
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

// readMembership reads the membership row. known is false when it could not be read; a missing table, or an empty one,
// is known to be no row.
func readMembership(ctx context.Context, s *session) (row *Membership, known bool) {
	row = &Membership{}
	var voters string
	err := s.row(ctx, "SELECT epoch, voters, w FROM nairobi_mysql.membership WHERE id = 1", nil, &row.Epoch, &voters, &row.W)
	switch {
	case isNoRows(err), isServerError(err, erNoSuchTable, erBadDatabase):
		return nil, true
	case err != nil:
		return nil, false
	}
	if json.Unmarshal([]byte(voters), &row.Voters) != nil {
		return nil, false
	}
	return row, true
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

// marks is n placeholders.
func marks(n int) string {
	return strings.TrimSuffix(strings.Repeat("?,", n), ",")
}

// number reads a count as MySQL prints it; what is no count is 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

func isOn(value string) bool {
	return strings.EqualFold(value, "ON") || value == "1"
}

package observe

import (
	"cmp"
	"context"
	"database/sql"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// erApplierInit is MySQL's ER_REPLICA_RLI_INIT_REPOSITORY as Last_SQL_Errno has it: START REPLICA fails with 1872 (fact 31).
const erApplierInit = 13124

// ReplicationStatus reads the default channel; nil says that there is none.
// SHOW REPLICA STATUS has over fifty columns whose number depends on the version, so they are taken by name.
func ReplicationStatus(ctx context.Context, s *conn.Session) (*mysql.Replication, error) {
	var found *mysql.Replication
	err := s.Rows(ctx, "SHOW REPLICA STATUS", nil, func(rows *sql.Rows) error {
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
	ioErrno, ioError, sqlErrno, sqlError, autoPosition, secondsBehind                 sql.RawBytes
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
	case "Last_SQL_Errno":
		return &r.sqlErrno
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
func (r *replicaStatus) read() *mysql.Replication {
	read := &mysql.Replication{
		SourceHost:   string(r.sourceHost),
		SourcePort:   number(string(r.sourcePort)),
		SourceUUID:   string(r.sourceUUID),
		SQLRunning:   string(r.sqlRunning) == "Yes",
		Retrieved:    conn.Compact(string(r.retrieved)),
		LastIOError:  string(r.ioError),
		SourceIsFull: number(string(r.ioErrno)) == conn.ErTooManyConnections,
		LastSQLError: string(r.sqlError),
		AutoPosition: string(r.autoPosition) == "1",
		IOState:      mysql.IOOff,

		SourceSilence:   never,
		ReceiverRetries: receiverRetries(number(string(r.ioErrno))),
		RelayLogMissing: number(string(r.sqlErrno)) == erApplierInit,
	}
	switch string(r.ioRunning) {
	case "Yes":
		read.IOState = mysql.IOOn
	case "Connecting":
		read.IOState = mysql.IOConnecting
	}
	// NULL while a thread is not running. Zero only says that everything received is applied: a source that went silent
	// shows in IOState after replica_net_timeout, not here.
	if lag, err := strconv.ParseFloat(string(r.secondsBehind), 64); err == nil {
		read.LagSeconds = &lag
	}
	return read
}

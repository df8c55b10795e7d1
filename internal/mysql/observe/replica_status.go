package observe

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// How many bytes are kept of a text of the server's that is shown to people: of an error of replication, which MySQL keeps in 1024, and of
// a replication filter, which may list any number of tables.
const (
	longestReplicationError = 1024
	longestFilter           = 200
)

// ReplicationStatus reads the default channel, and the names of the others; nil says that there is no default one.
// SHOW REPLICA STATUS has over fifty columns whose number depends on the version, so they are taken by name.
func ReplicationStatus(ctx context.Context, s *conn.Session) (*mysql.Replication, error) {
	var found *mysql.Replication
	var others []string
	err := s.Rows(ctx, "SHOW REPLICA STATUS", nil, func(rows *sql.Rows) error {
		row, err := scanReplicaStatus(rows)
		if err != nil {
			return err
		}
		switch {
		case row.has("Channel_Name"):
			others = append(others, row.text("Channel_Name"))
		case row.has("Source_Host"):
			found = row.read()
		}
		return nil
	})
	if found != nil {
		found.Channels = others
	}
	return found, err
}

// replicaColumns are the columns that are read of SHOW REPLICA STATUS, besides filterColumns.
var replicaColumns = []string{
	"Channel_Name", "Source_Host", "Source_Port", "Source_UUID",
	"Replica_IO_Running", "Replica_SQL_Running", "Retrieved_Gtid_Set", "Last_IO_Errno", "Last_IO_Error", "Last_SQL_Errno", "Last_SQL_Error",
	"Seconds_Behind_Source",
}

// filterColumns have the rules by which a replica leaves out, or changes, what it receives. Each is empty without one.
var filterColumns = []string{
	"Replicate_Do_DB", "Replicate_Ignore_DB", "Replicate_Do_Table", "Replicate_Ignore_Table", "Replicate_Wild_Do_Table", "Replicate_Wild_Ignore_Table",
	"Replicate_Rewrite_DB",
}

// replicaStatus is what is read of a row of SHOW REPLICA STATUS, by column. The bytes are the driver's, until the next row.
type replicaStatus map[string]*sql.RawBytes

// scanReplicaStatus reads the present row. Columns that are not there read as empty ones.
func scanReplicaStatus(rows *sql.Rows) (replicaStatus, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.RawBytes, len(columns))
	r, into := make(replicaStatus, len(replicaColumns)+len(filterColumns)), make([]any, len(columns))
	for i, name := range columns {
		if into[i] = &values[i]; slices.Contains(replicaColumns, name) || slices.Contains(filterColumns, name) {
			r[name] = &values[i]
		}
	}
	return r, rows.Scan(into...)
}

// text is what a column holds.
func (r replicaStatus) text(column string) string {
	if value := r[column]; value != nil {
		return string(*value)
	}
	return ""
}

// has says whether a column holds anything.
func (r replicaStatus) has(column string) bool { return r[column] != nil && len(*r[column]) > 0 }

// tampering finds by what somebody has the channel leave out what it receives; ChannelDiffers finds its options.
func (r replicaStatus) tampering() mysql.Tampering {
	var found mysql.Tampering
	for _, column := range filterColumns {
		if r.has(column) {
			found.Filters = append(found.Filters, column+" is "+text.Shorten(r.text(column), longestFilter))
		}
	}
	return found
}

// read copies and interprets the row.
func (r replicaStatus) read() *mysql.Replication {
	errno := number(r.text("Last_IO_Errno"))
	read := &mysql.Replication{
		SourceHost:   r.text("Source_Host"),
		SourcePort:   number(r.text("Source_Port")),
		SourceUUID:   r.text("Source_UUID"),
		SQLRunning:   r.text("Replica_SQL_Running") == "Yes",
		Retrieved:    conn.Compact(r.text("Retrieved_Gtid_Set")),
		LastIOError:  text.Shorten(r.text("Last_IO_Error"), longestReplicationError),
		LastSQLError: text.Shorten(r.text("Last_SQL_Error"), longestReplicationError),
		IOState:      mysql.IOOff,

		SourceSilence:   never,
		ReceiverRetries: receiverRetries(errno),
		SourceRefusal:   mysql.SourceRefusal{SourceIsFull: errno == mysql.ErConCount, AccountRefused: accountRefused(errno, r.text("Last_IO_Error"))},
		RelayLogMissing: number(r.text("Last_SQL_Errno")) == mysql.ErReplicaRLIInitRepository,
		Tampering:       r.tampering(),
	}
	switch r.text("Replica_IO_Running") {
	case "Yes":
		read.IOState = mysql.IOOn
	case "Connecting":
		read.IOState = mysql.IOConnecting
	}
	if read.IOState != mysql.IOOn {
		// In front of it MySQL says whom it asked how often, which changes with every attempt.
		_, message, found := strings.Cut(read.LastIOError, "Message: ")
		read.ConnectError = message
		if !found {
			read.ConnectError = read.LastIOError
		}
	}
	// NULL while a thread is not running. Zero only says that everything received is applied: a source that went silent
	// shows in IOState after replica_net_timeout, not here.
	if lag, err := strconv.ParseFloat(r.text("Seconds_Behind_Source"), 64); err == nil {
		read.LagSeconds = &lag
	}
	return read
}

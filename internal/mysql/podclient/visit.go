package podclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// Visit is one connection of a pod that backs a member up or restores into one. It is used by one goroutine at a time
// and takes no part in what the operator does: it never holds the operator's lock. Close it.
type Visit struct {
	o    VisitOptions
	pool *conn.Pool
	s    *conn.Session
}

// VisitOptions say whom a pod visits, and as whom.
type VisitOptions struct {
	Endpoint mysql.Endpoint
	Identity mysql.Identity
	// User is BackupUser or OperatorUser, or whoever a throw-away server knows.
	User string
	// Socket is the server's socket, for a throw-away server that this process started. Endpoint and Identity are not
	// looked at then.
	Socket string
	// Options are those of the pool; its User is not looked at.
	Options conn.Options
}

// OpenVisit connects over verified TLS, or over a socket of this process's own. Its error wraps ErrUnreachable.
func OpenVisit(ctx context.Context, o VisitOptions) (*Visit, error) {
	o.Options.User = o.User
	pool := conn.NewPool(o.Options)
	dial := (*conn.Handle).Dial
	if o.Socket != "" {
		dial, o.Endpoint = (*conn.Handle).DialSocket, mysql.Endpoint{Key: o.Socket, Address: o.Socket, ServerName: o.Socket}
	}
	s, err := dial(pool.Handle(o.Endpoint, o.Identity), ctx)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to %s: %w", o.Endpoint.ServerName, conn.Unreachable(err))
	}
	return &Visit{o: o, pool: pool, s: s}, nil
}

// Close ends the connection, and with it whatever it holds on the server.
func (v *Visit) Close() {
	v.s.Close()
	v.pool.Close()
}

// Lost says whether the connection broke. A statement that had no answer in its time has not lost it: it may have been too long.
func (v *Visit) Lost() bool { return v.s.Broken() && !v.s.TimedOut() }

// ServerState is what a pod has to know of a server.
type ServerState struct {
	ServerUUID, Version string
	// LowerCaseTableNames and PartialRevokes are the variables of these names.
	LowerCaseTableNames, PartialRevokes string
	// Writable is true for the primary.
	Writable bool
	// Following is true for a replica both of whose threads run. Lag is meaningless unless LagKnown.
	Following bool
	Lag       time.Duration
	LagKnown  bool
	// Voters are those that the server's membership row names, and Filters the rules by which its applier leaves out or changes what it
	// receives.
	Voters, Filters []string
	// Executed and Purged are GTID sets as text.
	Executed, Purged string
}

// State reads a server's state. It is cheap however much the server holds.
func (v *Visit) State(ctx context.Context) (ServerState, error) {
	var state ServerState
	var readOnly bool
	if err := v.s.Row(ctx, "SELECT @@server_uuid, @@version, @@lower_case_table_names, @@partial_revokes, @@GLOBAL.read_only, @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged", nil,
		&state.ServerUUID, &state.Version, &state.LowerCaseTableNames, &state.PartialRevokes, &readOnly, &state.Executed, &state.Purged); err != nil {
		return state, fmt.Errorf("read the server's state: %w", err)
	}
	state.Executed, state.Purged, state.Writable = conn.Compact(state.Executed), conn.Compact(state.Purged), !readOnly
	replication, err := observe.ReplicationStatus(ctx, v.s)
	if err != nil {
		return state, fmt.Errorf("read the state of replication: %w", err)
	}
	if row, known := observe.ReadMembership(ctx, v.s); known && row != nil {
		state.Voters = row.Voters
	}
	if r := replication; r != nil {
		state.Filters = r.Filters
		state.Following = r.IOState == mysql.IOOn && r.SQLRunning
		if r.LagSeconds != nil {
			state.Lag, state.LagKnown = time.Duration(*r.LagSeconds*float64(time.Second)), true
		}
	}
	return state, nil
}

// systemSchemas are MySQL's own, which no backup takes as they are. A server without NDB has no ndbinfo but a user's.
const systemSchemas = "('mysql', 'sys', 'information_schema', 'performance_schema')"

// Printing makes SHOW CREATE and SHOW GRANTS print the same on every server, whatever was set globally. It continues a SET statement.
const Printing = ", SESSION sql_quote_show_create = ON, SESSION show_gipk_in_create_table_and_information_schema = ON, SESSION show_create_table_verbosity = OFF" +
	", SESSION show_create_table_skip_secondary_engine = OFF, SESSION terminology_use_previous = NONE"

// printing is the statement that sets Printing.
const printing = "SET SESSION sql_mode = ''" + Printing

// Databases returns the databases that are backed up: all but MySQL's own.
func (v *Visit) Databases(ctx context.Context) ([]string, error) {
	var names []string
	err := v.s.Rows(ctx, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN "+systemSchemas+" ORDER BY SCHEMA_NAME", nil,
		conn.Append(&names, func(name *string) []any { return []any{name} }))
	return names, err
}

// Table is a base table.
type Table struct {
	Database, Name string
	// Bytes is how large InnoDB takes it for.
	Bytes int64
	// Inexact is true where mysqldump does not write down exactly what a column holds, so that CHECKSUM TABLE differs
	// afterwards (tried on 9.7.4): FLOAT has six digits there, and a DECIMAL inside JSON comes back as a DOUBLE.
	Inexact bool
}

// TableNames returns the base tables of the databases that are backed up, by their names alone: thousands of them in a
// moment. It reads the session's snapshot when it has one, and so do Databases and AccountsSum (tried on 9.7.4).
func (v *Visit) TableNames(ctx context.Context) ([]Table, error) {
	return v.tableNames(ctx, v.s.Rows, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN "+systemSchemas)
}

// reading is how rows are read: within the time of a short statement, or in any.
type reading func(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error

func (v *Visit) tableNames(ctx context.Context, read reading, query string) ([]Table, error) {
	var tables []Table
	err := read(ctx, query, nil, conn.Append(&tables, func(t *Table) []any { return []any{&t.Database, &t.Name} }))
	return tables, err
}

// Tables returns the base tables of the databases that are backed up, the smallest first, by their sizes of now. Each of them is
// opened for that: of very many it takes long, and only ctx bounds it. Ask before the session has a snapshot: what was dropped since
// has a size that means nothing (tried on 9.7.4).
func (v *Visit) Tables(ctx context.Context) ([]Table, error) {
	// What is kept of sizes is up to a day old.
	if err := v.exec(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
		return nil, fmt.Errorf("ask for the tables' present sizes: %w", err)
	}
	found, err := v.tableNames(ctx, v.s.LongRows, "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS WHERE DATA_TYPE IN ('float', 'json') AND TABLE_SCHEMA NOT IN "+systemSchemas)
	if err != nil {
		return nil, err
	}
	inexact := map[Table]bool{}
	for _, t := range found {
		inexact[t] = true
	}
	var tables []Table
	err = v.s.LongRows(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(DATA_LENGTH, 0) FROM information_schema.TABLES
		WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN `+systemSchemas+` ORDER BY 3, 1, 2`, nil, func(rows *sql.Rows) error {
		var t Table
		if err := rows.Scan(&t.Database, &t.Name, &t.Bytes); err != nil {
			return err
		}
		t.Inexact = inexact[Table{Database: t.Database, Name: t.Name}]
		tables = append(tables, t)
		return nil
	})
	return tables, err
}

// ErrTableGone: a table was dropped, made or rewritten since the session's snapshot, which no longer shows it.
var ErrTableGone = errors.New("the table is not what it was when the snapshot was taken")

// Count counts a table's rows, and Checksum returns what CHECKSUM TABLE says of it. Both read the session's snapshot when
// it has one (tried on 9.7.4), and may take long: only ctx bounds them. Behind a lock of the table they end with ErrTooLong.
func (v *Visit) Count(ctx context.Context, t Table) (uint64, error) {
	var n uint64
	err := v.long(ctx, "SELECT COUNT(*) FROM "+t.quoted(), &n)
	return n, err
}

// Checksum returns what CHECKSUM TABLE says of a table, see Count.
func (v *Visit) Checksum(ctx context.Context, t Table) (uint64, error) {
	var name string
	var sum sql.Null[uint64]
	if err := v.long(ctx, "CHECKSUM TABLE "+t.quoted(), &name, &sum); err != nil {
		return 0, err
	}
	if !sum.Valid {
		return 0, fmt.Errorf("CHECKSUM TABLE %s.%s gives nothing", t.Database, t.Name)
	}
	return sum.V, nil
}

func (t Table) quoted() string { return conn.QuoteName(t.Database) + "." + conn.QuoteName(t.Name) }

// long reads one row without a time-out of its own.
func (v *Visit) long(ctx context.Context, query string, into ...any) error {
	err := v.s.LongRow(ctx, query, into...)
	if conn.IsServerError(err, mysql.ErNoSuchTable, mysql.ErTableDefChanged) {
		err = fmt.Errorf("%w: %w", ErrTableGone, err)
	}
	if conn.IsServerError(err, mysql.ErLockWaitTimeout) {
		err = fmt.Errorf("%w: %w", ErrTooLong, err)
	}
	return err
}

// exec runs a statement without a time-out of its own.
func (v *Visit) exec(ctx context.Context, query string, args ...any) error {
	return v.s.LongExec(ctx, query, args...)
}

// Heartbeat returns when the operator's availability probe last wrote, as the session sees it; false when it never did.
func (v *Visit) Heartbeat(ctx context.Context) (time.Time, bool, error) {
	var at sql.Null[string]
	err := v.s.Row(ctx, "SELECT DATE_FORMAT(MAX(at), '%Y-%m-%dT%H:%i:%s.%fZ') FROM nairobi_mysql.heartbeat", nil, &at)
	if conn.IsServerError(err, mysql.ErNoSuchTable, mysql.ErBadDB) || err == nil && !at.Valid {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, err
	}
	moment, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(at.V))
	return moment, err == nil, err
}

// Retirement are GTIDs that the cluster has used up because it had lost their transactions, and when it did not have these any more.
type Retirement struct {
	GTIDSet string
	At      time.Time
}

// Retirements reads what the operator recorded of them. Of a GTID that Position returned before the record is there.
func (v *Visit) Retirements(ctx context.Context) ([]Retirement, error) {
	var all []Retirement
	err := v.s.Rows(ctx, "SELECT gtids, DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s.%fZ') FROM nairobi_mysql.retired ORDER BY at, id", nil, func(rows *sql.Rows) error {
		var set, at string
		if err := rows.Scan(&set, &at); err != nil {
			return err
		}
		moment, err := time.Parse(time.RFC3339Nano, at)
		all = append(all, Retirement{conn.Compact(set), moment})
		return err
	})
	if conn.IsServerError(err, mysql.ErNoSuchTable, mysql.ErBadDB) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which GTIDs were used up: %w", err)
	}
	return all, nil
}

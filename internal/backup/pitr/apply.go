package pitr

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

const (
	// batchBytes is how much of a transaction's rows goes into one statement, in bytes.
	batchBytes = 1 << 20
	// bodyOffset is where an event's body begins.
	bodyOffset = replication.EventHeaderSize
	// rowFlags is where the flags of a row event are in its body, after six bytes of the table's number, and stmtEnd the
	// one that says that the statement ends with it (STMT_END_F).
	rowFlags = 6
	stmtEnd  = 1
)

// Session is where transactions are replayed.
type session interface {
	Replay(ctx context.Context, statement string) error
	// ReplayFrom runs a statement that no memory need hold.
	ReplayFrom(ctx context.Context, statement io.Reader) error
}

// applier replays transactions: row events in BINLOG statements, everything else as the statements that it is, each in the
// session that it ran in. That is what mysqlbinlog prints for the mysql client.
type applier struct {
	to session
	// known is what the session's variables are, and database its default one; "" when that is not known.
	known    map[string]string
	database string
	// begun is the statement that began the present transaction.
	begun string

	format *binlog.Format
	// tables are the TABLE_MAP events of the statement whose rows are coming.
	tables []binlog.Event
	// batch are events that wait to be sent.
	batch []binlog.Event
	bytes int
}

func newApplier(to session) *applier { return &applier{to: to, known: map[string]string{}} }

// begin takes a log's format. Checksums were looked at before, and are left out.
func (a *applier) begin(ctx context.Context, f *binlog.Format) error {
	a.format = f
	if err := a.send(ctx, []binlog.Event{f.PlainFormat()}); err != nil {
		return fmt.Errorf("tell the server the format of the binary log: %w", err)
	}
	return nil
}

func (a *applier) send(ctx context.Context, events []binlog.Event) error {
	return a.to.Replay(ctx, "BINLOG '"+base64.StdEncoding.EncodeToString(slices.Concat(events...))+"'")
}

// transaction begins a transaction under its own identifier.
func (a *applier) transaction(ctx context.Context, t binlog.Transaction) error {
	a.tables, a.batch, a.bytes = nil, nil, 0
	a.begun = fmt.Sprintf("SET @@SESSION.original_commit_timestamp = %d, @@SESSION.original_server_version = %d, @@SESSION.immediate_server_version = %d, @@SESSION.GTID_NEXT = '%s'",
		t.Committed.UnixMicro(), t.OriginalVersion, t.ImmediateVersion, t.GTID())
	return a.to.Replay(ctx, a.begun)
}

// end leaves the session without a transaction.
func (a *applier) end(ctx context.Context) error {
	return a.to.Replay(ctx, "SET @@SESSION.GTID_NEXT = 'AUTOMATIC'")
}

// event replays one event of the transaction. It comes with its checksum; of a large one body is what follows the header.
func (a *applier) event(ctx context.Context, e binlog.Event, body *binlog.Body) error {
	if body != nil {
		return a.large(ctx, e, body)
	}
	return a.plain(ctx, a.format.Plain(e))
}

// plain replays an event without checksum.
func (a *applier) plain(ctx context.Context, e binlog.Event) error {
	body := e[bodyOffset:]
	switch e.Type() { //nolint:exhaustive // the others are refused
	case replication.TABLE_MAP_EVENT:
		a.tables = append(a.tables, e)
		return nil
	case replication.WRITE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv1,
		replication.WRITE_ROWS_EVENTv2, replication.UPDATE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT:
		return a.rows(ctx, e)
	case replication.QUERY_EVENT:
		return a.query(ctx, e, body)
	case replication.XID_EVENT:
		if err := a.flush(ctx); err != nil {
			return err
		}
		return a.to.Replay(ctx, "COMMIT")
	case replication.XA_PREPARE_LOG_EVENT:
		return a.prepare(ctx, body)
	case replication.INTVAR_EVENT:
		return a.intvar(ctx, body)
	case replication.RAND_EVENT:
		if len(body) < 16 {
			return fmt.Errorf("%w: an event is too short", binlog.ErrDamaged)
		}
		return a.to.Replay(ctx, fmt.Sprintf("SET @@RAND_SEED1 = %d, @@RAND_SEED2 = %d", binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])))
	case replication.ROWS_QUERY_EVENT, replication.IGNORABLE_EVENT, replication.VIEW_CHANGE_EVENT, replication.TRANSACTION_CONTEXT_EVENT:
		return nil // for people, or for group replication
	}
	if e.Begins() {
		return nil
	}
	return fmt.Errorf("an event of type %s cannot be replayed: write with binlog_format=ROW", e.Type())
}

// rows adds a row event to what is sent next. One statement of many rows is sent as several: each with the tables' events
// before it and marked as a statement's end, because the server forgets the tables between two statements.
func (a *applier) rows(ctx context.Context, e binlog.Event) error {
	if len(e) < bodyOffset+rowFlags+2 {
		return fmt.Errorf("%w: a row event is too short", binlog.ErrDamaged)
	}
	flags := binary.LittleEndian.Uint16(e[bodyOffset+rowFlags:])
	a.batch, a.bytes = append(a.batch, e), a.bytes+len(e)
	ends := flags&stmtEnd != 0
	if !ends && a.bytes < batchBytes {
		return nil
	}
	err := a.sendBatch(ctx)
	if ends {
		a.tables = nil
	}
	return err
}

// sendBatch sends what waits, as a statement of its own.
func (a *applier) sendBatch(ctx context.Context) error {
	if len(a.batch) == 0 {
		return nil
	}
	last := slices.Clone(a.batch[len(a.batch)-1])
	binary.LittleEndian.PutUint16(last[bodyOffset+rowFlags:], binary.LittleEndian.Uint16(last[bodyOffset+rowFlags:])|stmtEnd)
	a.batch[len(a.batch)-1] = last
	err := a.send(ctx, slices.Concat(a.tables, a.batch))
	a.batch, a.bytes = nil, 0
	return err
}

// flush makes sure that nothing waits: every statement's rows end with a mark.
func (a *applier) flush(context.Context) error {
	if len(a.batch) > 0 {
		return fmt.Errorf("%w: rows without an end", binlog.ErrDamaged)
	}
	a.tables = nil
	return nil
}

// query runs a statement in a session like the one that it ran in.
func (a *applier) query(ctx context.Context, e binlog.Event, body []byte) error {
	if err := a.flush(ctx); err != nil {
		return err
	}
	q, err := parseQuery(e, body)
	if err != nil {
		return err
	}
	switch q.text {
	case "BEGIN":
		// CHECKs and generated columns of the rows that follow depend on the SQL mode and the time zone.
		if err := a.settings(ctx, q.settings); err != nil {
			return err
		}
		return a.to.Replay(ctx, q.text)
	case "COMMIT":
		return a.to.Replay(ctx, q.text)
	}
	if err := a.grantRoutine(ctx, q); err != nil {
		return err
	}
	if err := a.session(ctx, q, e.Time()); err != nil {
		return err
	}
	if e.Flags()&binlog.FlagSuppressUse != 0 {
		a.database = "" // it may be about the default database itself
	}
	return a.statement(ctx, q.statement())
}

// statement runs a statement, and once more what the server refuses at first.
func (a *applier) statement(ctx context.Context, text string) error {
	strict, lenient := withoutIfExists(text)
	err := a.to.Replay(ctx, strict)
	switch {
	case podclient.IsNoSuchGrant(err):
		return a.revokePart(ctx, text)
	case podclient.IsProxyDenied(err):
		if err := a.beside(ctx, podclient.AllowProxies...); err != nil {
			return fmt.Errorf("allow to grant PROXY: %w", err)
		}
	case !lenient || !podclient.IsRefusal(err):
		return err
	default:
		if err := a.beside(ctx); err != nil {
			return err
		}
	}
	return a.to.Replay(ctx, text)
}

// beside runs statements between the parts of the transaction that has begun: a session that has its identifier gives it back first.
func (a *applier) beside(ctx context.Context, statements ...string) error {
	for _, statement := range slices.Concat([]string{"ROLLBACK", "SET @@SESSION.GTID_NEXT = 'AUTOMATIC'"}, statements, []string{a.begun}) {
		if err := a.to.Replay(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// revokePart runs a REVOKE again of what an account does not have at that level: a server with partial_revokes takes it for a part of a global
// privilege, and the binary log does not say whether the one that wrote it was such a server. The variable stays only where there is
// a partial revoke then: it makes patterns of databases names.
func (a *applier) revokePart(ctx context.Context, text string) error {
	if err := a.beside(ctx, "SET @partial_revokes = @@GLOBAL.partial_revokes", "SET @@GLOBAL.partial_revokes = ON"); err != nil {
		return err
	}
	if err := a.to.Replay(ctx, text); err != nil {
		return err
	}
	err := a.to.Replay(ctx, "SET @@GLOBAL.partial_revokes = @partial_revokes")
	if podclient.IsPartlyRevoked(err) {
		return nil
	}
	return err
}

// grantRoutine runs what routineGrant says of a statement that is about to be run: a privilege may be there without its routine, so that a replay
// that is cut off in between loses none. It is written without the binary log, as a replica writes it.
func (a *applier) grantRoutine(ctx context.Context, q query) error {
	grant, makes := routineGrant(q)
	if !makes {
		return nil
	}
	if err := a.beside(ctx, "SET @@SESSION.sql_log_bin = 0", grant, "FLUSH LOCAL PRIVILEGES", "SET @@SESSION.sql_log_bin = 1"); err != nil {
		return fmt.Errorf("grant the privileges that come with a routine: %w", err)
	}
	return nil
}

// session sets the session up for a statement of a time.
func (a *applier) session(ctx context.Context, q query, at uint32) error {
	if err := a.use(ctx, q.database); err != nil {
		return err
	}
	if err := a.settings(ctx, q.settings, fmt.Sprintf("@@SESSION.TIMESTAMP = %d.%06d", at, q.microseconds)); err != nil {
		return err
	}
	delete(a.known, collationDatabase) // USE changes it, and ALTER DATABASE
	return nil
}

// settings gives the session's variables the values that are not known to be theirs, and assigns what is more.
func (a *applier) settings(ctx context.Context, settings []setting, more ...string) error {
	var assignments []string
	for _, s := range settings {
		if a.known[s.name] != s.value {
			assignments = append(assignments, "@@SESSION."+s.name+" = "+s.value)
		}
	}
	if assignments = append(assignments, more...); len(assignments) == 0 {
		return nil
	}
	if err := a.to.Replay(ctx, "SET "+strings.Join(assignments, ", ")); err != nil {
		return fmt.Errorf("set up the session of a statement: %w", err)
	}
	for _, s := range settings {
		a.known[s.name] = s.value
	}
	return nil
}

// utf8mb4 is the number of utf8mb4_0900_ai_ci. Names in the binary log are in UTF-8.
const utf8mb4 = "255"

// use makes a database the default one.
func (a *applier) use(ctx context.Context, database string) error {
	if database == "" || database == a.database {
		return nil
	}
	if a.known["character_set_client"] != utf8mb4 {
		if err := a.to.Replay(ctx, "SET @@SESSION.character_set_client = "+utf8mb4); err != nil {
			return err
		}
		a.known["character_set_client"] = utf8mb4
	}
	err := a.to.Replay(ctx, "USE `"+strings.ReplaceAll(database, "`", "``")+"`")
	switch {
	case podclient.IsUnknownDatabase(err):
		// A session keeps the name of a default database that another one drops. Its statements name theirs.
		return nil
	case err != nil:
		return err
	}
	a.database = database
	return nil
}

// prepare ends a part of a distributed transaction (XA_PREPARE event: one phase or not, and the identifier).
func (a *applier) prepare(ctx context.Context, body []byte) error {
	if err := a.flush(ctx); err != nil {
		return err
	}
	const fixed = 13
	if len(body) < fixed {
		return fmt.Errorf("%w: an XA event is too short", binlog.ErrDamaged)
	}
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(body[at:])) }
	global, branch := u32(5), u32(9)
	if int64(len(body)) < fixed+global+branch {
		return fmt.Errorf("%w: an XA event is too short", binlog.ErrDamaged)
	}
	data := body[fixed:]
	id := fmt.Sprintf("X'%s',X'%s',%d", hex.EncodeToString(data[:global]), hex.EncodeToString(data[global:global+branch]), u32(1))
	if body[0] != 0 {
		return a.to.Replay(ctx, "XA COMMIT "+id+" ONE PHASE")
	}
	return a.to.Replay(ctx, "XA PREPARE "+id)
}

// intvar is what LAST_INSERT_ID() or an AUTO_INCREMENT column gives in the statement that follows.
func (a *applier) intvar(ctx context.Context, body []byte) error {
	if len(body) < 9 {
		return fmt.Errorf("%w: an event is too short", binlog.ErrDamaged)
	}
	name := "LAST_INSERT_ID"
	if body[0] == 2 {
		name = "INSERT_ID"
	}
	return a.to.Replay(ctx, fmt.Sprintf("SET %s = %d", name, binary.LittleEndian.Uint64(body[1:])))
}

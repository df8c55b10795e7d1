package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Session is one connection to one server, used by one goroutine at a time.
type Session struct {
	conn *sql.Conn
	pool *Pool
	wire *trackedConn // below TLS; nil before the dial
	id   uint64       // the server's id of this connection
	cert *x509.Certificate
	// resumed: the TLS session was one of before, so that no certificate was shown.
	resumed bool
	// brief: it offered little, because it was to be resumed.
	brief bool
	// shown is what the connection was made with. It is kept for other connections to share.
	shown *credentials
	// broken: the connection is of no use any more. timedOut: because a statement gave no answer, and may still run.
	broken, timedOut bool
	counted          atomic.Bool // among the open ones of the pool
	failure          error       // what broke it
}

// driverLog keeps the last error that the driver logs: it returns "bad connection" where it logs the reason, for example
// the TLS alert of a server that does not accept our certificate.
type driverLog struct {
	mu   sync.Mutex
	last error
}

func (l *driverLog) Print(values ...any) {
	for _, value := range values {
		if err, ok := value.(error); ok {
			l.mu.Lock()
			l.last = err
			l.mu.Unlock()
		}
	}
}

// explain replaces an error that says nothing by the logged reason.
func (l *driverLog) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && ServerErrorNumber(err) == 0 {
		return l.last
	}
	return err
}

// MaxPacket is the largest statement that MySQL can be made to take, in bytes. The server's own limit decides.
const MaxPacket = 1 << 30

// Unlimited is the greatest limit, which means none. DEFAULT would be the global value.
const Unlimited = "18446744073709551615"

// WholeReads is the statement that keeps limits which were set globally from cutting what a program of MySQL's reads, or from
// refusing it: the program's first.
const WholeReads = "SET SESSION sql_select_limit = " + Unlimited + ", SESSION max_join_size = " + Unlimited +
	", SESSION sql_big_selects = 1, SESSION sql_safe_updates = 0, SESSION max_execution_time = 0"

// SQLMode is that of a session, as SQL writes it.
const SQLMode = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"

// sessionSettings make a session independent of what users set globally: quoting rules, time zone, isolation, lock waits, limits.
var sessionSettings = map[string]string{
	// MySQL's default. Under READ-UNCOMMITTED a session reads rows whose commit waits for an acknowledgement, such as that of the membership.
	"transaction_isolation":    "'REPEATABLE-READ'",
	"sql_mode":                 SQLMode,
	"time_zone":                "'+00:00'",
	"autocommit":               "1",
	"completion_type":          "'NO_CHAIN'",
	"transaction_read_only":    "0",
	"lock_wait_timeout":        "1", // seconds, the least; the default is a year. Below the time-out of a reading statement, so that it ends with an error of the server's
	"innodb_lock_wait_timeout": "5", // seconds
	"wait_timeout":             "31536000",
	"max_execution_time":       "0",
	"sql_select_limit":         Unlimited,
	"max_join_size":            Unlimited,
	"sql_big_selects":          "1",
	"sql_safe_updates":         "0",
}

// ownSettings are for the operator's sessions alone: some need a privilege that the accounts of pods lack. They keep a session out of the
// general query log, and out of the slow query log, which takes nothing that examines fewer rows, and take names of files as they are.
// A foreign key that somebody has between a table of ours and another stops no write, and SHOW CREATE TABLE quotes each name.
const ownSettings = ", SESSION sql_log_off = 1, SESSION character_set_filesystem = binary, SESSION min_examined_row_limit = " + Unlimited +
	", SESSION foreign_key_checks = 0, SESSION sql_quote_show_create = 1"

// neverSlow keeps a session out of the slow query log, unless that takes what uses no index as well. Every account may have it.
const neverSlow = ", SESSION long_query_time = 31536000"

// SessionSettings are the variables that each session sets for itself, with their values as SQL.
func SessionSettings() map[string]string { return maps.Clone(sessionSettings) }

// beginSession is the statement that makes sessionSettings a session's.
var beginSession = func() string {
	var settings []string
	for name, value := range sessionSettings {
		settings = append(settings, "SESSION "+name+" = "+value)
	}
	slices.Sort(settings)
	return "SET " + strings.Join(settings, ", ")
}()

// ID is the server's id of the connection.
func (s *Session) ID() uint64 { return s.id }

// Options are those of the session's pool.
func (s *Session) Options() Options { return s.pool.options }

// Certificate is what the server showed, when the connection or the one that it resumes was made.
func (s *Session) Certificate() *x509.Certificate { return s.cert }

// TakeAnswers has the session take answers of up to most bytes, instead of MaxAnswer of its pool, until the returned function is called.
func (s *Session) TakeAnswers(most int64) (restore func()) {
	before := s.wire.most
	s.wire.most = most
	return func() { s.wire.most = before }
}

// Broken says that the connection is of no use any more.
func (s *Session) Broken() bool { return s.broken }

// TimedOut says that it is of no use because a statement gave no answer in time. The statement may still run.
func (s *Session) TimedOut() bool { return s.timedOut }

// Break ends the use of the connection: whoever has the turn closes it.
func (s *Session) Break() { s.broken = true }

// dial opens a session to the entry's endpoint.
func (p *Pool) dial(ctx context.Context, e *entry, how trust) (*Session, error) {
	return p.dialAgain(ctx, e, how, nil)
}

// dialAgain is dial for a server whose TLS session of before may be resumed; with nil none is.
func (p *Pool) dialAgain(ctx context.Context, e *entry, how trust, before *resumption) (*Session, error) {
	if e.forgotten() {
		return nil, errForgotten
	}
	endpoint, identity := e.target()
	s := &Session{pool: p}
	config := driver.NewConfig()
	config.User = p.options.User
	config.Addr = endpoint.Address
	if how == bySocket {
		config.Net = "unix"
	} else if err := s.secure(config, endpoint, identity, how, before); err != nil {
		return nil, err
	}
	config.InterpolateParams = true // one round trip a statement; quoting is safe because sql_mode and charset are ours
	config.MaxAllowedPacket = MaxPacket
	config.ConnectionAttributes = "program_name:nairobi-mysql-operator"
	log := &driverLog{}
	config.Logger = log
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := p.options.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		wire, err := e.track(connection, p.options.MaxAnswer)
		if err != nil {
			return nil, err
		}
		s.wire = wire
		return wire, nil
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.DialTimeout)
	defer cancel()
	if s.conn, err = p.db.Conn(withConnector(ctx, connector)); err != nil {
		err = s.wire.explain(translate(ctx, log.explain(err)))
		if s.cert != nil && !s.resumed && IsHangUp(err) {
			err = fmt.Errorf("%w: %w", errNotAccepted, err)
		}
		return nil, err
	}
	p.open.Add(1)
	s.counted.Store(true)
	if err = s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// begin sends a session's first statements: its settings, which the driver would keep once more for each connection if it sent them.
func (s *Session) begin(ctx context.Context) error {
	b := s.bind(ctx, s.pool.options.StatementTimeout)
	settings := beginSession
	switch s.pool.options.User {
	case mysql.OperatorUser:
		settings += ownSettings
	case mysql.MetricsUser: // its pod prints that log
		settings += neverSlow
	}
	_, err := s.conn.ExecContext(b.ctx, settings)
	err = b.note(err)
	b.release()
	if err == nil {
		err = s.Row(ctx, "SELECT CONNECTION_ID()", nil, &s.id)
	}
	if err == nil {
		err = s.Err() // the dial's time ended just now
	}
	return err
}

// opener makes the connections of a pool, each by the connector that comes with the context. So one sql.DB serves thousands of
// them: one for each would cost a goroutine each, and could not pool anything either, because none stands for another.
type opener struct{}

type connectorKey struct{}

func withConnector(ctx context.Context, connector sqldriver.Connector) context.Context {
	return context.WithValue(ctx, connectorKey{}, connector)
}

func (opener) Connect(ctx context.Context) (sqldriver.Conn, error) {
	connector, ok := ctx.Value(connectorKey{}).(sqldriver.Connector)
	if !ok {
		return nil, errors.New("the context does not say what to connect to")
	}
	return connector.Connect(ctx)
}

func (opener) Driver() sqldriver.Driver { return driver.MySQLDriver{} }

// openDB returns what makes a pool's connections. A connection that is closed is never kept for another user.
func openDB() *sql.DB {
	db := sql.OpenDB(opener{})
	db.SetMaxIdleConns(0)
	return db
}

// secure gives a connection its TLS side, and notes the certificate that the peer shows.
func (s *Session) secure(config *driver.Config, endpoint mysql.Endpoint, identity mysql.Identity, how trust, before *resumption) error {
	shown, err := inUse.get(identity)
	if err != nil {
		return err
	}
	tlsConfig, err := shown.tls(endpoint, how)
	if err != nil {
		return err
	}
	if before != nil {
		tlsConfig.ClientSessionCache = before.of(shown, s.pool.options.Clock.Now())
		if s.brief = before.kept(); s.brief {
			tlsConfig.CurvePreferences = agreedBriefly
		}
	}
	tlsConfig.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) > 0 {
			s.cert = state.PeerCertificates[0]
		}
		s.resumed = state.DidResume
		return nil
	}
	s.shown, config.Net, config.TLS = shown, "tcp", tlsConfig
	return nil
}

// translate gives an error of the driver the meaning that the deadline has for us.
func translate(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && ServerErrorNumber(err) == 0 {
		return ContextError(ctx)
	}
	return err
}

// note marks the session broken when err is anything but an answer of the server.
func (s *Session) note(ctx context.Context, err error) error {
	err = s.wire.explain(translate(ctx, err))
	if err != nil && !errors.Is(err, sql.ErrNoRows) && ServerErrorNumber(err) == 0 {
		s.broken, s.failure = true, err
		s.timedOut = s.timedOut || isTimeout(err) || ctx.Err() != nil
	}
	return err
}

// Err returns what broke the connection; nil while it is whole.
func (s *Session) Err() error {
	if s.broken {
		return s.failure
	}
	return nil
}

// Row reads one row. sql.ErrNoRows says that there is none.
func (s *Session) Row(ctx context.Context, query string, args []any, into ...any) error {
	if err := s.Err(); err != nil {
		return err
	}
	b := s.bind(ctx, s.pool.options.StatementTimeout)
	defer b.release()
	return b.note(s.conn.QueryRowContext(b.ctx, query, args...).Scan(into...))
}

// Rows reads all rows, each through scan.
func (s *Session) Rows(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	if err := s.Err(); err != nil {
		return err
	}
	b := s.bind(ctx, s.pool.options.StatementTimeout)
	defer b.release()
	return b.note(s.each(b.ctx, query, args, scan))
}

// Append reads each row of Rows into one more element of all, which fields says the places of.
func Append[T any](all *[]T, fields func(*T) []any) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var one T
		if err := rows.Scan(fields(&one)...); err != nil {
			return err
		}
		*all = append(*all, one)
		return nil
	}
}

// LongRows is rows without a time-out of its own.
func (s *Session) LongRows(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.wire.begin()
	return s.note(ctx, s.each(ctx, query, args, scan))
}

// LongRow reads one row without a time-out of its own.
func (s *Session) LongRow(ctx context.Context, query string, into ...any) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.wire.begin()
	return s.note(ctx, s.conn.QueryRowContext(ctx, query).Scan(into...))
}

// LongExec runs a statement without a time-out of its own, and without the hook.
func (s *Session) LongExec(ctx context.Context, query string, args ...any) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.wire.begin()
	_, err := s.conn.ExecContext(ctx, query, args...)
	return s.note(ctx, err)
}

func (s *Session) each(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Change runs one statement that changes something, named op for the hook, within ChangeTimeout.
func (s *Session) Change(ctx context.Context, op, query string, args ...any) error {
	return s.ChangeWithin(ctx, s.pool.options.ChangeTimeout, op, query, args...)
}

// ChangeWithin is change within another time.
func (s *Session) ChangeWithin(ctx context.Context, limit time.Duration, op, query string, args ...any) error {
	_, err := s.Exec(ctx, limit, op, query, args...)
	return err
}

// Exec is ChangeWithin, and returns the result of the statement. One that waited in vain for a lock fails with ErrBlocked, which names who
// holds that.
func (s *Session) Exec(ctx context.Context, limit time.Duration, op, query string, args ...any) (sql.Result, error) {
	if err := s.pool.options.Hook(op, "before"); err != nil {
		return nil, &hookError{op: op, err: err}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	b := s.bind(ctx, limit)
	result, err := s.conn.ExecContext(b.ctx, query, args...)
	err = b.note(err)
	b.release()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, s.heldUp(ctx, query, err))
	}
	if err := s.pool.options.Hook(op, "after"); err != nil {
		return nil, &hookError{op: op, err: err}
	}
	return result, nil
}

// hookError is an action cut off by a test's hook.
type hookError struct {
	op  string
	err error
}

func (e *hookError) Error() string { return e.op + ": " + e.err.Error() }
func (e *hookError) Unwrap() error { return e.err }

// Close ends the session.
func (s *Session) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.counted.CompareAndSwap(true, false) {
		s.pool.open.Add(-1)
	}
}

// opKill is the name of the statement that ends another session.
const opKill = "session/kill"

// Kill ends another session of the same server. One that is gone already is a success.
func (s *Session) Kill(ctx context.Context, id uint64) error {
	err := s.ChangeWithin(ctx, s.pool.options.StatementTimeout, opKill, "KILL ?", id)
	if IsServerError(err, mysql.ErNoSuchThread) {
		return nil
	}
	return err
}

// Interrupt ends the statement that runs in another session of the same server.
func (s *Session) Interrupt(ctx context.Context, id uint64) error {
	if err := s.Err(); err != nil {
		return err
	}
	b := s.bind(ctx, s.pool.options.StatementTimeout)
	defer b.release()
	_, err := s.conn.ExecContext(b.ctx, "KILL QUERY ?", id)
	return b.note(err)
}

// killOwn ends another session of this account's. A server that was restarted since has given the number to somebody else.
func (s *Session) killOwn(ctx context.Context, id uint64) error {
	var same sql.Null[uint64]
	err := s.Row(ctx, "SELECT MAX(ID) FROM performance_schema.processlist WHERE ID = ? AND ID <> CONNECTION_ID() AND USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)", []any{id}, &same)
	if err != nil || !same.Valid {
		return err
	}
	return s.Kill(ctx, same.V)
}

package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// serviceWorkers write through the primary Service, each over a connection of its own.
	serviceWorkers = 6
	// directWorkers is where the numbers of the workers begin that write to one member directly, by its ordinal.
	directWorkers = 100
	// pace is a worker's pause between two writes, directPace that of one which writes to a member directly. All together
	// make some 80 writes a second: three members on two cores, each syncing two logs for every write, have room to catch up.
	pace       = 80 * time.Millisecond
	directPace = 250 * time.Millisecond
	// redialPace is its pause after a connection failed.
	redialPace = 50 * time.Millisecond
	// dialTimeout and answerTimeout are what clients of a failover should have: short enough to notice it.
	dialTimeout   = time.Second
	answerTimeout = time.Second
)

// access is how an application connects.
type access struct {
	network                  nodeNetwork
	user, password, database string
	authority                *x509.CertPool
	// certificate is the operator's, which needs no password. Nil: an application.
	certificate *tls.Certificate
}

// connector leads to an address whose certificate must carry a name.
func (a access) connector(address, name string, answer time.Duration) (driver.Connector, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = a.user, a.password, a.database
	c.Net, c.Addr = "tcp", address
	c.DialFunc = a.network.dial
	c.TLS = &tls.Config{RootCAs: a.authority, ServerName: name, MinVersion: tls.VersionTLS12}
	if a.certificate != nil {
		c.TLS.Certificates = []tls.Certificate{*a.certificate}
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, answer, answer
	c.InterpolateParams = true // one round trip for each write
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	return connector, nil
}

// target is where a worker writes.
type target struct{ address, name string }

// Load is the writing clients.
type Load struct {
	access access
	ledger *Ledger
	// judge gets the end of every attempt to write through the Service.
	judge *statusJudge

	service target
	round   atomic.Int64
	// gate is held for reading by a worker while it writes, and for writing while the load is paused.
	gate sync.RWMutex

	mu      sync.Mutex
	members map[int]target // by ordinal

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// newLoad begins to write. It goes on until Stop.
func newLoad(a access, ledger *Ledger, judge *statusJudge, service target) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{access: a, ledger: ledger, judge: judge, service: service, members: map[int]target{}, cancel: cancel}
	for n := range serviceWorkers {
		l.running.Go(func() { (&worker{load: l, number: n, pace: pace, where: l.theService}).run(ctx) })
	}
	return l
}

func (l *Load) theService() target { return l.service }

// follow sets where the members are and lets each be written to directly.
func (l *Load) follow(ctx context.Context, members map[int]target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ordinal, where := range members {
		if _, known := l.members[ordinal]; !known {
			w := &worker{load: l, number: directWorkers + ordinal, pace: directPace, where: func() target { return l.member(ordinal) }}
			l.running.Go(func() { w.run(ctx) })
		}
		l.members[ordinal] = where
	}
}

func (l *Load) member(ordinal int) target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members[ordinal]
}

// Pause returns when no write is under way and lets none begin until resume is called.
func (l *Load) Pause() (resume func()) {
	began := l.ledger.now()
	l.gate.Lock()
	return func() {
		ended := l.ledger.now()
		l.ledger.paused(began, ended)
		l.judge.paused(ended)
		l.gate.Unlock()
	}
}

// Stop ends all clients.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
}

// worker is one client with one connection.
type worker struct {
	load   *Load
	number int
	pace   time.Duration
	where  func() target

	seq    uint32
	db     *sql.DB
	conn   *sql.Conn
	at     target
	server uint32
}

func (w *worker) run(ctx context.Context) {
	defer w.hangUp()
	for ctx.Err() == nil {
		rest := w.pace
		w.load.gate.RLock()
		err := w.write(ctx)
		if err != nil {
			w.hangUp()
			rest = redialPace
		}
		if w.number < directWorkers && ctx.Err() == nil {
			w.load.judge.write(w.load.ledger.now(), err == nil)
		}
		w.load.gate.RUnlock()
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// write makes one write, over a new connection if there is none to where it should go.
func (w *worker) write(ctx context.Context) error {
	if at := w.where(); w.conn == nil || at != w.at {
		w.hangUp()
		if err := w.call(ctx, at); err != nil {
			return err
		}
	}
	w.seq++
	e := Entry{
		ID: w.load.ledger.next(), Round: int(w.load.round.Load()), Worker: w.number, Seq: w.seq, Server: w.server,
		Sent: w.load.ledger.now(),
	}
	_, err := w.conn.ExecContext(ctx, "INSERT INTO writes (id, round, worker, seq, server) VALUES (?, ?, ?, ?, ?)",
		e.ID, e.Round, e.Worker, e.Seq, e.Server)
	e.Answered, e.Outcome = w.load.ledger.now(), outcome(err)
	w.load.ledger.record(e)
	if e.Outcome == Refused && w.number >= directWorkers {
		return nil // as it should be: its connection is good
	}
	return err
}

// outcome says what a client knows after a write.
func outcome(err error) Outcome {
	var answer *mysql.MySQLError
	switch {
	case err == nil:
		return Acknowledged
	case errors.As(err, &answer) && refusals[answer.Number]:
		return Refused
	default:
		return Unknown
	}
}

// refusals are the errors after which it is certain that nothing was committed: read-only by option, by lock, super
// read-only mode, full table, lock wait time-out and deadlock.
var refusals = map[uint16]bool{1290: true, 1223: true, 1836: true, 1114: true, 1205: true, 1213: true}

// call connects.
func (w *worker) call(ctx context.Context, at target) error {
	connector, err := w.load.access.connector(at.address, at.name, answerTimeout)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT @@server_id").Scan(&w.server)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	w.db, w.conn, w.at = db, conn, at
	return nil
}

func (w *worker) hangUp() {
	if w.conn == nil {
		return
	}
	// What a closed connection has to say about its end is of no use.
	_ = w.conn.Close()
	_ = w.db.Close()
	w.conn, w.db = nil, nil
}

// hostPort joins an address with MySQL's port.
func hostPort(address string) string { return net.JoinHostPort(address, "3306") }

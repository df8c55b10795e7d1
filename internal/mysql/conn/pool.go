package conn

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// DefaultDialTimeout bounds TCP, TLS and login together. A member in the same region answers in milliseconds;
	// two seconds leave room for two lost SYN packets.
	DefaultDialTimeout = 2 * time.Second
	// DefaultStatementTimeout bounds each reading statement, because statements can hang without an error (facts 2, 22).
	DefaultStatementTimeout = 2 * time.Second
	// DefaultChangeTimeout bounds each changing statement. STOP REPLICA alone may rightly take seconds (fact 14).
	DefaultChangeTimeout = 10 * time.Second
	// DefaultMostKept is how many sessions a pool keeps open between looks: those of 300 clusters of three, and some.
	DefaultMostKept = 1000
	// DefaultIdleTimeout is how long a connection that nobody uses is kept.
	DefaultIdleTimeout = 10 * time.Minute
)

// Options of a Pool. The zero value works.
type Options struct {
	// Lease takes a fresh look at the leader's lease. It is asked before a writing session is opened or reopened;
	// with an error nothing is opened. Nil means that there is only one hand (tests, one-shot commands).
	Lease func(context.Context) error
	// DialTimeout, StatementTimeout, ChangeTimeout and IdleTimeout default to the constants above.
	DialTimeout, StatementTimeout, ChangeTimeout, IdleTimeout time.Duration
	// MostKept is how many sessions may be open before the looks at replicas that are well begin to end with their session. To keep
	// one costs 25 KiB of memory, to open it again half a handshake and 2 KiB. It defaults to DefaultMostKept.
	MostKept int
	// MaxAnswer is how many bytes a server may answer to one statement; the connection is cut off after that. It defaults to
	// DefaultMaxAnswer. A process that serves many tenants chooses less: each of their servers may send as much at the same time.
	MaxAnswer int64
	Logger    logr.Logger
	Clock     clock.PassiveClock
	// Dial makes the TCP connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Owned says of a variable that the operator has a value of its own for it. On a running server such a one never gets MySQL's
	// default, whoever persisted it. Nil: there is none.
	Owned func(variable string) bool
	// User is the account to log in with; OperatorUser unless set.
	User string
	// Hook is called before and after each changing statement, with its name. An error stops the action there,
	// as a crash would. For tests.
	Hook func(op, phase string) error
}

// Pool keeps the connections to all members: at most one reading and one writing session for each.
type Pool struct {
	options Options
	db      *sql.DB
	open    atomic.Int64 // sessions

	mu        sync.Mutex
	entries   map[string]*entry
	nextSweep time.Time
	closed    bool
	running   sync.WaitGroup // detached CLONE statements
}

// NewPool returns an empty pool. Nothing is dialled until a member is used.
func NewPool(o Options) *Pool {
	setDefault(&o.DialTimeout, DefaultDialTimeout)
	setDefault(&o.StatementTimeout, DefaultStatementTimeout)
	setDefault(&o.ChangeTimeout, DefaultChangeTimeout)
	setDefault(&o.IdleTimeout, DefaultIdleTimeout)
	if o.MostKept <= 0 {
		o.MostKept = DefaultMostKept
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.User == "" {
		o.User = mysql.OperatorUser
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Hook == nil {
		o.Hook = func(string, string) error { return nil }
	}
	if o.Owned == nil {
		o.Owned = func(string) bool { return false }
	}
	if o.Lease == nil {
		o.Lease = func(context.Context) error { return nil }
	}
	return &Pool{options: o, db: openDB(), entries: map[string]*entry{}}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Handle returns a handle for one member. It is cheap and does not dial. A changed address or identity counts from
// the next connection on; an address that changed closes the old connections.
func (p *Pool) Handle(endpoint mysql.Endpoint, identity mysql.Identity) *Handle {
	p.mu.Lock()
	now := p.options.Clock.Now()
	idle := p.takeIdle(now)
	e := p.entries[endpoint.Key]
	if e == nil {
		e = newEntry(endpoint.Key)
		p.entries[endpoint.Key] = e
		if p.closed {
			e.shut = true
		}
	}
	p.mu.Unlock()

	for _, old := range idle {
		old.close()
	}
	e.update(endpoint, identity, now)
	return &Handle{pool: p, e: e}
}

// takeIdle removes the entries that nobody used for IdleTimeout. It looks at most twice in that time.
func (p *Pool) takeIdle(now time.Time) []*entry {
	if now.Before(p.nextSweep) {
		return nil
	}
	p.nextSweep = now.Add(p.options.IdleTimeout / 2)
	var idle []*entry
	for key, e := range p.entries {
		if e.idleSince(now) > p.options.IdleTimeout {
			delete(p.entries, key)
			idle = append(idle, e)
		}
	}
	return idle
}

// Forget closes the connections kept under key, cutting off what runs on them.
func (p *Pool) Forget(key string) {
	p.mu.Lock()
	e := p.entries[key]
	delete(p.entries, key)
	p.mu.Unlock()
	if e != nil {
		e.close()
	}
}

// Close closes every connection and waits until no goroutine of the pool is left. A CLONE goes on without us (fact 19).
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	entries := p.entries
	p.entries = map[string]*entry{}
	p.mu.Unlock()
	for _, e := range entries {
		e.close()
	}
	p.running.Wait()
	p.db.Close()
}

// Handle is a member of a cluster to those who read and change it. Its methods may be called by several goroutines; those in one session
// take turns.
type Handle struct {
	pool *Pool
	e    *entry
}

// Options are those of the pool, with nothing left to its default.
func (m *Handle) Options() Options { return m.pool.options }

// Annotate wraps *err with the action that failed and the member it failed on.
func (m *Handle) Annotate(err *error, action string) {
	if *err != nil {
		*err = fmt.Errorf("%s on %s: %w", action, m.e.name(), *err)
	}
}

// State returns what a package keeps for a member's instance from one call to the next: its T, which is empty at first. It goes with the
// instance's connections.
func State[T any](m *Handle) *T {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	for _, state := range m.e.states {
		if of, ok := state.(*T); ok {
			return of
		}
	}
	of := new(T)
	m.e.states = append(m.e.states, of)
	return of
}

package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

const (
	// serverVersion is what the stub members call themselves, and what the bench's clusters ask for.
	serverVersion = "9.7.4"
	// membershipEpoch is the epoch of a cluster that has grown to three voters one by one.
	membershipEpoch = 3
)

// trio is the state that the stub members of one cluster share: a primary, and replicas that follow without any lag.
type trio struct {
	uuid string
	// executed is how many transactions the primary has committed. Every write of the availability probe is one.
	executed atomic.Int64
	voters   []string
	// settings are the variables that were persisted: those of the spec.
	settings map[string]string
	members  []*member
}

// gtids is what every member of the trio has executed and received.
func (t *trio) gtids() string { return fmt.Sprintf("%s:1-%d", t.uuid, t.executed.Load()) }

// member is a stub: a server of MySQL's protocol that answers as a Ready member does.
type member struct {
	name, address string
	serverID      int
	uuid          string
	trio          *trio
	primary       bool
	tls           *tls.Config
	notAfter      time.Time
	operator      string // distinguished name that the operator's certificate must carry
	count         *tally

	listener net.Listener
	lastID   atomic.Uint32

	mu          sync.Mutex
	connections map[uint32]net.Conn
	locks       map[string]uint32
	closed      bool
}

// tally counts what all stub members were asked, and their goroutines.
type tally struct {
	reads, sessions, heartbeats, locks, changes, unknown atomic.Int64
	goroutines                                           atomic.Int64
}

// counts is a tally at one moment, or what was added to it between two.
type counts struct{ reads, heartbeats, changes, unknown float64 }

func (t *tally) read() counts {
	return counts{float64(t.reads.Load()), float64(t.heartbeats.Load()), float64(t.changes.Load()), float64(t.unknown.Load())}
}

func (c counts) since(before counts) counts {
	return counts{c.reads - before.reads, c.heartbeats - before.heartbeats, c.changes - before.changes, c.unknown - before.unknown}
}

// listen opens the member's port on the loopback; its address in the cluster is another one, which dial translates.
func (m *member) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for %s: %w", m.name, err)
	}
	m.listener = listener
	m.connections, m.locks = map[uint32]net.Conn{}, map[string]uint32{}
	m.count.goroutines.Add(1)
	go m.accept(ctx)
	return nil
}

func (m *member) accept(ctx context.Context) {
	defer m.count.goroutines.Add(-1)
	for {
		connection, err := m.listener.Accept()
		if err != nil {
			return // closed
		}
		m.count.goroutines.Add(1)
		go func() {
			defer m.count.goroutines.Add(-1)
			m.serve(ctx, connection)
		}()
	}
}

// close ends the listener and every connection.
func (m *member) close() {
	_ = m.listener.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, connection := range m.connections {
		_ = connection.Close()
	}
}

// serve answers one connection until either side ends it.
func (m *member) serve(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	id := m.lastID.Add(1)
	if !m.enter(id, raw) {
		return
	}
	defer m.leave(id)
	w, user, state, err := greet(ctx, raw, id, serverVersion, m.tls)
	if err != nil {
		return
	}
	if err := m.admit(user, state); err != nil {
		_ = w.reply(rowset{}, err)
		return
	}
	if w.reply(rowset{}, nil) != nil {
		return
	}
	for {
		command, argument, err := w.next()
		if err != nil {
			return
		}
		answer, err := m.execute(id, command, string(argument))
		if w.reply(answer, err) != nil {
			return
		}
	}
}

// enter registers a connection, unless the member is closed.
func (m *member) enter(id uint32, connection net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.connections[id] = connection
	return true
}

// leave forgets a connection, with its locks.
func (m *member) leave(id uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.connections, id)
	for name, holder := range m.locks {
		if holder == id {
			delete(m.locks, name)
		}
	}
}

// admit does what REQUIRE ISSUER … SUBJECT … does for the operator's account. The certificate's chain was verified in
// the handshake. The application's password is taken as it comes.
func (m *member) admit(user string, state tls.ConnectionState) error {
	if user != mysql.OperatorUser {
		return nil
	}
	if len(state.VerifiedChains) == 0 || state.PeerCertificates[0].Subject.String() != m.operator {
		return &sqlError{erAccessDenied, "Access denied for user '" + user + "'"}
	}
	return nil
}

func (m *member) execute(id uint32, command byte, argument string) (rowset, error) {
	switch command {
	case comPing:
		return rowset{}, nil
	case comQuery:
		return m.query(id, argument)
	}
	return rowset{}, io.ErrUnexpectedEOF
}

// kill closes another connection.
func (m *member) kill(id uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if connection := m.connections[id]; connection != nil {
		_ = connection.Close()
	}
	for name, holder := range m.locks {
		if holder == id {
			delete(m.locks, name)
		}
	}
}

// lock takes a user-level lock if nobody else has it.
func (m *member) lock(name string, id uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if holder, taken := m.locks[name]; taken && holder != id {
		return false
	}
	m.locks[name] = id
	return true
}

func (m *member) holder(name string) (uint32, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, taken := m.locks[name]
	return id, taken
}

// fleet finds stub members by the addresses that EC2 and Kubernetes show of them.
type fleet struct {
	tally
	members map[string]*member // by host:port
}

// dial connects to a stub member. It has the signature of mysql.Options.Dial.
func (f *fleet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	m := f.members[address]
	if m == nil {
		return nil, fmt.Errorf("%w: %s", child.ErrNobody, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, m.listener.Addr().String())
}

// open counts the connections to stub members.
func (f *fleet) open() int {
	n := 0
	for address, m := range f.members {
		if m.address != address {
			continue // the primary Service leads to a member, too
		}
		m.mu.Lock()
		n += len(m.connections)
		m.mu.Unlock()
	}
	return n
}

func (f *fleet) close() {
	for _, m := range f.members {
		m.close()
	}
}

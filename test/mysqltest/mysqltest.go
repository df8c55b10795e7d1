// Package mysqltest gives the tests of internal/mysql the servers that they share, and what they do with those.
//
// It opens members as the operator does, so that it stands on all that it helps to test: tests use it from outside of their package.
package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// Patience bounds every wait for something that has to happen. It only has to be longer than any stall of a busy machine:
	// what goes wrong does not come right by waiting.
	Patience = 90 * time.Second
	// slowAnswer bounds each answer of a server for the same reason. Tests of servers that give none choose a time of their own.
	slowAnswer = 20 * time.Second
)

// World is what the tests of a package share: three real servers, of which the first is made the primary.
// Tests bring it into the state they need with Settle and leave it however they like.
type World struct {
	Farm    *mysqld.Farm
	Servers []*mysqld.Server
}

var shared struct {
	once  sync.Once
	world *World
	err   error
}

// Main runs the tests of a package and takes the shared servers away. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if w := shared.world; w != nil {
		if err := w.Farm.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// TheWorld boots the shared servers on first use.
func TheWorld(t *testing.T) *World {
	t.Helper()
	shared.once.Do(func() {
		ctx := context.Background()
		w := &World{}
		if w.Farm, shared.err = mysqld.NewFarm(ctx, os.Stderr); shared.err != nil {
			return
		}
		shared.world = w
		var group sync.WaitGroup
		w.Servers = make([]*mysqld.Server, 3)
		failures := make([]error, 3)
		for i := range w.Servers {
			group.Go(func() { w.Servers[i], failures[i] = w.Farm.Start(ctx, mysqld.Options{}) })
		}
		group.Wait()
		shared.err = errors.Join(failures...)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// Identity is the operator's at the servers.
func (w *World) Identity() mysql.Identity {
	ca, cert, key := w.Farm.OperatorIdentity()
	return mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
}

// EndpointOf is where a server is reached, under a key of its instance.
func EndpointOf(s *mysqld.Server) mysql.Endpoint {
	return mysql.Endpoint{Key: "uid/" + s.Name + "/" + s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
}

// NewPool is a pool that the test closes.
func NewPool(t *testing.T, change func(*conn.Options)) *conn.Pool {
	t.Helper()
	o := conn.Options{DialTimeout: slowAnswer, StatementTimeout: slowAnswer}
	if change != nil {
		change(&o)
	}
	p := conn.NewPool(o)
	t.Cleanup(p.Close)
	return p
}

// Handles are the connections that the members of a pool are reached by.
func (w *World) Handles(p *conn.Pool) []*conn.Handle {
	var handles []*conn.Handle
	for _, s := range w.Servers {
		handles = append(handles, p.Handle(EndpointOf(s), w.Identity()))
	}
	return handles
}

// Members are the servers as the operator opens them.
func (w *World) Members(p *conn.Pool) []*admin.Member {
	var members []*admin.Member
	for _, s := range w.Servers {
		members = append(members, admin.Open(p, EndpointOf(s), w.Identity()))
	}
	return members
}

// Settle makes server 0 the primary of servers 1 and 2, all voters, W=1, whatever was before, and returns the members.
func Settle(t *testing.T, p *conn.Pool) (*World, []*admin.Member) {
	t.Helper()
	w := TheWorld(t)
	ctx := t.Context()
	m := w.Members(p)
	for i, s := range w.Servers {
		Up(t, s)
		var o mysql.Observation
		WaitFor(t, s.Name+" answers", func() bool {
			if o = m[i].Observe(ctx); o.Access != mysql.AccessVerified {
				t.Logf("%s: %s: %s", s.Name, o.Access, o.Reason)
			}
			return o.Access == mysql.AccessVerified
		})
	}
	o := m[0].Observe(ctx)
	Must(t, m[0].Promote(ctx, mysql.PromoteSpec{SemiSync: o.SemiSync.SourceEnabled, W: max(1, o.SemiSync.WaitCount)}))
	if o.Membership == nil {
		Must(t, m[0].WriteMembership(ctx, 0, mysql.Membership{Epoch: 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}))
	}
	for i, replica := range m[1:] {
		r := replica.Observe(ctx)
		if r.Replication == nil && r.Clone == nil {
			Must(t, replica.CloneFrom(ctx, w.Servers[0].Address()))
			WaitFor(t, "the copy of "+w.Servers[i+1].Name, func() bool {
				c := replica.Observe(ctx).Clone
				return c != nil && c.State == mysql.CloneCompleted
			})
		}
		Replicate(t, replica, w.Servers[0])
		Must(t, replica.SetAcknowledging(ctx, true))
	}
	Must(t, m[0].SetSourceWait(ctx, true, 1))
	Must(t, m[0].LowerSourceWait(ctx, 1, 0))
	WaitFor(t, "replicas acknowledge", func() bool {
		return m[1].Observe(ctx).SemiSync.ReplicaActive && m[2].Observe(ctx).SemiSync.ReplicaActive
	})
	if m[0].Observe(ctx).PendingCommits > 0 { // of a test that failed, received before anybody acknowledged
		Must(t, m[0].CommitEmptyTransaction(ctx))
	}
	WaitFor(t, "no commit waits", func() bool { return m[0].Observe(ctx).PendingCommits == 0 })
	return w, m
}

// Up has a server's process run, whatever the test before left: killed, frozen, or on its way through a restart.
func Up(t *testing.T, s *mysqld.Server) {
	t.Helper()
	if !s.Booted() {
		Must(t, s.Boot(t.Context()))
	}
	WaitFor(t, "the process of "+s.Name, func() bool { return s.Thaw() == nil })
}

// Replicate makes a member the replica of a server. What it has received before is applied first, for which one call may not
// be enough on a busy machine.
func Replicate(t *testing.T, m *admin.Member, source *mysqld.Server) {
	t.Helper()
	var err error
	WaitFor(t, "what was received is applied", func() bool {
		err = m.ReplicateFrom(t.Context(), source.IP(), mysqld.Port)
		return !errors.Is(err, mysql.ErrNotApplied)
	})
	Must(t, err)
}

// CatchUp waits until a replica has executed what its source has by now.
func CatchUp(t *testing.T, replica, source *admin.Member) {
	t.Helper()
	Must(t, replica.WaitApplied(t.Context(), source.Observe(t.Context()).Executed, Patience))
}

// Contains says whether a set of GTIDs holds all of another.
func Contains(t *testing.T, db *sql.DB, set, all string) bool {
	t.Helper()
	return Value(t, db, fmt.Sprintf("SELECT GTID_SUBSET('%s', '%s')", all, set)) == "1"
}

// Root is a session as root@localhost through the server's socket, past everything that is tested.
func Root(t *testing.T, s *mysqld.Server) *sql.DB {
	t.Helper()
	return Local(t, s, "root", "")
}

// Local connects over the server's socket.
func Local(t *testing.T, s *mysqld.Server, user, password string) *sql.DB {
	t.Helper()
	c := driver.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr = user, password, "unix", s.Socket()
	c.Logger = &driver.NopLogger{}
	connector, err := driver.NewConnector(c)
	Must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// Exec runs a statement, or fails the test.
func Exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if _, err := db.ExecContext(ctx, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Value is what a query returns, empty for NULL.
func Value(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var v sql.Null[string]
	if err := db.QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v.V
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantError fails the test unless an error is, or wraps, the one wanted.
func WantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// WaitFor waits until something is done, or fails the test after Patience.
func WaitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}

// Client is a client's session that stands in the way of a demotion, or seems to.
type Client struct {
	t    *testing.T
	db   *sql.DB
	Conn *sql.Conn
	ID   string
	// Ended gets the outcome of the last statement, if that runs in the background.
	Ended chan error
}

// underWay asks whether the statement of a session has begun in earnest: it sleeps, it has the lock that all have who write, or it
// waits for its acknowledgement. One that has only been received stands in nobody's way, and is refused on a server that
// becomes read-only before it gets on.
const underWay = `SELECT COUNT(*) FROM performance_schema.threads t WHERE (PROCESSLIST_STATE = 'User sleep' OR PROCESSLIST_STATE LIKE 'Waiting for semi-sync ACK%'
	OR EXISTS (SELECT 1 FROM performance_schema.metadata_locks l WHERE l.OWNER_THREAD_ID = t.THREAD_ID AND l.OBJECT_TYPE IN ('GLOBAL', 'COMMIT')
		AND l.LOCK_TYPE = 'INTENTION_EXCLUSIVE' AND l.LOCK_STATUS = 'GRANTED')) AND PROCESSLIST_ID = `

// Connect opens a session and runs statements in it. One that begins with & goes on in the background.
func Connect(t *testing.T, s *mysqld.Server, statements ...string) *Client {
	t.Helper()
	ctx := t.Context()
	db := Root(t, s)
	conn, err := db.Conn(ctx)
	Must(t, err)
	h := &Client{t: t, db: db, Conn: conn, Ended: make(chan error, 1)}
	t.Cleanup(h.Leave)
	Must(t, conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&h.ID))
	for _, statement := range statements {
		if text, background := strings.CutPrefix(statement, "&"); background {
			go func() {
				_, err := conn.ExecContext(context.WithoutCancel(ctx), text)
				h.Ended <- err
			}()
			WaitFor(t, text, func() bool { return len(h.Ended) > 0 || Value(t, db, underWay+h.ID) == "1" })
			continue
		}
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return h
}

// Leave ends the session.
func (h *Client) Leave() {
	h.Conn.Close()
	h.db.Close()
}

// Alive says whether the server still has the session.
func (h *Client) Alive(db *sql.DB) bool {
	return Value(h.t, db, "SELECT COUNT(*) FROM performance_schema.processlist WHERE ID = "+h.ID+" AND COMMAND <> 'Killed'") == "1"
}

// ReadCSR is the certificate request that a server's instance has written.
func ReadCSR(t *testing.T, w *World, s *mysqld.Server) []byte {
	t.Helper()
	request, err := admin.Open(NewPool(t, nil), EndpointOf(s), w.Identity()).ReadJoinRequest(t.Context())
	Must(t, err)
	return request.CSR
}

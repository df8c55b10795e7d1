package mysql

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

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// patience bounds every wait for something that has to happen. It only has to be longer than any stall of a busy machine:
	// what goes wrong does not come right by waiting.
	patience = 90 * time.Second
	// slowAnswer bounds each answer of a server for the same reason. Tests of servers that give none choose a time of their own.
	slowAnswer = 20 * time.Second
)

// world is what the tests of this package share: three real servers, of which the first is made the primary.
// Tests bring it into the state they need with settle and leave it however they like.
type world struct {
	farm    *mysqld.Farm
	servers []*mysqld.Server
}

var shared struct {
	once  sync.Once
	world *world
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if w := shared.world; w != nil {
		if err := w.farm.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// theWorld boots the shared servers on first use.
func theWorld(t *testing.T) *world {
	t.Helper()
	shared.once.Do(func() {
		ctx := context.Background()
		w := &world{}
		if w.farm, shared.err = mysqld.NewFarm(ctx, os.Stderr); shared.err != nil {
			return
		}
		shared.world = w
		var group sync.WaitGroup
		w.servers = make([]*mysqld.Server, 3)
		failures := make([]error, 3)
		for i := range w.servers {
			group.Go(func() { w.servers[i], failures[i] = w.farm.Start(ctx, mysqld.Options{}) })
		}
		group.Wait()
		shared.err = errors.Join(failures...)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

func (w *world) identity() Identity {
	ca, cert, key := w.farm.OperatorIdentity()
	return Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
}

func endpointOf(s *mysqld.Server) Endpoint {
	return Endpoint{Key: "uid/" + s.Name + "/" + s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
}

// newPool is a pool that the test closes.
func newPool(t *testing.T, change func(*Options)) *Pool {
	t.Helper()
	o := Options{DialTimeout: slowAnswer, StatementTimeout: slowAnswer}
	if change != nil {
		change(&o)
	}
	p := NewPool(o)
	t.Cleanup(p.Close)
	return p
}

// handles are the connections that the members of a pool are reached by.
func (w *world) handles(p *Pool) []*Handle {
	var handles []*Handle
	for _, s := range w.servers {
		handles = append(handles, p.Handle(endpointOf(s), w.identity()))
	}
	return handles
}

func (w *world) members(p *Pool) []*Member {
	var members []*Member
	for _, s := range w.servers {
		members = append(members, Open(p, endpointOf(s), w.identity()))
	}
	return members
}

// settle makes server 0 the primary of servers 1 and 2, all voters, W=1, whatever was before, and returns the members.
func settle(t *testing.T, p *Pool) (*world, []*Member) {
	t.Helper()
	w := theWorld(t)
	ctx := t.Context()
	m := w.members(p)
	for i, s := range w.servers {
		up(t, s)
		var o Observation
		waitFor(t, s.Name+" answers", func() bool {
			if o = m[i].Observe(ctx); o.Access != AccessVerified {
				t.Logf("%s: %s: %s", s.Name, o.Access, o.Reason)
			}
			return o.Access == AccessVerified
		})
	}
	o := m[0].Observe(ctx)
	must(t, m[0].Promote(ctx, PromoteSpec{SemiSync: o.SemiSync.SourceEnabled, W: max(1, o.SemiSync.WaitCount)}))
	if o.Membership == nil {
		must(t, m[0].WriteMembership(ctx, 0, Membership{Epoch: 1, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}))
	}
	for i, replica := range m[1:] {
		r := replica.Observe(ctx)
		if r.Replication == nil && r.Clone == nil {
			must(t, replica.CloneFrom(ctx, w.servers[0].Address()))
			waitFor(t, "the copy of "+w.servers[i+1].Name, func() bool {
				c := replica.Observe(ctx).Clone
				return c != nil && c.State == CloneCompleted
			})
		}
		replicate(t, replica, w.servers[0])
		must(t, replica.SetAcknowledging(ctx, true))
	}
	must(t, m[0].SetSourceWait(ctx, true, 1))
	must(t, m[0].LowerSourceWait(ctx, 1, 0))
	waitFor(t, "replicas acknowledge", func() bool {
		return m[1].Observe(ctx).SemiSync.ReplicaActive && m[2].Observe(ctx).SemiSync.ReplicaActive
	})
	if m[0].Observe(ctx).PendingCommits > 0 { // of a test that failed, received before anybody acknowledged
		must(t, m[0].Nudge(ctx))
	}
	waitFor(t, "no commit waits", func() bool { return m[0].Observe(ctx).PendingCommits == 0 })
	return w, m
}

// up has a server's process run, whatever the test before left: killed, frozen, or on its way through a restart.
func up(t *testing.T, s *mysqld.Server) {
	t.Helper()
	if !s.Booted() {
		must(t, s.Boot(t.Context()))
	}
	waitFor(t, "the process of "+s.Name, func() bool { return s.Thaw() == nil })
}

// replicate makes a member the replica of a server. What it has received before is applied first, for which one call may not
// be enough on a busy machine.
func replicate(t *testing.T, m *Member, source *mysqld.Server) {
	t.Helper()
	var err error
	waitFor(t, "what was received is applied", func() bool {
		err = m.ReplicateFrom(t.Context(), source.IP(), mysqld.Port)
		return !errors.Is(err, ErrNotApplied)
	})
	must(t, err)
}

// catchUp waits until a replica has executed what its source has by now.
func catchUp(t *testing.T, replica, source *Member) {
	t.Helper()
	must(t, replica.WaitApplied(t.Context(), source.Observe(t.Context()).Executed, patience))
}

// contains says whether a set of GTIDs holds all of another.
func contains(t *testing.T, db *sql.DB, set, all string) bool {
	t.Helper()
	return value(t, db, fmt.Sprintf("SELECT GTID_SUBSET('%s', '%s')", all, set)) == "1"
}

// root is a session as root@localhost through the server's socket, past everything that is tested.
func root(t *testing.T, s *mysqld.Server) *sql.DB {
	t.Helper()
	return local(t, s, "root", "")
}

// local connects over the server's socket.
func local(t *testing.T, s *mysqld.Server, user, password string) *sql.DB {
	t.Helper()
	c := driver.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr = user, password, "unix", s.Socket()
	c.Logger = &driver.NopLogger{}
	connector, err := driver.NewConnector(c)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := db.ExecContext(ctx, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func value(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var v sql.Null[string]
	if err := db.QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v.V
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}

// client is a client's session that stands in the way of a demotion, or seems to.
type client struct {
	t    *testing.T
	db   *sql.DB
	conn *sql.Conn
	id   string
	// ended gets the outcome of the last statement, if that runs in the background.
	ended chan error
}

// underWay asks whether the statement of a session has begun in earnest: it sleeps, it has the lock that all have who write, or it
// waits for its acknowledgement. One that has only been received stands in nobody's way, and is refused on a server that
// becomes read-only before it gets on.
const underWay = `SELECT COUNT(*) FROM performance_schema.threads t WHERE (PROCESSLIST_STATE = 'User sleep' OR PROCESSLIST_STATE LIKE 'Waiting for semi-sync ACK%'
	OR EXISTS (SELECT 1 FROM performance_schema.metadata_locks l WHERE l.OWNER_THREAD_ID = t.THREAD_ID AND l.OBJECT_TYPE IN ('GLOBAL', 'COMMIT')
		AND l.LOCK_TYPE = 'INTENTION_EXCLUSIVE' AND l.LOCK_STATUS = 'GRANTED')) AND PROCESSLIST_ID = `

// connect opens a session and runs statements in it. One that begins with & goes on in the background.
func connect(t *testing.T, s *mysqld.Server, statements ...string) *client {
	t.Helper()
	ctx := t.Context()
	db := root(t, s)
	conn, err := db.Conn(ctx)
	must(t, err)
	h := &client{t: t, db: db, conn: conn, ended: make(chan error, 1)}
	t.Cleanup(h.leave)
	must(t, conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&h.id))
	for _, statement := range statements {
		if text, background := strings.CutPrefix(statement, "&"); background {
			go func() {
				_, err := conn.ExecContext(context.WithoutCancel(ctx), text)
				h.ended <- err
			}()
			waitFor(t, text, func() bool { return len(h.ended) > 0 || value(t, db, underWay+h.id) == "1" })
			continue
		}
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return h
}

// leave ends the session.
func (h *client) leave() {
	h.conn.Close()
	h.db.Close()
}

// alive says whether the server still has the session.
func (h *client) alive(db *sql.DB) bool {
	return value(h.t, db, "SELECT COUNT(*) FROM performance_schema.processlist WHERE ID = "+h.id+" AND COMMAND <> 'Killed'") == "1"
}

func readCSR(t *testing.T, w *world, s *mysqld.Server) []byte {
	t.Helper()
	request, err := Open(newPool(t, nil), endpointOf(s), w.identity()).ReadJoinRequest(t.Context())
	must(t, err)
	return request.CSR
}

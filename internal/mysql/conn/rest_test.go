package conn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// holder is whose session has the operator's lock on a server, empty for nobody's.
func holder(t *testing.T, db *sql.DB) string {
	t.Helper()
	return mysqltest.Value(t, db, "SELECT COALESCE(IS_USED_LOCK('"+conn.ControlLock+"'), '')")
}

// TestWritingSessionsRest: a member that nothing is written to costs one connection, whatever its role, unless its clients fill it up.
// And whoever led before can do nothing on a member whose lock nobody holds.
func TestWritingSessionsRest(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := mysqltest.NewPool(t, func(o *conn.Options) { o.Clock = clock })
	m, h := w.Members(p), w.Handles(p)
	pass := func(d time.Duration) {
		t.Helper()
		clock.SetTime(clock.Now().Add(d))
		for _, member := range m[:2] {
			if o := member.Observe(ctx); o.Access != mysql.AccessVerified {
				t.Fatalf("not reached: %s", o.Reason)
			}
		}
	}
	for i, member := range m[:2] {
		mysqltest.Must(t, member.Claim(ctx))
		if h[i].HasWriter() {
			t.Error("the session that claimed a member is still there")
		}
		mysqltest.Must(t, h[i].Control(ctx, func(*conn.Session) error { return nil }))
	}
	pass(conn.RestAfter - time.Second)
	if !h[0].HasWriter() || !h[1].HasWriter() {
		t.Fatal("a writing session was closed that was used a moment ago")
	}
	o := m[0].Observe(ctx)
	mysqltest.Must(t, m[0].SetMaxConnections(ctx, 2*o.Connections-1)) // a primary more than half of whose places are taken
	pass(conn.RestAfter + time.Second)
	if !h[0].HasWriter() {
		t.Error("the writing session of a server that fills up was closed")
	}
	if h[1].HasWriter() {
		t.Error("the replica's writing session is still there")
	}
	mysqltest.Must(t, m[0].SetMaxConnections(ctx, o.MaxConnections))
	pass(conn.RestAfter + time.Second)
	if h[0].HasWriter() {
		t.Error("the primary's writing session is still there")
	}
	db := mysqltest.Root(t, w.Servers[1])
	mysqltest.WaitFor(t, "the locks to be free", func() bool { return holder(t, db) == "" && holder(t, mysqltest.Root(t, w.Servers[0])) == "" })

	// A leader of before: one that has no lease, and one that loses it between the two looks at it.
	for _, asked := range []int{0, 1} {
		old := admin.Open(mysqltest.NewPool(t, func(o *conn.Options) {
			o.Lease = func(context.Context) error {
				if asked--; asked < 0 {
					return errors.New("another leads")
				}
				return nil
			}
		}), mysqltest.EndpointOf(w.Servers[1]), w.Identity())
		mysqltest.WantError(t, old.SetAcknowledging(ctx, false), mysql.ErrLeaseRefused)
		if o := m[1].Observe(ctx); !o.SemiSync.ReplicaEnabled {
			t.Fatal("it changed the replica")
		}
		mysqltest.WaitFor(t, "the lock to be free", func() bool { return holder(t, db) == "" })
	}

	// What is used now and then stays, and what was closed is opened again.
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	for range 3 {
		pass(conn.RestAfter - time.Second)
		mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	}
	if !h[1].HasWriter() || holder(t, db) == "" {
		t.Error("a writing session in use was closed")
	}
}

// TestLooksAtVeryManyMembers: with more sessions than are kept, a look at a replica ends with its session, unless it is looked at often,
// or fills up. A primary keeps its own.
func TestLooksAtVeryManyMembers(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := mysqltest.NewPool(t, func(o *conn.Options) { o.Clock, o.MostKept = clock, 1 })
	m, h := w.Members(p), w.Handles(p)
	pass := func(d time.Duration) (kept []bool) {
		t.Helper()
		clock.SetTime(clock.Now().Add(d))
		for i, member := range m {
			if o := member.Observe(ctx); o.Access != mysql.AccessVerified {
				t.Fatalf("not reached: %s", o.Reason)
			}
			kept = append(kept, h[i].HasReader())
		}
		return kept
	}
	for _, look := range []struct {
		after time.Duration
		keep  []bool
	}{{0, []bool{true, false, false}}, {30 * time.Second, []bool{true, false, false}}, {time.Second, []bool{true, true, true}}, {30 * time.Second, []bool{true, false, false}}} {
		if kept := pass(look.after); !slices.Equal(kept, look.keep) {
			t.Errorf("%s after the look before, sessions are kept: %v, want %v", look.after, kept, look.keep)
		}
	}
	if n := p.Sessions(); n != 1 {
		t.Errorf("%d sessions are counted", n)
	}
	o := m[1].Observe(ctx)
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), fmt.Sprintf("SET GLOBAL max_connections = %d", 2*o.Connections-1))
	defer func() {
		mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), fmt.Sprintf("SET GLOBAL max_connections = %d", o.MaxConnections))
	}()
	if kept := pass(30 * time.Second); !kept[1] {
		t.Error("the session with a server that fills up was closed")
	}
	p.Close()
	if n := p.Sessions(); n != 0 {
		t.Errorf("%d sessions are counted when all are closed", n)
	}
}

// TestFullMemberIsWrittenTo: clients take every place of a member whose writing session rests, and go on asking for more. What is to
// be done there, a promotion for example, needs two sessions beside the one that looks, and MySQL has one place beyond its limit,
// which another administrator may be in.
func TestFullMemberIsWrittenTo(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE USER IF NOT EXISTS crowd@localhost IDENTIFIED BY 'crowd'")
	for _, administered := range []bool{false, true} {
		t.Run(fmt.Sprintf("administered %v", administered), func(t *testing.T) { fullMember(t, w, administered) })
	}
}

func fullMember(t *testing.T, w *mysqltest.World, administered bool) {
	ctx := t.Context()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := mysqltest.NewPool(t, func(o *conn.Options) {
		o.Clock = clock
		o.Hook = func(op, phase string) error { // the way to a server takes time, in which clients come and go
			if op == conn.OpRoom && phase == "after" {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		}
	})
	all := w.Members(p)
	mysqltest.CatchUp(t, all[1], all[0])
	m, h, db := all[1], w.Handles(p)[1], mysqltest.Root(t, w.Servers[1])
	mysqltest.Must(t, m.Claim(ctx))
	before := m.Observe(ctx)
	if h.HasWriter() {
		t.Fatal("the writing session is still there")
	}
	limit := before.Connections + 6
	mysqltest.Exec(t, db, fmt.Sprintf("SET GLOBAL max_connections = %d", limit))
	defer func() { mysqltest.Exec(t, db, fmt.Sprintf("SET GLOBAL max_connections = %d", before.MaxConnections)) }()
	defer crowd(t, w.Servers[1])()
	full := func(o mysql.Observation) bool {
		return o.Access == mysql.AccessVerified && o.Connections >= o.MaxConnections
	}
	mysqltest.WaitFor(t, "a full replica", func() bool { return full(m.Observe(ctx)) })
	if administered {
		beyond := mysqltest.Root(t, w.Servers[1])
		mysqltest.WaitFor(t, "an administrator in the place beyond", func() bool {
			_, err := beyond.Conn(ctx)
			return err == nil
		})
	}
	keep := func() {}
	for _, lose := range []func(){keep, h.LoseWriter, h.LoseReader, h.LoseWriter, keep, h.LoseReader} {
		lose()
		var one int
		mysqltest.Must(t, h.Transact(ctx, func(s *conn.Session) error { return s.Row(ctx, "SELECT 1", nil, &one) }))
		mysqltest.WaitFor(t, "the replica is looked at", func() bool { return full(m.Observe(ctx)) })
		if o := m.Observe(ctx); o.MaxConnections != limit {
			t.Fatalf("its limit is %d and was %d", o.MaxConnections, limit)
		}
	}
}

// crowd takes every place of a server that it can get, and goes on asking for more, until it is sent away.
func crowd(t *testing.T, s *mysqld.Server) (sendAway func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	db := mysqltest.Local(t, s, "crowd", "crowd")
	for range 2 {
		group.Go(func() {
			var crowd []*sql.Conn
			for ctx.Err() == nil {
				if conn, err := db.Conn(ctx); err == nil {
					crowd = append(crowd, conn)
					continue
				}
				_ = conn.Pause(ctx, 5*time.Millisecond)
			}
			for _, conn := range crowd {
				_ = conn.Close()
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

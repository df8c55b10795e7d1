package mysql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// holder is whose session has the operator's lock on a server, empty for nobody's.
func holder(t *testing.T, db *sql.DB) string {
	t.Helper()
	return value(t, db, "SELECT COALESCE(IS_USED_LOCK('"+controlLock+"'), '')")
}

// hasWriter says whether a member's writing session is open.
func hasWriter(m *Member) bool {
	m.e.writer.turn <- struct{}{}
	defer func() { <-m.e.writer.turn }()
	return m.e.writer.session != nil
}

// TestWritingSessionsOfReplicasRest: a replica that nothing is written to costs one connection, a primary keeps both, and whoever led
// before can do nothing on a replica whose lock nobody holds.
func TestWritingSessionsOfReplicasRest(t *testing.T) {
	w, _ := settle(t, newPool(t, nil))
	ctx := t.Context()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := newPool(t, func(o *Options) { o.Clock = clock })
	m := w.members(t, p)
	pass := func(d time.Duration) {
		t.Helper()
		clock.SetTime(clock.Now().Add(d))
		for _, member := range m[:2] {
			if o := member.Observe(ctx); o.Access != AccessVerified {
				t.Fatalf("not reached: %s", o.Reason)
			}
		}
	}
	for _, member := range m[:2] {
		must(t, member.Claim(ctx))
	}
	pass(restAfter - time.Second)
	if !hasWriter(m[0]) || !hasWriter(m[1]) {
		t.Fatal("a writing session was closed that was used a moment ago")
	}
	pass(2 * time.Second)
	if !hasWriter(m[0]) {
		t.Error("the primary's writing session was closed")
	}
	if hasWriter(m[1]) {
		t.Error("the replica's writing session is still there")
	}
	db := root(t, w.servers[1])
	waitFor(t, "the replica's lock to be free", func() bool { return holder(t, db) == "" })

	// A leader of before: one that has no lease, and one that loses it between the two looks at it.
	for _, asked := range []int{0, 1} {
		old := newPool(t, func(o *Options) {
			o.Lease = func(context.Context) error {
				if asked--; asked < 0 {
					return errors.New("another leads")
				}
				return nil
			}
		}).Member(ctx, endpointOf(w.servers[1]), w.identity())
		wantError(t, old.SetAcknowledging(ctx, false), ErrLeaseRefused)
		if o := m[1].Observe(ctx); !o.SemiSync.ReplicaEnabled {
			t.Fatal("it changed the replica")
		}
		waitFor(t, "the lock to be free", func() bool { return holder(t, db) == "" })
	}

	// What is used now and then stays, and what was closed is opened again.
	must(t, m[1].SetAcknowledging(ctx, true))
	for range 3 {
		pass(restAfter - time.Second)
		must(t, m[1].Claim(ctx))
	}
	if !hasWriter(m[1]) || holder(t, db) == "" {
		t.Error("a writing session in use was closed")
	}
}

// TestFullReplicaIsWrittenTo: readers take every place of a replica whose writing session rests, and go on asking for more. What is
// to be done there, a promotion for example, needs two sessions beside the one that looks, and MySQL has one place beyond its limit.
func TestFullReplicaIsWrittenTo(t *testing.T) {
	w, _ := settle(t, newPool(t, nil))
	ctx := t.Context()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := newPool(t, func(o *Options) {
		o.Clock = clock
		o.Hook = func(op, phase string) error { // the way to a server takes time, in which clients come and go
			if op == opRoom && phase == "after" {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		}
	})
	m := w.members(t, p)
	exec(t, root(t, w.servers[0]), "CREATE USER IF NOT EXISTS crowd@localhost IDENTIFIED BY 'crowd'")
	catchUp(t, m[1], m[0])
	before := m[1].Observe(ctx)
	limit := before.Connections + 6
	must(t, m[1].SetMaxConnections(ctx, limit))
	defer func() { must(t, m[1].SetMaxConnections(ctx, before.MaxConnections)) }()
	clock.SetTime(clock.Now().Add(2 * restAfter))
	m[1].Observe(ctx)
	if hasWriter(m[1]) {
		t.Fatal("the writing session is still there")
	}

	crowded, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	server := local(t, w.servers[1], "crowd", "crowd")
	for range 2 {
		group.Go(func() {
			var crowd []*sql.Conn
			for crowded.Err() == nil {
				if conn, err := server.Conn(crowded); err == nil {
					crowd = append(crowd, conn)
					continue
				}
				_ = pause(crowded, 5*time.Millisecond)
			}
			for _, conn := range crowd {
				_ = conn.Close()
			}
		})
	}
	waitFor(t, "a full replica", func() bool {
		o := m[1].Observe(ctx)
		return o.Access == AccessVerified && o.Connections >= o.MaxConnections
	})
	for _, lost := range []*slot{nil, &m[1].e.writer, &m[1].e.reader, &m[1].e.writer, nil, &m[1].e.reader} {
		if lost != nil {
			must(t, lost.take(ctx))
			lost.drop()
			lost.give()
		}
		var one int
		must(t, m[1].transact(ctx, func(s *session) error { return s.row(ctx, "SELECT 1", nil, &one) }))
		waitFor(t, "the replica is looked at", func() bool {
			o := m[1].Observe(ctx)
			return o.Access == AccessVerified && o.Connections >= o.MaxConnections
		})
		if o := m[1].Observe(ctx); o.MaxConnections != limit {
			t.Fatalf("its limit is %d and was %d", o.MaxConnections, limit)
		}
	}
}

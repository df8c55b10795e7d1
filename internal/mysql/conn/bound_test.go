package conn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestNothingIsSentForACallerThatIsGone: between two statements of an action its caller is told to stop. The next one must not
// reach the server, however fast it is.
func TestNothingIsSentForACallerThatIsGone(t *testing.T) {
	w := mysqltest.TheWorld(t)
	db := mysqltest.Root(t, w.Servers[2])
	before := mysqltest.Value(t, db, "SELECT @@GLOBAL.max_connections")
	t.Cleanup(func() { _, _ = db.ExecContext(context.Background(), "SET GLOBAL max_connections = "+before) })
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		p := mysqltest.NewPool(t, func(o *conn.Options) {
			o.Hook = func(op, phase string) error {
				if op == "connections/limit" && phase == "before" {
					cancel()
				}
				return nil
			}
		})
		m := admin.Open(p, mysqltest.EndpointOf(w.Servers[2]), w.Identity())
		err := m.SetMaxConnections(ctx, 777)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got error %v", err)
		}
		if now := mysqltest.Value(t, db, "SELECT @@GLOBAL.max_connections"); now != before {
			t.Fatalf("max_connections was set to %s", now)
		}
		p.Close()
	}
}

// TestSessionIsNotUsedAfterItWasCut: a caller whose time ends when the answer is there already has it, and nobody uses the connection
// after that, which may be cut off at any moment.
func TestSessionIsNotUsedAfterItWasCut(t *testing.T) {
	w := mysqltest.TheWorld(t)
	p := mysqltest.NewPool(t, nil)
	m := p.Handle(mysqltest.EndpointOf(w.Servers[2]), w.Identity())
	s, err := m.Dial(t.Context())
	mysqltest.Must(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	b := s.Bind(ctx, time.Minute)
	var one int
	mysqltest.Must(t, b.Read("SELECT 1", &one))
	cancel()
	mysqltest.WaitFor(t, "the connection is cut off", func() bool { return !b.Stop() })
	b.Release()
	mysqltest.WantError(t, s.Row(t.Context(), "SELECT 1", nil, &one), context.Canceled)
	if !s.Broken() || !s.TimedOut() {
		t.Error("the session goes on")
	}
	// A statement's own limit is told from its caller's, and the session is known to be of no use afterwards.
	s, err = m.Dial(t.Context())
	mysqltest.Must(t, err)
	defer s.Close()
	b = s.Bind(t.Context(), 50*time.Millisecond)
	mysqltest.WantError(t, b.Read("SELECT SLEEP(20)", &one), conn.ErrDeadline)
	b.Release()
	mysqltest.WantError(t, s.Row(t.Context(), "SELECT 1", nil, &one), conn.ErrDeadline)
}

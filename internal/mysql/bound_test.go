package mysql

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestNothingIsSentForACallerThatIsGone: between two statements of an action its caller is told to stop. The next one must not
// reach the server, however fast it is.
func TestNothingIsSentForACallerThatIsGone(t *testing.T) {
	w := theWorld(t)
	db := root(t, w.servers[2])
	before := value(t, db, "SELECT @@GLOBAL.max_connections")
	t.Cleanup(func() { _, _ = db.ExecContext(context.Background(), "SET GLOBAL max_connections = "+before) })
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPool(t, func(o *Options) {
			o.Hook = func(op, phase string) error {
				if op == "connections/limit" && phase == "before" {
					cancel()
				}
				return nil
			}
		})
		m := Open(p, endpointOf(w.servers[2]), w.identity())
		err := m.SetMaxConnections(ctx, 777)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got error %v", err)
		}
		if now := value(t, db, "SELECT @@GLOBAL.max_connections"); now != before {
			t.Fatalf("max_connections was set to %s", now)
		}
		p.Close()
	}
}

// TestSessionIsNotUsedAfterItWasCut: a caller whose time ends when the answer is there already has it, and nobody uses the connection
// after that, which may be cut off at any moment.
func TestSessionIsNotUsedAfterItWasCut(t *testing.T) {
	w := theWorld(t)
	p := newPool(t, nil)
	m := p.Handle(endpointOf(w.servers[2]), w.identity())
	s, err := m.Dial(t.Context())
	must(t, err)
	defer s.close()
	ctx, cancel := context.WithCancel(t.Context())
	b := s.Bind(ctx, time.Minute)
	var one int
	must(t, b.Read("SELECT 1", &one))
	cancel()
	waitFor(t, "the connection is cut off", func() bool { return !b.Stop() })
	b.Release()
	wantError(t, s.row(t.Context(), "SELECT 1", nil, &one), context.Canceled)
	if !s.Broken() || !s.TimedOut() {
		t.Error("the session goes on")
	}
	// A statement's own limit is told from its caller's, and the session is known to be of no use afterwards.
	s, err = m.Dial(t.Context())
	must(t, err)
	defer s.close()
	b = s.Bind(t.Context(), 50*time.Millisecond)
	wantError(t, b.Read("SELECT SLEEP(20)", &one), errDeadline)
	b.Release()
	wantError(t, s.row(t.Context(), "SELECT 1", nil, &one), errDeadline)
}

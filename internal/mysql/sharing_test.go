package mysql

import (
	"runtime"
	"testing"
)

// TestSessionsShareTheirCredentials: what is parsed of an identity is there once for all that show it, also in another pool, and when
// another copy of it is given, and goes with the last of them.
func TestSessionsShareTheirCredentials(t *testing.T) {
	p := newPool(t, nil)
	w, m := settle(t, p)
	ctx := t.Context()
	h := w.handles(p)
	for i, member := range m {
		if o := member.Observe(ctx); o.Access != AccessVerified {
			t.Fatalf("not reached: %s", o.Reason)
		}
		must(t, h[i].control(ctx, func(*session) error { return nil }))
	}
	func() { // which keeps nothing of what it looks at
		first := h[0].ReaderShows()
		for _, member := range h {
			if member.ReaderShows() != first || member.WriterShows() != first {
				t.Error("a session has credentials of its own")
			}
		}
		beside := newPool(t, nil)
		member := w.members(beside)[1]
		if o := member.Observe(ctx); o.Access != AccessVerified || w.handles(beside)[1].ReaderShows() != first {
			t.Errorf("another pool's session has credentials of its own (%s)", o.Reason)
		}
		beside.Close()
		other := w.identity()
		other.KeyPEM = append([]byte("\n"), other.KeyPEM...)
		if second, err := Shown(other); err != nil || second == first {
			t.Errorf("another identity has the same credentials (%v)", err)
		}
	}()
	for i, member := range h {
		p.Forget(endpointOf(w.servers[i]).Key)
		member.DropSlots()
	}
	waitFor(t, "the credentials to go", func() bool {
		runtime.GC()
		return !IsShown(w.identity())
	})
}

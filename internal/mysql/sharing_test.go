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
	for _, member := range m {
		if o := member.Observe(ctx); o.Access != AccessVerified {
			t.Fatalf("not reached: %s", o.Reason)
		}
		must(t, member.control(ctx, func(*session) error { return nil }))
	}
	func() { // which keeps nothing of what it looks at
		first := m[0].e.reader.session.shown
		for _, member := range m {
			if member.e.reader.session.shown != first || member.e.writer.session.shown != first {
				t.Error("a session has credentials of its own")
			}
		}
		beside := newPool(t, nil)
		member := w.members(t, beside)[1]
		if o := member.Observe(ctx); o.Access != AccessVerified || member.e.reader.session.shown != first {
			t.Errorf("another pool's session has credentials of its own (%s)", o.Reason)
		}
		beside.Close()
		other := w.identity()
		other.KeyPEM = append([]byte("\n"), other.KeyPEM...)
		if second, err := inUse.get(other); err != nil || second == first {
			t.Errorf("another identity has the same credentials (%v)", err)
		}
	}()
	key := w.identity().digest()
	for _, member := range m {
		p.Forget(member.e.key)
		member.e.reader, member.e.writer = slot{}, slot{}
	}
	waitFor(t, "the credentials to go", func() bool {
		runtime.GC()
		inUse.mu.Lock()
		defer inUse.mu.Unlock()
		_, there := inUse.of[key]
		return !there
	})
}

package conn_test

import (
	"runtime"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestSessionsShareTheirCredentials: what is parsed of an identity is there once for all that show it, also in another pool, and when
// another copy of it is given, and goes with the last of them.
func TestSessionsShareTheirCredentials(t *testing.T) {
	p := mysqltest.NewPool(t, nil)
	w, m := mysqltest.Settle(t, p)
	ctx := t.Context()
	h := w.Handles(p)
	for i, member := range m {
		if o := member.Observe(ctx); o.Access != mysql.AccessVerified {
			t.Fatalf("not reached: %s", o.Reason)
		}
		mysqltest.Must(t, h[i].Control(ctx, func(*conn.Session) error { return nil }))
	}
	func() { // which keeps nothing of what it looks at
		first := h[0].ReaderShows()
		for _, member := range h {
			if member.ReaderShows() != first || member.WriterShows() != first {
				t.Error("a session has credentials of its own")
			}
		}
		beside := mysqltest.NewPool(t, nil)
		member := w.Members(beside)[1]
		if o := member.Observe(ctx); o.Access != mysql.AccessVerified || w.Handles(beside)[1].ReaderShows() != first {
			t.Errorf("another pool's session has credentials of its own (%s)", o.Reason)
		}
		beside.Close()
		other := w.Identity()
		other.KeyPEM = append([]byte("\n"), other.KeyPEM...)
		if second, err := conn.Shown(other); err != nil || second == first {
			t.Errorf("another identity has the same credentials (%v)", err)
		}
	}()
	for i, member := range h {
		p.Forget(mysqltest.EndpointOf(w.Servers[i]).Key)
		member.DropSlots()
	}
	mysqltest.WaitFor(t, "the credentials to go", func() bool {
		runtime.GC()
		return !conn.IsShown(w.Identity())
	})
}

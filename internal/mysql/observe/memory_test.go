package observe_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestMemory: whoever observes a run of mysqld, read-only or not, sees the same name of its memory, and the next run has another. No name
// is in a binary log.
func TestMemory(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	another := admin.Open(mysqltest.NewPool(t, func(o *conn.Options) { o.Clock = offClock{} }), mysqltest.EndpointOf(w.Servers[1]), w.Identity())
	memory := func(m *admin.Member) (name string) {
		t.Helper()
		mysqltest.WaitFor(t, "the name of a memory", func() bool {
			o := m.Observe(ctx)
			name = o.Memory
			return o.Access == mysql.AccessVerified && name != ""
		})
		return name
	}
	primary, replica := memory(m[0]), memory(m[1])
	if primary == replica {
		t.Errorf("two servers have the memory %s", primary)
	}
	before := m[1].Observe(ctx)
	if again := memory(another); again != replica {
		t.Errorf("another observer sees %s, not %s", again, replica)
	}
	if after := m[1].Observe(ctx); after.Executed != before.Executed || after.Memory != replica {
		t.Errorf("executed %s, memory %s; it was %s, %s", after.Executed, after.Memory, before.Executed, replica)
	}
	w.Servers[1].Kill()
	mysqltest.Up(t, w.Servers[1])
	if now := memory(m[1]); now == replica {
		t.Errorf("after a crash it is still %s", now)
	}
	if now := memory(m[0]); now != primary {
		t.Errorf("that of the primary is %s, and was %s", now, primary)
	}
}

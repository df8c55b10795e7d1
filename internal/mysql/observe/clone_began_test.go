package observe_test

import (
	"context"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestCloneIsToldFromAnother by when it began: restarts and other time zones do not change that, another CLONE does.
func TestCloneIsToldFromAnother(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, s := t.Context(), w.Servers[1]
	first := m[1].Observe(ctx).Clone.Began
	if first == "" {
		t.Fatal("nothing tells when it began")
	}
	db := mysqltest.Root(t, s)
	mysqltest.Exec(t, db, "SET GLOBAL time_zone = '+05:30'")
	t.Cleanup(func() { // a restart may have done it
		_, _ = db.ExecContext(context.WithoutCancel(ctx), "SET GLOBAL time_zone = 'SYSTEM'")
	})
	began := func() string {
		var o mysql.Observation
		mysqltest.WaitFor(t, "an answer", func() bool {
			o = w.Members(mysqltest.NewPool(t, nil))[1].Observe(ctx)
			return o.Clone != nil
		})
		return o.Clone.Began
	}
	if got := began(); got != first {
		t.Errorf("in another time zone it is %s, not %s", got, first)
	}
	s.Kill()
	mysqltest.Up(t, s)
	if got := began(); got != first {
		t.Errorf("after a restart it is %s, not %s", got, first)
	}
	w, m = mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	mysqltest.Must(t, m[1].CloneFrom(ctx, w.Servers[0].Address()))
	mysqltest.WaitFor(t, "another copy", func() bool {
		c := m[1].Observe(ctx).Clone
		return c != nil && c.State == mysql.CloneCompleted && c.Began != first
	})
}

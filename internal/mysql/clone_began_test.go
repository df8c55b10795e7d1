package mysql

import (
	"context"
	"testing"
)

// TestCloneIsToldFromAnother by when it began: restarts and other time zones do not change that, another CLONE does.
func TestCloneIsToldFromAnother(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx, s := t.Context(), w.servers[1]
	first := m[1].Observe(ctx).Clone.Began
	if first == "" {
		t.Fatal("nothing tells when it began")
	}
	db := root(t, s)
	exec(t, db, "SET GLOBAL time_zone = '+05:30'")
	t.Cleanup(func() { // a restart may have done it
		_, _ = db.ExecContext(context.WithoutCancel(ctx), "SET GLOBAL time_zone = 'SYSTEM'")
	})
	began := func() string {
		var o Observation
		waitFor(t, "an answer", func() bool {
			o = w.members(newPool(t, nil))[1].Observe(ctx)
			return o.Clone != nil
		})
		return o.Clone.Began
	}
	if got := began(); got != first {
		t.Errorf("in another time zone it is %s, not %s", got, first)
	}
	s.Kill()
	up(t, s)
	if got := began(); got != first {
		t.Errorf("after a restart it is %s, not %s", got, first)
	}
	w, m = settle(t, newPool(t, nil))
	must(t, m[1].CloneFrom(ctx, w.servers[0].Address()))
	waitFor(t, "another copy", func() bool {
		c := m[1].Observe(ctx).Clone
		return c != nil && c.State == CloneCompleted && c.Began != first
	})
}

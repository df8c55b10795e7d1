package mysql

import "testing"

// TestNudge: what a replica received before it acknowledged is never acknowledged by itself; something newer covers it.
func TestNudge(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	for _, replica := range m[1:] {
		must(t, replica.SetAcknowledging(ctx, false))
	}
	waitFor(t, "nobody acknowledges", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 0 })
	db := root(t, w.servers[0])
	// Else one that lags would look like one that is ahead of its source.
	catchUp(t, m[1], m[0])
	catchUp(t, m[2], m[0])
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS nudged")
		done <- err
	}()
	waitFor(t, "a commit that waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	waitFor(t, "the replicas to have executed it before its source", func() bool {
		have := m[0].Observe(ctx).Executed
		ahead := func(o Observation) bool { return o.Executed != have && contains(t, db, o.Executed, have) }
		return ahead(m[1].Observe(ctx)) && ahead(m[2].Observe(ctx))
	})
	for _, replica := range m[1:] {
		must(t, replica.SetAcknowledging(ctx, true))
	}
	waitFor(t, "both acknowledge", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 2 })
	if n := m[0].Observe(ctx).PendingCommits; n != 1 {
		t.Errorf("%d commits wait: what was received before is acknowledged after all, and Nudge is not needed", n)
	}
	must(t, m[0].Nudge(ctx))
	must(t, <-done)
	if n := m[0].Observe(ctx).PendingCommits; n != 0 {
		t.Errorf("%d commits wait after something newer was acknowledged", n)
	}
}

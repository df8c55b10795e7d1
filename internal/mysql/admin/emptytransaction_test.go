package admin_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestCommitEmptyTransaction: what a replica received before it acknowledged is never acknowledged by itself; something newer covers it.
func TestCommitEmptyTransaction(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	for _, replica := range m[1:] {
		mysqltest.Must(t, replica.SetAcknowledging(ctx, false))
	}
	mysqltest.WaitFor(t, "nobody acknowledges", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 0 })
	db := mysqltest.Root(t, w.Servers[0])
	// Else one that lags would look like one that is ahead of its source.
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.CatchUp(t, m[2], m[0])
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS nudged")
		done <- err
	}()
	mysqltest.WaitFor(t, "a commit that waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	mysqltest.WaitFor(t, "the replicas to have executed it before its source", func() bool {
		have := m[0].Observe(ctx).Executed
		ahead := func(o mysql.Observation) bool {
			return o.Executed != have && mysqltest.Contains(t, db, o.Executed, have)
		}
		return ahead(m[1].Observe(ctx)) && ahead(m[2].Observe(ctx))
	})
	for _, replica := range m[1:] {
		mysqltest.Must(t, replica.SetAcknowledging(ctx, true))
	}
	mysqltest.WaitFor(t, "both acknowledge", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 2 })
	if n := m[0].Observe(ctx).PendingCommits; n != 1 {
		t.Errorf("%d commits wait: what was received before is acknowledged after all, and CommitEmptyTransaction is not needed", n)
	}
	mysqltest.Must(t, m[0].CommitEmptyTransaction(ctx))
	mysqltest.Must(t, <-done)
	if n := m[0].Observe(ctx).PendingCommits; n != 0 {
		t.Errorf("%d commits wait after something newer was acknowledged", n)
	}
}

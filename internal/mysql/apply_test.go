package mysql

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestFormerPrimaryAppliesWhatItReceived: whoever pointed a former primary at the new one died when it received, and before it had ended
// its own wait for acknowledgements. What it received is applied all the same when it is to be promoted again.
func TestFormerPrimaryAppliesWhatItReceived(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	catchUp(t, m[1], m[0])
	must(t, m[0].Demote(ctx))
	must(t, m[1].StopIOThread(ctx))
	must(t, m[1].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	defer func() { // who else is writable is more than settle puts right
		must(t, m[1].Demote(ctx))
		must(t, m[1].SetSourceWait(ctx, false, 0))
	}()
	replicate(t, m[2], w.servers[1])
	must(t, m[0].Handle().control(ctx, func(s *session) error { // as far as ReplicateFrom came
		if err := ChangeSource(ctx, s, nil, false, w.servers[1].IP(), mysqld.Port); err != nil {
			return err
		}
		return s.change(ctx, "replicate/start-io", "START REPLICA IO_THREAD")
	}))
	exec(t, root(t, w.servers[1]), "CREATE DATABASE IF NOT EXISTS received")
	exec(t, root(t, w.servers[1]), "DROP DATABASE received")
	all, db := m[1].Observe(ctx).Executed, root(t, w.servers[0])
	waitFor(t, "all is received", func() bool {
		o := m[0].Observe(ctx)
		return o.Replication != nil && contains(t, db, o.Executed+","+o.Replication.Retrieved, all)
	})
	o := m[0].Observe(ctx)
	if !o.SemiSync.SourceEnabled || o.Replication.SQLRunning || contains(t, db, o.Executed, all) {
		t.Fatalf("it does not stand as it should: %+v", o)
	}
	must(t, m[0].StopIOThread(ctx))
	must(t, m[0].ApplyReceived(ctx, all, patience))
	if o := m[0].Observe(ctx); !contains(t, db, o.Executed, all) || o.SemiSync.SourceEnabled {
		t.Errorf("it applied %s of %s, waits for acknowledgements: %v", o.Executed, all, o.SemiSync.SourceEnabled)
	}
}

package admin_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestFormerPrimaryAppliesWhatItReceived: whoever pointed a former primary at the new one died when it received, and before it had ended
// its own wait for acknowledgements. What it received is applied all the same when it is to be promoted again.
func TestFormerPrimaryAppliesWhatItReceived(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	defer func() { // who else is writable is more than Settle puts right
		mysqltest.Must(t, m[1].Demote(ctx))
		mysqltest.Must(t, m[1].SetSourceWait(ctx, false, 0))
	}()
	mysqltest.Replicate(t, m[2], w.Servers[1])
	mysqltest.Must(t, m[0].Handle().Control(ctx, func(s *conn.Session) error { // as far as ReplicateFrom came
		if err := admin.ChangeSource(ctx, s, nil, false, w.Servers[1].IP(), mysqld.Port); err != nil {
			return err
		}
		return s.Change(ctx, "replicate/start-io", "START REPLICA IO_THREAD")
	}))
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "CREATE DATABASE IF NOT EXISTS received")
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "DROP DATABASE received")
	all, db := m[1].Observe(ctx).Executed, mysqltest.Root(t, w.Servers[0])
	mysqltest.WaitFor(t, "all is received", func() bool {
		o := m[0].Observe(ctx)
		return o.Replication != nil && mysqltest.Contains(t, db, o.Executed+","+o.Replication.Retrieved, all)
	})
	o := m[0].Observe(ctx)
	if !o.SemiSync.SourceEnabled || o.Replication.SQLRunning || mysqltest.Contains(t, db, o.Executed, all) {
		t.Fatalf("it does not stand as it should: %+v", o)
	}
	mysqltest.Must(t, m[0].StopIOThread(ctx))
	mysqltest.Must(t, m[0].ApplyReceived(ctx, all, mysqltest.Patience))
	if o := m[0].Observe(ctx); !mysqltest.Contains(t, db, o.Executed, all) || o.SemiSync.SourceEnabled {
		t.Errorf("it applied %s of %s, waits for acknowledgements: %v", o.Executed, all, o.SemiSync.SourceEnabled)
	}
}

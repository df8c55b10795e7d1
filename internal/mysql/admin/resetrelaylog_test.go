package admin_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestResetRelayLog: a replica whose applier's relay log is missing shows that once it was to be started, and receives again after its
// relay log was reset.
func TestResetRelayLog(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	loseAllRelayLogs(t, w, m)
	client := mysqltest.Root(t, w.Servers[0])
	insert(t, client, 3)
	for range 2 {
		wantNumber(t, m[1].ReplicateFrom(ctx, w.Servers[0].IP(), mysqld.Port), 1872)
		if r := m[1].Observe(ctx).Replication; r == nil || !r.RelayLogMissing {
			t.Fatalf("%+v", r)
		}
	}
	mysqltest.Must(t, m[1].ResetRelayLog(ctx))
	o := m[1].Observe(ctx)
	if r := o.Replication; r == nil || r.RelayLogMissing || r.LastSQLError != "" || r.SQLRunning || r.IOState != mysql.IOOff || r.SourceHost != w.Servers[0].IP() {
		t.Fatalf("%+v", r)
	}
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	mysqltest.Replicate(t, m[1], w.Servers[0])
	mysqltest.CatchUp(t, m[1], m[0])
	wantSameRows(t, client, mysqltest.Root(t, w.Servers[1]))
	mysqltest.WaitFor(t, "it acknowledges", func() bool { return m[1].Observe(ctx).SemiSync.ReplicaActive })
}

// TestResetRelayLogKeepsOthers: the relay log of any other member stays, whatever it is asked.
func TestResetRelayLogKeepsOthers(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	client := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "STOP REPLICA SQL_THREAD")
	insert(t, client, 3)
	all := m[0].Observe(ctx).Executed
	received := func() bool {
		o := m[1].Observe(ctx)
		return !mysqltest.Contains(t, client, o.Executed, all) && mysqltest.Contains(t, client, o.Executed+","+o.Replication.Retrieved, all)
	}
	mysqltest.WaitFor(t, "the rows are received", received)
	mysqltest.Must(t, m[1].ResetRelayLog(ctx))
	if !received() {
		t.Errorf("its relay log is gone: %+v", m[1].Observe(ctx).Replication)
	}
	mysqltest.WantError(t, m[0].ResetRelayLog(ctx), mysql.ErrWritable)
}

// TestPromoteWithoutRelayLog: a member whose applier's relay log is missing has applied all that it received, and can be promoted.
func TestPromoteWithoutRelayLog(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	loseAllRelayLogs(t, w, m)
	wantNumber(t, m[1].ReplicateFrom(ctx, w.Servers[0].IP(), mysqld.Port), 1872)
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	defer func() { // who else is writable is more than Settle puts right
		mysqltest.Must(t, m[1].Demote(ctx))
		mysqltest.Must(t, m[1].SetSourceWait(ctx, false, 0))
	}()
	if o := m[1].Observe(ctx); o.ReadOnly || o.Replication != nil {
		t.Errorf("%+v", o)
	}
}

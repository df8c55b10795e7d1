package admin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// channels are the names of a server's channels.
const channels = "SELECT COALESCE(GROUP_CONCAT('<', CHANNEL_NAME, '>' ORDER BY CHANNEL_NAME), '') FROM performance_schema.replication_connection_configuration"

// otherChannel is that of a migration whose old server does not answer.
const otherChannel = "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.9', SOURCE_PORT = 3999, SOURCE_USER = 'old', SOURCE_AUTO_POSITION = 1 FOR CHANNEL 'old'"

// TestAChannelOfAPersonStandsInNobodysWay: each action is about the operator's channel, whether or not there is another.
func TestAChannelOfAPersonStandsInNobodysWay(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[1])
	defer func() {
		mysqltest.Must(t, m[1].Demote(ctx))
		mysqltest.Replicate(t, m[1], w.Servers[0])
		if got := mysqltest.Value(t, db, channels); got != "<>" {
			t.Errorf("a replica has the channels %s", got)
		}
	}()
	other := func() {
		t.Helper()
		mysqltest.Exec(t, db, otherChannel)
	}
	want := func(names string) {
		t.Helper()
		if got := mysqltest.Value(t, db, channels); got != names {
			t.Errorf("channels %s, want %s", got, names)
		}
	}
	other()
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, false))
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	want("<>,<old>")
	if r := m[1].Observe(ctx).Replication; r == nil || !r.Tampered() || !slices.Equal(r.Channels, []string{"old"}) {
		t.Errorf("replication %+v", r)
	}
	if state := mysqltest.Value(t, db, "SELECT SERVICE_STATE FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = 'old'"); state != "OFF" {
		t.Errorf("the other channel is %s", state)
	}
	mysqltest.CatchUp(t, m[1], m[0])

	mysqltest.Must(t, m[1].ReplicateFrom(ctx, "127.0.0.1", 3999)) // the options are settled
	want("<>")
	if r := m[1].Observe(ctx).Replication; r == nil || r.Tampered() { // not even the heartbeat, which MySQL sets back with the address
		t.Errorf("replication %+v", r)
	}
	other()
	mysqltest.Exec(t, db, "STOP REPLICA SQL_THREAD FOR CHANNEL ''")
	mysqltest.Exec(t, db, "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600 FOR CHANNEL ''")
	mysqltest.Exec(t, db, "CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (shop)")
	mysqltest.Exec(t, db, "START REPLICA FOR CHANNEL 'old'")
	mysqltest.Must(t, m[1].ApplyReceived(ctx, m[1].Observe(ctx).Executed, mysqltest.Patience))
	if r := m[1].Observe(ctx).Replication; r == nil || len(r.Filters) > 0 || strings.Contains(strings.Join(r.Options, ","), "Delay") {
		t.Errorf("replication %+v", r)
	}
	want("<>")
	other()
	mysqltest.Exec(t, db, "STOP REPLICA")
	mysqltest.Exec(t, db, "CHANGE REPLICATION SOURCE TO SOURCE_CONNECT_RETRY = 7 FOR CHANNEL ''")
	mysqltest.Replicate(t, m[1], w.Servers[0]) // the options are not
	want("<>")

	mysqltest.CatchUp(t, m[1], m[0])
	other()
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{}))
	want("<old>") // a primary may have one
	if o := m[1].Observe(ctx); o.Replication != nil || o.ReadOnly {
		t.Errorf("read-only: %t, replication %+v", o.ReadOnly, o.Replication)
	}

	mysqltest.Exec(t, db, "START REPLICA FOR CHANNEL 'old'")
	mysqltest.Must(t, m[1].Demote(ctx))
	if running := mysqltest.Value(t, db, "SELECT GROUP_CONCAT(c.SERVICE_STATE, a.SERVICE_STATE) FROM performance_schema.replication_connection_status c JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME)"); running != "OFFOFF" {
		t.Errorf("the channel of a demoted primary is %s", running)
	}
}

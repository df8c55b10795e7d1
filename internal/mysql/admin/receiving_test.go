package admin_test

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestStoppingToReceiveFromAFrozenSource holds how long the fence takes at a replica of a source that gives no sign of life:
// no time while the replica still believes its connection, and some seconds once it tries to connect anew (fact 14).
func TestStoppingToReceiveFromAFrozenSource(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	for name, row := range map[string]struct {
		timeout int
		state   string
		limit   time.Duration
	}{
		"it still believes its connection": {60, mysql.IOOn, time.Second},
		"it tries to connect":              {4, mysql.IOConnecting, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "SET GLOBAL replica_net_timeout = ?", row.timeout)
			// An instance that is busy makes a stop take longer than MySQL does: the fastest of some counts.
			fastest := mysqltest.Patience
			for tries := 0; tries < 4 && fastest > row.limit; tries++ {
				mysqltest.Must(t, m[1].StopIOThread(ctx))
				mysqltest.Must(t, m[1].StartReplica(ctx))
				mysqltest.WaitFor(t, "the replica receives", func() bool { return m[1].Observe(ctx).Replication.IOState == mysql.IOOn })
				mysqltest.Must(t, w.Servers[0].Freeze())
				t.Cleanup(func() { mysqltest.Must(t, w.Servers[0].Thaw()) })
				time.Sleep(6 * time.Second)
				mysqltest.WaitFor(t, row.state, func() bool { return m[1].Observe(ctx).Replication.IOState == row.state })
				began := time.Now()
				err := m[1].StopIOThread(ctx)
				took := time.Since(began)
				mysqltest.Must(t, w.Servers[0].Thaw())
				mysqltest.Must(t, err)
				t.Logf("%s for 6 s with replica_net_timeout=%d: stopped in %s", row.state, row.timeout, took.Round(time.Millisecond))
				fastest = min(fastest, took)
				mysqltest.Must(t, m[1].StartReplica(ctx))
			}
			if fastest > row.limit {
				t.Errorf("a thread that is %s was stopped in %s, expected at most %s", row.state, fastest, row.limit)
			}
		})
	}
	mysqltest.Must(t, m[1].PinSettings(ctx, map[string]string{"replica_net_timeout": mysql.PinnedSettings()["replica_net_timeout"]}))
}

// TestEventsOfAPromotedReplica holds what MySQL does with scheduled events: on a replica they are off, whether their owner
// had them on or off, and a promotion leaves them so. Nobody can tell afterwards which were on.
func TestEventsOfAPromotedReplica(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shop")
	for name, state := range map[string]string{"wanted": "ENABLE", "unwanted": "DISABLE"} {
		mysqltest.Exec(t, db, "DROP EVENT IF EXISTS shop."+name)
		mysqltest.Exec(t, db, "CREATE EVENT shop."+name+" ON SCHEDULE EVERY 1 DAY "+state+" DO DO 1")
	}
	const states = "SELECT GROUP_CONCAT(EVENT_NAME, ' ', STATUS ORDER BY EVENT_NAME DESC) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'shop'"
	if got := mysqltest.Value(t, db, states); got != "wanted ENABLED,unwanted DISABLED" {
		t.Errorf("on the source: %s", got)
	}
	mysqltest.CatchUp(t, m[1], m[0])
	const asleep = "wanted REPLICA_SIDE_DISABLED,unwanted REPLICA_SIDE_DISABLED"
	replica := mysqltest.Root(t, w.Servers[1])
	if got := mysqltest.Value(t, replica, states); got != asleep {
		t.Errorf("on the replica: %s", got)
	}
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{}))
	if got := mysqltest.Value(t, replica, states); got != asleep {
		t.Errorf("on the promoted replica: %s", got)
	}
	mysqltest.Exec(t, replica, "ALTER DEFINER = CURRENT_USER EVENT shop.wanted ENABLE")
	if got := mysqltest.Value(t, replica, states); got != "wanted ENABLED,unwanted REPLICA_SIDE_DISABLED" {
		t.Errorf("after its owner switched it on: %s", got)
	}
	// Back to where every test begins.
	mysqltest.Must(t, m[1].Demote(ctx))
	mysqltest.Replicate(t, m[0], w.Servers[1])
	mysqltest.CatchUp(t, m[0], m[1])
	mysqltest.Must(t, m[0].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	mysqltest.Replicate(t, m[1], w.Servers[0])
}

package mysql

import (
	"testing"
	"time"
)

// TestStoppingToReceiveFromAFrozenSource holds how long the fence takes at a replica of a source that gives no sign of life:
// no time while the replica still believes its connection, and some seconds once it tries to connect anew (fact 14).
func TestStoppingToReceiveFromAFrozenSource(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	for name, row := range map[string]struct {
		timeout int
		state   string
		limit   time.Duration
	}{
		"it still believes its connection": {60, IOOn, time.Second},
		"it tries to connect":              {4, IOConnecting, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			exec(t, root(t, w.servers[1]), "SET GLOBAL replica_net_timeout = ?", row.timeout)
			// An instance that is busy makes a stop take longer than MySQL does: the fastest of some counts.
			fastest := patience
			for tries := 0; tries < 4 && fastest > row.limit; tries++ {
				must(t, m[1].StopIOThread(ctx))
				must(t, m[1].StartReplica(ctx))
				waitFor(t, "the replica receives", func() bool { return m[1].Observe(ctx).Replication.IOState == IOOn })
				must(t, w.servers[0].Freeze())
				t.Cleanup(func() { must(t, w.servers[0].Thaw()) })
				time.Sleep(6 * time.Second)
				waitFor(t, row.state, func() bool { return m[1].Observe(ctx).Replication.IOState == row.state })
				began := time.Now()
				err := m[1].StopIOThread(ctx)
				took := time.Since(began)
				must(t, w.servers[0].Thaw())
				must(t, err)
				t.Logf("%s for 6 s with replica_net_timeout=%d: stopped in %s", row.state, row.timeout, took.Round(time.Millisecond))
				fastest = min(fastest, took)
				must(t, m[1].StartReplica(ctx))
			}
			if fastest > row.limit {
				t.Errorf("a thread that is %s was stopped in %s, expected at most %s", row.state, fastest, row.limit)
			}
		})
	}
	must(t, m[1].PinSettings(ctx, map[string]string{"replica_net_timeout": PinnedSettings()["replica_net_timeout"]}))
}

// TestEventsOfAPromotedReplica holds what MySQL does with scheduled events: on a replica they are off, whether their owner
// had them on or off, and a promotion leaves them so. Nobody can tell afterwards which were on.
func TestEventsOfAPromotedReplica(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	db := root(t, w.servers[0])
	exec(t, db, "CREATE DATABASE IF NOT EXISTS shop")
	for name, state := range map[string]string{"wanted": "ENABLE", "unwanted": "DISABLE"} {
		exec(t, db, "DROP EVENT IF EXISTS shop."+name)
		exec(t, db, "CREATE EVENT shop."+name+" ON SCHEDULE EVERY 1 DAY "+state+" DO DO 1")
	}
	const states = "SELECT GROUP_CONCAT(EVENT_NAME, ' ', STATUS ORDER BY EVENT_NAME DESC) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'shop'"
	if got := value(t, db, states); got != "wanted ENABLED,unwanted DISABLED" {
		t.Errorf("on the source: %s", got)
	}
	catchUp(t, m[1], m[0])
	const asleep = "wanted REPLICA_SIDE_DISABLED,unwanted REPLICA_SIDE_DISABLED"
	replica := root(t, w.servers[1])
	if got := value(t, replica, states); got != asleep {
		t.Errorf("on the replica: %s", got)
	}
	must(t, m[0].Demote(ctx))
	catchUp(t, m[1], m[0])
	must(t, m[1].Promote(ctx, PromoteSpec{}))
	if got := value(t, replica, states); got != asleep {
		t.Errorf("on the promoted replica: %s", got)
	}
	exec(t, replica, "ALTER DEFINER = CURRENT_USER EVENT shop.wanted ENABLE")
	if got := value(t, replica, states); got != "wanted ENABLED,unwanted REPLICA_SIDE_DISABLED" {
		t.Errorf("after its owner switched it on: %s", got)
	}
	// Back to where every test begins.
	must(t, m[1].Demote(ctx))
	replicate(t, m[0], w.servers[1])
	catchUp(t, m[0], m[1])
	must(t, m[0].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	replicate(t, m[1], w.servers[0])
}

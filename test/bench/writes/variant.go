package writes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Values of sync_relay_log: after each event, and MySQL's own default.
const (
	syncEach    = "1"
	syncDefault = "10000"
)

// variant is a way to commit.
type variant struct {
	name  string
	alone bool // on a server without replicas
	// semiSync has commits wait for as many acknowledgements as the operator asks of three voters.
	semiSync bool
	// operated means the operator's settings and its probe; without it, MySQL's defaults for all that the operator pins.
	operated  bool
	relaySync string
}

// The variants, in the order of their turns and of the tables.
var (
	standalone = variant{name: "standalone", alone: true}
	plain      = variant{name: "plain semi-sync", semiSync: true, relaySync: syncDefault}
	memory     = variant{name: "ours, Memory", semiSync: true, operated: true, relaySync: syncDefault}
	onDisk     = variant{name: "ours, Disk", semiSync: true, operated: true, relaySync: syncEach}
	async      = variant{name: "ours, Async", operated: true, relaySync: syncEach}

	variants = []variant{standalone, plain, memory, onDisk, async}
)

// node is where the clients of a variant write.
func (w *world) node(v variant) *node {
	if v.alone {
		return w.alone
	}
	return w.cluster[0]
}

// become puts the cluster into the state of a variant. No commit may be under way.
func (w *world) become(ctx context.Context, v variant) error {
	w.prober.Forget(cluster)
	if v.alone {
		return nil
	}
	for _, n := range w.cluster {
		if err := v.set(ctx, n); err != nil {
			return err
		}
	}
	primary := w.cluster[0]
	if err := waitFor(ctx, patience, "the last commits to be acknowledged", func() (bool, error) {
		waiting, err := primary.status(ctx, "Rpl_semi_sync_source_wait_sessions")
		return waiting == 0, err
	}); err != nil {
		return err
	}
	for _, n := range w.replicas() {
		if err := n.member.SetAcknowledging(ctx, v.semiSync); err != nil {
			return err
		}
	}
	if err := primary.member.SetSourceWait(ctx, v.semiSync, topology.WaitFor(members)); err != nil {
		return err
	}
	if v.semiSync {
		if err := waitFor(ctx, patience, "both replicas to acknowledge", w.acknowledging(ctx)); err != nil {
			return err
		}
	}
	if v.operated {
		e := w.endpoint(primary.server)
		w.prober.Set(cluster, probe.Target{Address: e.Address, ServerName: e.ServerName, Identity: w.identity()})
	}
	return nil
}

// set sets what the operator pins: to its values, or to MySQL's defaults.
func (v variant) set(ctx context.Context, n *node) error {
	pins := mysql.PinnedSettings()
	pins["sync_relay_log"] = v.relaySync
	if v.operated {
		return n.member.PinSettings(ctx, pins)
	}
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		if err := n.exec(ctx, "SET GLOBAL "+name+" = DEFAULT"); err != nil {
			return err
		}
	}
	return n.exec(ctx, fmt.Sprintf("SET GLOBAL sync_relay_log = %s", v.relaySync))
}

// acknowledging returns a function that says whether the replicas acknowledge. The source's own count may be wrong (fact 26).
func (w *world) acknowledging(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		for _, n := range w.replicas() {
			var status string
			err := n.root.QueryRowContext(ctx, "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_replica_status'").Scan(&status)
			if err != nil || status != "ON" {
				return false, err
			}
		}
		return true, nil
	}
}

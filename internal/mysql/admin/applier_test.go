package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestApplierIsRestored: what somebody set for a replica's applier is seen, and taken back without losing what was received.
func TestApplierIsRestored(t *testing.T) {
	for name, change := range map[string]struct {
		statement string
		seen      func(*mysql.Replication) bool
		gap       bool // it left out what it received
	}{
		"delay": {"CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 86400", func(r *mysql.Replication) bool {
			return len(r.Options) == 1 && r.Options[0] == "SOURCE_DELAY is 86400"
		}, false},
		"filter": {"CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (shop), REPLICATE_WILD_IGNORE_TABLE = ('shop.%')", func(r *mysql.Replication) bool {
			return len(r.Filters) == 2 && r.Filters[0] == "Replicate_Ignore_DB is shop" && r.Filters[1] == "Replicate_Wild_Ignore_Table is shop.%"
		}, true},
		"rewriting": {"CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB = ((shop, elsewhere))", func(r *mysql.Replication) bool {
			return len(r.Filters) == 1 && r.Filters[0] == "Replicate_Rewrite_DB is (shop,elsewhere)"
		}, false}, // the table is not there
		"privileges": {"CHANGE REPLICATION SOURCE TO PRIVILEGE_CHECKS_USER = 'nairobi_replication'@'%'", func(r *mysql.Replication) bool {
			return strings.HasPrefix(strings.Join(r.Options, ","), "PRIVILEGE_CHECKS_USER is ") // the applier stops with an error
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := relayServers(t)
			ctx := t.Context()
			client, db := mysqltest.Root(t, w.Servers[0]), mysqltest.Root(t, w.Servers[1])
			mysqltest.Exec(t, db, "STOP REPLICA SQL_THREAD")
			mysqltest.Exec(t, db, change.statement)
			mysqltest.Exec(t, db, "START REPLICA SQL_THREAD")
			if r := m[1].Observe(ctx).Replication; !change.seen(r) {
				t.Errorf("seen: %+v", r)
			}
			insert(t, client, 3)
			all := m[0].Observe(ctx).Executed
			mysqltest.WaitFor(t, "all is received", func() bool {
				o := m[1].Observe(ctx)
				return mysqltest.Contains(t, db, o.Executed+","+o.Replication.Retrieved, all)
			})
			if name == "delay" {
				mysqltest.Must(t, m[1].StopIOThread(ctx)) // as for a promotion
				mysqltest.Must(t, m[1].ApplyReceived(ctx, all, 20*time.Second))
			}
			mysqltest.Replicate(t, m[1], w.Servers[0])
			mysqltest.CatchUp(t, m[1], m[0])
			if r := m[1].Observe(ctx).Replication; r.Tampered() || !r.SQLRunning {
				t.Errorf("afterwards: %+v", r)
			}
			insert(t, client, 1)
			mysqltest.CatchUp(t, m[1], m[0])
			const rows = "SELECT COUNT(*) FROM shop.relayed"
			if want, have := mysqltest.Value(t, client, rows), mysqltest.Value(t, db, rows); (want == have) == change.gap {
				t.Errorf("%s rows there, %s here", want, have)
			}
		})
	}
}

package admin_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestClaimedTransactionsAreSkipped: a replica that counts as executed what its source is to commit next acknowledges it and does not apply it
// (fact 39). Its gtid_purged shows that: it has GTIDs behind some that the binary log still holds.
func TestClaimedTransactionsAreSkipped(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	client, replica := mysqltest.Root(t, w.Servers[0]), mysqltest.Root(t, w.Servers[1])
	insert(t, client, 1)
	mysqltest.CatchUp(t, m[1], m[0])
	before := m[1].Observe(ctx)
	uuid := m[0].Observe(ctx).ServerUUID
	last := mysqltest.Value(t, client, "SELECT REGEXP_SUBSTR(REGEXP_SUBSTR(@@gtid_executed, CONCAT(@@server_uuid, '[^,]*')), '[0-9]+$')")
	n, err := strconv.Atoi(last)
	mysqltest.Must(t, err)
	mysqltest.Must(t, m[2].StopIOThread(ctx)) // so the acknowledgements are those of server 1
	claimed := fmt.Sprintf("%s:%d-%d", uuid, n+1, n+2)
	mysqltest.Exec(t, replica, "SET GLOBAL gtid_purged = '+"+claimed+"'")
	insert(t, client, 2)
	o := m[1].Observe(ctx)
	if !mysqltest.Contains(t, replica, o.Purged, claimed) || mysqltest.Contains(t, replica, o.Purged, before.Executed) || o.Replication.IOState != mysql.IOOn || !o.Replication.SQLRunning {
		t.Errorf("executed %s, purged %s: %+v", o.Executed, o.Purged, o.Replication)
	}
	const rows = "SELECT COUNT(*) FROM shop.relayed"
	if there, here := mysqltest.Value(t, client, rows), mysqltest.Value(t, replica, rows); strings.TrimSpace(there) != "3" || here != "1" {
		t.Errorf("%s rows there, %s here", there, here)
	}
	mysqltest.Must(t, m[1].CloneFrom(ctx, w.Servers[0].Address()))
	mysqltest.WaitFor(t, "the copy", func() bool {
		c := m[1].Observe(ctx).Clone
		return c != nil && c.State == mysql.CloneCompleted
	})
}

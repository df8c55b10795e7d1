package admin_test

import (
	"errors"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestRetireTransactions: the record of what was lost is there before the first of its GTIDs, and once.
func TestRetireTransactions(t *testing.T) {
	cutAt, cut := "", errors.New("cut off")
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, moment string) error {
			if op == cutAt && moment == "before" {
				return cut
			}
			return nil
		}
	}))
	ctx := t.Context()
	primary := mysqltest.Root(t, w.Servers[0])
	const lost = "aaaaaaaa-71ca-11e1-9e33-c80aa9429562"
	records := func() string {
		t.Helper()
		return conn.Compact(mysqltest.Value(t, primary, "SELECT IFNULL(GROUP_CONCAT(gtids ORDER BY at), '') FROM nairobi_mysql.retired WHERE gtids LIKE '"+lost+"%'"))
	}
	used := func() string {
		t.Helper()
		return mysqltest.Value(t, primary, "SELECT GTID_SUBSET('"+lost+":7-8', @@GLOBAL.gtid_executed)")
	}
	ids := []string{lost + ":7", lost + ":8"}
	cutAt = "adopt-transactions/commit"
	mysqltest.WantError(t, m[0].RetireTransactions(ctx, ids), cut)
	if got := records(); got != lost+":7-8" || used() != "0" {
		t.Errorf("cut off: %q, used up: %s", got, used())
	}
	cutAt = ""
	mysqltest.Must(t, m[0].RetireTransactions(ctx, ids))
	mysqltest.Must(t, m[0].RetireTransactions(ctx, ids)) // again is a success
	if got := records(); got != lost+":7-8" || used() != "1" {
		t.Errorf("afterwards: %q, used up: %s", got, used())
	}
	for _, i := range []int{1, 2} {
		mysqltest.CatchUp(t, m[i], m[0])
	}
}

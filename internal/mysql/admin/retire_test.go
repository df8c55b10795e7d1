package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
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

// TestLostTransactionsAreRecordedWhateverIsDoneToTheTable: what it has stays there, wherever its restoration is cut off.
func TestLostTransactionsAreRecordedWhateverIsDoneToTheTable(t *testing.T) {
	cutAt, cut := "", errors.New("cut off")
	w, m := mysqltest.Settle(t, hooked(t, func(op, moment string) error {
		if op == cutAt && moment == "after" {
			return cut
		}
		return nil
	}))
	ctx, primary := t.Context(), mysqltest.Root(t, w.Servers[0])
	const lost = "bbbbbbbb-71ca-11e1-9e33-c80aa9429562"
	records := func() string {
		t.Helper()
		return conn.Compact(mysqltest.Value(t, primary, "SELECT GROUP_CONCAT(gtids ORDER BY gtids) FROM nairobi_mysql.retired WHERE gtids LIKE '"+lost+"%'"))
	}
	retire := func(number string) (err error) {
		mysqltest.WaitFor(t, "an attempt that was cut off is gone", func() bool {
			err = m[0].RetireTransactions(ctx, []string{lost + number})
			return !errors.Is(err, mysql.ErrCommitsPending)
		})
		return err
	}
	mysqltest.Must(t, retire(":1"))
	for what, change := range map[string]string{
		"a constraint forbids": "ADD CHECK (gtids NOT LIKE '%:3')", "the times are gone": "DROP COLUMN at", "the keys are gone": "DROP COLUMN id",
	} {
		for _, cutAt = range []string{"own/drop-table", "own/drop-view", "own/create-table", "own/keep-rows", "own/replace-table"} {
			if cutAt == "own/drop-table" {
				mysqltest.Exec(t, primary, "ALTER TABLE nairobi_mysql.retired "+change)
			}
			mysqltest.WantError(t, retire(":3"), cut)
			if got := records(); !strings.HasPrefix(got, lost+":1") {
				t.Errorf("%s, cut off after %s: %q", what, cutAt, got)
			}
		}
		cutAt = ""
		mysqltest.Must(t, retire(":3"))
		if got := records(); got != lost+":1,"+lost+":3" {
			t.Errorf("%s: %q", what, got)
		}
		mysqltest.Exec(t, primary, "DELETE FROM nairobi_mysql.retired WHERE gtids = '"+lost+":3'")
	}
}

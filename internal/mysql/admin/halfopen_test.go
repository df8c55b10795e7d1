package admin_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestHalfOpenServerIsClosed: super_read_only is put back beside read_only. A server that was opened for writes since it was observed stays open.
func TestHalfOpenServerIsClosed(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	pins := map[string]string{mysql.SuperReadOnly: "ON"}
	mysqltest.Must(t, m[0].PinSettings(ctx, pins))
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly {
		t.Errorf("the primary is closed: read_only %t, super_read_only %t", o.ReadOnly, o.SuperReadOnly)
	}
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "SET GLOBAL super_read_only = OFF")
	mysqltest.Must(t, m[0].PinSettings(ctx, pins))
	if o := m[0].Observe(ctx); !o.ReadOnly || !o.SuperReadOnly {
		t.Errorf("half open: read_only %t, super_read_only %t", o.ReadOnly, o.SuperReadOnly)
	}
	mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
}

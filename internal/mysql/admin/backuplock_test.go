package admin_test

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestABackupLockIsNamed: LOCK INSTANCE FOR BACKUP keeps the operator from changing accounts. The error says who has it.
func TestABackupLockIsNamed(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	c := mysqltest.Connect(t, w.Servers[0], "LOCK INSTANCE FOR BACKUP")
	err := m[0].RestoreReplicationAccount(ctx)
	mysqltest.WantError(t, err, mysql.ErrBlocked)
	t.Log(err)
	if !strings.Contains(err.Error(), ": connection "+c.ID+" (root@localhost) holds the backup lock (LOCK INSTANCE FOR BACKUP); KILL "+c.ID+" ends it: Error ") {
		t.Errorf("the error does not name connection %s", c.ID)
	}
	c.Leave()
	mysqltest.WaitFor(t, "the change", func() bool { return m[0].RestoreReplicationAccount(ctx) == nil })
}

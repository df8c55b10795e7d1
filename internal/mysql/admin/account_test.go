package admin_test

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestReplicationAccountIsRestored: whatever somebody did to the account of the replicas on their source, a replica that was cut off says
// so, and connects once the account is put back, which needs no acknowledgement.
func TestReplicationAccountIsRestored(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	client := mysqltest.Root(t, w.Servers[0])
	for _, change := range []string{
		"ALTER USER nairobi_replication ACCOUNT LOCK",
		"ALTER USER nairobi_replication PASSWORD EXPIRE",
		"ALTER USER nairobi_replication REQUIRE SUBJECT '/CN=nobody'",
		"ALTER USER nairobi_replication IDENTIFIED BY 'secret'",
		"REVOKE REPLICATION SLAVE ON *.* FROM nairobi_replication",
		"RENAME USER nairobi_replication TO other",
		"DROP USER nairobi_replication",
	} {
		t.Run(change, func(t *testing.T) {
			mysqltest.Exec(t, client, "DROP USER IF EXISTS other")
			mysqltest.Exec(t, client, change)
			for i, replica := range m[1:] {
				db := mysqltest.Root(t, w.Servers[1+i])
				mysqltest.CatchUp(t, replica, m[0])
				mysqltest.Exec(t, db, "STOP REPLICA IO_THREAD")
				mysqltest.Exec(t, db, "START REPLICA IO_THREAD")
				mysqltest.WaitFor(t, "it says that it is refused", func() bool {
					r := replica.Observe(ctx).Replication
					return r.AccountRefused && r.IOState != mysql.IOOn && r.ConnectError != "" && !strings.Contains(r.ConnectError, "attempt")
				})
			}
			// A row of the operator's waits for the replicas that are refused.
			row := *m[0].Observe(ctx).Membership
			epoch := row.Epoch
			row.Epoch++
			go func() { _ = m[0].WriteMembership(ctx, epoch, row) }()
			mysqltest.WaitFor(t, "a row waits", func() bool { return m[0].Observe(ctx).PendingCommits > 0 })
			mysqltest.Must(t, m[0].RestoreReplicationAccount(ctx))
			for i, replica := range m[1:] {
				mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1+i]), "START REPLICA IO_THREAD")
				mysqltest.WaitFor(t, "it is connected", func() bool { return replica.Observe(ctx).Replication.IOState == mysql.IOOn })
				mysqltest.CatchUp(t, replica, m[0])
			}
			mysqltest.Must(t, m[0].RestoreReplicationAccount(ctx)) // also where nothing is wrong
			// The replicas followed the change, and not what was put back.
			issuer := mysqltest.Value(t, client, "SELECT QUOTE(CONVERT(x509_issuer USING utf8mb4)) FROM mysql.user WHERE User = 'nairobi_operator'")
			for _, statement := range mysql.ReplicationAccount(issuer) {
				mysqltest.Exec(t, client, statement)
			}
		})
	}
}

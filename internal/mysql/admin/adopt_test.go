package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestAdopt takes one cluster's identity out of a server that has its data, and cuts that off before and after every
// statement.
func TestAdopt(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx, s := t.Context(), w.Servers[2]
	primary := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, primary, "CREATE DATABASE IF NOT EXISTS heirloom")
	mysqltest.Exec(t, primary, "CREATE TABLE IF NOT EXISTS heirloom.t (id INT PRIMARY KEY)")
	mysqltest.Exec(t, primary, "REPLACE INTO heirloom.t VALUES (1), (2)")
	mysqltest.Exec(t, primary, "CREATE USER IF NOT EXISTS 'person'@'%'")
	if _, err := m[0].EnsurePodAccount(ctx, mysql.BackupUser, "CN=old", "CN=backup"); err != nil {
		t.Fatal(err)
	}
	mysqltest.CatchUp(t, m[2], m[0])
	mysqltest.WantError(t, m[0].Adopt(ctx), mysql.ErrWritable)
	mysqltest.WantError(t, m[2].Adopt(ctx), mysql.ErrReplicates)
	if o := m[2].Observe(ctx); o.Membership == nil || !o.SuperReadOnly {
		t.Fatalf("what was refused has changed something: %+v", o)
	}

	db := mysqltest.Root(t, s)
	db.SetMaxOpenConns(1) // what is set for a session is set for all that follows
	mysqltest.Exec(t, db, "STOP REPLICA")
	mysqltest.Exec(t, db, "RESET REPLICA ALL")
	mysqltest.Exec(t, db, "SET GLOBAL super_read_only = OFF")
	for _, statement := range []string{"SET SESSION sql_log_bin = OFF", "CREATE USER 'nairobi_operator'@'localhost'", "SET GLOBAL super_read_only = ON"} {
		mysqltest.Exec(t, db, statement)
	}
	before := m[2].Observe(ctx).Executed
	cuts := 0
	for n := 1; ; n++ {
		count, cut := 0, false
		knife := mysqltest.NewPool(t, func(o *conn.Options) {
			o.Hook = func(op, _ string) error {
				if !strings.HasPrefix(op, "adopt/") {
					return nil
				}
				if count++; count != n {
					return nil
				}
				cut = true
				return errors.New("cut")
			}
		})
		// The session that was cut off may still hold its lock: nothing is begun then, and the caller comes again.
		var err error
		mysqltest.WaitFor(t, "the attempt that was cut off is gone", func() bool {
			err = w.Members(knife)[2].Adopt(ctx)
			return !errors.Is(err, mysql.ErrCommitsPending)
		})
		knife.Close()
		if !cut && count < n {
			mysqltest.Must(t, err)
			break
		}
		if cut {
			cuts++
		}
		if o := m[2].Observe(ctx); !o.ReadOnly || o.Executed != before {
			t.Fatalf("cut off at %d: %+v", n, o)
		}
	}
	if cuts < 8 {
		t.Errorf("%d cuts were tried", cuts)
	}
	mysqltest.WaitFor(t, "the last attempt is gone", func() bool { err := m[2].Adopt(ctx); return err == nil || !errors.Is(err, mysql.ErrCommitsPending) })
	mysqltest.Must(t, m[2].Adopt(ctx))
	o := m[2].Observe(ctx)
	if o.Membership != nil || !o.MembershipKnown || !o.SuperReadOnly || o.Executed != before {
		t.Errorf("after it: %+v", o)
	}
	if got := mysqltest.Value(t, db, "SELECT GROUP_CONCAT(CONCAT(User, '@', Host) ORDER BY User, Host) FROM mysql.user WHERE User LIKE 'nairobi%' OR User = 'person'"); got != "nairobi_operator@%,nairobi_replication@%,person@%" {
		t.Errorf("the accounts are %s", got)
	}
	if got := mysqltest.Value(t, db, "SELECT CONCAT((SELECT COUNT(*) FROM heirloom.t), (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'nairobi_mysql'))"); got != "20" {
		t.Errorf("rows and databases: %s", got)
	}

	// A server that was made from an empty disk holds nothing that anybody wants restored.
	blank, err := w.Farm.Start(ctx, mysqld.Options{})
	mysqltest.Must(t, err)
	mysqltest.WantError(t, admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(blank), w.Identity()).Adopt(ctx), mysql.ErrNothingThere)
	mysqltest.Must(t, w.Farm.Discard(blank))

	mysqltest.Must(t, m[2].CloneFrom(ctx, w.Servers[0].Address()))
	mysqltest.WaitFor(t, "the copy", func() bool {
		o := m[2].Observe(ctx)
		return o.Clone != nil && o.Clone.State == mysql.CloneCompleted && o.Membership != nil
	})
	mysqltest.Exec(t, primary, "DROP DATABASE heirloom")
	mysqltest.Exec(t, primary, "DROP USER 'person'@'%', 'nairobi_backup'@'%'")
}

package mysql

import (
	"errors"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestAdopt takes one cluster's identity out of a server that has its data, and cuts that off before and after every
// statement.
func TestAdopt(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx, s := t.Context(), w.servers[2]
	primary := root(t, w.servers[0])
	exec(t, primary, "CREATE DATABASE IF NOT EXISTS heirloom")
	exec(t, primary, "CREATE TABLE IF NOT EXISTS heirloom.t (id INT PRIMARY KEY)")
	exec(t, primary, "REPLACE INTO heirloom.t VALUES (1), (2)")
	exec(t, primary, "CREATE USER IF NOT EXISTS 'person'@'%'")
	if _, err := m[0].EnsureBackupAccount(ctx, "CN=old", "CN=backup"); err != nil {
		t.Fatal(err)
	}
	catchUp(t, m[2], m[0])
	wantError(t, m[0].Adopt(ctx), ErrWritable)
	wantError(t, m[2].Adopt(ctx), ErrReplicates)
	if o := m[2].Observe(ctx); o.Membership == nil || !o.SuperReadOnly {
		t.Fatalf("what was refused has changed something: %+v", o)
	}

	db := root(t, s)
	db.SetMaxOpenConns(1) // what is set for a session is set for all that follows
	exec(t, db, "STOP REPLICA")
	exec(t, db, "RESET REPLICA ALL")
	exec(t, db, "SET GLOBAL super_read_only = OFF")
	for _, statement := range []string{"SET SESSION sql_log_bin = OFF", "CREATE USER 'nairobi_operator'@'localhost'", "SET GLOBAL super_read_only = ON"} {
		exec(t, db, statement)
	}
	before := m[2].Observe(ctx).Executed
	cuts := 0
	for n := 1; ; n++ {
		count, cut := 0, false
		knife := newPool(t, func(o *Options) {
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
		waitFor(t, "the attempt that was cut off is gone", func() bool {
			err = w.members(knife)[2].Adopt(ctx)
			return !errors.Is(err, ErrCommitsPending)
		})
		knife.Close()
		if !cut && count < n {
			must(t, err)
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
	waitFor(t, "the last attempt is gone", func() bool { err := m[2].Adopt(ctx); return err == nil || !errors.Is(err, ErrCommitsPending) })
	must(t, m[2].Adopt(ctx))
	o := m[2].Observe(ctx)
	if o.Membership != nil || !o.MembershipKnown || !o.SuperReadOnly || o.Executed != before {
		t.Errorf("after it: %+v", o)
	}
	if got := value(t, db, "SELECT GROUP_CONCAT(CONCAT(User, '@', Host) ORDER BY User, Host) FROM mysql.user WHERE User LIKE 'nairobi%' OR User = 'person'"); got != "nairobi_operator@%,nairobi_replication@%,person@%" {
		t.Errorf("the accounts are %s", got)
	}
	if got := value(t, db, "SELECT CONCAT((SELECT COUNT(*) FROM heirloom.t), (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'nairobi_mysql'))"); got != "20" {
		t.Errorf("rows and databases: %s", got)
	}

	// A server that was made from an empty disk holds nothing that anybody wants restored.
	blank, err := w.farm.Start(ctx, mysqld.Options{})
	must(t, err)
	wantError(t, Open(newPool(t, nil), endpointOf(blank), w.identity()).Adopt(ctx), ErrNothingThere)
	must(t, w.farm.Discard(blank))

	must(t, m[2].CloneFrom(ctx, w.servers[0].Address()))
	waitFor(t, "the copy", func() bool {
		o := m[2].Observe(ctx)
		return o.Clone != nil && o.Clone.State == CloneCompleted && o.Membership != nil
	})
	exec(t, primary, "DROP DATABASE heirloom")
	exec(t, primary, "DROP USER 'person'@'%', 'nairobi_backup'@'%'")
}

package admin_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestApplierWorkers: a replica applies with more workers than MySQL's default, from its first start on and after a restart. A number that
// somebody chose stays.
func TestApplierWorkers(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	const workers, running = "SELECT @@GLOBAL.replica_parallel_workers", "SELECT COUNT(*) FROM performance_schema.replication_applier_status_by_worker"
	s := w.Servers[2]
	restart := func() {
		t.Helper()
		s.Kill()
		mysqltest.Up(t, s)
		mysqltest.WaitFor(t, "an answer", func() bool { return m[2].Observe(ctx).Access == mysql.AccessVerified })
		mysqltest.Must(t, m[2].StartReplica(ctx))
	}
	mysqltest.Exec(t, mysqltest.Root(t, s), "RESET PERSIST")
	for _, persisted := range []string{"16", "3", "4"} {
		if persisted != "16" {
			mysqltest.Exec(t, mysqltest.Root(t, s), "SET PERSIST replica_parallel_workers = "+persisted)
		}
		restart()
		if set, threads := mysqltest.Value(t, mysqltest.Root(t, s), workers), mysqltest.Value(t, mysqltest.Root(t, s), running); set != persisted || threads != persisted {
			t.Errorf("%s workers are set and %s run, not %s", set, threads, persisted)
		}
	}
	mysqltest.Exec(t, mysqltest.Root(t, s), "RESET PERSIST replica_parallel_workers")
	restart()
}

package admin_test

import (
	"errors"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// inTheWay are sessions on a replica that stand between its applier and what it received, and what is written meanwhile.
var inTheWay = []struct {
	name       string
	statements []string
	written    string
	// survives: a change of source needs no end of it.
	survives bool
}{
	{"a reader's transaction and DDL", []string{"BEGIN", "SELECT COUNT(*) FROM way.t"}, "ALTER TABLE way.t COMMENT = 'again'", false},
	{"LOCK TABLES READ", []string{"LOCK TABLES way.t READ"}, "INSERT INTO way.t () VALUES ()", false},
	{"FLUSH TABLES WITH READ LOCK", []string{"FLUSH TABLES WITH READ LOCK"}, "INSERT INTO way.t () VALUES ()", false},
	{"SELECT FOR SHARE", []string{"BEGIN", "SELECT * FROM way.t WHERE id = 1 FOR SHARE"}, "UPDATE way.t SET v = v + 1 WHERE id = 1", false},
	{"LOCK INSTANCE FOR BACKUP", []string{"LOCK INSTANCE FOR BACKUP"}, "INSERT INTO way.t () VALUES ()", true},
	{"LOCK INSTANCE FOR BACKUP and DDL", []string{"LOCK INSTANCE FOR BACKUP"}, "ALTER TABLE way.t COMMENT = 'once more'", false},
}

func inTheWayOf(t *testing.T, m []*admin.Member, w *mysqltest.World, statements []string, written string) (holder, bystander *mysqltest.Client, executed string) {
	t.Helper()
	ctx, db := t.Context(), mysqltest.Root(t, w.Servers[0])
	mysqltest.CatchUp(t, m[1], m[0])
	holder = mysqltest.Connect(t, w.Servers[1], statements...)
	bystander = mysqltest.Connect(t, w.Servers[1], "BEGIN", "SELECT COUNT(*) FROM way.others")
	mysqltest.Exec(t, db, written)
	executed = m[0].Observe(ctx).Executed
	mysqltest.WaitFor(t, "the transaction is received", func() bool {
		o := m[1].Observe(ctx)
		return mysqltest.Contains(t, db, o.Executed+","+o.Replication.Retrieved, executed)
	})
	return holder, bystander, executed
}

func settleForObstacles(t *testing.T) (*mysqltest.World, []*admin.Member) {
	t.Helper()
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS way")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS way.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL DEFAULT 0)")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS way.others (id INT PRIMARY KEY)")
	mysqltest.Exec(t, db, "REPLACE INTO way.t VALUES (1, 0)")
	return w, m
}

// TestClientsOnAReplicaDoNotKeepItFromItsNewSource: whoever waits for the new primary's writes waits for no reader of a replica.
func TestClientsOnAReplicaDoNotKeepItFromItsNewSource(t *testing.T) {
	w, m := settleForObstacles(t)
	ctx := t.Context()
	for _, row := range inTheWay {
		t.Run(row.name, func(t *testing.T) {
			holder, bystander, executed := inTheWayOf(t, m, w, row.statements, row.written)
			observer := mysqltest.Root(t, w.Servers[1])
			mysqltest.WaitFor(t, "it is pointed at its new source", func() bool {
				err := m[1].ReplicateFrom(ctx, "127.0.0.1", 3999)
				if err != nil && !errors.Is(err, mysql.ErrNotApplied) {
					t.Fatal(err)
				}
				return err == nil
			})
			if o := m[1].Observe(ctx); !mysqltest.Contains(t, observer, o.Executed, executed) {
				t.Errorf("it executed %s of %s", o.Executed, executed)
			}
			if row.survives {
				if !holder.Alive(observer) {
					t.Error("the session was ended")
				}
				holder.Leave()
			}
			mysqltest.WaitFor(t, "the end of the session in the way", func() bool { return !holder.Alive(observer) })
			if !bystander.Alive(observer) {
				t.Error("a session that stood in nobody's way was ended")
			}
			bystander.Leave()
			mysqltest.Replicate(t, m[1], w.Servers[0])
		})
	}
}

// TestClientsOnAReplicaDoNotKeepItFromItsPromotion: nor does a database without a primary wait for a reader.
func TestClientsOnAReplicaDoNotKeepItFromItsPromotion(t *testing.T) {
	for _, row := range inTheWay {
		t.Run(row.name, func(t *testing.T) {
			w, m := settleForObstacles(t)
			ctx := t.Context()
			holder, bystander, executed := inTheWayOf(t, m, w, row.statements, row.written)
			observer := mysqltest.Root(t, w.Servers[1])
			// WaitApplied is for those who can wait: it ends nobody.
			_ = m[1].WaitApplied(ctx, executed, 2*admin.ApplyStep)
			if !holder.Alive(observer) {
				t.Error("the session was ended before it was in anybody's way")
			}
			mysqltest.Must(t, m[0].Demote(ctx))
			mysqltest.Must(t, m[1].StopIOThread(ctx))
			mysqltest.WaitFor(t, "it applied what it received", func() bool {
				err := m[1].ApplyReceived(ctx, executed, 5*admin.ApplyStep)
				if err != nil && !errors.Is(err, mysql.ErrNotApplied) {
					t.Fatal(err)
				}
				return err == nil
			})
			mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{}))
			defer func() { mysqltest.Must(t, m[1].Demote(ctx)) }() // who else is writable is more than Settle puts right
			mysqltest.WaitFor(t, "the end of the session in the way", func() bool { return !holder.Alive(observer) })
			if !bystander.Alive(observer) {
				t.Error("a session that stood in nobody's way was ended")
			}
			mysqltest.Exec(t, observer, "CREATE DATABASE received")
			mysqltest.Exec(t, observer, "DROP DATABASE received")
			bystander.Leave()
		})
	}
}

// blindly are what somebody switches off in the Performance Schema, and what locks the server while that is off.
var blindly = []struct {
	name, off  string
	statements []string
	written    string
	// again: somebody switches it on once the lock is taken.
	again bool
}{
	{name: "backup", off: instrumentOff, statements: []string{"LOCK INSTANCE FOR BACKUP"}},
	{name: "backup and DDL", off: instrumentOff, statements: []string{"LOCK INSTANCE FOR BACKUP"}, written: "ALTER TABLE way.t COMMENT = 'unseen'"},
	{name: "backup, shown again", off: instrumentOff, statements: []string{"LOCK INSTANCE FOR BACKUP"}, again: true},
	{name: "global read lock", off: instrumentOff, statements: []string{"FLUSH TABLES WITH READ LOCK"}},
	{name: "no instrumentation", off: consumerOff, statements: []string{"LOCK INSTANCE FOR BACKUP", "FLUSH TABLES WITH READ LOCK"}},
	{name: "reader and DDL", off: instrumentOff, statements: []string{"BEGIN", "SELECT COUNT(*) FROM way.t"}, written: "ALTER TABLE way.t COMMENT = 'seen again'"},
}

const (
	instrumentOff = "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'wait/%'"
	consumerOff   = "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'global_instrumentation'"
)

// TestLocksThatAreNotShownDoNotHoldUpAPromotion: whoever switches the instrument of metadata locks off keeps nobody from being promoted.
func TestLocksThatAreNotShownDoNotHoldUpAPromotion(t *testing.T) {
	for _, row := range blindly {
		t.Run(row.name, func(t *testing.T) {
			w, m := settleForObstacles(t)
			ctx := t.Context()
			observer := mysqltest.Root(t, w.Servers[1])
			mysqltest.CatchUp(t, m[1], m[0])
			mysqltest.Exec(t, observer, row.off)
			holder := mysqltest.Connect(t, w.Servers[1], row.statements...)
			if row.again {
				mysqltest.Exec(t, observer, "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'")
			}
			if row.written != "" {
				mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), row.written)
			}
			executed := m[0].Observe(ctx).Executed
			mysqltest.WaitFor(t, "the transactions are received", func() bool {
				o := m[1].Observe(ctx)
				return mysqltest.Contains(t, observer, o.Executed+","+o.Replication.Retrieved, executed)
			})
			mysqltest.Must(t, m[0].Demote(ctx))
			mysqltest.Must(t, m[1].StopIOThread(ctx))
			mysqltest.WaitFor(t, "it applied what it received", func() bool {
				err := m[1].ApplyReceived(ctx, executed, 5*admin.ApplyStep)
				if err != nil && !errors.Is(err, mysql.ErrNotApplied) {
					t.Fatal(err)
				}
				return err == nil
			})
			mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{}))
			defer func() { mysqltest.Must(t, m[1].Demote(ctx)) }()
			mysqltest.WaitFor(t, "the end of the session in the way", func() bool { return !holder.Alive(observer) })
			mysqltest.Exec(t, observer, "CREATE DATABASE received")
			mysqltest.Exec(t, observer, "DROP DATABASE received")
			next := mysqltest.Connect(t, w.Servers[1], "LOCK INSTANCE FOR BACKUP")
			if shown := mysqltest.Value(t, observer, "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'BACKUP LOCK' AND LOCK_TYPE = 'SHARED'"); shown != "1" {
				t.Errorf("%s locks of a backup are shown", shown)
			}
			next.Leave()
		})
	}
}

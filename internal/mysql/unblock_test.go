package mysql

import (
	"errors"
	"testing"
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

func inTheWayOf(t *testing.T, m []*Member, w *world, statements []string, written string) (holder, bystander *client, executed string) {
	t.Helper()
	ctx, db := t.Context(), root(t, w.servers[0])
	catchUp(t, m[1], m[0])
	holder = connect(t, w.servers[1], statements...)
	bystander = connect(t, w.servers[1], "BEGIN", "SELECT COUNT(*) FROM way.others")
	exec(t, db, written)
	executed = m[0].Observe(ctx).Executed
	waitFor(t, "the transaction is received", func() bool {
		o := m[1].Observe(ctx)
		return contains(t, db, o.Executed+","+o.Replication.Retrieved, executed)
	})
	return holder, bystander, executed
}

func settleForObstacles(t *testing.T) (*world, []*Member) {
	t.Helper()
	w, m := settle(t, newPool(t, nil))
	db := root(t, w.servers[0])
	exec(t, db, "CREATE DATABASE IF NOT EXISTS way")
	exec(t, db, "CREATE TABLE IF NOT EXISTS way.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL DEFAULT 0)")
	exec(t, db, "CREATE TABLE IF NOT EXISTS way.others (id INT PRIMARY KEY)")
	exec(t, db, "REPLACE INTO way.t VALUES (1, 0)")
	return w, m
}

// TestClientsOnAReplicaDoNotKeepItFromItsNewSource: whoever waits for the new primary's writes waits for no reader of a replica.
func TestClientsOnAReplicaDoNotKeepItFromItsNewSource(t *testing.T) {
	w, m := settleForObstacles(t)
	ctx := t.Context()
	for _, row := range inTheWay {
		t.Run(row.name, func(t *testing.T) {
			holder, bystander, executed := inTheWayOf(t, m, w, row.statements, row.written)
			observer := root(t, w.servers[1])
			waitFor(t, "it is pointed at its new source", func() bool {
				err := m[1].ReplicateFrom(ctx, "127.0.0.1", 3999)
				if err != nil && !errors.Is(err, ErrNotApplied) {
					t.Fatal(err)
				}
				return err == nil
			})
			if o := m[1].Observe(ctx); !contains(t, observer, o.Executed, executed) {
				t.Errorf("it executed %s of %s", o.Executed, executed)
			}
			if row.survives {
				if !holder.alive(observer) {
					t.Error("the session was ended")
				}
				holder.leave()
			}
			waitFor(t, "the end of the session in the way", func() bool { return !holder.alive(observer) })
			if !bystander.alive(observer) {
				t.Error("a session that stood in nobody's way was ended")
			}
			bystander.leave()
			replicate(t, m[1], w.servers[0])
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
			observer := root(t, w.servers[1])
			// WaitApplied is for those who can wait: it ends nobody.
			_ = m[1].WaitApplied(ctx, executed, 2*ApplyStep)
			if !holder.alive(observer) {
				t.Error("the session was ended before it was in anybody's way")
			}
			must(t, m[0].Demote(ctx))
			must(t, m[1].StopIOThread(ctx))
			waitFor(t, "it applied what it received", func() bool {
				err := m[1].ApplyReceived(ctx, executed, 5*ApplyStep)
				if err != nil && !errors.Is(err, ErrNotApplied) {
					t.Fatal(err)
				}
				return err == nil
			})
			must(t, m[1].Promote(ctx, PromoteSpec{}))
			defer func() { must(t, m[1].Demote(ctx)) }() // who else is writable is more than settle puts right
			waitFor(t, "the end of the session in the way", func() bool { return !holder.alive(observer) })
			if !bystander.alive(observer) {
				t.Error("a session that stood in nobody's way was ended")
			}
			exec(t, observer, "CREATE DATABASE received")
			exec(t, observer, "DROP DATABASE received")
			bystander.leave()
		})
	}
}

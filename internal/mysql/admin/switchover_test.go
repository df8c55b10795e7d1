package admin_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestFormerPrimaryAcknowledgesAtOnce: in a cluster of two, the former primary's acknowledgements are all there are. They
// come before it has ended its own wait for some, which takes long.
func TestFormerPrimaryAcknowledgesAtOnce(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE TABLE IF NOT EXISTS shop.p (id INT PRIMARY KEY AUTO_INCREMENT)")
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	mysqltest.Must(t, m[0].SetAcknowledging(ctx, true))
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	write := mysqltest.Connect(t, w.Servers[1], "&INSERT INTO shop.p VALUES ()")
	acknowledged, looked := false, false
	former := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, phase string) error {
			if op == "role/source-enabled" && phase == "before" && !looked {
				looked = true
				select {
				case err := <-write.Ended:
					acknowledged = err == nil
				case <-time.After(mysqltest.Patience):
				}
			}
			return nil
		}
	}))[0]
	mysqltest.Must(t, former.ReplicateFrom(ctx, w.Servers[1].IP(), mysqld.Port))
	if !acknowledged {
		t.Error("nobody acknowledged while the former primary still waited for acknowledgements")
	}
	o := former.Observe(ctx)
	if o.SemiSync.SourceEnabled || !o.Replication.SQLRunning || o.Replication.IOState == mysql.IOOff {
		t.Errorf("the former primary: %+v, %+v", o.SemiSync, o.Replication)
	}
	mysqltest.CatchUp(t, former, m[1])

	// Cut off after its thread was started, the next call goes on from there.
	mysqltest.Must(t, former.SetSourceWait(ctx, true, 1))
	mysqltest.Must(t, former.ReplicateFrom(ctx, w.Servers[1].IP(), mysqld.Port))
	if o = former.Observe(ctx); o.SemiSync.SourceEnabled || !o.Replication.SQLRunning {
		t.Errorf("the former primary: %+v, %+v", o.SemiSync, o.Replication)
	}
	// Back to where every test begins.
	mysqltest.Must(t, m[1].Demote(ctx))
	mysqltest.CatchUp(t, m[0], m[1])
	mysqltest.Must(t, m[0].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	mysqltest.Replicate(t, m[1], w.Servers[0])
}

// fleet is a crowd of clients that insert numbers and note which were acknowledged.
type fleet struct {
	mu           sync.Mutex
	primary      *mysqld.Server
	acknowledged map[int]bool
	last         time.Time
	gap          time.Duration
	refused      int
}

func (f *fleet) note(id int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.refused++
		return
	}
	now := time.Now()
	if !f.last.IsZero() {
		f.gap = max(f.gap, now.Sub(f.last))
	}
	f.last = now
	f.acknowledged[id] = true
}

// written is how many writes were acknowledged so far.
func (f *fleet) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.acknowledged)
}

// turnedAway is how many writes were refused so far.
func (f *fleet) turnedAway() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

func (f *fleet) target() *mysqld.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.primary
}

func (f *fleet) moveTo(s *mysqld.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.primary = s
}

// write inserts numbers until ctx ends. A client that is refused connects again, where the primary is by then.
func (f *fleet) write(ctx context.Context, t *testing.T, client, clients int) {
	var db *sql.DB
	var at *mysqld.Server
	for n := client; ctx.Err() == nil; n += clients {
		if s := f.target(); s != at || db == nil {
			db, at = mysqltest.Root(t, s), s
		}
		_, err := db.ExecContext(ctx, "INSERT INTO load_test.t (id) VALUES (?)", n)
		if ctx.Err() != nil {
			return
		}
		f.note(n, err)
		// Clients that never paused would leave the appliers no processor, and measure nothing but that.
		time.Sleep(20 * time.Millisecond)
	}
}

// TestSwitchoverUnderLoad hands the writes of a busy primary over and back, and finds every acknowledged row afterwards.
func TestSwitchoverUnderLoad(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "DROP DATABASE IF EXISTS load_test")
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE DATABASE load_test")
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE TABLE load_test.t (id INT PRIMARY KEY)")
	mysqltest.Must(t, m[0].SetAcknowledging(ctx, true)) // counts once it is a replica

	const clients = 8
	f := &fleet{primary: w.Servers[0], acknowledged: map[int]bool{}}
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() { f.write(running, t, client, clients) })
	}
	// As many writes as a second of this load brings forth on an idle machine need more time on a busy one.
	load := func(what string) {
		t.Helper()
		began := f.written()
		time.Sleep(time.Second)
		mysqltest.WaitFor(t, what, func() bool { return f.written() >= began+5*clients })
	}
	load("the load")
	for from, to := range []int{1, 0} {
		f.mu.Lock()
		f.gap = 0
		f.mu.Unlock()
		hand(t, w, m, from, to, 2, f)
		load("the load at the new primary")
		f.mu.Lock()
		t.Logf("from %s to %s: longest time without an acknowledged write %s", w.Servers[from].Name, w.Servers[to].Name, f.gap.Round(time.Millisecond))
		f.mu.Unlock()
	}
	stop()
	group.Wait()
	if f.refused == 0 || len(f.acknowledged) < 20 {
		t.Errorf("%d acknowledged, %d refused: that was no load", len(f.acknowledged), f.refused)
	}
	db := mysqltest.Root(t, w.Servers[0])
	rows, err := db.QueryContext(ctx, "SELECT id FROM load_test.t")
	mysqltest.Must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		mysqltest.Must(t, rows.Scan(&id))
		delete(f.acknowledged, id)
	}
	mysqltest.Must(t, rows.Err())
	if len(f.acknowledged) > 0 {
		t.Errorf("%d acknowledged rows are lost", len(f.acknowledged))
	}
}

// hand does what a switchover does, in its order.
func hand(t *testing.T, w *mysqltest.World, m []*admin.Member, from, to, other int, f *fleet) {
	t.Helper()
	ctx := t.Context()
	// What the new primary is behind by, writers would wait for: it catches up while they go on.
	for range 20 {
		began := time.Now()
		mysqltest.CatchUp(t, m[to], m[from])
		if time.Since(began) < 200*time.Millisecond {
			break
		}
	}
	began := time.Now()
	step := func(name string) { t.Logf("%8s %s", time.Since(began).Round(time.Millisecond), name) }
	// Where replicas get no processor for a while, commits look as if nobody acknowledged them, or new ones are always there
	// first. Nothing has changed then, and whoever hands over comes again.
	var err error
	mysqltest.WaitFor(t, "the demotion", func() bool {
		if err = m[from].DemoteBounded(ctx, admin.DemoteSpec{Patience: time.Second, Kill: true}); err != nil {
			step(err.Error())
		}
		return !errors.Is(err, mysql.ErrCommitsPending) && !errors.Is(err, mysql.ErrBlocked)
	})
	mysqltest.Must(t, err)
	step("demoted")
	refused := f.turnedAway()
	// A transaction that was prepared before can be committed all the same: from now on that is answered to nobody.
	mysqltest.Must(t, m[from].SetSourceWait(ctx, true, 1000))
	mysqltest.CatchUp(t, m[to], m[from])
	step("applied and fenced")
	mysqltest.WaitFor(t, "a client that is refused", func() bool { return f.turnedAway() > refused })
	mysqltest.Must(t, m[to].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	f.moveTo(w.Servers[to])
	step("promoted")
	var group sync.WaitGroup
	for _, i := range []int{from, other} {
		group.Go(func() {
			err := mysql.ErrNotApplied
			for errors.Is(err, mysql.ErrNotApplied) { // a replica that is far behind
				err = m[i].ReplicateFrom(ctx, w.Servers[to].IP(), mysqld.Port)
			}
			if err != nil {
				t.Error(fmt.Errorf("%s: %w", w.Servers[i].Name, err))
			}
			step(w.Servers[i].Name + " replicates")
		})
	}
	group.Wait()
	_, err = m[from].DisconnectClients(ctx)
	mysqltest.Must(t, err)
}

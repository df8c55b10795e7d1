package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestFormerPrimaryAcknowledgesAtOnce: in a cluster of two, the former primary's acknowledgements are all there are. They
// come before it has ended its own wait for some, which takes long.
func TestFormerPrimaryAcknowledgesAtOnce(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	exec(t, root(t, w.servers[0]), "CREATE DATABASE IF NOT EXISTS shop")
	exec(t, root(t, w.servers[0]), "CREATE TABLE IF NOT EXISTS shop.p (id INT PRIMARY KEY AUTO_INCREMENT)")
	must(t, m[2].StopIOThread(ctx))
	must(t, m[0].SetAcknowledging(ctx, true))
	must(t, m[0].Demote(ctx))
	catchUp(t, m[1], m[0])
	must(t, m[1].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	write := connect(t, w.servers[1], "&INSERT INTO shop.p VALUES ()")
	acknowledged, looked := false, false
	former := w.members(newPool(t, func(o *Options) {
		o.Hook = func(op, phase string) error {
			if op == "role/source-enabled" && phase == "before" && !looked {
				looked = true
				select {
				case err := <-write.ended:
					acknowledged = err == nil
				case <-time.After(patience):
				}
			}
			return nil
		}
	}))[0]
	must(t, former.ReplicateFrom(ctx, w.servers[1].IP(), mysqld.Port))
	if !acknowledged {
		t.Error("nobody acknowledged while the former primary still waited for acknowledgements")
	}
	o := former.Observe(ctx)
	if o.SemiSync.SourceEnabled || !o.Replication.SQLRunning || o.Replication.IOState == IOOff {
		t.Errorf("the former primary: %+v, %+v", o.SemiSync, o.Replication)
	}
	catchUp(t, former, m[1])

	// Cut off after its thread was started, the next call goes on from there.
	must(t, former.SetSourceWait(ctx, true, 1))
	must(t, former.ReplicateFrom(ctx, w.servers[1].IP(), mysqld.Port))
	if o = former.Observe(ctx); o.SemiSync.SourceEnabled || !o.Replication.SQLRunning {
		t.Errorf("the former primary: %+v, %+v", o.SemiSync, o.Replication)
	}
	// Back to where every test begins.
	must(t, m[1].Demote(ctx))
	catchUp(t, m[0], m[1])
	must(t, m[0].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	replicate(t, m[1], w.servers[0])
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
			db, at = root(t, s), s
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
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	exec(t, root(t, w.servers[0]), "DROP DATABASE IF EXISTS load_test")
	exec(t, root(t, w.servers[0]), "CREATE DATABASE load_test")
	exec(t, root(t, w.servers[0]), "CREATE TABLE load_test.t (id INT PRIMARY KEY)")
	must(t, m[0].SetAcknowledging(ctx, true)) // counts once it is a replica

	const clients = 8
	f := &fleet{primary: w.servers[0], acknowledged: map[int]bool{}}
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
		waitFor(t, what, func() bool { return f.written() >= began+5*clients })
	}
	load("the load")
	for from, to := range []int{1, 0} {
		f.mu.Lock()
		f.gap = 0
		f.mu.Unlock()
		hand(t, w, m, from, to, 2, f)
		load("the load at the new primary")
		f.mu.Lock()
		t.Logf("from %s to %s: longest time without an acknowledged write %s", w.servers[from].Name, w.servers[to].Name, f.gap.Round(time.Millisecond))
		f.mu.Unlock()
	}
	stop()
	group.Wait()
	if f.refused == 0 || len(f.acknowledged) < 20 {
		t.Errorf("%d acknowledged, %d refused: that was no load", len(f.acknowledged), f.refused)
	}
	db := root(t, w.servers[0])
	rows, err := db.QueryContext(ctx, "SELECT id FROM load_test.t")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		must(t, rows.Scan(&id))
		delete(f.acknowledged, id)
	}
	must(t, rows.Err())
	if len(f.acknowledged) > 0 {
		t.Errorf("%d acknowledged rows are lost", len(f.acknowledged))
	}
}

// hand does what a switchover does, in its order.
func hand(t *testing.T, w *world, m []*Member, from, to, other int, f *fleet) {
	t.Helper()
	ctx := t.Context()
	// What the new primary is behind by, writers would wait for: it catches up while they go on.
	for range 20 {
		began := time.Now()
		catchUp(t, m[to], m[from])
		if time.Since(began) < 200*time.Millisecond {
			break
		}
	}
	began := time.Now()
	step := func(name string) { t.Logf("%8s %s", time.Since(began).Round(time.Millisecond), name) }
	// Where replicas get no processor for a while, commits look as if nobody acknowledged them, or new ones are always there
	// first. Nothing has changed then, and whoever hands over comes again.
	var err error
	waitFor(t, "the demotion", func() bool {
		if err = m[from].DemoteBounded(ctx, DemoteSpec{Patience: time.Second, Kill: true}); err != nil {
			step(err.Error())
		}
		return !errors.Is(err, ErrCommitsPending) && !errors.Is(err, ErrBlocked)
	})
	must(t, err)
	step("demoted")
	refused := f.turnedAway()
	// A transaction that was prepared before can be committed all the same: from now on that is answered to nobody.
	must(t, m[from].SetSourceWait(ctx, true, 1000))
	catchUp(t, m[to], m[from])
	step("applied and fenced")
	waitFor(t, "a client that is refused", func() bool { return f.turnedAway() > refused })
	must(t, m[to].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	f.moveTo(w.servers[to])
	step("promoted")
	var group sync.WaitGroup
	for _, i := range []int{from, other} {
		group.Go(func() {
			err := ErrNotApplied
			for errors.Is(err, ErrNotApplied) { // a replica that is far behind
				err = m[i].ReplicateFrom(ctx, w.servers[to].IP(), mysqld.Port)
			}
			if err != nil {
				t.Error(fmt.Errorf("%s: %w", w.servers[i].Name, err))
			}
			step(w.servers[i].Name + " replicates")
		})
	}
	group.Wait()
	_, err = m[from].DisconnectClients(ctx)
	must(t, err)
}

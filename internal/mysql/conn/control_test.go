package conn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestOneHand: of two leaders the newer one acts, and the older one cannot any more.
func TestOneHand(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	lost := errors.New("somebody else leads")
	var oldLease error
	asked := 0
	old := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Lease = func(context.Context) error { asked++; return oldLease }
	}))[0]
	mysqltest.Must(t, old.SetSourceWait(ctx, true, 2))
	mysqltest.Must(t, old.LowerSourceWait(ctx, 1, 0))
	if asked != 2 { // before the lock was taken, and after
		t.Errorf("the lease was asked %d times for one session", asked)
	}
	oldLease = lost
	mysqltest.Must(t, old.SetSourceWait(ctx, true, 1)) // the session is still its own

	fresh := w.Members(mysqltest.NewPool(t, nil))[0]
	mysqltest.Must(t, fresh.Claim(ctx))
	mysqltest.WantError(t, old.SetSourceWait(ctx, true, 2), mysql.ErrLeaseRefused)
	mysqltest.WantError(t, old.WriteMembership(ctx, 1, mysql.Membership{Epoch: 99, Voters: []string{"x"}}), mysql.ErrLeaseRefused)
	mysqltest.WantError(t, old.InstallCertificate(ctx, "ab", w.Identity().CertPEM), mysql.ErrLeaseRefused)
	if o := fresh.Observe(ctx); o.SemiSync.WaitCount != 1 {
		t.Errorf("the old leader's write came through: %+v", o.SemiSync)
	}
	if old.Observe(ctx).Access != mysql.AccessVerified {
		t.Error("the old leader may still look")
	}
	mysqltest.Must(t, fresh.SetSourceWait(ctx, true, 1))
}

// TestClientsDoNotHoldOurLocks: any account may take a lock by its name, and queue for it. It is taken from them.
func TestClientsDoNotHoldOurLocks(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	row := *m[0].Observe(ctx).Membership
	p := mysqltest.NewPool(t, nil)
	fresh := w.Members(p)
	mysqltest.Must(t, m[0].Claim(ctx)) // so that nobody of ours has it
	db := mysqltest.Root(t, w.Servers[0])
	take := func(lock string) string { return "SELECT GET_LOCK('" + lock + "', 3600), SLEEP(3600)" }
	for _, lock := range []string{conn.ControlLock, conn.TransactionLock} {
		clients := []*mysqltest.Client{mysqltest.Connect(t, w.Servers[0], "&"+take(lock))}
		for range 5 {
			waits := mysqltest.Connect(t, w.Servers[0])
			go func() {
				_, err := waits.Conn.ExecContext(context.WithoutCancel(ctx), take(lock))
				waits.Ended <- err
			}()
			clients = append(clients, waits)
		}
		mysqltest.WaitFor(t, "the queue", func() bool {
			return mysqltest.Value(t, db, "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND OBJECT_NAME = '"+lock+"'") == "6"
		})
		next := row
		next.Epoch++
		mysqltest.Must(t, fresh[0].WriteMembership(ctx, row.Epoch, next))
		row = next
		for _, c := range clients {
			mysqltest.WaitFor(t, "the end of a session", func() bool { return !c.Alive(db) })
		}
	}
	holder := mysqltest.Connect(t, w.Servers[0], "&"+take(conn.CloneLock))
	var runs bool
	mysqltest.Must(t, w.Handles(p)[0].Control(ctx, func(s *conn.Session) error { return s.Row(ctx, "SELECT "+observe.CloneRuns, nil, &runs) }))
	if runs {
		t.Error("a client's lock passes for a CLONE")
	}
	mysqltest.Exec(t, db, "KILL "+holder.ID)
}

// TestClientsInALoopDoNotHoldOurLocks: who comes back as soon as it is ended, and waits for the lock then, is behind the operator.
func TestClientsInALoopDoNotHoldOurLocks(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	db := mysqltest.Root(t, w.Servers[0])
	for _, lock := range []string{conn.ControlLock, conn.TransactionLock} {
		t.Run(lock, func(t *testing.T) {
			ctx := t.Context()
			row := *m[0].Observe(ctx).Membership
			mysqltest.Must(t, m[0].Claim(ctx)) // so that nobody of ours has it
			loop, stop := context.WithCancel(ctx)
			var clients sync.WaitGroup
			defer clients.Wait()
			defer stop()
			for range 10 {
				client := mysqltest.Root(t, w.Servers[0])
				clients.Go(func() {
					for loop.Err() == nil {
						_, _ = client.ExecContext(loop, "DO GET_LOCK('"+lock+"', 3600), SLEEP(3600)")
					}
				})
			}
			mysqltest.WaitFor(t, "the queue", func() bool {
				return mysqltest.Value(t, db, "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND OBJECT_NAME = '"+lock+"'") == "10"
			})
			fresh := w.Members(mysqltest.NewPool(t, nil))[0]
			for range 3 { // each in a session that has to take the lock
				next := row
				next.Epoch++
				began := time.Now()
				mysqltest.Must(t, fresh.WriteMembership(ctx, row.Epoch, next))
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				row = next
				mysqltest.Must(t, fresh.Claim(ctx))
			}
		})
	}
}

// TestFrozenBeforeTheLock: an old leader asks for the lease, stands still until another leads and has claimed the member, and
// takes the lock from it. It does nothing with it.
func TestFrozenBeforeTheLock(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	fresh := w.Members(mysqltest.NewPool(t, nil))[0]
	asked := 0
	old := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Lease = func(context.Context) error {
			asked++
			if asked == 1 {
				return nil // and then it stands still
			}
			return errors.New("somebody else leads")
		}
	}))[0]
	mysqltest.Must(t, fresh.Claim(ctx))
	mysqltest.WantError(t, old.SetSourceWait(ctx, true, 2), mysql.ErrLeaseRefused)
	mysqltest.WantError(t, old.CloneFrom(ctx, w.Servers[1].Address()), mysql.ErrLeaseRefused)
	mysqltest.Must(t, fresh.SetSourceWait(ctx, true, 1))
	if o := fresh.Observe(ctx); o.SemiSync.WaitCount != 1 {
		t.Errorf("the old leader's write came through: %+v", o.SemiSync)
	}
}

// TestTakeOverMidway: a leader that is replaced in the middle of an action does not finish it.
func TestTakeOverMidway(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	row := *m[0].Observe(ctx).Membership
	fresh := w.Members(mysqltest.NewPool(t, nil))[0]
	old := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, phase string) error {
			if op == "membership/update" && phase == "before" {
				return fresh.Claim(ctx)
			}
			return nil
		}
	}))[0]
	if err := old.WriteMembership(ctx, row.Epoch, mysql.Membership{Epoch: row.Epoch + 1, Voters: row.Voters, W: row.W}); err == nil {
		t.Error("the old leader's transaction went through")
	}
	if o := fresh.Observe(ctx); o.Membership.Epoch != row.Epoch {
		t.Errorf("epoch %d", o.Membership.Epoch)
	}
	// A session that was killed is cut off at once, and lets go of its locks as soon as its thread gets a processor.
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.WaitFor(t, "the old leader's transaction lets go of its lock", func() bool {
		return mysqltest.Value(t, db, "SELECT IS_USED_LOCK('"+conn.TransactionLock+"')") == ""
	})
}

package mysql

import (
	"context"
	"errors"
	"testing"
)

// TestOneHand: of two leaders the newer one acts, and the older one cannot any more.
func TestOneHand(t *testing.T) {
	w, _ := settle(t, newPool(t, nil))
	ctx := t.Context()
	lost := errors.New("somebody else leads")
	var oldLease error
	asked := 0
	old := w.members(newPool(t, func(o *Options) {
		o.Lease = func(context.Context) error { asked++; return oldLease }
	}))[0]
	must(t, old.SetSourceWait(ctx, true, 2))
	must(t, old.LowerSourceWait(ctx, 1, 0))
	if asked != 2 { // before the lock was taken, and after
		t.Errorf("the lease was asked %d times for one session", asked)
	}
	oldLease = lost
	must(t, old.SetSourceWait(ctx, true, 1)) // the session is still its own

	fresh := w.members(newPool(t, nil))[0]
	must(t, fresh.Claim(ctx))
	wantError(t, old.SetSourceWait(ctx, true, 2), ErrLeaseRefused)
	wantError(t, old.WriteMembership(ctx, 1, Membership{Epoch: 99, Voters: []string{"x"}}), ErrLeaseRefused)
	wantError(t, old.InstallCertificate(ctx, "ab", w.identity().CertPEM), ErrLeaseRefused)
	if o := fresh.Observe(ctx); o.SemiSync.WaitCount != 1 {
		t.Errorf("the old leader's write came through: %+v", o.SemiSync)
	}
	if old.Observe(ctx).Access != AccessVerified {
		t.Error("the old leader may still look")
	}
	must(t, fresh.SetSourceWait(ctx, true, 1))
}

// TestClientsDoNotHoldOurLocks: any account may take a lock by its name, and queue for it. It is taken from them.
func TestClientsDoNotHoldOurLocks(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	row := *m[0].Observe(ctx).Membership
	p := newPool(t, nil)
	fresh := w.members(p)
	must(t, m[0].Claim(ctx)) // so that nobody of ours has it
	db := root(t, w.servers[0])
	take := func(lock string) string { return "SELECT GET_LOCK('" + lock + "', 3600), SLEEP(3600)" }
	for _, lock := range []string{ControlLock, TransactionLock} {
		clients := []*client{connect(t, w.servers[0], "&"+take(lock))}
		for range 5 {
			waits := connect(t, w.servers[0])
			go func() {
				_, err := waits.conn.ExecContext(context.WithoutCancel(ctx), take(lock))
				waits.ended <- err
			}()
			clients = append(clients, waits)
		}
		waitFor(t, "the queue", func() bool {
			return value(t, db, "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND OBJECT_NAME = '"+lock+"'") == "6"
		})
		next := row
		next.Epoch++
		must(t, fresh[0].WriteMembership(ctx, row.Epoch, next))
		row = next
		for _, c := range clients {
			waitFor(t, "the end of a session", func() bool { return !c.alive(db) })
		}
	}
	holder := connect(t, w.servers[0], "&"+take(cloneLock))
	var runs bool
	must(t, w.handles(p)[0].control(ctx, func(s *session) error { return s.row(ctx, "SELECT "+cloneRuns, nil, &runs) }))
	if runs {
		t.Error("a client's lock passes for a CLONE")
	}
	exec(t, db, "KILL "+holder.id)
}

// TestFrozenBeforeTheLock: an old leader asks for the lease, stands still until another leads and has claimed the member, and
// takes the lock from it. It does nothing with it.
func TestFrozenBeforeTheLock(t *testing.T) {
	w, _ := settle(t, newPool(t, nil))
	ctx := t.Context()
	fresh := w.members(newPool(t, nil))[0]
	asked := 0
	old := w.members(newPool(t, func(o *Options) {
		o.Lease = func(context.Context) error {
			asked++
			if asked == 1 {
				return nil // and then it stands still
			}
			return errors.New("somebody else leads")
		}
	}))[0]
	must(t, fresh.Claim(ctx))
	wantError(t, old.SetSourceWait(ctx, true, 2), ErrLeaseRefused)
	wantError(t, old.CloneFrom(ctx, w.servers[1].Address()), ErrLeaseRefused)
	must(t, fresh.SetSourceWait(ctx, true, 1))
	if o := fresh.Observe(ctx); o.SemiSync.WaitCount != 1 {
		t.Errorf("the old leader's write came through: %+v", o.SemiSync)
	}
}

// TestTakeOverMidway: a leader that is replaced in the middle of an action does not finish it.
func TestTakeOverMidway(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	row := *m[0].Observe(ctx).Membership
	fresh := w.members(newPool(t, nil))[0]
	old := w.members(newPool(t, func(o *Options) {
		o.Hook = func(op, phase string) error {
			if op == "membership/update" && phase == "before" {
				return fresh.Claim(ctx)
			}
			return nil
		}
	}))[0]
	if err := old.WriteMembership(ctx, row.Epoch, Membership{Epoch: row.Epoch + 1, Voters: row.Voters, W: row.W}); err == nil {
		t.Error("the old leader's transaction went through")
	}
	if o := fresh.Observe(ctx); o.Membership.Epoch != row.Epoch {
		t.Errorf("epoch %d", o.Membership.Epoch)
	}
	// A session that was killed is cut off at once, and lets go of its locks as soon as its thread gets a processor.
	db := root(t, w.servers[0])
	waitFor(t, "the old leader's transaction lets go of its lock", func() bool {
		return value(t, db, "SELECT IS_USED_LOCK('"+TransactionLock+"')") == ""
	})
}

package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// hangWrite stops both replicas from acknowledging and starts a client's write that waits. The channel gets its outcome.
func hangWrite(t *testing.T, w *world, m []*Member) <-chan error {
	t.Helper()
	ctx := t.Context()
	client := root(t, w.servers[0])
	exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	exec(t, client, "CREATE TABLE IF NOT EXISTS shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
	must(t, m[1].StopIOThread(ctx))
	must(t, m[2].StopIOThread(ctx))
	result := make(chan error, 1)
	go func() {
		_, err := client.ExecContext(context.WithoutCancel(ctx), "INSERT INTO shop.t (v) VALUES (1)")
		result <- err
	}()
	waitFor(t, "the write waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	return result
}

// TestCommitsPending: while a commit waits, nothing that would release, hide or join it is done, and nothing hangs.
func TestCommitsPending(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	epoch := m[0].Observe(ctx).Membership.Epoch
	outcome := hangWrite(t, w, m)

	wantError(t, m[0].Demote(ctx), ErrCommitsPending)
	wantError(t, m[0].SetSourceWait(ctx, false, 0), ErrCommitsPending)
	wantError(t, m[0].Restart(ctx), ErrWritable)
	next := Membership{Epoch: epoch + 1, Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	wantError(t, m[0].WriteMembership(ctx, epoch, next), ErrCommitsPending)
	wantError(t, m[0].WriteMembership(ctx, epoch, next), ErrCommitsPending) // not a second one
	if o := m[0].Observe(ctx); o.PendingCommits == 0 || o.ReadOnly || !o.SemiSync.SourceEnabled || o.Membership.Epoch != epoch {
		t.Errorf("while commits wait: %+v", o)
	}
	// A commit that begins to wait after the look: the SET is held up, ends by itself, and leaves nothing behind.
	wantError(t, m[0].Handle().control(ctx, func(s *session) error {
		return pendingOr(ctx, s, s.changeWithin(ctx, 8*time.Second, "test", "SET GLOBAL super_read_only = ON"))
	}), ErrCommitsPending)
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly {
		t.Errorf("after a SET that was held up: %+v", o)
	}
	// Another hand can still take over and repair what they wait for.
	other := w.members(newPool(t, nil))
	must(t, other[0].Claim(ctx))
	must(t, other[0].SetSourceWait(ctx, true, 2))
	must(t, other[0].LowerSourceWait(ctx, 1, 0))
	select {
	case err := <-outcome:
		t.Fatalf("the client was answered: %v", err)
	default:
	}

	must(t, other[1].StartReplica(ctx))
	must(t, <-outcome)
	waitFor(t, "the membership", func() bool { return other[0].Observe(ctx).Membership.Epoch == epoch+1 })
	must(t, other[0].WriteMembership(ctx, epoch, next)) // done already
}

// TestReleaseWaiting: a source that will never be acknowledged again answers its clients.
func TestReleaseWaiting(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	outcome := hangWrite(t, w, m)
	must(t, m[0].ReleaseWaiting(t.Context()))
	must(t, <-outcome)
	must(t, m[0].ReleaseWaiting(t.Context()))
	must(t, m[0].SetSourceWait(t.Context(), true, 1))
}

// TestSwitchover moves the primary to another member and back, with a client that holds things up.
func TestSwitchover(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	client := root(t, w.servers[0])
	exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	exec(t, client, "CREATE TABLE IF NOT EXISTS shop.s (id INT PRIMARY KEY AUTO_INCREMENT)")

	holder, err := client.Conn(ctx)
	must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(ctx, "LOCK TABLES shop.s WRITE")
	must(t, err)
	wantError(t, m[0].Demote(ctx), ErrBlocked)
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly || !o.SemiSync.SourceEnabled {
		t.Fatalf("after a Demote that failed: %+v", o)
	}
	_, err = holder.ExecContext(ctx, "UNLOCK TABLES")
	must(t, err)
	// An open transaction does not hold Demote up, and ends with it.
	tx, err := client.BeginTx(ctx, nil)
	must(t, err)
	_, err = tx.ExecContext(ctx, "INSERT INTO shop.s VALUES ()")
	must(t, err)
	must(t, m[0].Demote(ctx))
	must(t, m[0].Demote(ctx))
	if err := tx.Commit(); err == nil {
		t.Error("COMMIT went through after Demote")
	}

	executed := m[0].Observe(ctx).Executed
	must(t, m[1].WaitApplied(ctx, executed, patience))
	must(t, m[1].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	must(t, m[1].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	replicate(t, m[0], w.servers[1])
	replicate(t, m[2], w.servers[1])
	must(t, m[0].SetAcknowledging(ctx, true))
	exec(t, root(t, w.servers[1]), "INSERT INTO shop.s VALUES ()")
	executed = m[1].Observe(ctx).Executed
	for _, i := range []int{0, 2} {
		must(t, m[i].WaitApplied(ctx, executed, patience))
		if o := m[i].Observe(ctx); o.Replication.SourceUUID != m[1].Observe(ctx).ServerUUID || o.Executed != executed {
			t.Errorf("member %d: %+v of %+v", i, o, o.Replication)
		}
	}

	must(t, m[1].Demote(ctx))
	catchUp(t, m[0], m[1])
	must(t, m[0].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}))
	replicate(t, m[1], w.servers[0])
	replicate(t, m[2], w.servers[0])
	wantError(t, m[1].Promote(ctx, PromoteSpec{SemiSync: true}), ErrInvalidArgument)
}

// TestUnappliedRelayLog: what was received and not applied survives a change of source and forbids a promotion.
func TestUnappliedRelayLog(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	replica, client := root(t, w.servers[1]), root(t, w.servers[0])
	exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	exec(t, client, "DROP TABLE IF EXISTS shop.u") // a row that is replaced by its like makes no transaction
	exec(t, client, "CREATE TABLE shop.u (id INT PRIMARY KEY)")
	exec(t, client, "REPLACE INTO shop.u VALUES (1)")
	catchUp(t, m[1], m[0])
	exec(t, replica, "STOP REPLICA SQL_THREAD")
	exec(t, client, "REPLACE INTO shop.u VALUES (2)")
	executed := m[0].Observe(ctx).Executed

	// The other replica's acknowledgement is enough for the client: this one may have it later.
	waitFor(t, "the transaction is received", func() bool {
		o := m[1].Observe(ctx)
		r := o.Replication
		return r != nil && !r.SQLRunning && r.LagSeconds == nil && contains(t, client, o.Executed+","+r.Retrieved, executed)
	})
	wantError(t, m[1].Promote(ctx, PromoteSpec{SemiSync: true, W: 1}), ErrNotApplied)
	wantError(t, m[1].WaitApplied(ctx, executed, 3*time.Second), ErrApplierStopped)
	if o := m[1].Observe(ctx); !o.SuperReadOnly || o.Replication == nil || o.Replication.IOState != IOOff {
		t.Errorf("after a refused promotion: %+v", o)
	}
	// Its new source is dead: what it applies can only come from its own relay log.
	towardsNobody := func() (err error) {
		waitFor(t, "the applier gets on or stops", func() bool {
			err = m[1].ReplicateFrom(ctx, "127.0.0.1", 3999)
			return !errors.Is(err, ErrNotApplied)
		})
		return err
	}
	must(t, towardsNobody())
	if o := m[1].Observe(ctx); o.Executed != executed || o.Replication.IOState == IOOn {
		t.Errorf("applied %s of %s", o.Executed, executed)
	}
	replicate(t, m[1], w.servers[0])

	// An applier that stands still on an error.
	exec(t, replica, "SET GLOBAL super_read_only = OFF")
	local, err := replica.Conn(ctx)
	must(t, err)
	defer local.Close()
	_, err = local.ExecContext(ctx, "SET sql_log_bin = 0")
	must(t, err)
	_, err = local.ExecContext(ctx, "INSERT INTO shop.u VALUES (3)")
	must(t, err)
	exec(t, replica, "SET GLOBAL super_read_only = ON")
	exec(t, client, "REPLACE INTO shop.u VALUES (3)")
	waitFor(t, "the applier stops or goes on", func() bool {
		o := m[1].Observe(ctx)
		return !o.Replication.SQLRunning || o.Executed == m[0].Observe(ctx).Executed
	})
	if o := m[1].Observe(ctx); !o.Replication.SQLRunning {
		if o.Replication.LastSQLError == "" {
			t.Error("the applier stopped without an error")
		}
		wantError(t, towardsNobody(), ErrApplierStopped)
		_, err = local.ExecContext(ctx, "SET GLOBAL super_read_only = OFF")
		must(t, err)
		_, err = local.ExecContext(ctx, "DELETE FROM shop.u WHERE id = 3")
		must(t, err)
		exec(t, replica, "SET GLOBAL super_read_only = ON")
	}
	must(t, m[1].StartReplica(ctx))
}

// TestAcknowledging: the setting and the running IO thread agree afterwards.
func TestAcknowledging(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	must(t, m[1].SetAcknowledging(ctx, false))
	waitFor(t, "no acknowledgements of a thread that receives", func() bool {
		o := m[1].Observe(ctx)
		return o.Replication.IOState == IOOn && !o.SemiSync.ReplicaActive
	})
	// Cut off between the setting and the thread: the next call sees that the thread is behind.
	exec(t, root(t, w.servers[1]), "SET GLOBAL rpl_semi_sync_replica_enabled = ON")
	if o := m[1].Observe(ctx); !o.SemiSync.ReplicaEnabled || o.SemiSync.ReplicaActive {
		t.Fatalf("%+v", o.SemiSync)
	}
	must(t, m[1].SetAcknowledging(ctx, true))
	waitFor(t, "acknowledgements", func() bool { return m[1].Observe(ctx).SemiSync.ReplicaActive })
	waitFor(t, "both are counted", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 2 })
	must(t, m[1].StopIOThread(ctx))
	must(t, m[1].StopIOThread(ctx))
	must(t, m[1].SetAcknowledging(ctx, true))
	if o := m[1].Observe(ctx); o.Replication.IOState != IOOff {
		t.Errorf("a stopped IO thread was started: %s", o.Replication.IOState)
	}
	must(t, m[0].StopIOThread(ctx)) // a primary has none
}

// TestAcknowledgementsAreEndedInOneWay: wherever the call that ends a replica's acknowledgements is cut off, no thread is left that
// gives them although the setting says that it does not: nobody would see that while it is not connected.
func TestAcknowledgementsAreEndedInOneWay(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	for n := 1; ; n++ {
		must(t, m[1].SetAcknowledging(ctx, true))
		must(t, m[1].StartReplica(ctx))
		waitFor(t, "acknowledgements", func() bool { return m[1].Observe(ctx).SemiSync.ReplicaActive })
		count := 0
		knife := newPool(t, func(o *Options) {
			o.Hook = func(op, _ string) error {
				if strings.HasPrefix(op, "acknowledge/") || op == "replicate/stop-io" {
					if count++; count == n {
						return errors.New("cut")
					}
				}
				return nil
			}
		})
		var err error
		waitFor(t, "the session of before is gone", func() bool {
			err = w.members(knife)[1].SetAcknowledging(ctx, false)
			return count > 0 || err == nil
		})
		knife.Close()
		o := m[1].Observe(ctx)
		if !o.SemiSync.ReplicaEnabled && o.SemiSync.ReplicaActive {
			t.Errorf("cut off at %d: a thread acknowledges that should not: %+v", n, o.SemiSync)
		}
		if err == nil {
			if n < 4 {
				t.Errorf("%d cuts were tried", n-1)
			}
			return
		}
	}
}

// TestEventsThatWereHeldBackRun from the promotion on, but not against what somebody has set since.
func TestEventsThatWereHeldBackRun(t *testing.T) {
	w, _ := settle(t, newPool(t, nil))
	ctx := t.Context()
	s, err := w.farm.Start(ctx, mysqld.Options{Arguments: []string{"--event-scheduler=OFF"}})
	must(t, err)
	m, db := Open(newPool(t, nil), endpointOf(s), w.identity()), root(t, s)
	scheduler := func() string { return value(t, db, "SELECT @@GLOBAL.event_scheduler") }
	if got := scheduler(); got != "OFF" {
		t.Errorf("before: %s", got)
	}
	must(t, m.Promote(ctx, PromoteSpec{}))
	if got := scheduler(); got != "ON" {
		t.Errorf("promoted: %s", got)
	}
	exec(t, db, "SET GLOBAL event_scheduler = OFF")
	must(t, m.Promote(ctx, PromoteSpec{}))
	if got := scheduler(); got != "OFF" {
		t.Errorf("against a setting: %s", got)
	}
	must(t, w.farm.Discard(s))
}

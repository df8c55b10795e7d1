package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// hangWrite stops both replicas from acknowledging and starts a client's write that waits. The channel gets its outcome.
func hangWrite(t *testing.T, w *mysqltest.World, m []*admin.Member) <-chan error {
	t.Helper()
	ctx := t.Context()
	client := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, client, "CREATE TABLE IF NOT EXISTS shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	result := make(chan error, 1)
	go func() {
		_, err := client.ExecContext(context.WithoutCancel(ctx), "INSERT INTO shop.t (v) VALUES (1)")
		result <- err
	}()
	mysqltest.WaitFor(t, "the write waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	return result
}

// TestCommitsPending: while a commit waits, nothing that would release, hide or join it is done, and nothing hangs.
func TestCommitsPending(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	epoch := m[0].Observe(ctx).Membership.Epoch
	outcome := hangWrite(t, w, m)

	mysqltest.WantError(t, m[0].Demote(ctx), mysql.ErrCommitsPending)
	mysqltest.WantError(t, m[0].SetSourceWait(ctx, false, 0), mysql.ErrCommitsPending)
	mysqltest.WantError(t, m[0].Restart(ctx), mysql.ErrWritable)
	next := mysql.Membership{Epoch: epoch + 1, Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	mysqltest.WantError(t, m[0].WriteMembership(ctx, epoch, next), mysql.ErrCommitsPending)
	mysqltest.WantError(t, m[0].WriteMembership(ctx, epoch, next), mysql.ErrCommitsPending) // not a second one
	if o := m[0].Observe(ctx); o.PendingCommits == 0 || o.ReadOnly || !o.SemiSync.SourceEnabled || o.Membership.Epoch != epoch {
		t.Errorf("while commits wait: %+v", o)
	}
	// A commit that begins to wait after the look: the SET is held up, ends by itself, and leaves nothing behind.
	mysqltest.WantError(t, m[0].Handle().Control(ctx, func(s *conn.Session) error {
		return conn.PendingOr(ctx, s, s.ChangeWithin(ctx, 8*time.Second, "test", "SET GLOBAL super_read_only = ON"))
	}), mysql.ErrCommitsPending)
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly {
		t.Errorf("after a SET that was held up: %+v", o)
	}
	// Another hand can still take over and repair what they wait for.
	other := w.Members(mysqltest.NewPool(t, nil))
	mysqltest.Must(t, other[0].Claim(ctx))
	mysqltest.Must(t, other[0].SetSourceWait(ctx, true, 2))
	mysqltest.Must(t, other[0].LowerSourceWait(ctx, 1, 0))
	select {
	case err := <-outcome:
		t.Fatalf("the client was answered: %v", err)
	default:
	}

	mysqltest.Must(t, other[1].StartReplica(ctx))
	mysqltest.Must(t, <-outcome)
	mysqltest.WaitFor(t, "the membership", func() bool { return other[0].Observe(ctx).Membership.Epoch == epoch+1 })
	mysqltest.Must(t, other[0].WriteMembership(ctx, epoch, next)) // done already
}

// TestReleaseWaiting: a source that will never be acknowledged again answers its clients.
func TestReleaseWaiting(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	outcome := hangWrite(t, w, m)
	mysqltest.Must(t, m[0].ReleaseWaiting(t.Context()))
	mysqltest.Must(t, <-outcome)
	mysqltest.Must(t, m[0].ReleaseWaiting(t.Context()))
	mysqltest.Must(t, m[0].SetSourceWait(t.Context(), true, 1))
}

// TestSwitchover moves the primary to another member and back, with a client that holds things up.
func TestSwitchover(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	client := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, client, "CREATE TABLE IF NOT EXISTS shop.s (id INT PRIMARY KEY AUTO_INCREMENT)")

	holder, err := client.Conn(ctx)
	mysqltest.Must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(ctx, "LOCK TABLES shop.s WRITE")
	mysqltest.Must(t, err)
	mysqltest.WantError(t, m[0].Demote(ctx), mysql.ErrBlocked)
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly || !o.SemiSync.SourceEnabled {
		t.Fatalf("after a Demote that failed: %+v", o)
	}
	_, err = holder.ExecContext(ctx, "UNLOCK TABLES")
	mysqltest.Must(t, err)
	// An open transaction does not hold Demote up, and ends with it.
	tx, err := client.BeginTx(ctx, nil)
	mysqltest.Must(t, err)
	_, err = tx.ExecContext(ctx, "INSERT INTO shop.s VALUES ()")
	mysqltest.Must(t, err)
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.Must(t, m[0].Demote(ctx))
	if err := tx.Commit(); err == nil {
		t.Error("COMMIT went through after Demote")
	}

	executed := m[0].Observe(ctx).Executed
	mysqltest.Must(t, m[1].WaitApplied(ctx, executed, mysqltest.Patience))
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	mysqltest.Must(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	mysqltest.Replicate(t, m[0], w.Servers[1])
	mysqltest.Replicate(t, m[2], w.Servers[1])
	mysqltest.Must(t, m[0].SetAcknowledging(ctx, true))
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "INSERT INTO shop.s VALUES ()")
	executed = m[1].Observe(ctx).Executed
	for _, i := range []int{0, 2} {
		mysqltest.Must(t, m[i].WaitApplied(ctx, executed, mysqltest.Patience))
		if o := m[i].Observe(ctx); o.Replication.SourceUUID != m[1].Observe(ctx).ServerUUID || o.Executed != executed {
			t.Errorf("member %d: %+v of %+v", i, o, o.Replication)
		}
	}

	mysqltest.Must(t, m[1].Demote(ctx))
	mysqltest.CatchUp(t, m[0], m[1])
	mysqltest.Must(t, m[0].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	mysqltest.Replicate(t, m[1], w.Servers[0])
	mysqltest.Replicate(t, m[2], w.Servers[0])
	mysqltest.WantError(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true}), mysql.ErrInvalidArgument)
}

// TestUnappliedRelayLog: what was received and not applied survives a change of source and forbids a promotion.
func TestUnappliedRelayLog(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	replica, client := mysqltest.Root(t, w.Servers[1]), mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, client, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, client, "DROP TABLE IF EXISTS shop.u") // a row that is replaced by its like makes no transaction
	mysqltest.Exec(t, client, "CREATE TABLE shop.u (id INT PRIMARY KEY)")
	mysqltest.Exec(t, client, "REPLACE INTO shop.u VALUES (1)")
	mysqltest.CatchUp(t, m[1], m[0])
	mysqltest.Exec(t, replica, "STOP REPLICA SQL_THREAD")
	mysqltest.Exec(t, client, "REPLACE INTO shop.u VALUES (2)")
	executed := m[0].Observe(ctx).Executed

	// The other replica's acknowledgement is enough for the client: this one may have it later.
	mysqltest.WaitFor(t, "the transaction is received", func() bool {
		o := m[1].Observe(ctx)
		r := o.Replication
		return r != nil && !r.SQLRunning && r.LagSeconds == nil && mysqltest.Contains(t, client, o.Executed+","+r.Retrieved, executed)
	})
	mysqltest.WantError(t, m[1].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}), mysql.ErrNotApplied)
	mysqltest.WantError(t, m[1].WaitApplied(ctx, executed, 3*time.Second), mysql.ErrApplierStopped)
	if o := m[1].Observe(ctx); !o.SuperReadOnly || o.Replication == nil || o.Replication.IOState != mysql.IOOff {
		t.Errorf("after a refused promotion: %+v", o)
	}
	// Its new source is dead: what it applies can only come from its own relay log.
	towardsNobody := func() (err error) {
		mysqltest.WaitFor(t, "the applier gets on or stops", func() bool {
			err = m[1].ReplicateFrom(ctx, "127.0.0.1", 3999)
			return !errors.Is(err, mysql.ErrNotApplied)
		})
		return err
	}
	mysqltest.Must(t, towardsNobody())
	if o := m[1].Observe(ctx); o.Executed != executed || o.Replication.IOState == mysql.IOOn {
		t.Errorf("applied %s of %s", o.Executed, executed)
	}
	mysqltest.Replicate(t, m[1], w.Servers[0])

	// An applier that stands still on an error.
	mysqltest.Exec(t, replica, "SET GLOBAL super_read_only = OFF")
	local, err := replica.Conn(ctx)
	mysqltest.Must(t, err)
	defer local.Close()
	_, err = local.ExecContext(ctx, "SET sql_log_bin = 0")
	mysqltest.Must(t, err)
	_, err = local.ExecContext(ctx, "INSERT INTO shop.u VALUES (3)")
	mysqltest.Must(t, err)
	mysqltest.Exec(t, replica, "SET GLOBAL super_read_only = ON")
	mysqltest.Exec(t, client, "REPLACE INTO shop.u VALUES (3)")
	mysqltest.WaitFor(t, "the applier stops or goes on", func() bool {
		o := m[1].Observe(ctx)
		return !o.Replication.SQLRunning || o.Executed == m[0].Observe(ctx).Executed
	})
	if o := m[1].Observe(ctx); !o.Replication.SQLRunning {
		if o.Replication.LastSQLError == "" {
			t.Error("the applier stopped without an error")
		}
		mysqltest.WantError(t, towardsNobody(), mysql.ErrApplierStopped)
		_, err = local.ExecContext(ctx, "SET GLOBAL super_read_only = OFF")
		mysqltest.Must(t, err)
		_, err = local.ExecContext(ctx, "DELETE FROM shop.u WHERE id = 3")
		mysqltest.Must(t, err)
		mysqltest.Exec(t, replica, "SET GLOBAL super_read_only = ON")
	}
	mysqltest.Must(t, m[1].StartReplica(ctx))
}

// TestAcknowledging: the setting and the running IO thread agree afterwards.
func TestAcknowledging(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, false))
	mysqltest.WaitFor(t, "no acknowledgements of a thread that receives", func() bool {
		o := m[1].Observe(ctx)
		return o.Replication.IOState == mysql.IOOn && !o.SemiSync.ReplicaActive
	})
	// Cut off between the setting and the thread: the next call sees that the thread is behind.
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[1]), "SET GLOBAL rpl_semi_sync_replica_enabled = ON")
	if o := m[1].Observe(ctx); !o.SemiSync.ReplicaEnabled || o.SemiSync.ReplicaActive {
		t.Fatalf("%+v", o.SemiSync)
	}
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	mysqltest.WaitFor(t, "acknowledgements", func() bool { return m[1].Observe(ctx).SemiSync.ReplicaActive })
	mysqltest.WaitFor(t, "both are counted", func() bool { return m[0].Observe(ctx).SemiSync.Clients == 2 })
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
	if o := m[1].Observe(ctx); o.Replication.IOState != mysql.IOOff {
		t.Errorf("a stopped IO thread was started: %s", o.Replication.IOState)
	}
	mysqltest.Must(t, m[0].StopIOThread(ctx)) // a primary has none
}

// TestAcknowledgementsAreEndedInOneWay: wherever the call that ends a replica's acknowledgements is cut off, no thread is left that
// gives them although the setting says that it does not: nobody would see that while it is not connected.
func TestAcknowledgementsAreEndedInOneWay(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	for n := 1; ; n++ {
		mysqltest.Must(t, m[1].SetAcknowledging(ctx, true))
		mysqltest.Must(t, m[1].StartReplica(ctx))
		mysqltest.WaitFor(t, "acknowledgements", func() bool { return m[1].Observe(ctx).SemiSync.ReplicaActive })
		count := 0
		knife := mysqltest.NewPool(t, func(o *conn.Options) {
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
		mysqltest.WaitFor(t, "the session of before is gone", func() bool {
			err = w.Members(knife)[1].SetAcknowledging(ctx, false)
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
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	s, err := w.Farm.Start(ctx, mysqld.Options{Arguments: []string{"--event-scheduler=OFF"}})
	mysqltest.Must(t, err)
	m, db := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity()), mysqltest.Root(t, s)
	scheduler := func() string { return mysqltest.Value(t, db, "SELECT @@GLOBAL.event_scheduler") }
	if got := scheduler(); got != "OFF" {
		t.Errorf("before: %s", got)
	}
	mysqltest.Must(t, m.Promote(ctx, mysql.PromoteSpec{}))
	if got := scheduler(); got != "ON" {
		t.Errorf("promoted: %s", got)
	}
	mysqltest.Exec(t, db, "SET GLOBAL event_scheduler = OFF")
	mysqltest.Must(t, m.Promote(ctx, mysql.PromoteSpec{}))
	if got := scheduler(); got != "OFF" {
		t.Errorf("against a setting: %s", got)
	}
	mysqltest.Must(t, w.Farm.Discard(s))
}

// TestASourceThatTimedOutWaitsForNobody until it is activated: raising the time-out again does not make it wait (fact 38).
func TestASourceThatTimedOutWaitsForNobody(t *testing.T) {
	w, m := relayServers(t)
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	timeout := mysqltest.Value(t, db, "SELECT @@GLOBAL.rpl_semi_sync_source_timeout")
	before := m[0].Observe(ctx).SemiSync.OffTimes
	mysqltest.Exec(t, db, "SET GLOBAL rpl_semi_sync_source_timeout = 100")
	insert(t, db, 1)
	mysqltest.Exec(t, db, "SET GLOBAL rpl_semi_sync_source_timeout = "+timeout)
	insert(t, db, 1) // is answered at once, and nobody receives it either
	if s := m[0].Observe(ctx).SemiSync; !s.SourceEnabled || s.SourceActive || s.OffTimes != before+1 {
		t.Fatalf("after a commit has timed out: %+v", s)
	}

	for _, repeated := range []bool{false, true} { // one that waits is left alone
		mysqltest.Must(t, m[0].SetSourceWait(ctx, true, 1))
		if !repeated {
			mysqltest.Connect(t, w.Servers[0], "&INSERT INTO shop.relayed VALUES ()")
		}
		o := m[0].Observe(ctx)
		if !o.SemiSync.Waits() || o.SemiSync.OffTimes != before+1 || o.PendingCommits != 1 {
			t.Fatalf("after it was activated: %+v, %d commits wait", o.SemiSync, o.PendingCommits)
		}
	}
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.CatchUp(t, m[1], m[0])
}

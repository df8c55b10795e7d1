package admin_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestClone: a donor that is not there, a donor that is a replica itself, and a recipient that dies half way.
func TestClone(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	recipient := m[2]
	if err := recipient.CloneFrom(ctx, "127.0.0.1:3999"); conn.ServerErrorNumber(err) == 0 {
		t.Errorf("a donor that is not there: %v", err)
	}
	if o := recipient.Observe(ctx); !o.SuperReadOnly || o.Clone == nil || o.Clone.State != mysql.CloneFailed {
		t.Errorf("after a CLONE that failed: %+v, %+v", o, o.Clone)
	}
	for _, wrong := range []string{"", "host", "host:0", "host:99999", "ho st:3306", "a'b:3306"} {
		mysqltest.WantError(t, recipient.CloneFrom(ctx, wrong), mysql.ErrInvalidArgument)
	}

	uuid := recipient.Observe(ctx).ServerUUID
	mysqltest.Must(t, recipient.CloneFrom(ctx, w.Servers[1].Address()))
	mysqltest.WaitFor(t, "the copy", func() bool {
		o := recipient.Observe(ctx)
		return o.Access == mysql.AccessVerified && o.Clone != nil && o.Clone.State == mysql.CloneCompleted && o.SuperReadOnly
	})
	o := recipient.Observe(ctx)
	if o.ServerUUID != uuid || o.Clone.Source != w.Servers[1].Address() || o.Clone.BytesDone == 0 || o.Clone.BytesDone > o.Clone.BytesTotal {
		t.Errorf("%+v, %+v", o, o.Clone)
	}
	// The donor's channel came with the copy, without its relay log.
	mysqltest.Replicate(t, recipient, w.Servers[0])
	mysqltest.Must(t, recipient.SetAcknowledging(ctx, true))
	mysqltest.WaitFor(t, "replication", func() bool {
		r := recipient.Observe(ctx).Replication
		return r != nil && r.IOState == mysql.IOOn && r.SQLRunning
	})

	// The recipient dies when CLONE has begun: it comes up again, and its state tells the truth.
	mysqltest.Must(t, recipient.CloneFrom(ctx, w.Servers[1].Address()))
	w.Servers[2].Kill()
	mysqltest.Must(t, w.Servers[2].Boot(ctx))
	o = recipient.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.Clone == nil || o.Clone.State == mysql.CloneInProgress {
		t.Fatalf("after a kill: %s %s, %+v", o.Access, o.Reason, o.Clone)
	}
	mysqltest.Must(t, recipient.CloneFrom(ctx, w.Servers[1].Address()))
	mysqltest.WaitFor(t, "the copy", func() bool {
		o := recipient.Observe(ctx)
		return o.Clone != nil && o.Clone.State == mysql.CloneCompleted && o.SuperReadOnly
	})
	mysqltest.Replicate(t, recipient, w.Servers[0])
}

// TestCloneOfAnEarlierLeader: an operator that stood still before it sent CLONE, while another took the member over, clones nothing,
// wherever it stood. A CLONE that runs is left alone by the other.
func TestCloneOfAnEarlierLeader(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	began := func() string {
		return mysqltest.Value(t, mysqltest.Root(t, w.Servers[2]), "SELECT COALESCE(MAX(BEGIN_TIME), '') FROM performance_schema.clone_status")
	}
	for _, stands := range []struct{ op, phase string }{{"clone/super_read_only", "after"}, {"clone/clone", "before"}} {
		t.Run(stands.phase+" "+stands.op, func(t *testing.T) {
			before, stood := began(), false
			earlier := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
				o.Hook = func(op, phase string) error {
					if op == stands.op && phase == stands.phase {
						stood = true
						mysqltest.Must(t, m[2].Claim(ctx))
					}
					return nil
				}
			}))
			err := earlier[2].CloneFrom(ctx, w.Servers[1].Address())
			if now := began(); !stood || now != before {
				t.Fatalf("it stood: %t; the last CLONE began %q, before %q; %v", stood, now, before, err)
			}
		})
	}
	// The donor stands still as soon as the copy has begun, so that it cannot be done before the other comes.
	mysqltest.Must(t, m[2].CloneFrom(ctx, w.Servers[1].Address()))
	mysqltest.Must(t, w.Servers[1].Freeze())
	claimed := w.Members(mysqltest.NewPool(t, nil))[2].Claim(ctx)
	mysqltest.Must(t, w.Servers[1].Thaw())
	mysqltest.Must(t, claimed)
	defer func() {
		o := m[2].Observe(ctx)
		t.Logf("%s %s %+v ro %t", o.Access, o.Reason, o.Clone, o.SuperReadOnly)
	}()
	mysqltest.WaitFor(t, "the copy", func() bool {
		o := m[2].Observe(ctx)
		return o.Clone != nil && o.Clone.State == mysql.CloneCompleted && o.SuperReadOnly
	})
	mysqltest.Replicate(t, m[2], w.Servers[0])
	mysqltest.Must(t, m[2].SetAcknowledging(ctx, true))
}

// TestCutOff cuts a switchover off before and after every statement, as a crash of the operator does, and has another
// hand start over: always one writable primary with two replicas. The primary goes to and fro between two members.
func TestCutOff(t *testing.T) {
	mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	from, to := 0, 1
	for cut, more := 1, true; more && !t.Failed(); cut++ {
		t.Run(strconv.Itoa(cut), func(t *testing.T) { more = cutSwitchover(t, cut, from, to) })
		from, to = to, from
	}
	if !t.Failed() && from == 1 {
		mysqltest.Must(t, switchOver(t, mysqltest.TheWorld(t), mysqltest.TheWorld(t).Members(mysqltest.NewPool(t, nil)), 1, 0))
	}
}

// cutSwitchover cuts at the given call of the hook. It returns false when there are fewer.
func cutSwitchover(t *testing.T, cut, from, to int) (more bool) {
	w := mysqltest.TheWorld(t)
	crash := errors.New("crash")
	calls := 0
	crashing := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, phase string) error {
			if calls++; calls != cut {
				return nil
			}
			t.Logf("cut off %s %s", phase, op)
			return crash
		}
	}))
	err := switchOver(t, w, crashing, from, to)
	if err != nil {
		mysqltest.WantError(t, err, crash)
	}
	fresh := w.Members(mysqltest.NewPool(t, nil))
	mysqltest.Must(t, switchOver(t, w, fresh, from, to))
	a, b := fresh[from].Observe(t.Context()), fresh[to].Observe(t.Context())
	if !a.SuperReadOnly || a.SemiSync.SourceEnabled || b.ReadOnly || !b.SemiSync.SourceEnabled || a.Replication == nil || b.Replication != nil {
		t.Fatalf("%+v, %+v", a, b)
	}
	return err != nil
}

// switchOver makes member to the primary instead of member from.
func switchOver(t *testing.T, w *mysqltest.World, m []*admin.Member, from, to int) error {
	t.Helper()
	ctx := t.Context()
	if o := m[from].Observe(ctx); !o.ReadOnly || !o.SuperReadOnly {
		if err := m[from].Demote(ctx); err != nil {
			return err
		}
	}
	if m[to].Observe(ctx).Replication != nil {
		if err := m[to].WaitApplied(ctx, m[from].Observe(ctx).Executed, mysqltest.Patience); err != nil {
			return err
		}
	}
	if err := m[to].Promote(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}); err != nil {
		return err
	}
	for i := range m {
		if i == to {
			continue
		}
		var err error
		mysqltest.WaitFor(t, "what was received is applied", func() bool {
			err = m[i].ReplicateFrom(ctx, w.Servers[to].IP(), mysqld.Port)
			return !errors.Is(err, mysql.ErrNotApplied)
		})
		if err != nil {
			return err
		}
		if err := m[i].SetAcknowledging(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

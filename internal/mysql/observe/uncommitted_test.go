package observe_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestWhatIsNotCommittedIsNotRead: whatever isolation people set globally, a membership row counts once its commit is acknowledged.
func TestWhatIsNotCommittedIsNotRead(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "SET GLOBAL transaction_isolation = 'READ-UNCOMMITTED'")
	t.Cleanup(func() {
		if _, err := mysqltest.Root(t, w.Servers[0]).Exec("SET GLOBAL transaction_isolation = DEFAULT"); err != nil {
			t.Error(err)
		}
	})
	fresh := w.Members(mysqltest.NewPool(t, nil))[0]
	last := fresh.Observe(ctx).Membership.Epoch
	for _, replica := range m[1:] {
		mysqltest.Must(t, replica.StopIOThread(ctx))
	}
	writer := mysqltest.Connect(t, w.Servers[0], "&UPDATE nairobi_mysql.membership SET epoch = epoch + 1")
	mysqltest.WaitFor(t, "the commit waits for its acknowledgement", func() bool { return fresh.Observe(ctx).PendingCommits == 1 })
	if o := fresh.Observe(ctx); !o.MembershipKnown || o.Membership == nil || o.Membership.Epoch != last {
		t.Errorf("membership %+v, known: %t, want epoch %d", o.Membership, o.MembershipKnown, last)
	}
	for _, replica := range m[1:] {
		mysqltest.Must(t, replica.StartReplica(ctx))
	}
	mysqltest.Must(t, <-writer.Ended)
	if o := fresh.Observe(ctx); o.Membership == nil || o.Membership.Epoch != last+1 {
		t.Errorf("membership %+v, want epoch %d", o.Membership, last+1)
	}
}

package admin_test

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestJoin follows an instance from its bootstrap certificate to a verified one, and through a renewal.
func TestJoin(t *testing.T) {
	w := mysqltest.TheWorld(t)
	ctx := t.Context()
	s, err := w.Farm.Start(ctx, mysqld.Options{Name: "orders-9", Unjoined: true})
	mysqltest.Must(t, err)
	t.Cleanup(s.Kill)
	m := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity())

	if o := m.Observe(ctx); o.Access != mysql.AccessUnverified {
		t.Fatalf("before the join: %s: %s", o.Access, o.Reason)
	}
	mysqltest.WantError(t, m.Claim(ctx), mysql.ErrUnreachable)

	request, err := m.ReadJoinRequest(ctx)
	mysqltest.Must(t, err)
	if request.InstanceID != s.InstanceID() || len(request.Seal) != 64 {
		t.Fatalf("request of %q sealed %q", request.InstanceID, request.Seal)
	}
	for round := range 2 {
		issued, serial, err := s.Sign(request.CSR)
		mysqltest.Must(t, err)
		mysqltest.Must(t, m.InstallCertificate(ctx, serial, issued))
		mysqltest.Must(t, m.InstallCertificate(ctx, serial, issued)) // again, as after a crash
		o := m.Observe(ctx)
		if o.Access != mysql.AccessVerified || o.CertSerial != serial || time.Until(o.CertNotAfter) < 80*24*time.Hour {
			t.Fatalf("round %d: %s %s, serial %s (want %s), until %s", round, o.Access, o.Reason, o.CertSerial, serial, o.CertNotAfter)
		}
	}
	if o := m.Observe(ctx); !o.SuperReadOnly || o.Membership != nil || !o.MembershipKnown || o.Replication != nil || o.Executed != "" {
		t.Fatalf("a fresh member: %+v", o)
	}
	mysqltest.WantError(t, m.InstallCertificate(ctx, "../x", []byte("no certificate")), mysql.ErrInvalidArgument)
	// A certificate for another key is delivered, and the instance leaves it alone.
	foreign, foreignSerial, err := w.Servers[0].Sign(mysqltest.ReadCSR(t, w, w.Servers[0]))
	mysqltest.Must(t, err)
	mysqltest.WantError(t, m.InstallCertificate(ctx, foreignSerial, foreign), mysql.ErrCertificateNotTaken)
	if o := m.Observe(ctx); o.Access != mysql.AccessVerified {
		t.Fatalf("after a foreign certificate: %s: %s", o.Access, o.Reason)
	}
}

// TestTrio checks that Settle, which uses every method of a cluster's birth, ends in what is wanted, and that a second
// round changes nothing.
func TestTrio(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "CREATE DATABASE IF NOT EXISTS flow")
	primary := m[0].Observe(ctx)
	if primary.ReadOnly || primary.SuperReadOnly || primary.Replication != nil || !primary.SemiSync.SourceEnabled ||
		primary.SemiSync.WaitCount != 1 || primary.Membership == nil || primary.Membership.Epoch == 0 {
		t.Fatalf("primary: %+v", primary)
	}
	for i, name := range []string{"orders-1", "orders-2"} {
		mysqltest.WaitFor(t, name+" has caught up", func() bool {
			o := m[i+1].Observe(ctx)
			r := o.Replication
			return r != nil && r.IOState == mysql.IOOn && r.SQLRunning && !r.Tampered() && r.SourceUUID == primary.ServerUUID &&
				r.LagSeconds != nil && *r.LagSeconds == 0 && o.Executed == primary.Executed && o.SuperReadOnly &&
				o.SemiSync.ReplicaActive && !o.SemiSync.SourceEnabled && o.Membership != nil && o.Clone != nil && o.Clone.BytesDone > 0
		})
	}
	var changes []string
	_, again := mysqltest.Settle(t, mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, phase string) error {
			if phase == "before" && op != "session/kill" { // of those who held the lock before
				changes = append(changes, op)
			}
			return nil
		}
	}))
	if len(changes) != 0 {
		t.Errorf("a settled trio was changed: %v", changes)
	}
	mysqltest.WantError(t, again[0].CloneFrom(ctx, w.Servers[1].Address()), mysql.ErrWritable)
	mysqltest.WantError(t, again[0].ReplicateFrom(ctx, w.Servers[1].IP(), mysqld.Port), mysql.ErrWritable)
	mysqltest.WantError(t, again[1].CloneFrom(ctx, "x'; DROP:3306"), mysql.ErrInvalidArgument)
}

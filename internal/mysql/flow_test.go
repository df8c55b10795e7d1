package mysql

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestJoin follows an instance from its bootstrap certificate to a verified one, and through a renewal.
func TestJoin(t *testing.T) {
	w := theWorld(t)
	ctx := t.Context()
	s, err := w.farm.Start(ctx, mysqld.Options{Name: "orders-9", Unjoined: true})
	must(t, err)
	t.Cleanup(s.Kill)
	m := Open(newPool(t, nil), endpointOf(s), w.identity())

	if o := m.Observe(ctx); o.Access != AccessUnverified {
		t.Fatalf("before the join: %s: %s", o.Access, o.Reason)
	}
	wantError(t, m.Claim(ctx), ErrUnreachable)

	request, err := m.ReadJoinRequest(ctx)
	must(t, err)
	if request.InstanceID != s.InstanceID() || len(request.Seal) != 64 {
		t.Fatalf("request of %q sealed %q", request.InstanceID, request.Seal)
	}
	for round := range 2 {
		issued, serial, err := s.Sign(request.CSR)
		must(t, err)
		must(t, m.InstallCertificate(ctx, serial, issued))
		must(t, m.InstallCertificate(ctx, serial, issued)) // again, as after a crash
		o := m.Observe(ctx)
		if o.Access != AccessVerified || o.CertSerial != serial || time.Until(o.CertNotAfter) < 80*24*time.Hour {
			t.Fatalf("round %d: %s %s, serial %s (want %s), until %s", round, o.Access, o.Reason, o.CertSerial, serial, o.CertNotAfter)
		}
	}
	if o := m.Observe(ctx); !o.SuperReadOnly || o.Membership != nil || !o.MembershipKnown || o.Replication != nil || o.Executed != "" {
		t.Fatalf("a fresh member: %+v", o)
	}
	wantError(t, m.InstallCertificate(ctx, "../x", []byte("no certificate")), ErrInvalidArgument)
	// A certificate for another key is delivered, and the instance leaves it alone.
	foreign, foreignSerial, err := w.servers[0].Sign(readCSR(t, w, w.servers[0]))
	must(t, err)
	wantError(t, m.InstallCertificate(ctx, foreignSerial, foreign), ErrCertificateNotTaken)
	if o := m.Observe(ctx); o.Access != AccessVerified {
		t.Fatalf("after a foreign certificate: %s: %s", o.Access, o.Reason)
	}
}

// TestTrio checks that settle, which uses every method of a cluster's birth, ends in what is wanted, and that a second
// round changes nothing.
func TestTrio(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	exec(t, root(t, w.servers[0]), "CREATE DATABASE IF NOT EXISTS flow")
	primary := m[0].Observe(ctx)
	if primary.ReadOnly || primary.SuperReadOnly || primary.Replication != nil || !primary.SemiSync.SourceEnabled ||
		primary.SemiSync.WaitCount != 1 || primary.Membership == nil || primary.Membership.Epoch == 0 {
		t.Fatalf("primary: %+v", primary)
	}
	for i, name := range []string{"orders-1", "orders-2"} {
		waitFor(t, name+" has caught up", func() bool {
			o := m[i+1].Observe(ctx)
			r := o.Replication
			return r != nil && r.IOState == IOOn && r.SQLRunning && r.AutoPosition && r.SourceUUID == primary.ServerUUID &&
				r.LagSeconds != nil && *r.LagSeconds == 0 && o.Executed == primary.Executed && o.SuperReadOnly &&
				o.SemiSync.ReplicaActive && !o.SemiSync.SourceEnabled && o.Membership != nil && o.Clone != nil && o.Clone.BytesDone > 0
		})
	}
	var changes []string
	_, again := settle(t, newPool(t, func(o *Options) {
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
	wantError(t, again[0].CloneFrom(ctx, w.servers[1].Address()), ErrWritable)
	wantError(t, again[0].ReplicateFrom(ctx, w.servers[1].IP(), mysqld.Port), ErrWritable)
	wantError(t, again[1].CloneFrom(ctx, "x'; DROP:3306"), ErrInvalidArgument)
}

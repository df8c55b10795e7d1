package conn_test

import (
	"context"
	"net"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// resumed opens a reading session as a look does, and says whether it resumed one: as the server says, which knows best.
func resumed(t *testing.T, m *conn.Handle) bool {
	t.Helper()
	s, err := m.DialReader(t.Context())
	mysqltest.Must(t, err)
	defer s.Close()
	var name, reused string
	mysqltest.Must(t, s.Row(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_sessions_reused'", nil, &name, &reused))
	if reused != "0" && reused != "1" {
		t.Fatalf("%s is %q", name, reused)
	}
	if s.Resumed() != (reused == "1") || s.OfferedLittle() != s.Resumed() {
		t.Fatalf("%s is %s, we say %v, and offered little: %v", name, reused, s.Resumed(), s.OfferedLittle())
	}
	return s.Resumed()
}

// TestLooksAreResumed: where a look ends with its session, the next resumes it; and what it knows of the certificate is still true. Nothing
// is resumed by another identity, with another server, or after the server took another certificate or was started anew.
func TestLooksAreResumed(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := mysqltest.NewPool(t, func(o *conn.Options) { o.Clock, o.MostKept = clock, 1 })
	primary := admin.Open(p, mysqltest.EndpointOf(w.Servers[0]), w.Identity())
	s, m := w.Servers[1], admin.Open(p, mysqltest.EndpointOf(w.Servers[1]), w.Identity())
	shown := w.Identity()
	look := func() mysql.Observation {
		t.Helper()
		clock.SetTime(clock.Now().Add(conn.SeldomLooks))
		o := m.Observe(ctx)
		if o.Access != mysql.AccessVerified {
			t.Fatalf("not reached: %s", o.Reason)
		}
		return o
	}
	if o := primary.Observe(ctx); o.Access != mysql.AccessVerified || resumed(t, w.Handles(p)[0]) {
		t.Errorf("a look was resumed whose session is kept (%s)", o.Reason)
	}
	first := look()
	if w.Handles(p)[1].HasReader() {
		t.Fatal("the look did not end with its session")
	}
	for range 3 {
		if !resumed(t, p.Handle(mysqltest.EndpointOf(s), shown)) {
			t.Fatal("the session was not resumed")
		}
		if o := look(); o.CertSerial != first.CertSerial || !o.CertNotAfter.Equal(first.CertNotAfter) || !o.CertNotBefore.Equal(first.CertNotBefore) {
			t.Fatalf("certificate %s until %s, was %s until %s", o.CertSerial, o.CertNotAfter, first.CertSerial, first.CertNotAfter)
		}
	}

	// The same certificate with a key that is written another way is another identity for us, and the same for the server.
	again := w.Identity()
	again.KeyPEM = append([]byte("\n"), again.KeyPEM...)
	shown = again
	m = admin.Open(p, mysqltest.EndpointOf(s), again)
	if resumed(t, p.Handle(mysqltest.EndpointOf(s), shown)) {
		t.Error("another identity resumed the session")
	}
	look()
	if !resumed(t, p.Handle(mysqltest.EndpointOf(s), shown)) {
		t.Error("the other identity's session was not resumed")
	}

	// Whoever no longer trusts the server's CA does not take its word for who it is.
	stranger, err := pki.NewAuthority("another-uid", "another", time.Now())
	mysqltest.Must(t, err)
	distrusting := w.Identity()
	distrusting.CAPEM = stranger.CertificatePEM()
	m = admin.Open(p, mysqltest.EndpointOf(s), distrusting)
	if o := m.Observe(ctx); o.Access != mysql.AccessUnverified {
		t.Errorf("%s (%s) of a server whose CA is not trusted any more", o.Access, o.Reason)
	}

	m = admin.Open(p, mysqltest.EndpointOf(s), w.Identity())
	look()
	elsewhere := mysqltest.EndpointOf(s)
	elsewhere.ServerName = w.Servers[2].DNSName()
	if o := admin.Open(p, elsewhere, w.Identity()).Observe(ctx); o.Access != mysql.AccessUnverified {
		t.Errorf("%s (%s) of a server with another name", o.Access, o.Reason)
	}

	// Another certificate, taken into use behind our back.
	shown = w.Identity()
	m = admin.Open(p, mysqltest.EndpointOf(s), w.Identity())
	look()
	issued, serial, err := s.Sign(mysqltest.ReadCSR(t, w, s))
	mysqltest.Must(t, err)
	mysqltest.Must(t, admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity()).InstallCertificate(ctx, serial, issued))
	if resumed(t, p.Handle(mysqltest.EndpointOf(s), shown)) {
		t.Error("a session was resumed that was made under another certificate")
	}
	if o := look(); o.CertSerial != serial {
		t.Errorf("certificate %s is seen, %s is shown", o.CertSerial, serial)
	}
	if !resumed(t, p.Handle(mysqltest.EndpointOf(s), shown)) {
		t.Error("the session under the new certificate was not resumed")
	}

	look()
	s.Kill()
	mysqltest.Up(t, s)
	mysqltest.WaitFor(t, "the server to answer after its start", func() bool { return m.Observe(ctx).Access == mysql.AccessVerified })
	p.Handle(mysqltest.EndpointOf(s), shown).ForgetLooks()
	look()
	s.Kill()
	if o := m.Observe(ctx); o.Access != mysql.AccessRefused {
		t.Errorf("%s (%s) of a server that has ended", o.Access, o.Reason)
	}
	mysqltest.Up(t, s)
	mysqltest.WaitFor(t, "the server to answer after its second start", func() bool { return m.Observe(ctx).Access == mysql.AccessVerified })
}

// TestWhoDoesNotResumeIsReached: a server that has something against the resumed session, whatever it is, is reached by a new one.
func TestWhoDoesNotResumeIsReached(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	refuses := false // to resume
	p := mysqltest.NewPool(t, func(o *conn.Options) {
		o.MostKept = 1
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil || !refuses {
				return connection, err
			}
			refuses = false
			return &deaf{Conn: connection}, nil
		}
	})
	primary, m := admin.Open(p, mysqltest.EndpointOf(w.Servers[0]), w.Identity()), admin.Open(p, mysqltest.EndpointOf(w.Servers[1]), w.Identity())
	h := w.Handles(p)[1]
	if o := primary.Observe(t.Context()); o.Access != mysql.AccessVerified {
		t.Fatalf("the primary: %s", o.Reason)
	}
	for _, refuses = range []bool{false, false, true, false, false, true} {
		h.LastLookLongAgo()
		wanted := refuses
		if o := m.Observe(t.Context()); o.Access != mysql.AccessVerified || h.HasReader() || refuses {
			t.Errorf("refused to resume: %v: %s, %s", wanted, o.Access, o.Reason)
		}
	}
}

// deaf is a connection that ends once something was said twice: the TLS handshake begins after the client's first packet.
type deaf struct {
	net.Conn
	said int
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.said++; d.said > 2 {
		_ = d.Close()
		return 0, net.ErrClosed
	}
	return d.Conn.Write(b)
}

// TestResumptionIsBound: what one kept is given back as it was, only for the same credentials, and not after it is forgotten.
func TestResumptionIsBound(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	m := mysqltest.NewPool(t, nil).Handle(mysqltest.EndpointOf(w.Servers[1]), w.Identity())
	s, err := m.DialReader(t.Context())
	mysqltest.Must(t, err)
	defer s.Close()
	r := m.Looks()
	kept, ok := r.Get("")
	if !ok {
		t.Fatal("nothing is kept")
	}
	now := time.Now()
	if r.Of(s.Shows(), now); !r.Kept() {
		t.Error("it is gone for those who began it")
	}
	if _, ok := r.Of(s.Shows().Copy(), now).Get(""); ok {
		t.Error("it is there for others")
	}
	expired := s.Shows().NotAfter().Add(time.Second)
	r.Of(s.Shows(), now).Put("", kept)
	if _, ok := r.Of(s.Shows(), expired).Get(""); ok {
		t.Error("it is there although the certificate that began it has expired")
	}
	r.Of(s.Shows(), now).Put("", kept)
	if _, ok := r.Get(""); !ok {
		t.Error("it was not kept again")
	}
	r.Put("", nil)
	if _, ok := r.Get(""); ok {
		t.Error("it is there although it was taken back")
	}
	r.Put("", kept)
	r.Forget()
	r.Put("", kept)
	if _, ok := r.Get(""); ok {
		t.Error("it is there although it was forgotten")
	}
}

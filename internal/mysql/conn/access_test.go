package conn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestAccess puts one real server into every state that an operator can find it in.
func TestAccess(t *testing.T) {
	w := mysqltest.TheWorld(t)
	s, good := w.Servers[2], w.Identity()
	stranger, err := pki.NewAuthority("another-uid", "another", time.Now())
	mysqltest.Must(t, err)
	strangerCert, strangerKey, err := stranger.IssueOperator(time.Now())
	mysqltest.Must(t, err)
	memberCert, memberKey := memberIdentity(t, w)

	rows := []struct {
		name     string
		endpoint func(mysql.Endpoint) mysql.Endpoint
		identity mysql.Identity
		around   func(t *testing.T)
		want     mysql.Access
	}{
		{name: "all is well", identity: good, want: mysql.AccessVerified},
		{name: "another name in the certificate", identity: good, want: mysql.AccessUnverified,
			endpoint: func(e mysql.Endpoint) mysql.Endpoint { e.ServerName = "orders-7.orders.shop.svc"; return e }},
		{name: "certificate of another CA", want: mysql.AccessUnverified,
			identity: mysql.Identity{CAPEM: stranger.CertificatePEM(), CertPEM: good.CertPEM, KeyPEM: good.KeyPEM}},
		{name: "our certificate is of another CA", want: mysql.AccessDenied,
			identity: mysql.Identity{CAPEM: good.CAPEM, CertPEM: strangerCert, KeyPEM: strangerKey}},
		{name: "a member's certificate instead of the operator's", want: mysql.AccessDenied,
			identity: mysql.Identity{CAPEM: good.CAPEM, CertPEM: memberCert, KeyPEM: memberKey}},
		{name: "nothing listens", identity: good, want: mysql.AccessRefused,
			endpoint: func(e mysql.Endpoint) mysql.Endpoint { e.Address = net.JoinHostPort(s.IP(), "3999"); return e }},
		{name: "mysqld is frozen", identity: good, want: mysql.AccessSilent, around: func(t *testing.T) {
			mysqltest.Must(t, s.Freeze())
			t.Cleanup(func() { mysqltest.Must(t, s.Thaw()) })
		}},
		{name: "no MySQL on the port", identity: good, want: mysql.AccessRefused,
			endpoint: func(e mysql.Endpoint) mysql.Endpoint {
				e.Address = listener(t, func(c net.Conn) { c.Close() })
				return e
			}},
		{name: "the port is silent", identity: good, want: mysql.AccessSilent,
			endpoint: func(e mysql.Endpoint) mysql.Endpoint { e.Address = listener(t, func(net.Conn) {}); return e }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.around != nil {
				row.around(t)
			}
			endpoint := mysqltest.EndpointOf(s)
			if row.endpoint != nil {
				endpoint = row.endpoint(endpoint)
			}
			p := mysqltest.NewPool(t, func(o *conn.Options) {
				if row.want == mysql.AccessSilent {
					o.DialTimeout = time.Second
				}
			})
			o := admin.Open(p, endpoint, row.identity).Observe(t.Context())
			if o.Access != row.want || (o.Reason == "") != (row.want == mysql.AccessVerified) {
				t.Errorf("got %s (%s), want %s", o.Access, o.Reason, row.want)
			}
		})
	}
}

// memberIdentity is a certificate of the right CA with a subject that is not the operator's.
func memberIdentity(t *testing.T, w *mysqltest.World) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mysqltest.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	mysqltest.Must(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	mysqltest.Must(t, err)
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})
	certPEM, _, err = w.Farm.Authority.SignMember(pki.MemberRequest{
		CSR: request, Seal: pki.Seal(w.Farm.Authority.JoinToken("orders-5", 0), request, "i-5"), InstanceID: "i-5",
		Member: "orders-5", DNSNames: []string{"orders-5"}, OperatorCertPEM: w.Identity().CertPEM,
	}, time.Now())
	mysqltest.Must(t, err)
	return certPEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func listener(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mysqltest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		var kept []net.Conn // one that nobody holds any more is closed by the garbage collector
		defer func() {
			for _, c := range kept {
				c.Close()
			}
		}()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			kept = append(kept, c)
			handle(c)
		}
	}()
	return l.Addr().String()
}

// TestConnections checks how kept connections end: by the server, by silence, by Forget, by idleness, by a new address.
func TestConnections(t *testing.T) {
	w := mysqltest.TheWorld(t)
	s := w.Servers[2]
	ctx := t.Context()
	dialled := 0
	const silence = 5 * time.Second
	count := func(o *conn.Options) {
		o.StatementTimeout = silence
		dial := (&net.Dialer{}).DialContext
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled++
			return dial(ctx, network, address)
		}
	}
	p := mysqltest.NewPool(t, count)
	m := admin.Open(p, mysqltest.EndpointOf(s), w.Identity())
	observe := func(want mysql.Access) {
		t.Helper()
		if o := m.Observe(ctx); o.Access != want {
			t.Fatalf("%s: %s, want %s", o.Access, o.Reason, want)
		}
	}
	observe(mysql.AccessVerified)
	observe(mysql.AccessVerified)
	if dialled != 1 {
		t.Errorf("two passes dialled %d times", dialled)
	}

	s.Kill()
	observe(mysql.AccessRefused)
	mysqltest.Must(t, s.Boot(ctx))
	observe(mysql.AccessVerified)
	dialled = 0
	s.Kill()
	mysqltest.Must(t, s.Boot(ctx))
	observe(mysql.AccessVerified) // the kept connection is dead: dialled again within the pass
	if dialled != 1 {
		t.Errorf("after a restart %d dials", dialled)
	}

	mysqltest.Must(t, s.Freeze())
	began := time.Now()
	observe(mysql.AccessSilent)
	if took := time.Since(began); took > 3*silence || dialled != 1 { // waited for once, and not once more behind another dial
		t.Errorf("silence took %s and %d dials, where %s and none were due", took, dialled-1, silence)
	}
	mysqltest.Must(t, s.Thaw())
	observe(mysql.AccessVerified)

	// Forget cuts off a statement that hangs.
	ended := make(chan error, 1)
	go func() {
		ended <- p.Handle(mysqltest.EndpointOf(s), w.Identity()).Control(ctx, func(s *conn.Session) error { return s.ChangeWithin(ctx, time.Minute, "test", "DO SLEEP(30)") })
	}()
	mysqltest.WaitFor(t, "the statement runs", func() bool {
		return mysqltest.Value(t, mysqltest.Root(t, s), "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'DO SLEEP%'") == "1"
	})
	p.Forget(mysqltest.EndpointOf(s).Key)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the statement ended well")
		}
	case <-time.After(20 * time.Second): // before it would end by itself
		t.Fatal("Forget did not cut off the statement")
	}
	if o := m.Observe(ctx); o.Access == mysql.AccessVerified {
		t.Error("a handle of a forgotten member still dials")
	}
}

// TestIdle: a member that nobody asks about loses its connections, and one that moved is dialled at its new address.
func TestIdle(t *testing.T) {
	w := mysqltest.TheWorld(t)
	ctx := t.Context()
	clock := clocktesting.NewFakeClock(time.Now())
	p := mysqltest.NewPool(t, func(o *conn.Options) { o.Clock = clock; o.IdleTimeout = time.Minute })
	first := p.Handle(mysqltest.EndpointOf(w.Servers[1]), w.Identity())
	mysqltest.Must(t, first.Control(ctx, func(*conn.Session) error { return nil }))
	holder := func() string {
		return mysqltest.Value(t, mysqltest.Root(t, w.Servers[1]), "SELECT IS_USED_LOCK('"+conn.ControlLock+"')")
	}
	if holder() == "" {
		t.Fatal("nobody holds the lock")
	}
	clock.Step(2 * time.Minute)
	p.Handle(mysqltest.EndpointOf(w.Servers[2]), w.Identity())
	mysqltest.WaitFor(t, "the lock is given back", func() bool { return holder() == "" })

	moved := mysqltest.EndpointOf(w.Servers[2])
	uuid := admin.Open(p, moved, w.Identity()).Observe(ctx).ServerUUID
	moved.Address, moved.ServerName = w.Servers[1].Address(), w.Servers[1].DNSName()
	if o := admin.Open(p, moved, w.Identity()).Observe(ctx); o.Access != mysql.AccessVerified || o.ServerUUID == uuid {
		t.Errorf("%s %s: still %s", o.Access, o.Reason, o.ServerUUID)
	}
}

// TestHangingReader: a reading statement that hangs is given up, and the next pass ends it on the server.
func TestHangingReader(t *testing.T) {
	w := mysqltest.TheWorld(t)
	ctx := t.Context()
	p := mysqltest.NewPool(t, nil)
	m := admin.Open(p, mysqltest.EndpointOf(w.Servers[2]), w.Identity())
	if o := m.Observe(ctx); o.Access != mysql.AccessVerified {
		t.Fatal(o.Reason)
	}
	hanging := func() string {
		return mysqltest.Value(t, mysqltest.Root(t, w.Servers[2]), "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SELECT SLEEP(20)%' AND INFO NOT LIKE '%processlist%'")
	}
	var slept int
	short, cancel := context.WithTimeout(ctx, time.Second) // MySQL looks every 5 s whether a sleeper's client is there
	defer cancel()
	mysqltest.WantError(t, p.Handle(mysqltest.EndpointOf(w.Servers[2]), w.Identity()).Read(ctx, func(s *conn.Session) error {
		return s.Row(short, "SELECT SLEEP(20)", nil, &slept)
	}), conn.ErrDeadline)
	if hanging() != "1" {
		t.Fatal("the server does not hang on")
	}
	if o := m.Observe(ctx); o.Access != mysql.AccessVerified {
		t.Fatal(o.Reason)
	}
	mysqltest.WaitFor(t, "the statement is ended", func() bool { return hanging() == "0" })
}

// TestNoSecrets looks for what must not be in observations.
func TestNoSecrets(t *testing.T) {
	w := mysqltest.TheWorld(t)
	identity := w.Identity()
	identity.KeyPEM = []byte("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
	o := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(w.Servers[0]), identity).Observe(t.Context())
	if o.Access == mysql.AccessVerified || strings.Contains(o.Reason, "c2VjcmV0") {
		t.Errorf("%s: %s", o.Access, o.Reason)
	}
}

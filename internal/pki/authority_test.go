package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const testUID = "7d9f6c1e-3c54-4f0a-9d1c-0a1b2c3d4e5f"

// testNow is the present: openssl's own check of a certificate knows no other.
var testNow = time.Now()

func newTestAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority(testUID, "orders", testNow)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustParse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	cert, err := parseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// openssl runs openssl in a folder of its own and returns what it prints.
func openssl(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestAuthorityRoundTrip(t *testing.T) {
	a := newTestAuthority(t)
	b, err := ParseAuthority(a.CertificatePEM(), a.KeyPEM(), a.JoinKey())
	if err != nil {
		t.Fatal(err)
	}
	if b.UID() != testUID || b.IssuerDN() != a.IssuerDN() || b.JoinToken("orders-0", 1) != a.JoinToken("orders-0", 1) {
		t.Error("the authority read back differs from the one written")
	}
	other := newTestAuthority(t)
	joinedOtherwise, err := ParseAuthority(a.CertificatePEM(), a.KeyPEM(), other.JoinKey())
	if err != nil {
		t.Fatal(err)
	}
	if !a.Equal(b) || a.Equal(other) || a.Equal(joinedOtherwise) {
		t.Error("an authority equals itself read back, and no other")
	}
	cert := mustParse(t, a.CertificatePEM())
	if !cert.IsCA || !cert.MaxPathLenZero || cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Error("the certificate is not that of an authority without intermediates")
	}
	if years := cert.NotAfter.Sub(testNow).Hours() / 24 / 365; years < 9.9 {
		t.Errorf("valid for %.1f years", years)
	}
}

func TestParseAuthorityRefuses(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	operatorCert, operatorKey, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string]struct{ cert, key, join []byte }{
		"nothing":                  {},
		"another authority's key":  {a.CertificatePEM(), other.KeyPEM(), a.JoinKey()},
		"no join key":              {a.CertificatePEM(), a.KeyPEM(), nil},
		"a short join key":         {a.CertificatePEM(), a.KeyPEM(), []byte("short")},
		"a leaf":                   {operatorCert, operatorKey, a.JoinKey()},
		"certificate for key":      {a.CertificatePEM(), a.CertificatePEM(), a.JoinKey()},
		"key for certificate":      {a.KeyPEM(), a.KeyPEM(), a.JoinKey()},
		"a key that is not PKCS 8": {a.CertificatePEM(), []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), a.JoinKey()},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseAuthority(parts.cert, parts.key, parts.join); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestNamesAsMySQLWritesThem(t *testing.T) {
	a := newTestAuthority(t)
	certPEM, _, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "operator.pem"), certPEM)
	// `-nameopt compat` prints X509_NAME_oneline, which is what MySQL compares.
	if got, want := openssl(t, dir, "x509", "-in", "operator.pem", "-noout", "-subject", "-nameopt", "compat"), "subject="+a.OperatorDN(); got != want {
		t.Errorf("openssl says %q, OperatorDN makes it %q", got, want)
	}
	if got, want := openssl(t, dir, "x509", "-in", "operator.pem", "-noout", "-issuer", "-nameopt", "compat"), "issuer="+a.IssuerDN(); got != want {
		t.Errorf("openssl says %q, IssuerDN makes it %q", got, want)
	}
	if want := "/O=" + testUID + "/CN=orders-ca"; a.IssuerDN() != want {
		t.Errorf("issuer is %q, want %q", a.IssuerDN(), want)
	}
	if want := "/O=" + testUID + "/OU=operator/CN=nairobi-mysql-operator"; a.OperatorDN() != want {
		t.Errorf("operator is %q, want %q", a.OperatorDN(), want)
	}
}

// TestWhatSomebodyPutInPlaceOfACertificateIsNoticed: nobody would let in who shows it.
func TestWhatSomebodyPutInPlaceOfACertificateIsNoticed(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	cert, key, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	foreign, foreignKey, err := other.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	backup, backupKey, err := a.IssueClient(BackupPods, testNow)
	if err != nil {
		t.Fatal(err)
	}
	metrics, metricsKey, err := a.IssueClient(MetricsPod, testNow)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cert, key         []byte
		at                time.Time
		operators, backup bool
	}{
		"as issued":              {cert, key, testNow, true, false},
		"the backup pods'":       {backup, backupKey, testNow, false, true},
		"the metrics pod's":      {metrics, metricsKey, testNow, false, false},
		"another key":            {cert, otherKey, testNow, false, false},
		"of another authority":   {foreign, foreignKey, testNow, false, false},
		"expired":                {cert, key, testNow.Add(2 * operatorLife), false, false},
		"no key":                 {cert, nil, testNow, false, false},
		"not even a certificate": {[]byte("broken"), key, testNow, false, false},
	} {
		if got := a.IsOperators(c.cert, c.key, c.at); got != c.operators {
			t.Errorf("%s: the operator's: %v", name, got)
		}
		if got := a.IsClients(BackupPods, c.cert, c.key, c.at); got != c.backup {
			t.Errorf("%s: the backup pods': %v", name, got)
		}
	}
}

func TestOperatorCertificateIsForClientsOnly(t *testing.T) {
	a := newTestAuthority(t)
	certPEM, keyPEM, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Error(err)
	}
	cert := mustParse(t, certPEM)
	for usage, wanted := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: false} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: testNow, KeyUsages: []x509.ExtKeyUsage{usage}})
		if (err == nil) != wanted {
			t.Errorf("usage %v: %v", usage, err)
		}
	}
}

func TestJoinTokens(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	seen := map[string]string{}
	for name, token := range map[string]string{
		"one":                 a.JoinToken("orders-0", 1),
		"another member":      a.JoinToken("orders-1", 1),
		"another incarnation": a.JoinToken("orders-0", 2),
		"another authority":   other.JoinToken("orders-0", 1),
	} {
		if raw, err := hex.DecodeString(token); err != nil || len(raw) != 32 || strings.ToLower(token) != token {
			t.Errorf("%s: %q is not 64 lower-case hexadecimal digits", name, token)
		}
		if twin, ok := seen[token]; ok {
			t.Errorf("%s and %s have the same token", name, twin)
		}
		seen[token] = name
	}
	first, second := a.JoinToken("orders-0", 1), a.JoinToken("orders-0", 1)
	if first != second {
		t.Error("a token changes from call to call")
	}
}

// memberRequest makes a key and a request with openssl, as an instance does, and seals it with the right token.
func memberRequest(t *testing.T, a *Authority, keyArgs ...string) MemberRequest {
	t.Helper()
	dir := t.TempDir()
	if len(keyArgs) == 0 {
		keyArgs = []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
	}
	openssl(t, dir, append([]string{"genpkey", "-out", "member.key"}, keyArgs...)...)
	return requestForKey(t, a, dir, "member.key")
}

func requestForKey(t *testing.T, a *Authority, dir, key string) MemberRequest {
	t.Helper()
	// The subject and the name asked for are what a hostile instance would like to have.
	openssl(t, dir, "req", "-new", "-key", key, "-out", "member.csr",
		"-subj", a.OperatorDN(), "-addext", "subjectAltName=DNS:evil.example")
	csr, err := os.ReadFile(filepath.Join(dir, "member.csr"))
	if err != nil {
		t.Fatal(err)
	}
	operator, _, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	return MemberRequest{
		CSR: csr, Seal: Seal(a.JoinToken("orders-0", 3), csr, "i-0123"), InstanceID: "i-0123", Member: "orders-0", Incarnation: 3,
		DNSNames: []string{"orders-0.orders.shop.svc", "orders-primary.shop.svc"}, IPs: []net.IP{net.IPv4(10, 77, 1, 5)},
		OperatorCertPEM: operator,
	}
}

func TestSignMember(t *testing.T) {
	a := newTestAuthority(t)
	r := memberRequest(t, a)
	certPEM, serial, err := a.SignMember(r, testNow)
	if err != nil {
		t.Fatal(err)
	}
	cert := mustParse(t, certPEM)
	if got := cert.SerialNumber.Text(16); got != strings.TrimLeft(serial, "0") || len(serial) != 16 {
		t.Errorf("the serial number is %s, not %s", got, serial)
	}
	if got, want := oneLine(cert.Subject), "/O="+testUID+"/OU=member/CN=orders-0"; got != want {
		t.Errorf("the subject is %s, want %s", got, want)
	}
	for _, name := range []string{"orders-0.orders.shop.svc", "orders-primary.shop.svc", "10.77.1.5"} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if _, err := cert.Verify(x509.VerifyOptions{
				Roots: a.Pool(), CurrentTime: testNow, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage},
			}); err != nil {
				t.Errorf("%s, usage %v: %v", name, usage, err)
			}
		}
	}
	if err := cert.VerifyHostname("evil.example"); err == nil {
		t.Error("a name from the request is in the certificate")
	}
	if days := cert.NotAfter.Sub(testNow).Hours() / 24; days < 89 || days > 91 || cert.IsCA {
		t.Errorf("valid for %.0f days, CA %t", days, cert.IsCA)
	}

	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca.pem"), a.CertificatePEM())
	write(t, filepath.Join(dir, "member.pem"), certPEM)
	openssl(t, dir, "verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", "sslserver", "member.pem")
	openssl(t, dir, "verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", "sslclient", "member.pem")

	want, err := Fingerprint(r.CSR)
	if err != nil {
		t.Fatal(err)
	}
	again, serial2, err := a.SignMember(r, testNow)
	if err != nil || serial2 == serial || bytes.Equal(again, certPEM) {
		t.Errorf("a second certificate for the same key: serial %s after %s, %v", serial2, serial, err)
	}
	if got, err := Fingerprint(r.CSR); err != nil || got != want || len(got) != 64 {
		t.Errorf("the fingerprint is %q, then %q, %v", want, got, err)
	}
}

func TestSignMemberAcceptsStrongKeysOnly(t *testing.T) {
	a := newTestAuthority(t)
	for name, tc := range map[string]struct {
		args []string
		ok   bool
	}{
		"P-384":    {[]string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"}, true},
		"RSA 2048": {[]string{"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"}, true},
		"RSA 1024": {[]string{"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"}, false},
		"P-224":    {[]string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-224"}, false},
		"P-521":    {[]string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"}, false},
		"Ed25519":  {[]string{"-algorithm", "ED25519"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := a.SignMember(memberRequest(t, a, tc.args...), testNow)
			if tc.ok && err != nil || !tc.ok && !errors.Is(err, ErrWeakKey) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSignMemberRefuses(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	good := memberRequest(t, a)
	reseal := func(r *MemberRequest) { r.Seal = Seal(a.JoinToken(r.Member, r.Incarnation), r.CSR, r.InstanceID) }
	for name, tc := range map[string]struct {
		change func(*MemberRequest)
		want   error
	}{
		"no seal":                     {func(r *MemberRequest) { r.Seal = "" }, ErrSealMismatch},
		"seal in upper case":          {func(r *MemberRequest) { r.Seal = strings.ToUpper(r.Seal) }, ErrSealMismatch},
		"another member's seal":       {func(r *MemberRequest) { r.Member = "orders-1" }, ErrSealMismatch},
		"an older incarnation's seal": {func(r *MemberRequest) { r.Incarnation = 4 }, ErrSealMismatch},
		"another instance":            {func(r *MemberRequest) { r.InstanceID = "i-0124" }, ErrSealMismatch},
		"another cluster's token":     {func(r *MemberRequest) { r.Seal = Seal(other.JoinToken(r.Member, 3), r.CSR, r.InstanceID) }, ErrSealMismatch},
		"a request changed after sealing": {func(r *MemberRequest) {
			r.CSR = append(bytes.Clone(r.CSR), '\n')
		}, ErrSealMismatch},
		"no request":      {func(r *MemberRequest) { r.CSR = nil; reseal(r) }, ErrBadRequest},
		"two requests":    {func(r *MemberRequest) { r.CSR = append(bytes.Clone(r.CSR), r.CSR...); reseal(r) }, ErrBadRequest},
		"a certificate":   {func(r *MemberRequest) { r.CSR = a.CertificatePEM(); reseal(r) }, ErrBadRequest},
		"a huge request":  {func(r *MemberRequest) { r.CSR = bytes.Repeat([]byte("x"), maxRequestSize+1); reseal(r) }, ErrBadRequest},
		"a broken sum":    {func(r *MemberRequest) { r.CSR = breakSignature(r.CSR); reseal(r) }, ErrBadRequest},
		"no DNS names":    {func(r *MemberRequest) { r.DNSNames = nil }, nil},
		"no operator key": {func(r *MemberRequest) { r.OperatorCertPEM = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			tc.change(&r)
			certPEM, _, err := a.SignMember(r, testNow)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || certPEM != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func breakSignature(csr []byte) []byte {
	block, _ := pem.Decode(csr)
	block.Bytes[len(block.Bytes)-1] ^= 1
	return pem.EncodeToMemory(block)
}

func TestSignMemberNeverForOwnKeys(t *testing.T) {
	a := newTestAuthority(t)
	operatorCert, operatorKey, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string][]byte{"the authority's": a.KeyPEM(), "the operator's": operatorKey} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "stolen.key"), key)
			r := requestForKey(t, a, dir, "stolen.key")
			r.OperatorCertPEM = operatorCert
			if _, _, err := a.SignMember(r, testNow); !errors.Is(err, ErrForbiddenKey) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRenewalAndExpiry(t *testing.T) {
	a := newTestAuthority(t)
	certPEM, _, err := a.IssueOperator(testNow)
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	for _, tc := range []struct {
		name string
		cert []byte
		at   time.Time
		want bool
	}{
		{"fresh", certPEM, testNow, false},
		{"two thirds gone, not yet", certPEM, testNow.Add(242 * day), false},
		{"two thirds gone", certPEM, testNow.Add(244 * day), true},
		{"expired", certPEM, testNow.Add(400 * day), true},
		{"not a certificate", []byte("nonsense"), testNow, true},
		{"nothing", nil, testNow, true},
	} {
		if got := NeedsRenewal(tc.cert, tc.at); got != tc.want {
			t.Errorf("%s: got %t", tc.name, got)
		}
	}

	late := mustParse(t, a.CertificatePEM()).NotAfter.Add(-10 * day)
	short, _, err := a.IssueOperator(late)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustParse(t, short).NotAfter; got.After(late.Add(10*day + time.Second)) {
		t.Errorf("a certificate outlives its authority: %s", got)
	}
	if _, _, err := a.IssueOperator(late.Add(11 * day)); err == nil {
		t.Error("an expired authority issued a certificate")
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

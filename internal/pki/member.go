package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	// maxRequestSize bounds in bytes what is parsed on behalf of an instance that has not proved who it is.
	maxRequestSize = 16 << 10
	// minRSABits is the least that the CA/Browser Forum's baseline requirements accept; maxRSABits bounds our own work.
	minRSABits, maxRSABits = 2048, 8192
)

// Reasons for not signing a member's request. None of them goes away by trying the same request again.
var (
	// ErrSealMismatch: the seal does not belong to this request, instance, member and incarnation.
	ErrSealMismatch = errors.New("the seal of the certificate request is wrong")
	// ErrForbiddenKey: the request is for the authority's or for the operator's own key.
	ErrForbiddenKey = errors.New("the certificate request is for a key that is not the member's")
	// ErrWeakKey: the key is neither ECDSA P-256 or P-384 nor RSA of 2048 to 8192 bits.
	ErrWeakKey = errors.New("the key of the certificate request is not strong enough or of a kind that is not accepted")
	// ErrBadRequest: the request cannot be read, or is not signed by its own key.
	ErrBadRequest = errors.New("the certificate request is malformed")
)

// MemberRequest is what a member's instance asks for, and what the operator knows of that member.
type MemberRequest struct {
	// CSR is the certificate request in PEM, byte for byte as the instance wrote it. Only its public key is used.
	CSR []byte
	// Seal is what the instance computed over CSR and InstanceID with its join token; see [Seal].
	Seal string
	// InstanceID is EC2's id of the instance that was dialled, as EC2 reports it, not as the instance does.
	InstanceID string
	// Member and Incarnation name the member, for example orders-0 and 3. The join token derives from them.
	Member      string
	Incarnation int
	// DNSNames and IPs are the names that the certificate will be valid for. At least one DNS name.
	DNSNames []string
	IPs      []net.IP
	// OperatorCertPEM is the operator's present client certificate. Its key is never signed for a member.
	OperatorCertPEM []byte
}

// Seal computes the seal of a certificate request: lower-case hexadecimal HMAC-SHA256 over the exact bytes of the request
// followed by the instance's id. The key is the token's text itself, 64 ASCII characters.
func Seal(joinToken string, csr []byte, instanceID string) string {
	mac := hmac.New(sha256.New, []byte(joinToken))
	mac.Write(csr)
	mac.Write([]byte(instanceID))
	return hex.EncodeToString(mac.Sum(nil))
}

// SignMember checks a member's request and issues a certificate for its public key, valid for 90 days as server and as
// client. Subject, names, usages and validity are the operator's; nothing but the key is taken from the request.
// The serial number, 16 lower-case hexadecimal digits, is random: two calls give two certificates for the same key.
// Errors are, or wrap, the Err… values of this package when the request itself is at fault.
func (a *Authority) SignMember(r MemberRequest, now time.Time) (certPEM []byte, serial string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sign certificate of %s: %w", r.Member, err)
		}
	}()
	if r.Member == "" || r.InstanceID == "" || len(r.DNSNames) == 0 {
		return nil, "", errors.New("member, instance id or DNS names are missing")
	}
	// The seal comes first: nothing of an unproven request is parsed.
	want := Seal(a.JoinToken(r.Member, r.Incarnation), r.CSR, r.InstanceID)
	if !hmac.Equal([]byte(want), []byte(r.Seal)) {
		return nil, "", ErrSealMismatch
	}
	csr, err := parseRequest(r.CSR)
	if err != nil {
		return nil, "", err
	}
	if err := a.checkKey(csr.PublicKey, r.OperatorCertPEM); err != nil {
		return nil, "", err
	}
	serial, number, err := newSerial()
	if err != nil {
		return nil, "", err
	}
	certPEM, err = a.issue(&x509.Certificate{
		SerialNumber: number,
		Subject: pkix.Name{
			Organization:       []string{a.uid},
			OrganizationalUnit: []string{memberUnit},
			CommonName:         r.Member,
		},
		NotAfter:    now.Add(memberLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    r.DNSNames,
		IPAddresses: r.IPs,
	}, csr.PublicKey, now)
	return certPEM, serial, err
}

// Fingerprint returns the SHA-256 of a request's public key (its SubjectPublicKeyInfo), in lower-case hexadecimal:
// what tells one instance's key from another's without keeping either.
func Fingerprint(csrPEM []byte) (string, error) {
	csr, err := parseRequest(csrPEM)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), nil
}

// parseRequest reads exactly one request and checks that it is signed by the key that it is for.
func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	if len(text) > maxRequestSize {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrBadRequest, maxRequestSize)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemRequest {
		return nil, fmt.Errorf("%w: no certificate request in PEM form", ErrBadRequest)
	}
	if strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%w: something follows it", ErrBadRequest)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if err := checkStrength(csr.PublicKey); err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return csr, nil
}

func checkStrength(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
		return fmt.Errorf("%w: ECDSA on a curve other than P-256 and P-384", ErrWeakKey)
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("%w: RSA of %d bits, not %d to %d", ErrWeakKey, bits, minRSABits, maxRSABits)
		}
		return nil
	default:
		return fmt.Errorf("%w: %T", ErrWeakKey, public)
	}
}

// checkKey refuses the authority's key and the operator's: a member certificate for one of them would let a stolen key
// pass for a member.
func (a *Authority) checkKey(public crypto.PublicKey, operatorCertPEM []byte) error {
	operator, err := parseCertificate(operatorCertPEM)
	if err != nil {
		return fmt.Errorf("read operator's certificate: %w", err)
	}
	key, ok := public.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || key.Equal(a.cert.PublicKey) || key.Equal(operator.PublicKey) {
		return ErrForbiddenKey
	}
	return nil
}

// Package pki is the certificate authority of one cluster: it makes itself, issues the operator's client certificate,
// and signs the public keys of members whose requests carry the right seal. It has no state of its own and
// does no input or output; who stores the keys is the caller's business.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"
)

const (
	// caLife outlives any cluster that is looked after: an authority is renewed, not extended.
	caLife = 10 * 365 * 24 * time.Hour
	// operatorLife is long, because the operator renews its certificate itself whenever it runs.
	operatorLife = 365 * 24 * time.Hour
	// memberLife is short, because a member's key lies on an instance that clients can reach.
	memberLife = 90 * 24 * time.Hour
	// backdate makes a fresh certificate valid on instances whose clocks are behind ours.
	backdate = time.Hour
	// renewFraction: a certificate is renewed when less than this part of its life is left.
	renewFraction = 3
	// joinKeyLength is the length in bytes of the key that join tokens derive from: the size of the hash.
	joinKeyLength = sha256.Size

	memberUnit = "member"

	pemPrivateKey = "PRIVATE KEY"
	pemRequest    = "CERTIFICATE REQUEST"
)

// Authority is the certificate authority of one cluster. It is immutable and safe for concurrent use.
type Authority struct {
	*Root
	key     *ecdsa.PrivateKey
	keyPEM  []byte
	joinKey []byte
}

// NewAuthority makes the authority of a cluster: a P-256 key, a certificate valid for ten years from now, and a join key.
func NewAuthority(clusterUID, cluster string, now time.Time) (*Authority, error) {
	if clusterUID == "" || cluster == "" {
		return nil, errors.New("make cluster CA: the cluster has no UID or no name")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of cluster CA: %w", err)
	}
	_, serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{clusterUID}, CommonName: cluster + "-ca"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of cluster CA: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	joinKey := make([]byte, joinKeyLength)
	if _, err := rand.Read(joinKey); err != nil {
		return nil, fmt.Errorf("make join key: %w", err)
	}
	return ParseAuthority(encodeCertificate(der), keyPEM, joinKey)
}

// ParseAuthority reads an authority back from what CertificatePEM, KeyPEM and JoinKey gave.
// It refuses parts that do not belong together, so that a Secret edited by hand is noticed before anything is signed.
func ParseAuthority(certPEM, keyPEM, joinKey []byte) (*Authority, error) {
	root, err := ParseRoot(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parse key of cluster CA: %w", err)
	}
	if !key.PublicKey.Equal(root.cert.PublicKey) {
		return nil, errors.New("parse cluster CA: certificate and key do not belong together")
	}
	if len(joinKey) != joinKeyLength {
		return nil, fmt.Errorf("parse join key: %d bytes instead of %d", len(joinKey), joinKeyLength)
	}
	return &Authority{
		Root:    root,
		key:     key,
		keyPEM:  append([]byte(nil), keyPEM...),
		joinKey: append([]byte(nil), joinKey...),
	}, nil
}

// KeyPEM returns the authority's private key in PKCS #8. Whoever has it owns the database.
func (a *Authority) KeyPEM() []byte { return append([]byte(nil), a.keyPEM...) }

// JoinKey returns the 32 bytes that join tokens derive from. They are as secret as the private key.
func (a *Authority) JoinKey() []byte { return append([]byte(nil), a.joinKey...) }

// Equal says whether other is the same authority: the same certificate, and with it the same key, and the same join key.
func (a *Authority) Equal(other *Authority) bool {
	return a.cert.Equal(other.cert) && subtle.ConstantTimeCompare(a.joinKey, other.joinKey) == 1
}

// IssueOperator makes a fresh P-256 key and a client certificate for the operator, valid for one year.
func (a *Authority) IssueOperator(now time.Time) (certPEM, keyPEM []byte, err error) {
	return a.issueClient(a.operatorSubject(), now)
}

// IssueClient makes a fresh P-256 key and a client certificate for pods, valid for one year.
func (a *Authority) IssueClient(c Client, now time.Time) (certPEM, keyPEM []byte, err error) {
	return a.issueClient(a.subjectOf(c), now)
}

func (a *Authority) issueClient(subject pkix.Name, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key of %s: %w", subject.CommonName, err)
	}
	_, serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	certPEM, err = a.issue(&x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotAfter:     now.Add(operatorLife),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key.Public(), now)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate of %s: %w", subject.CommonName, err)
	}
	keyPEM, err = encodeKey(key)
	return certPEM, keyPEM, err
}

// issue signs a leaf certificate. What all leaves have in common is filled in here.
func (a *Authority) issue(template *x509.Certificate, public crypto.PublicKey, now time.Time) ([]byte, error) {
	if now.After(a.cert.NotAfter) {
		return nil, fmt.Errorf("the cluster CA expired on %s", a.cert.NotAfter.Format(time.RFC3339))
	}
	template.NotBefore = now.Add(-backdate)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return encodeCertificate(der), nil
}

// JoinToken returns the one-time secret that a member's instance of this incarnation seals its request with:
// 64 lower-case hexadecimal digits. It derives from the join key, so that the same launch always carries the same token.
func (a *Authority) JoinToken(member string, incarnation int) string {
	mac := hmac.New(sha256.New, a.joinKey)
	mac.Write([]byte(a.uid + "|" + member + "|" + strconv.Itoa(incarnation)))
	return hex.EncodeToString(mac.Sum(nil))
}

// Mark returns what proves that a text is the operator's own when it is read back from where others may write: 64 lower-case
// hexadecimal digits, derived from the join key. No text has the mark of another cluster's, nor a join token for one.
func (a *Authority) Mark(text string) string {
	mac := hmac.New(sha256.New, a.joinKey)
	mac.Write([]byte(a.uid + "\x00" + text))
	return hex.EncodeToString(mac.Sum(nil))
}

// NeedsRenewal tells whether less than a third of a certificate's life is left. What cannot be read needs renewal too.
func NeedsRenewal(certPEM []byte, now time.Time) bool {
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return true
	}
	return cert.NotAfter.Sub(now) < cert.NotAfter.Sub(cert.NotBefore)/renewFraction
}

// newSerial returns a random serial number of 63 bits, never 0, as 16 lower-case hexadecimal digits and as a number.
func newSerial() (string, *big.Int, error) {
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", nil, fmt.Errorf("make serial number: %w", err)
	}
	// One bit fewer keeps the DER encoding at 8 bytes; setting the lowest bit excludes 0.
	n := binary.BigEndian.Uint64(raw[:])>>1 | 1
	return fmt.Sprintf("%016x", n), new(big.Int).SetUint64(n), nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemPrivateKey {
		return nil, errors.New("no PKCS #8 private key in PEM form")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		// The parser's own message is left out: it could quote a part of a secret.
		return nil, errors.New("not a readable PKCS #8 private key")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a %T instead of an ECDSA key", parsed)
	}
	return key, nil
}

// IssuedAt is when a certificate of the cluster's authority was signed that is valid from notBefore on.
func IssuedAt(notBefore time.Time) time.Time { return notBefore.Add(backdate) }

// MemberRenewalWindow is how long before its end a member's certificate is renewed: a third of its life, so that two
// months of trouble do not cost a cluster its identity.
const MemberRenewalWindow = memberLife / 3

// MemberExpires is when a member's certificate ends that was signed at a time.
func MemberExpires(issued time.Time) time.Time { return issued.Add(memberLife) }

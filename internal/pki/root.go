package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

const (
	operatorName = "nairobi-mysql-operator"
	operatorUnit = "operator"

	pemCertificate = "CERTIFICATE"
)

// Client is a kind of pod that logs in to the members with a certificate of its own.
type Client struct{ unit, name string }

// The pods that log in: those of backups, and the one that exports metrics.
var (
	BackupPods = Client{unit: "backup", name: "nairobi-mysql-backup"}
	MetricsPod = Client{unit: "metrics", name: "nairobi-mysql-metrics"}
)

// Root is the certificate of a cluster's authority, without its keys: it says whom the members trust, and signs nothing. It is immutable
// and safe for concurrent use.
type Root struct {
	uid     string
	cert    *x509.Certificate
	certPEM []byte
}

// ParseRoot reads the certificate of a cluster's authority.
func ParseRoot(certPEM []byte) (*Root, error) {
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("parse cluster CA: %w", err)
	}
	if !cert.IsCA || len(cert.Subject.Organization) != 1 || cert.Subject.CommonName == "" {
		return nil, errors.New("parse cluster CA: the certificate is not that of a cluster CA")
	}
	return &Root{uid: cert.Subject.Organization[0], cert: cert, certPEM: append([]byte(nil), certPEM...)}, nil
}

// CertificatePEM returns the authority's certificate. It is public.
func (r *Root) CertificatePEM() []byte { return append([]byte(nil), r.certPEM...) }

// UID returns the UID of the cluster that the authority belongs to, as its certificate says it.
func (r *Root) UID() string { return r.uid }

// Pool returns a pool with this authority as its only root.
func (r *Root) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(r.cert)
	return pool
}

// IssuerDN returns the authority's subject as MySQL's REQUIRE ISSUER wants it.
func (r *Root) IssuerDN() string { return oneLine(r.cert.Subject) }

// OperatorDN returns the operator's subject as MySQL's REQUIRE SUBJECT wants it.
func (r *Root) OperatorDN() string { return oneLine(r.operatorSubject()) }

// ClientDN returns the subject of pods' certificate in the same form.
func (r *Root) ClientDN(c Client) string { return oneLine(r.subjectOf(c)) }

func (r *Root) subjectOf(c Client) pkix.Name {
	return pkix.Name{
		Organization:       []string{r.uid},
		OrganizationalUnit: []string{c.unit},
		CommonName:         c.name,
	}
}

func (r *Root) operatorSubject() pkix.Name {
	return r.subjectOf(Client{unit: operatorUnit, name: operatorName})
}

// IsOperators tells whether a certificate and a key are of the operator as IssueOperator makes them, belong together and are valid now.
func (r *Root) IsOperators(certPEM, keyPEM []byte, now time.Time) bool {
	return r.isClients(r.operatorSubject(), certPEM, keyPEM, now)
}

// IsClients is the same of pods and IssueClient.
func (r *Root) IsClients(c Client, certPEM, keyPEM []byte, now time.Time) bool {
	return r.isClients(r.subjectOf(c), certPEM, keyPEM, now)
}

func (r *Root) isClients(subject pkix.Name, certPEM, keyPEM []byte, now time.Time) bool {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil || oneLine(pair.Leaf.Subject) != oneLine(subject) {
		return false
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: r.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// oneLine writes a subject as MySQL compares it: the text of OpenSSL's X509_NAME_oneline, in the order of the certificate.
func oneLine(name pkix.Name) string {
	line := ""
	for _, organisation := range name.Organization {
		line += "/O=" + organisation
	}
	for _, unit := range name.OrganizationalUnit {
		line += "/OU=" + unit
	}
	return line + "/CN=" + name.CommonName
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemCertificate {
		return nil, errors.New("no certificate in PEM form")
	}
	return x509.ParseCertificate(block.Bytes)
}

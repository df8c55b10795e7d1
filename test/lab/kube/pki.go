package kube

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// certificateLife is far longer than a lab lives.
	certificateLife = 365 * 24 * time.Hour
	// clockSlack lets a certificate be valid a little before it was made.
	clockSlack = 5 * time.Minute
	// serialBits is the most that certificates allow (RFC 5280, 20 octets) with room for the sign.
	serialBits = 128
	// tokenKeyBits: service account tokens are signed with RSA, as kubeadm does.
	tokenKeyBits = 2048
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	now         time.Time
}

// leaf describes a certificate to be signed.
type leaf struct {
	name, organization string
	dns                []string
	ips                []string
	usage              x509.ExtKeyUsage
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, now: now}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	a.certificate = template
	der, err := a.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	a.certificate, err = x509.ParseCertificate(der)
	return a, err
}

func (a *authority) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = a.now.Add(-clockSlack), a.now.Add(certificateLife)
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

// issue makes a key and a certificate for it, both as PEM.
func (a *authority) issue(l leaf) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: l.name}, DNSNames: l.dns,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{l.usage},
	}
	if l.organization != "" {
		template.Subject.Organization = []string{l.organization}
	}
	for _, ip := range l.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := a.sign(template, key.Public())
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return encodeCertificate(der), keyPEM, err
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// clients are the users that get a kubeconfig, by file name. The groups are those that Kubernetes' own roles are
// bound to.
func clients() map[string]leaf {
	const masters = "system:masters"
	return map[string]leaf{
		"admin":                   {name: "lab-admin", organization: masters},
		"kube-controller-manager": {name: "system:kube-controller-manager"},
		"kube-scheduler":          {name: "system:kube-scheduler"},
		"kube-proxy":              {name: "system:kube-proxy"},
		"kubelet":                 {name: "system:node:" + NodeName, organization: "system:nodes"},
	}
}

// writePKI makes all keys, certificates and kubeconfigs of the cluster in dir and returns the administrator's
// kubeconfig.
func writePKI(dir string, now time.Time) ([]byte, error) {
	cluster, err := newAuthority("nairobi-lab-ca", now)
	if err != nil {
		return nil, err
	}
	front, err := newAuthority("nairobi-lab-front-proxy-ca", now)
	if err != nil {
		return nil, err
	}
	writer := &pkiWriter{dir: dir, files: map[string][]byte{}}
	writer.authority("ca", cluster)
	writer.authority("front-proxy-ca", front)
	writer.leaf("apiserver", cluster, leaf{
		name: "kube-apiserver", usage: x509.ExtKeyUsageServerAuth,
		dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain},
		ips: []string{NodeAddress, firstServiceIP, "127.0.0.1"},
	})
	writer.leaf("kubelet-server", cluster, leaf{
		name: "system:node:" + NodeName, organization: "system:nodes", usage: x509.ExtKeyUsageServerAuth,
		dns: []string{NodeName}, ips: []string{NodeAddress},
	})
	writer.leaf("apiserver-kubelet-client", cluster, leaf{
		name: "kube-apiserver-kubelet-client", organization: "system:masters", usage: x509.ExtKeyUsageClientAuth,
	})
	writer.leaf("front-proxy-client", front, leaf{name: "front-proxy-client", usage: x509.ExtKeyUsageClientAuth})
	writer.tokenKey()
	var admin []byte
	for name, user := range clients() {
		user.usage = x509.ExtKeyUsageClientAuth
		config := writer.kubeconfig(name, cluster, user)
		if name == "admin" {
			admin = config
		}
	}
	return admin, writer.flush()
}

// pkiWriter collects files; the first error stays and is returned by flush.
type pkiWriter struct {
	dir   string
	files map[string][]byte
	err   error
}

func (w *pkiWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *pkiWriter) authority(name string, a *authority) {
	key, err := encodeKey(a.key)
	w.keep(err)
	w.files[name+".crt"], w.files[name+".key"] = encodeCertificate(a.certificate.Raw), key
}

func (w *pkiWriter) leaf(name string, a *authority, l leaf) {
	certificate, key, err := a.issue(l)
	w.keep(err)
	w.files[name+".crt"], w.files[name+".key"] = certificate, key
}

// tokenKey makes the key pair that signs and checks service account tokens.
func (w *pkiWriter) tokenKey() {
	key, err := rsa.GenerateKey(rand.Reader, tokenKeyBits)
	if err != nil {
		w.keep(err)
		return
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	w.keep(err)
	private, err := encodeKey(key)
	w.keep(err)
	w.files["sa.pub"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	w.files["sa.key"] = private
}

func (w *pkiWriter) kubeconfig(name string, a *authority, user leaf) []byte {
	certificate, key, err := a.issue(user)
	w.keep(err)
	content, err := renderKubeconfig(name, encodeCertificate(a.certificate.Raw), certificate, key)
	w.keep(err)
	w.files[name+".kubeconfig"] = content
	return content
}

func (w *pkiWriter) flush() error {
	if w.err != nil {
		return fmt.Errorf("make keys: %w", w.err)
	}
	for name, content := range w.files {
		if err := os.WriteFile(filepath.Join(w.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

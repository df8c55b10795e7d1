package mysqld

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
)

// ours comes after an instance's own my.cnf, so it wins: this machine's user and address, as little memory as mysqld can
// do with, and an error log that tests can read.
const ours = `[mysqld]
log_error=/var/lib/nairobi-mysql/error.log
innodb_dedicated_server=OFF
innodb_buffer_pool_size=32M
innodb_log_buffer_size=1M
innodb_redo_log_capacity=16M
innodb_page_cleaners=1
innodb_purge_threads=1
innodb_read_io_threads=1
innodb_write_io_threads=1
innodb_use_native_aio=0
table_open_cache=200
table_definition_cache=400
max_connections=60
temptable_max_ram=2M
performance_schema_hosts_size=10
performance_schema_users_size=10
performance_schema_accounts_size=10
performance_schema_error_size=0
performance_schema_digests_size=100
performance_schema_max_memory_classes=0
performance_schema_max_statement_classes=0
performance_schema_max_mutex_instances=0
performance_schema_max_rwlock_instances=0
performance_schema_events_waits_history_long_size=0
performance_schema_events_statements_history_long_size=0
performance_schema_events_stages_history_long_size=0
performance_schema_events_transactions_history_long_size=0
performance_schema_max_program_instances=0
`

// OwnSettings are the names of what every server of a farm has, whatever its Options say.
func OwnSettings() []string {
	var names []string
	for line := range strings.Lines(ours) {
		if name, _, assigned := strings.Cut(line, "="); assigned {
			names = append(names, name)
		}
	}
	return names
}

// unlockRoot keeps root@localhost usable, unlike on an instance: tests look around with it.
const unlockRoot = "ALTER USER root@localhost ACCOUNT UNLOCK;\n"

// prepare makes the directories of an instance: settings, key, certificates and request.
func (s *Server) prepare() error {
	for _, sub := range []string{"upper", "work", "root", "run", "volume/tmp", "etc/tls", "etc/exchange/logs"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o755); err != nil {
			return err
		}
	}
	authority := s.options.Authority
	in := bootstrap.Input{Member: s.Name, IssuerDN: authority.IssuerDN(), OperatorDN: authority.OperatorDN()}
	// Of this one setting the first value counts. As root, because a change of user would clear the death signal.
	cnf := strings.Replace(bootstrap.RenderConfig(in), "user=mysql\n", "user=root\n", 1) + ours + fmt.Sprintf("bind_address=%s\nreport_host=%s\nserver_id=%d\n", s.ip, s.ip, s.options.ServerID)
	if err := s.write("my.cnf", []byte(cnf)); err != nil {
		return err
	}
	if err := s.write("init.sql", []byte(bootstrap.RenderInitSQL(in)+unlockRoot)); err != nil {
		return err
	}
	if err := s.SetSettings(s.options.Settings); err != nil {
		return err
	}
	if err := s.write("redo.cnf", nil); err != nil { // ours says how large it is
		return err
	}
	if err := s.write("tls/ca.pem", authority.CertificatePEM()); err != nil {
		return err
	}
	for name, content := range s.options.Files {
		if err := s.write(name, content); err != nil {
			return err
		}
	}
	return s.makeKey()
}

// makeKey does what an instance does at its first boot: key, sealed request, self-signed certificate.
func (s *Server) makeKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: s.Name}}, key)
	if err != nil {
		return err
	}
	self := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: s.Name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(72 * time.Hour), DNSNames: []string{s.DNSName()}}
	bootstrap, err := x509.CreateCertificate(rand.Reader, self, self, key.Public(), key)
	if err != nil {
		return err
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
	token := s.options.Authority.JoinToken(s.Name, s.options.Incarnation)
	files := map[string][]byte{
		"tls/member.key":       pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"tls/bootstrap.pem":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bootstrap}),
		"exchange/member.csr":  csr,
		"exchange/member.seal": []byte(pki.Seal(token, csr, s.instanceID) + "\n"),
		"exchange/instance-id": []byte(s.instanceID + "\n"),
	}
	for name, content := range files {
		if err := s.write(name, content); err != nil {
			return err
		}
	}
	if s.options.Unjoined || s.instanceID == "" {
		return os.Symlink("bootstrap.pem", filepath.Join(s.dir, "etc/tls/current.pem"))
	}
	issued, serial, err := s.Sign(csr)
	if err != nil {
		return err
	}
	if err := s.write("tls/issued-"+serial+".pem", issued); err != nil {
		return err
	}
	return os.Symlink("issued-"+serial+".pem", filepath.Join(s.dir, "etc/tls/current.pem"))
}

// Sign issues a certificate for the server's request, as the operator does.
func (s *Server) Sign(csr []byte) (certPEM []byte, serial string, err error) {
	return s.options.Authority.SignMember(pki.MemberRequest{
		CSR: csr, Seal: pki.Seal(s.options.Authority.JoinToken(s.Name, s.options.Incarnation), csr, s.instanceID),
		InstanceID: s.instanceID, Member: s.Name, Incarnation: s.options.Incarnation,
		DNSNames: []string{s.DNSName()}, IPs: []net.IP{net.ParseIP(s.ip)},
		OperatorCertPEM: s.farm.operator.cert,
	}, time.Now())
}

// SetSettings replaces what spec.mysqld says. It counts from the next start on.
func (s *Server) SetSettings(settings map[string]string) error {
	return s.write("launch.cnf", []byte(bootstrap.RenderOptions(settings)))
}

// ReportDisk does what the instance's timer does: it tells the operator how full the data volume is, in bytes.
func (s *Server) ReportDisk(size, free uint64, at time.Time) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "etc", "exchange", "machine"), 0o755); err != nil {
		return err
	}
	report := fmt.Appendf(nil, "%d %d %d\n", size, free, at.Unix())
	if err := s.write("exchange/machine/.new", report); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "etc", "exchange", "machine")
	return os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "disk"))
}

func (s *Server) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(s.dir, "etc", name), content, 0o600)
}

// playPathUnit does what the instance's path unit does: a certificate that appears in the exchange directory, chains to
// the cluster's CA and belongs to our key becomes current.pem. Anything else is left alone.
func (s *Server) playPathUnit(ctx context.Context) {
	seen := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		delivered, err := filepath.Glob(filepath.Join(s.dir, "etc/exchange/cert-*.pem"))
		if err != nil {
			return
		}
		for _, path := range delivered {
			if seen[path] {
				continue
			}
			seen[path] = true
			if err := s.take(path); err != nil {
				fmt.Fprintf(s.farm.log, "%s: %s refused: %v\n", s.Name, filepath.Base(path), err)
			}
		}
	}
}

func (s *Server) take(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(s.dir, "etc/tls/member.key"))
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(content, key)
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return err
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: s.options.Authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return err
	}
	name := strings.Replace(filepath.Base(path), "cert-", "issued-", 1)
	if err := s.write("tls/"+name, content); err != nil {
		return err
	}
	link := filepath.Join(s.dir, "etc/tls/current.pem")
	if err := os.Symlink(name, link+".new"); err != nil {
		return err
	}
	return os.Rename(link+".new", link)
}

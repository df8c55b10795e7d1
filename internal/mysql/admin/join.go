package admin

import (
	"bytes"
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

const (
	// reloadTLS keeps what is in use when it fails. Never NO ROLLBACK ON ERROR: it turns TLS off (fact 20).
	reloadTLS   = "ALTER INSTANCE RELOAD TLS"
	opReloadTLS = "install/reload-tls"
	// takeCertificateWait bounds the wait for the instance's path unit, which acts within a second of the delivery.
	takeCertificateWait  = 5 * time.Second
	takeCertificatePause = 100 * time.Millisecond
)

// JoinRequest is what an instance asks a certificate with.
type JoinRequest struct {
	// CSR is the request in PEM, byte for byte: the seal covers it.
	CSR              []byte
	Seal, InstanceID string
}

// ReadJoinRequest reads the certificate request of a member that has none yet. The connection is not verified, so
// nothing in the answer may be believed before the seal is checked. ErrJoinNotReady says that it is not written yet.
func (m *Member) ReadJoinRequest(ctx context.Context) (request JoinRequest, err error) {
	defer m.h.Annotate(&err, "read the certificate request")
	s, err := m.h.DialToJoin(ctx)
	if err != nil {
		return request, err
	}
	defer s.Close()
	var csr []byte
	var seal, instance sql.Null[string]
	err = s.Row(ctx, "SELECT LOAD_FILE(?), LOAD_FILE(?), LOAD_FILE(?)",
		[]any{observe.ExchangeDir + "member.csr", observe.ExchangeDir + "member.seal", observe.ExchangeDir + "instance-id"}, &csr, &seal, &instance)
	if err != nil {
		return request, err
	}
	if len(csr) == 0 || !seal.Valid || !instance.Valid {
		return request, mysql.ErrJoinNotReady
	}
	return JoinRequest{CSR: csr, Seal: strings.TrimSpace(seal.V), InstanceID: strings.TrimSpace(instance.V)}, nil
}

// InstallCertificate delivers a certificate to the member and returns when the member presents it. It serves the join
// and the renewal alike. A certificate that was delivered before is not written again: DUMPFILE never overwrites.
// serial names the file: lower-case hex. ErrCertificateNotTaken says that the instance has not taken it into use yet.
func (m *Member) InstallCertificate(ctx context.Context, serial string, certPEM []byte) (err error) {
	defer m.h.Annotate(&err, "install certificate "+serial)
	block, _ := pem.Decode(certPEM)
	if block == nil || !serialNumber.MatchString(serial) {
		return fmt.Errorf("%w: no certificate in PEM, or no serial", mysql.ErrInvalidArgument)
	}
	if err := m.h.AskLease(ctx); err != nil {
		return err
	}
	s, err := m.h.DialToJoin(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := deliver(ctx, s, observe.ExchangeDir+"cert-"+serial+".pem", certPEM); err != nil {
		return err
	}
	now := m.h.Options().Clock.Now
	deadline := now().Add(takeCertificateWait)
	for now().Before(deadline) {
		if err := s.Change(ctx, opReloadTLS, reloadTLS); err != nil && conn.ServerErrorNumber(err) == 0 {
			return err
		}
		presented, err := m.presented(ctx)
		if err != nil {
			return err
		}
		if bytes.Equal(presented.Raw, block.Bytes) {
			return m.h.Redial(ctx)
		}
		if err := conn.Pause(ctx, takeCertificatePause); err != nil {
			return err
		}
	}
	return mysql.ErrCertificateNotTaken
}

// deliver writes the certificate to path, once.
func deliver(ctx context.Context, s *conn.Session, path string, certPEM []byte) error {
	var there []byte
	if err := s.Row(ctx, "SELECT LOAD_FILE(?)", []any{path}, &there); err != nil {
		return err
	}
	if there == nil {
		// The path is made of constants and a checked serial.
		err := s.Change(ctx, "install/deliver", "SELECT ? INTO DUMPFILE '"+path+"'", certPEM)
		if !conn.IsServerError(err, mysql.ErFileExists) {
			return err
		}
		if err := s.Row(ctx, "SELECT LOAD_FILE(?)", []any{path}, &there); err != nil {
			return err
		}
	}
	if !bytes.Equal(there, certPEM) {
		return fmt.Errorf("%w: another certificate has this serial", mysql.ErrInvalidArgument)
	}
	return nil
}

// presented is the certificate that the member shows to a new connection.
func (m *Member) presented(ctx context.Context) (*x509.Certificate, error) {
	s, err := m.h.DialToJoin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Certificate(), nil
}

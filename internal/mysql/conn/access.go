package conn

import (
	"crypto/tls"
	"crypto/x509"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Classify says what a failed dial or a failed statement means for the access to a member.
func Classify(err error) (mysql.Access, string) {
	switch {
	case err == nil:
		return mysql.AccessVerified, ""
	case isVerificationFailure(err):
		return mysql.AccessUnverified, verificationReason(err)
	case errors.Is(err, errNotAccepted):
		return mysql.AccessDenied, "the member does not accept the operator's certificate: " + errNotAccepted.Error()
	case isTLSAlert(err):
		return mysql.AccessDenied, "the member does not accept the operator's certificate: " + stable(err)
	case IsServerError(err, mysql.ErServerShutdown):
		return mysql.AccessRefused, "the server is shutting down"
	case IsServerError(err, mysql.ErQueryInterrupted):
		return mysql.AccessRefused, "the server ended the session" // as it does while it starts and ends
	case IsServerError(err, mysql.ErConCount):
		return mysql.AccessDenied, "too many connections"
	case ServerErrorNumber(err) != 0:
		return mysql.AccessDenied, err.Error()
	case isTimeout(err):
		return mysql.AccessSilent, ErrDeadline.Error()
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return mysql.AccessSilent, "no route to the address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return mysql.AccessRefused, "connection refused"
	case IsHangUp(err):
		return mysql.AccessRefused, "connection closed"
	default:
		return mysql.AccessSilent, stable(err)
	}
}

// stable is err without the addresses that the network package puts in front: the local port differs at every pass, and
// reasons end up in conditions.
func stable(err error) string {
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Err != nil {
		return operation.Err.Error()
	}
	return err.Error()
}

// verificationReason says why a certificate was not believed, without the time of day.
func verificationReason(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "its certificate is not signed by the cluster's CA"
	case errors.As(err, &hostname):
		return "its certificate is not for " + hostname.Host
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	case errors.Is(err, driver.ErrNoTLS):
		return "it offers no TLS"
	default:
		return stable(err)
	}
}

func isVerificationFailure(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &record) || errors.Is(err, driver.ErrNoTLS)
}

// isTLSAlert says that the peer ended the handshake. In TLS 1.3 it does so after our side is done, on the first read.
func isTLSAlert(err error) bool {
	var alert tls.AlertError
	var operation *net.OpError
	return errors.As(err, &alert) || (errors.As(err, &operation) && operation.Op == "remote error")
}

// IsHangUp says that the peer ended the connection.
func IsHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, driver.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn) ||
		errors.Is(err, errForgotten)
}

// Unreachable wraps a failed dial for callers that need a session: the class is in the text, ErrUnreachable in the chain.
func Unreachable(err error) error {
	access, reason := Classify(err)
	return fmt.Errorf("%w: %s: %s", mysql.ErrUnreachable, access, reason)
}

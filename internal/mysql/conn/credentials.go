package conn

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// credentials are an Identity in the form that TLS takes. Parsed they are larger than the rest of a connection, so that all
// connections with one identity share them.
type credentials struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

func newCredentials(identity mysql.Identity) (*credentials, error) {
	certificate, err := tls.X509KeyPair(identity.CertPEM, identity.KeyPEM)
	if err != nil {
		// The text of a parse error can hold nothing of the key, but nothing in it helps either.
		return nil, fmt.Errorf("%w: the operator's certificate or key cannot be used", mysql.ErrInvalidArgument)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(identity.CAPEM) {
		return nil, fmt.Errorf("%w: the cluster CA's certificate cannot be used", mysql.ErrInvalidArgument)
	}
	return &credentials{certificate: certificate, roots: roots}, nil
}

// inUse are the credentials that open sessions hold, of all pools of the process: the prober shows each server what the reconciler
// shows it. Nothing is kept for its own sake: they go with the last session of an identity, open or to be resumed.
var inUse = shownCredentials{of: map[[sha256.Size]byte]weak.Pointer[credentials]{}}

type shownCredentials struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]weak.Pointer[credentials] // by digest
}

// get returns the credentials of an identity: those that an open session holds, or new ones.
func (c *shownCredentials) get(identity mysql.Identity) (*credentials, error) {
	key := digest(identity)
	c.mu.Lock()
	shared := c.of[key].Value()
	c.mu.Unlock()
	if shared != nil {
		return shared, nil
	}
	made, err := newCredentials(identity)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.of[key].Value(); shared != nil {
		return shared, nil // another session was faster
	}
	c.of[key] = weak.Make(made)
	runtime.AddCleanup(made, c.drop, key)
	return made, nil
}

// drop forgets credentials that no session holds any more, unless there are others by now.
func (c *shownCredentials) drop(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[key].Value() == nil {
		delete(c.of, key)
	}
}

func digest(i mysql.Identity) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{i.CAPEM, i.CertPEM, i.KeyPEM} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// tls returns the TLS side of a connection: TLS 1.2 or newer, our certificate shown, the cluster CA as the only root.
func (c *credentials) tls(endpoint mysql.Endpoint, how trust) (*tls.Config, error) {
	if endpoint.ServerName == "" && how == verified {
		return nil, fmt.Errorf("%w: no server name to verify", mysql.ErrInvalidArgument)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            c.roots,
		ServerName:         endpoint.ServerName,
		Certificates:       []tls.Certificate{c.certificate},
		InsecureSkipVerify: how == joining, //nolint:gosec // see joining
	}, nil
}

// ClientTLS returns the TLS side of a connection that shares its credentials with no other.
func ClientTLS(endpoint mysql.Endpoint, identity mysql.Identity) (*tls.Config, error) {
	c, err := newCredentials(identity)
	if err != nil {
		return nil, err
	}
	return c.tls(endpoint, verified)
}

// trust says how far a connection's peer is checked.
type trust int

const (
	// verified: the peer proves its name with a certificate of the cluster CA.
	verified trust = iota
	// joining: the peer has no certificate yet. Only the join uses this. Nothing that the peer says is believed
	// until the seal is checked, and a man in the middle cannot pass our client certificate on: its signature covers
	// the handshake that it was made for.
	joining
	// bySocket: the server is a child of this process and listens on nothing but a socket in a folder of this process's own.
	bySocket
)

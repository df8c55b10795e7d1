package conn

import (
	"context"

	"database/sql"
	"net"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// Dial opens a session of its own, which the caller closes.
func (m *Handle) Dial(ctx context.Context) (*Session, error) { return m.pool.dial(ctx, m.e, verified) }

// DialSocket opens a session of its own to a server that is a child of this process. The endpoint's address is the server's socket.
func (m *Handle) DialSocket(ctx context.Context) (*Session, error) {
	return m.pool.dial(ctx, m.e, bySocket)
}

// DialToJoin opens a verified session if the member can prove itself already, else an unverified one.
func (m *Handle) DialToJoin(ctx context.Context) (*Session, error) {
	s, err := m.pool.dial(ctx, m.e, verified)
	if err != nil && isVerificationFailure(err) {
		s, err = m.pool.dial(ctx, m.e, joining)
	}
	if err != nil {
		return nil, Unreachable(err)
	}
	return s, nil
}

// TakesConnections says whether a TCP connection to the member is made within a time.
func (m *Handle) TakesConnections(ctx context.Context, limit time.Duration) bool {
	endpoint, _ := m.e.target()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := m.pool.options.Dial(ctx, "tcp", endpoint.Address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said on it
	return true
}

// Login logs in once as a user with a password, over verified TLS.
func (m *Handle) Login(ctx context.Context, user, password string) error {
	endpoint, identity := m.e.target()
	tlsConfig, err := ClientTLS(endpoint, identity)
	if err != nil {
		return err
	}
	tlsConfig.Certificates = nil
	config := driver.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr, config.TLS = user, password, "tcp", endpoint.Address, tlsConfig
	config.Logger = &driver.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return m.pool.options.Dial(ctx, network, address)
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.pool.options.DialTimeout)
	defer cancel()
	db := sql.OpenDB(connector)
	defer db.Close()
	return translate(ctx, db.PingContext(ctx))
}

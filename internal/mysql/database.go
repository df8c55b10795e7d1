package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode/utf8"

	driver "github.com/go-sql-driver/mysql"
)

// loginProof remembers that a login with a password succeeded while the server held a given hash of it, so that a steady
// pass does not log in again. It holds no secret: a SHA-256 over both.
type loginProof [sha256.Size]byte

// databasePrivileges are those that the owner's row must have; a revoked one is granted again.
const databasePrivileges = `Select_priv = 'Y' AND Insert_priv = 'Y' AND Update_priv = 'Y' AND Delete_priv = 'Y' AND Create_priv = 'Y'
	AND Drop_priv = 'Y' AND References_priv = 'Y' AND Index_priv = 'Y' AND Alter_priv = 'Y' AND Create_tmp_table_priv = 'Y'
	AND Lock_tables_priv = 'Y' AND Create_view_priv = 'Y' AND Show_view_priv = 'Y' AND Create_routine_priv = 'Y'
	AND Alter_routine_priv = 'Y' AND Execute_priv = 'Y' AND Event_priv = 'Y' AND Trigger_priv = 'Y'`

var reservedDatabases = []string{"mysql", "sys", "information_schema", "performance_schema", "nairobi_mysql"}

// EnsureDatabase makes the database, its owner with that password, and the owner's privileges on it, each only when it is
// not there as wanted. A password that does not log in is replaced. changed says whether anything was written.
// It runs on the primary; ErrCommitsPending says that what it wrote waits for acknowledgements.
func (m *Member) EnsureDatabase(ctx context.Context, database, user, password string) (changed bool, err error) {
	defer func() { err = redact(err, password) }()
	defer m.annotate(&err, "set up database "+database)
	if err := checkOwner(database, user, password); err != nil {
		return false, err
	}
	var missing ownership
	if err := m.control(ctx, func(s *session) (err error) {
		missing, err = m.missing(ctx, s, database, user, password)
		return err
	}); err != nil || missing == (ownership{}) {
		return false, err
	}
	err = m.transact(ctx, func(s *session) error {
		return missing.make(ctx, s, database, user, password)
	})
	return true, err
}

func checkOwner(database, user, password string) error {
	switch {
	case database == "" || utf8.RuneCountInString(database) > maxDatabaseName || strings.ContainsRune(database, 0) || !utf8.ValidString(database):
		return fmt.Errorf("%w: the database's name", ErrInvalidArgument)
	case slices.Contains(reservedDatabases, strings.ToLower(database)):
		return fmt.Errorf("%w: the database's name is reserved", ErrInvalidArgument)
	case user == "" || utf8.RuneCountInString(user) > maxUserName || strings.ContainsRune(user, 0) || !utf8.ValidString(user):
		return fmt.Errorf("%w: the user's name", ErrInvalidArgument)
	case strings.EqualFold(user, "root"), strings.HasPrefix(strings.ToLower(user), "mysql."), strings.HasPrefix(strings.ToLower(user), "nairobi_"):
		return fmt.Errorf("%w: the user's name is reserved", ErrInvalidArgument)
	case password == "":
		return fmt.Errorf("%w: the password is empty", ErrInvalidArgument)
	}
	return nil
}

// ownership says what of a database and its owner is missing.
type ownership struct {
	database, user, password, grants bool
}

// missing compares the server with what is wanted.
func (m *Member) missing(ctx context.Context, s *session, database, user, password string) (ownership, error) {
	var hasDatabase, hasGrants bool
	var hash []byte
	err := s.row(ctx, `SELECT EXISTS(SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?),
		(SELECT authentication_string FROM mysql.user WHERE User = ? AND Host = '%'),
		EXISTS(SELECT 1 FROM mysql.db WHERE User = ? AND Host = '%' AND Db = ? AND `+databasePrivileges+`)`,
		[]any{database, user, user, databasePattern(database)}, &hasDatabase, &hash, &hasGrants)
	if err != nil {
		return ownership{}, err
	}
	missing := ownership{database: !hasDatabase, user: hash == nil, grants: !hasGrants}
	if !missing.user {
		fits, err := m.passwordFits(ctx, hash, user, password)
		if err != nil {
			return ownership{}, err
		}
		missing.password = !fits
	}
	return missing, nil
}

// passwordFits says whether the user can log in with the password. The answer "yes" is kept as long as the server's hash
// stays the same.
func (m *Member) passwordFits(ctx context.Context, hash []byte, user, password string) (bool, error) {
	proof := loginProof(sha256.Sum256(fmt.Appendf(nil, "%q %q %q", hash, user, password)))
	m.e.mu.Lock()
	known := m.e.login == proof
	m.e.mu.Unlock()
	if known {
		return true, nil
	}
	err := m.login(ctx, user, password)
	switch {
	case err == nil:
		m.e.mu.Lock()
		m.e.login = proof
		m.e.mu.Unlock()
		return true, nil
	case isServerError(err, erAccessDenied, erAccessDeniedNoPassword):
		return false, nil
	default:
		return false, fmt.Errorf("try the password of %s: %w", user, err)
	}
}

// login logs in once as a user with a password, over verified TLS.
func (m *Member) login(ctx context.Context, user, password string) error {
	endpoint, identity := m.e.target()
	tlsConfig, err := clientTLS(endpoint, identity, verified)
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

// make writes what is missing. Passwords reach the binary log only as hashes: MySQL rewrites these statements.
func (o ownership) make(ctx context.Context, s *session, database, user, password string) error {
	if o.database {
		if err := s.change(ctx, "database/create", "CREATE DATABASE IF NOT EXISTS "+quoteName(database)); err != nil {
			return err
		}
	}
	if o.user {
		if err := s.change(ctx, "database/create-user", "CREATE USER IF NOT EXISTS ?@'%' IDENTIFIED BY ? REQUIRE SSL", user, password); err != nil {
			return err
		}
	}
	if o.password {
		if err := s.change(ctx, "database/set-password", "ALTER USER ?@'%' IDENTIFIED BY ? ACCOUNT UNLOCK", user, password); err != nil {
			return err
		}
	}
	if o.grants {
		return s.change(ctx, "database/grant", "GRANT ALL ON "+quoteName(databasePattern(database))+".* TO ?@'%'", user)
	}
	return nil
}

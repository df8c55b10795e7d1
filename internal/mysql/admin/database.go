package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/parser/auth"
	parsermysql "github.com/pingcap/tidb/pkg/parser/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// loginProof remembers that a login with a password succeeded while the server held a given hash of it, so that a steady
// pass does not log in again. It holds no secret: a SHA-256 over both.
type loginProof [sha256.Size]byte

// login is the last one that succeeded at a member.
type login struct {
	mu    sync.Mutex
	proof loginProof
}

func (l *login) is(proof loginProof) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proof == proof
}

func (l *login) set(proof loginProof) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proof = proof
}

// databasePrivileges are those that the owner's row must have; a revoked one is granted again.
const databasePrivileges = `Select_priv = 'Y' AND Insert_priv = 'Y' AND Update_priv = 'Y' AND Delete_priv = 'Y' AND Create_priv = 'Y'
	AND Drop_priv = 'Y' AND References_priv = 'Y' AND Index_priv = 'Y' AND Alter_priv = 'Y' AND Create_tmp_table_priv = 'Y'
	AND Lock_tables_priv = 'Y' AND Create_view_priv = 'Y' AND Show_view_priv = 'Y' AND Create_routine_priv = 'Y'
	AND Alter_routine_priv = 'Y' AND Execute_priv = 'Y' AND Event_priv = 'Y' AND Trigger_priv = 'Y'`

// granted says whether the owner has them on a name of a database, as it is stored.
const granted = `EXISTS(SELECT 1 FROM mysql.db WHERE User = ? AND Host = '%' AND Db = IF(@@lower_case_table_names, LOWER(?), ?) AND ` + databasePrivileges + `)`

var reservedDatabases = []string{"mysql", "sys", "information_schema", "performance_schema", "nairobi_mysql"}

// Database is an application's database with the account that owns it.
type Database struct {
	Name, Owner, Password string
	// Retain is how long the owner's password of before logs in as well after it was changed; 0 for not at all.
	Retain time.Duration
	// Cluster is the UID of the cluster, by which an account is known as its own.
	Cluster string
	// TakeOver: an account of the owner's name that is not the cluster's own becomes it.
	TakeOver bool
	// GrantedLiterally: the owner has privileges on the database's name as it is, which stands for others where names are patterns.
	GrantedLiterally bool
}

// ownerMark is the attribute of an account that names the cluster whose operator made it.
const ownerMark = "nairobi_mysql"

// mark is the attribute of the owner's account, as JSON. MySQL adds it to those that the account has.
func (d Database) mark() string { return fmt.Sprintf("{%q: %q}", ownerMark, d.Cluster) }

// DatabaseOutcome is what EnsureDatabase did.
type DatabaseOutcome struct {
	// Changed is true when anything was written.
	Changed bool
	// Retained is for how long the owner's password of before still logs in; 0 when it does not. EnsureDatabase has to be
	// called again by then.
	Retained time.Duration
	// Literal: the owner's privileges are on the database's name as it is, because partial_revokes is on. Otherwise they are on a pattern.
	Literal bool
}

// EnsureDatabase makes the database, its owner with that password, and the owner's privileges on it, each only when it is
// not there as wanted. A password that does not log in is replaced; the one before is retained as the account's second
// password, and discarded when it was retained long enough.
// The owner carries the cluster's UID as an attribute. One without it is somebody else's, unless the password logs in, or d.TakeOver.
// It runs on the primary; ErrCommitsPending says that what it wrote waits for acknowledgements.
//
// Errors: ErrInvalidArgument for what must never reach SQL, ErrPasswordRefused when MySQL does not take the password, ErrAccountNotOurs
// for an owner that is somebody else's; nothing is changed then.
func (m *Member) EnsureDatabase(ctx context.Context, d Database) (outcome DatabaseOutcome, err error) {
	defer func() { err = redact(err, d.Password) }()
	defer m.h.Annotate(&err, "set up database "+d.Name)
	if err := checkOwner(d.Name, d.Owner, d.Password); err != nil {
		return outcome, err
	}
	var missing ownership
	if err := m.h.Control(ctx, func(s *conn.Session) (err error) {
		missing, outcome.Retained, err = m.missing(ctx, s, d)
		return err
	}); err != nil {
		return outcome, err
	}
	outcome.Literal = missing.literal
	if missing == (ownership{literal: missing.literal}) {
		return outcome, nil
	}
	outcome.Changed = true
	if missing.password && !missing.cannotRetain {
		outcome.Retained = d.Retain
	}
	return outcome, m.h.Transact(ctx, func(s *conn.Session) error { return missing.make(ctx, s, d) })
}

func checkOwner(database, user, password string) error {
	switch {
	case database == "" || utf8.RuneCountInString(databasePattern(database)) > maxDatabaseName || strings.ContainsRune(database, 0) || !utf8.ValidString(database):
		return fmt.Errorf("%w: the database's name", mysql.ErrInvalidArgument)
	case slices.Contains(reservedDatabases, strings.ToLower(database)):
		return fmt.Errorf("%w: the database's name is reserved", mysql.ErrInvalidArgument)
	case user == "" || utf8.RuneCountInString(user) > maxUserName || strings.ContainsRune(user, 0) || !utf8.ValidString(user):
		return fmt.Errorf("%w: the user's name", mysql.ErrInvalidArgument)
	case strings.EqualFold(user, "root"), strings.HasPrefix(strings.ToLower(user), "mysql."), strings.HasPrefix(strings.ToLower(user), "nairobi_"):
		return fmt.Errorf("%w: the user's name is reserved", mysql.ErrInvalidArgument)
	case password == "":
		return fmt.Errorf("%w: the password is empty", mysql.ErrInvalidArgument)
	}
	return checkPassword(password)
}

// maxPassword is how long a password of caching_sha2_password may be, in bytes; MySQL refuses a longer one as an account that it cannot
// make (1396).
const maxPassword = 256

// checkPassword refuses a password that MySQL does not take, and one that clients lose a part of on the way: shells and editors drop
// line breaks and spaces at its ends, and C ends a text at a zero byte.
func checkPassword(password string) error {
	switch {
	case len(password) > maxPassword:
		return fmt.Errorf("%w: it has %d bytes, and MySQL takes at most %d", mysql.ErrPasswordRefused, len(password), maxPassword)
	case strings.HasSuffix(password, "\n"):
		return fmt.Errorf("%w: it ends in a line break, which clients do not send: write it without, for example with printf instead of echo", mysql.ErrPasswordRefused)
	case strings.TrimSpace(password) != password:
		return fmt.Errorf("%w: it begins or ends with a space, which clients do not send", mysql.ErrPasswordRefused)
	case strings.ContainsRune(password, 0):
		return fmt.Errorf("%w: it holds a zero byte, at which clients end it", mysql.ErrPasswordRefused)
	}
	return nil
}

// ownership says what of a database and its owner is missing, and whether a second password has outlived its time.
type ownership struct {
	database, user, password, grants, second, mark bool
	// literal: names of databases in privileges are no patterns. stray: the owner has privileges on the name as a pattern.
	literal, stray bool
	// cannotRetain is true when the account's password cannot become its second one: it is empty, or not of caching_sha2, or is to
	// stay the first.
	cannotRetain bool
}

// owned is what a server has of a database and its owner.
type owned struct {
	database, onPattern, onName, second, marked, literal bool
	hash                                                 []byte        // of the password; nil without an account
	age                                                  sql.NullInt64 // of the password in seconds, by the server's clock
}

// readOwned reads what there is. onPattern and onName say on what the owner has its privileges.
func readOwned(ctx context.Context, s *conn.Session, d Database) (found owned, err error) {
	pattern := databasePattern(d.Name)
	err = s.Row(ctx, `SELECT EXISTS(SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?),
		(SELECT authentication_string FROM mysql.user WHERE User = ? AND Host = '%'),
		(SELECT TIMESTAMPDIFF(SECOND, password_last_changed, NOW()) FROM mysql.user WHERE User = ? AND Host = '%'),
		EXISTS(SELECT 1 FROM mysql.user WHERE User = ? AND Host = '%' AND JSON_CONTAINS_PATH(User_attributes, 'one', '$.additional_password')),
		EXISTS(SELECT 1 FROM mysql.user WHERE User = ? AND Host = '%' AND JSON_UNQUOTE(JSON_EXTRACT(User_attributes, '$.metadata.`+ownerMark+`')) = ?),
		@@GLOBAL.`+mysql.PartialRevokes+", "+granted+", "+granted,
		[]any{d.Name, d.Owner, d.Owner, d.Owner, d.Owner, d.Cluster, d.Owner, pattern, pattern, d.Owner, d.Name, d.Name},
		&found.database, &found.hash, &found.age, &found.second, &found.marked, &found.literal, &found.onPattern, &found.onName)
	return found, err
}

// lacks says what is missing but for what is wrong with an account that is there.
func (o owned) lacks(d Database) ownership {
	missing := ownership{database: !o.database, user: o.hash == nil, literal: o.literal, grants: !o.onPattern}
	if o.literal {
		missing.grants = !o.onName
	}
	missing.stray = !o.literal && o.onName && d.GrantedLiterally && d.Name != databasePattern(d.Name)
	return missing
}

// missing compares the server with what is wanted. retained is for how long a second password still counts.
func (m *Member) missing(ctx context.Context, s *conn.Session, d Database) (missing ownership, retained time.Duration, err error) {
	found, err := readOwned(ctx, s, d)
	if err != nil {
		return ownership{}, 0, err
	}
	missing = found.lacks(d)
	if !missing.user {
		fits, err := m.passwordFits(ctx, found.hash, d.Owner, d.Password)
		if err != nil {
			return ownership{}, 0, err
		}
		if !found.marked && !fits && !d.TakeOver {
			return ownership{}, 0, fmt.Errorf("%w: %s@%%", mysql.ErrAccountNotOurs, d.Owner)
		}
		missing.mark = !found.marked
		// A second password logs in as well, and will not for long.
		missing.password = !fits || found.second && !isCurrent(found.hash, d.Password)
	}
	// What an account has already is set again when it expired or was locked; the second one stays what it is then.
	missing.cannotRetain = missing.password && (!isSHA2(found.hash) || isCurrent(found.hash, d.Password))
	if found.second {
		retained = max(d.Retain-time.Duration(max(found.age.Int64, 0))*time.Second, 0)
		missing.second = retained == 0
	}
	return missing, retained, nil
}

// passwordFits says whether the user can log in with the password. The answer "yes" is kept as long as the server's hash
// stays the same.
func (m *Member) passwordFits(ctx context.Context, hash []byte, user, password string) (bool, error) {
	proof := loginProof(sha256.Sum256(fmt.Appendf(nil, "%q %q %q", hash, user, password)))
	last := conn.State[login](m.h)
	if last.is(proof) {
		return true, nil
	}
	err := m.h.Login(ctx, user, password)
	switch {
	case err == nil:
		last.set(proof)
		return true, nil
	case conn.IsServerError(err, mysql.ErAccessDenied, mysql.ErAccessDeniedNoPassword, mysql.ErMustChangePasswordLogin, mysql.ErAccountHasBeenLocked):
		return false, nil // each ends when the password is set again
	default:
		return false, fmt.Errorf("try the password of %s: %w", user, err)
	}
}

// isCurrent says whether a password is the one that an account's authentication string was made of, and not its second one.
// Of a plug-in other than caching_sha2_password, MySQL's own, nobody can tell: no.
func isCurrent(hash []byte, password string) bool {
	if !isSHA2(hash) {
		return false
	}
	is, err := auth.CheckHashingPassword(hash, password, parsermysql.AuthCachingSha2Password)
	return is && err == nil
}

// isSHA2 says whether an authentication string is one of caching_sha2_password.
func isSHA2(hash []byte) bool {
	parts := bytes.SplitN(hash, []byte("$"), 4)
	return len(parts) == 4 && len(parts[3]) > auth.SALT_LENGTH
}

// passwordRefused makes an error an ErrPasswordRefused when it says that of the password.
func passwordRefused(err error) error {
	if conn.IsServerError(err, mysql.ErNotValidPassword, mysql.ErCredentialsContradictToHistory, mysql.ErWrongStringLength) {
		return fmt.Errorf("%w: %w", mysql.ErrPasswordRefused, err)
	}
	return err
}

// make writes what is missing. Passwords reach the binary log only as hashes: MySQL rewrites these statements. The owner's does not
// expire with default_password_lifetime: it changes with its Secret.
func (o ownership) make(ctx context.Context, s *conn.Session, d Database) error {
	if o.database {
		if err := s.Change(ctx, "database/create", "CREATE DATABASE IF NOT EXISTS "+conn.QuoteName(d.Name)); err != nil {
			return err
		}
	}
	if err := o.makeOwner(ctx, s, d); err != nil {
		return err
	}
	return o.grant(ctx, s, d)
}

// makeOwner writes what is missing of the owner's account.
func (o ownership) makeOwner(ctx context.Context, s *conn.Session, d Database) error {
	if o.user {
		if err := s.Change(ctx, "database/create-user", "CREATE USER ?@'%' IDENTIFIED BY ? REQUIRE SSL PASSWORD EXPIRE NEVER ATTRIBUTE ?", d.Owner, d.Password, d.mark()); err != nil {
			return passwordRefused(err)
		}
	}
	if o.mark {
		if err := s.Change(ctx, "database/mark-user", "ALTER USER ?@'%' ATTRIBUTE ?", d.Owner, d.mark()); err != nil {
			return err
		}
	}
	if o.password {
		retain := ""
		if d.Retain > 0 && !o.cannotRetain {
			retain = " RETAIN CURRENT PASSWORD"
		}
		if err := s.Change(ctx, "database/set-password", "ALTER USER ?@'%' IDENTIFIED BY ?"+retain+" PASSWORD EXPIRE NEVER ACCOUNT UNLOCK", d.Owner, d.Password); err != nil {
			return passwordRefused(err)
		}
	}
	if o.second && (!o.password || d.Retain == 0) {
		return s.Change(ctx, "database/discard-password", "ALTER USER ?@'%' DISCARD OLD PASSWORD", d.Owner)
	}
	return nil
}

// grant gives the owner its privileges on the database, and takes those that reach others.
func (o ownership) grant(ctx context.Context, s *conn.Session, d Database) error {
	if o.stray {
		if err := s.Change(ctx, "database/revoke", "REVOKE ALL ON "+conn.QuoteName(d.Name)+".* FROM ?@'%'", d.Owner); err != nil {
			return err
		}
	}
	if o.grants {
		on := databasePattern(d.Name)
		if o.literal {
			on = d.Name
		}
		return s.Change(ctx, "database/grant", "GRANT ALL ON "+conn.QuoteName(on)+".* TO ?@'%'", d.Owner)
	}
	return nil
}

// redacted is an error whose text shows none of the given secrets. It keeps the chain for errors.Is and errors.As.
type redacted struct {
	err  error
	text string
}

func (r *redacted) Error() string { return r.text }

func (r *redacted) Unwrap() error { return r.err }

// redact hides secrets that a server may quote back in a message, for example in "near '…'" of a syntax error.
func redact(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	if text == err.Error() {
		return err
	}
	return &redacted{err: err, text: text}
}

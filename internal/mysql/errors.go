package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"
)

// Errors that callers decide on. They come wrapped with the action and the member; test with errors.Is.
var (
	// ErrUnreachable: no verified connection to the member could be made. Observe says more.
	ErrUnreachable = errors.New("no verified connection")
	// ErrLeaseRefused: the lease could not be confirmed, so no writing session was opened.
	ErrLeaseRefused = errors.New("the lease is not confirmed")
	// ErrLockHeld: another session holds the operator's lock on the member and did not go when it was killed.
	ErrLockHeld = errors.New("another session holds the operator's lock")
	// ErrCommitsPending: commits wait for their acknowledgements, and the action would release, hide or join them.
	ErrCommitsPending = errors.New("commits wait for their acknowledgements")
	// ErrBlocked: open transactions or table locks of clients held up the action; nothing was changed.
	ErrBlocked = errors.New("held up by locks of other sessions")
	// ErrEpochChanged: the membership row has another epoch than the caller believed.
	ErrEpochChanged = errors.New("the membership has another epoch")
	// ErrNotApplied: received transactions are not applied yet; going on would throw them away.
	ErrNotApplied = errors.New("received transactions are not applied yet")
	// ErrApplierStopped: the applier stands still on an error, so that waiting for it is in vain.
	ErrApplierStopped = errors.New("the applier stands still")
	// ErrWritable: the member accepts writes, and the action is only for members that do not.
	ErrWritable = errors.New("the member is writable")
	// ErrReplicates: the member has a source, and the action is only for members that have none.
	ErrReplicates = errors.New("the member has a source")
	// ErrSettingRefused: MySQL does not know the variable, or does not take the value as it is.
	ErrSettingRefused = errors.New("setting refused")
	// ErrPasswordRefused: MySQL does not take the password, for what it is: it is one of those before, too weak, or too long.
	ErrPasswordRefused = errors.New("password refused")
	// ErrClientsRefused: the server takes the operator's writes and turns those of clients away.
	ErrClientsRefused = errors.New("the server refuses clients")
	// ErrJoinNotReady: the member has not written its certificate request yet.
	ErrJoinNotReady = errors.New("the certificate request is not there yet")
	// ErrCertificateNotTaken: the certificate was delivered, but the member does not present it yet. Try again.
	ErrCertificateNotTaken = errors.New("the certificate is delivered but not in use yet")
	// ErrInvalidArgument: a name or value that must never reach SQL.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrStepNotEffective: a statement reported success, but reading back shows another state.
	ErrStepNotEffective = errors.New("the statement had no effect")
)

// Server error numbers that decide something here.
// Source: MySQL Server Error Message Reference, 9.x.
const (
	erAccessDenied           = 1045
	erBadDatabase            = 1049
	erServerShutdown         = 1053
	erBadField               = 1054
	erFileExists             = 1086
	erUnknownTable           = 1109
	erNoSuchThread           = 1094
	erNoSuchTable            = 1146
	erSyntax                 = 1149 // of GRANT for a privilege that nothing on the server defines
	erUnknownSystemVariable  = 1193
	erLockWaitTimeout        = 1205
	erWrongTypeForVariable   = 1232
	erNoSuchRoutine          = 1305
	erQueryInterrupted       = 1317
	erVariableReadOnly       = 1238
	erXARMError              = 1401 // of XA RECOVER without the privilege, too
	erViewInvalid            = 1356
	erTableDefChanged        = 1412
	erWrongStringLength      = 1470
	erPluginIsNotLoaded      = 1524
	erAccessDeniedNoPassword = 1698
	erTooManyConnections     = 1040
	erNotValidPassword       = 1819
	erPasswordExpired        = 1862
	erAccountLocked          = 3118
	erPasswordInHistory      = 3638
	erRestartFailed          = 3707
	erInstanceLocked         = 3857 // LOCK INSTANCE FOR BACKUP
)

// serverErrorNumber returns the number of the MySQL error in err's chain; 0 when there is none.
func serverErrorNumber(err error) uint16 {
	var serverError *driver.MySQLError
	if errors.As(err, &serverError) {
		return serverError.Number
	}
	var answer *gomysql.MyError // of the connections that are not the driver's
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

func isServerError(err error, numbers ...uint16) bool {
	number := serverErrorNumber(err)
	for _, n := range numbers {
		if number == n {
			return true
		}
	}
	return false
}

// IsRefusal says whether an error is an answer of the server's: it refuses a statement.
func IsRefusal(err error) bool { return serverErrorNumber(err) != 0 }

// isTimeout says that no answer came in time: by our deadline, or by the network's.
func isTimeout(err error) bool {
	var netError net.Error
	return errors.Is(err, errDeadline) || (errors.As(err, &netError) && netError.Timeout())
}

// annotate wraps *err with the action that failed and the member it failed on.
func (m *Member) annotate(err *error, action string) {
	if *err != nil {
		*err = fmt.Errorf("%s on %s: %w", action, m.e.name(), *err)
	}
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

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

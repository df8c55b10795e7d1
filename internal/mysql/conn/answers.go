package conn

import (
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// ServerErrorNumber returns the number of the MySQL error in err's chain; 0 when there is none.
func ServerErrorNumber(err error) uint16 {
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

// localPort is what differs from one broken connection to the next.
var localPort = regexp.MustCompile(`\S+:\d+->`)

// Reason returns what an error says, the same for each connection that breaks in the same way.
func Reason(err error) string { return localPort.ReplaceAllString(err.Error(), "") }

// IsServerError says whether err is an answer of the server's with one of these numbers.
func IsServerError(err error, numbers ...uint16) bool {
	return slices.Contains(numbers, ServerErrorNumber(err))
}

// IsRefusal says whether an error is an answer of the server's: it refuses a statement.
func IsRefusal(err error) bool { return ServerErrorNumber(err) != 0 }

// passing are the server errors after which the same statement may succeed.
var passing = slices.Concat(filesPass, memoryPasses, locksPass, sessionsPass, []uint16{mysql.ErUnknownError, mysql.ErErrorDuringCommit})

// The passing errors, by what was in the way: files and their disks, memory and threads, other transactions and statements, and the server
// that went down, ended the session, or takes no writes as it is.
var (
	filesPass = []uint16{
		mysql.ErCantCreateFile, mysql.ErCantCreateDB, mysql.ErCantOpenFile, mysql.ErDiskFull, mysql.ErErrorOnRead, mysql.ErErrorOnWrite, mysql.ErFilesortAbort, mysql.ErGetErrno, mysql.ErRecordFileFull,
		mysql.ErIOReadError, mysql.ErIOWriteError, mysql.ErTempFileWriteFailure, mysql.ErInnoDBUndoLogFull, mysql.ErDiskFullNowait, mysql.ErSchemaDirCreateFailed, mysql.ErNoSessionTemp,
	}
	memoryPasses = []uint16{
		mysql.ErOutOfMemory, mysql.ErOutOfSortMemory, mysql.ErOutOfResources, mysql.ErStackOverrun, mysql.ErCantCreateThread, mysql.ErStackOverrunNeedMore,
		mysql.ErEngineOutOfMemory, mysql.ErStdBadAlloc, mysql.ErCapacityExceeded, mysql.ErDiagnosticsOutOfMemory, mysql.ErGlobalConnLimit, mysql.ErConnLimit,
	}
	locksPass = []uint16{
		mysql.ErLockWaitTimeout, mysql.ErLockTableFull, mysql.ErLockDeadlock, mysql.ErTableDefChanged, mysql.ErTooManyConcurrentTrxs, mysql.ErLockAborted,
		mysql.ErInnoDBOnlineLogTooBig, mysql.ErMDLOutOfResources,
	}
	sessionsPass = []uint16{
		mysql.ErConCount, mysql.ErServerShutdown, mysql.ErNetRead, mysql.ErNetReadInterrupted, mysql.ErNetErrorOnWrite, mysql.ErNetWriteInterrupted, mysql.ErTooManyUserConnections, mysql.ErUserLimitReached,
		mysql.ErOptionPreventsStatement, mysql.ErQueryInterrupted, mysql.ErReadOnlyMode, mysql.ErInnoDBReadOnly, mysql.ErInnoDBForcedRecovery, mysql.ErQueryTimeout, mysql.ErServerOfflineMode,
		mysql.ErServerIsntAvailable, mysql.ErSessionWasKilled, mysql.ErClientInteractionTimeout, mysql.ErServerOfflineModeReason, mysql.ErServerOfflineModeUser,
	}
)

// firstOfServer is where the numbers begin that depend on a statement. Those below are of files and memory, from the library under the server.
const firstOfServer = 1000

// RefusesForGood says whether an error is an answer of the server's that the same statement gets again.
func RefusesForGood(err error) bool {
	return ServerErrorNumber(err) >= firstOfServer && !IsServerError(err, passing...)
}

// clientSaid is how the mysql client begins what it says of an answer of the server's. Its own errors have the numbers from 2000 to 2999.
var clientSaid = regexp.MustCompile(`(?m)^ERROR (\d{4}) \(\w+\)`)

// ClientError returns what the mysql client printed, as an answer of the server's where it is one.
func ClientError(printed string) error {
	if found := clientSaid.FindStringSubmatch(printed); found != nil && found[1][0] != '2' {
		number, _ := strconv.ParseUint(found[1], 10, 16) // the pattern lets nothing but four digits through
		return &printedError{printed, &driver.MySQLError{Number: uint16(number), Message: printed}}
	}
	return errors.New(printed)
}

// printedError reads as it was printed.
type printedError struct {
	text   string
	answer *driver.MySQLError
}

func (e *printedError) Error() string { return e.text }
func (e *printedError) Unwrap() error { return e.answer }

// isTimeout says that no answer came in time: by our deadline, or by the network's.
func isTimeout(err error) bool {
	var netError net.Error
	return errors.Is(err, ErrDeadline) || (errors.As(err, &netError) && netError.Timeout())
}

// ServerWords are what the server said, without what we were doing.
func ServerWords(err error) string {
	var said *driver.MySQLError
	if errors.As(err, &said) {
		return said.Message
	}
	return err.Error()
}

// ErrDeadline replaces context.DeadlineExceeded, so that a statement's own deadline reads as what it is.
var ErrDeadline = errors.New("no answer in time")

// ContextError is why ctx ended.
func ContextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrDeadline
	}
	return ctx.Err()
}

// errNotAccepted is a peer that proved itself and then closed the connection without a word. In TLS 1.3 that is how a
// server turns a client's certificate down: its alert comes after our side of the handshake, and may be lost when we
// write at the same time.
var errNotAccepted = errors.New("it closed the connection after the TLS handshake")

var errForgotten = errors.New("the member was forgotten")

package conn

import (
	"context"
	"errors"
	"net"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"
)

// Server error numbers that decide something here.
// Source: MySQL Server Error Message Reference, 9.x.
const (
	ErBadDatabase            = 1049
	erServerShutdown         = 1053
	erNoSuchThread           = 1094
	ErNoSuchTable            = 1146
	ErLockWaitTimeout        = 1205
	ErQueryInterrupted       = 1317
	ErAccessDeniedNoPassword = 1698
	ErTooManyConnections     = 1040
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

// IsServerError says whether err is an answer of the server's with one of these numbers.
func IsServerError(err error, numbers ...uint16) bool {
	number := ServerErrorNumber(err)
	for _, n := range numbers {
		if number == n {
			return true
		}
	}
	return false
}

// IsRefusal says whether an error is an answer of the server's: it refuses a statement.
func IsRefusal(err error) bool { return ServerErrorNumber(err) != 0 }

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

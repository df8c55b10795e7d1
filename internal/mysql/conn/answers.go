package conn

import (
	"errors"
	"fmt"
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

// Annotate wraps *err with the action that failed and the member it failed on.
func (m *Handle) Annotate(err *error, action string) {
	if *err != nil {
		*err = fmt.Errorf("%s on %s: %w", action, m.e.name(), *err)
	}
}

// ServerWords are what the server said, without what we were doing.
func ServerWords(err error) string {
	var said *driver.MySQLError
	if errors.As(err, &said) {
		return said.Message
	}
	return err.Error()
}

package mysql

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
	erBadDatabase            = 1049
	erServerShutdown         = 1053
	erNoSuchThread           = 1094
	erNoSuchTable            = 1146
	erLockWaitTimeout        = 1205
	erQueryInterrupted       = 1317
	erAccessDeniedNoPassword = 1698
	erTooManyConnections     = 1040
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

// isServerError says whether err is an answer of the server's with one of these numbers.
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
func (m *Handle) annotate(err *error, action string) {
	if *err != nil {
		*err = fmt.Errorf("%s on %s: %w", action, m.e.name(), *err)
	}
}

// serverWords are what the server said, without what we were doing.
func serverWords(err error) string {
	var said *driver.MySQLError
	if errors.As(err, &said) {
		return said.Message
	}
	return err.Error()
}

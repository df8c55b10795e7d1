package observe

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"unicode"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// crashReport is where the member's instance writes, before each start of mysqld, why the run before ended. The server's own
	// error log has it only when that goes to a file.
	crashReport = ExchangeDir + "machine/error"
	// crashMoment is how many seconds before the start of mysqld an error may have been logged to be the one that ended the run
	// before: systemd starts mysqld within a second, and recovery takes some more.
	crashMoment = "60"
	// longestCrashError bounds what an error log puts into a status, in characters.
	longestCrashError = 120

	// In the report the message follows a time, a thread and the like.
	crashErrorQuery = `SELECT LEFT(COALESCE(
		(SELECT CONCAT(ERROR_CODE, ' ', DATA) FROM performance_schema.error_log, performance_schema.global_status
			WHERE PRIO = 'Error' AND VARIABLE_NAME = 'Uptime'
				AND UNIX_TIMESTAMP(LOGGED) < UNIX_TIMESTAMP(NOW(6)) - VARIABLE_VALUE
				AND UNIX_TIMESTAMP(LOGGED) > UNIX_TIMESTAMP(NOW(6)) - VARIABLE_VALUE - ` + crashMoment + `
			ORDER BY SUBSYSTEM = 'Repl', LOGGED LIMIT 1),
		CONVERT(LOAD_FILE('` + crashReport + `') USING utf8mb4)), 1000)`
)

// CrashError returns the error that mysqld logged first in the minute before it started the last time, in at most longestCrashError
// characters; empty when there is none. The first one is the cause of those that follow. Errors of replication come last: a source
// that is gone ends no mysqld.
func (m *Observer) CrashError(ctx context.Context) (message string, err error) {
	defer m.h.Annotate(&err, "read the error log")
	var text sql.Null[string]
	// A session that was made before the crash is dead.
	err = m.h.Read(ctx, func(s *conn.Session) error { return s.Row(ctx, crashErrorQuery, nil, &text) })
	return crashMessage(text.V), err
}

// threadNumber ends an assertion's message, and is another one each time.
var threadNumber = regexp.MustCompile(` thread [0-9]+$`)

// crashMessage returns the message of a line of the error log, without its time, its thread and what cannot be printed.
func crashMessage(line string) string {
	if _, after, found := strings.Cut(line, "[ERROR] "); found {
		line = after
	}
	line = strings.Join(strings.FieldsFunc(line, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	}), " ")
	line = threadNumber.ReplaceAllString(line, "")
	if runes := []rune(line); len(runes) > longestCrashError {
		return string(runes[:longestCrashError-1]) + "…"
	}
	return strings.TrimRight(line, ".")
}

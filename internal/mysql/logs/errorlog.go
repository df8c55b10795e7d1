package logs

import (
	"context"
	"database/sql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// errorLog is the error log as the server keeps it in memory, in the table error_log of the performance schema. It does not outlive the
// server; how a run ended is in the operator's conditions.
type errorLog struct {
	since string // Unix time with microseconds of the last entry that was read
}

// entriesAtOnce bounds one reading.
const entriesAtOnce = 1000

const errorLogQuery = `SELECT UNIX_TIMESTAMP(LOGGED), DATE_FORMAT(CONVERT_TZ(LOGGED, @@session.time_zone, '+00:00'), '%Y-%m-%dT%H:%i:%s.%fZ'), PRIO, ERROR_CODE, SUBSYSTEM, DATA
	FROM performance_schema.error_log WHERE LOGGED > FROM_UNIXTIME(CAST(? AS DECIMAL(20, 6))) ORDER BY LOGGED LIMIT 1000`

func (l *errorLog) read(ctx context.Context, s *conn.Session, write func(Entry)) (more bool, err error) {
	found := 0
	err = s.Rows(ctx, errorLogQuery, []any{l.since}, func(rows *sql.Rows) error {
		var at string
		var e Entry
		if err := rows.Scan(&at, &e.Time, &e.Priority, &e.Code, &e.Subsystem, &e.Message); err != nil {
			return err
		}
		l.since = at
		found++
		write(e)
		return nil
	})
	return found == entriesAtOnce, err
}

package admin

import (
	"context"
	"database/sql"
	"fmt"
	"sort"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// keepBinaryLogs is how many of the newest binary logs are never removed, the active one among them: a replica that is
// seeded at the moment will ask for what was written meanwhile.
const keepBinaryLogs = 3

// mostLogListBytes is how long a list of binary logs may be, in bytes: some 25 for each of a million, after which they get longer names.
// Those of a server that keeps them for ever, in small files, are many just when its disk fills.
const mostLogListBytes = 32 << 20

// Purged is how many binary logs were removed, and how many bytes they had.
type Purged struct {
	Logs  int
	Bytes uint64
}

// PurgeBinaryLogs removes the oldest binary logs of a primary, as long as each given replica has executed everything in
// them; where enough is not 0, no more than are needed for so many bytes. executed are the replicas' executed GTID sets as text; a replica
// that is left out, and all that is restored later, may have to be seeded again. The newest logs stay in any case.
// It fails with ErrCommitsPending while commits wait for acknowledgements that do not come: reading the list of logs would
// hang behind them (fact 2). On a full disk it can end in the statement's deadline (fact 22).
func (m *Member) PurgeBinaryLogs(ctx context.Context, executed []string, enough uint64) (purged Purged, err error) {
	defer m.h.Annotate(&err, "purge binary logs")
	err = m.h.Control(ctx, func(s *conn.Session) error {
		if err := refuseWhileStuck(ctx, s); err != nil {
			return err
		}
		logs, err := binaryLogs(ctx, s)
		if err != nil {
			return fmt.Errorf("list the binary logs: %w", err)
		}
		// What precedes a log only grows from one to the next, so that the first log that is too new parts them.
		var failure error
		candidates := max(0, len(logs)-keepBinaryLogs+1)
		n := sort.Search(candidates, func(i int) bool {
			if failure != nil {
				return true
			}
			covered, err := executedBefore(ctx, s, logs[i].name, executed)
			failure = err
			return err != nil || !covered
		}) - 1
		if failure != nil || n <= 0 {
			return failure
		}
		oldest := firstLogs(logs[:n], enough)
		if err := s.Change(ctx, "purge/to", "PURGE BINARY LOGS TO ?", logs[len(oldest)].name); err != nil {
			return err
		}
		// A log that is being read is left, and all that follow it.
		left, err := binaryLogs(ctx, s)
		if err == nil {
			oldest = oldest[:min(len(oldest), max(0, len(logs)-len(left)))]
		}
		purged = Purged{len(oldest), bytesOf(oldest)}
		return err
	})
	return purged, err
}

// binaryLog is one of a server's binary logs, with its size in bytes.
type binaryLog struct {
	name  string
	bytes uint64
}

func bytesOf(logs []binaryLog) (sum uint64) {
	for _, l := range logs {
		sum += l.bytes
	}
	return sum
}

// firstLogs returns the first logs that have so many bytes together, or all; 0 is no limit.
func firstLogs(logs []binaryLog, enough uint64) []binaryLog {
	sum := uint64(0)
	for i, l := range logs {
		if sum += l.bytes; enough > 0 && sum >= enough {
			return logs[:i+1]
		}
	}
	return logs
}

// binaryLogs lists the binary logs, oldest first.
func binaryLogs(ctx context.Context, s *conn.Session) ([]binaryLog, error) {
	defer s.TakeAnswers(mostLogListBytes)()
	var logs []binaryLog
	err := s.Rows(ctx, "SHOW BINARY LOGS", nil, func(rows *sql.Rows) error {
		row, err := named(rows)
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(row["File_size"].V, 10, 64)
		logs = append(logs, binaryLog{row["Log_name"].V, size})
		return err
	})
	return logs, err
}

// executedBefore says whether each of the sets holds everything that was written before a log began.
func executedBefore(ctx context.Context, s *conn.Session, log string, executed []string) (bool, error) {
	var previous string
	found := false
	// The second event of every log, after the description of the format.
	err := s.Rows(ctx, "SHOW BINLOG EVENTS IN ? LIMIT 3", []any{log}, func(rows *sql.Rows) error {
		row, err := named(rows)
		if row["Event_type"].V == "Previous_gtids" {
			previous, found = conn.Compact(row["Info"].V), true
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read the beginning of %s: %w", log, err)
	}
	if !found {
		return false, fmt.Errorf("%w: %s does not say what precedes it", mysql.ErrStepNotEffective, log)
	}
	for _, set := range executed {
		var covered bool
		if err := s.Row(ctx, "SELECT GTID_SUBSET(?, ?)", []any{previous, set}, &covered); err != nil || !covered {
			return false, err
		}
	}
	return true, nil
}

// named returns the present row by the names of its columns, for results whose columns depend on the version.
func named(rows *sql.Rows) (map[string]sql.Null[string], error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]sql.Null[string], len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	row := make(map[string]sql.Null[string], len(columns))
	for i, name := range columns {
		row[name] = values[i]
	}
	return row, nil
}

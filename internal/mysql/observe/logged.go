package observe

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// eventPage is how many events one statement reads: few enough for the time that a statement is given.
	eventPage = 500
	// mostEvents and mostEventBytes bound what is read in all; with events of the usual size that is a binary log of 1 GiB.
	mostEvents, mostEventBytes = 4_000_000, 256 << 20
	// mostBinaryLogs is how many binary logs are looked into, the newest first.
	mostBinaryLogs = 100
	// mostPageBytes bounds what a server may answer to one statement of the search. With binlog_rows_query_log_events a statement of a
	// client's is in the events, however long it is.
	mostPageBytes = 16 << 20
	// longestStatement is the length, in bytes, up to which a statement is kept.
	longestStatement = 4 << 10
	// firstEvent is the position of the first event of a binary log.
	firstEvent = 4
)

// errTooMuchToRead ends a search that has read as much as it may.
var errTooMuchToRead = errors.New("the binary logs hold too much to be searched")

// LoggedTransactions returns those of a GTID set that the member's own binary log holds, in no order. What it does not return is not in
// the binary log any more, or never was. It reads in a session of its own, because it may take seconds.
func (m *Observer) LoggedTransactions(ctx context.Context, gtids string) (found []mysql.LoggedTransaction, err error) {
	defer m.h.Annotate(&err, "read the binary log")
	wanted, err := gtid.Parse(gtids)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mysql.ErrInvalidArgument, err)
	}
	s, err := m.h.Dial(ctx)
	if err != nil {
		return nil, conn.Unreachable(err)
	}
	defer s.Close()
	defer s.TakeAnswers(mostPageBytes)()
	search := &logSearch{session: s, wanted: wanted}
	if err := search.run(ctx); err != nil {
		return nil, err
	}
	return search.found, nil
}

// logSearch looks for transactions in the binary logs of a server.
type logSearch struct {
	session *conn.Session
	wanted  gtid.Set // those that are not found yet
	found   []mysql.LoggedTransaction
	// open is the transaction whose events are being read, nil while it is none of those that are looked for.
	open          *mysql.LoggedTransaction
	events, bytes int
}

// run reads the binary logs from the newest on. The head of each says what those before it hold.
func (f *logSearch) run(ctx context.Context) error {
	var logs []string
	var size, encrypted sql.RawBytes
	if err := f.session.Rows(ctx, "SHOW BINARY LOGS", nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name, &size, &encrypted)
		logs = append(logs, name)
		return err
	}); err != nil {
		return fmt.Errorf("list the binary logs: %w", err)
	}
	slices.Reverse(logs)
	for _, log := range logs[:min(len(logs), mostBinaryLogs)] {
		before, err := f.previous(ctx, log)
		if err != nil {
			return err
		}
		if here := f.wanted.Subtract(before); !here.IsEmpty() {
			if err := f.read(ctx, log, here); err != nil {
				return err
			}
		}
		if f.wanted = f.wanted.Intersect(before); f.wanted.IsEmpty() {
			break
		}
	}
	return nil
}

// event is a row of SHOW BINLOG EVENTS.
type event struct {
	kind, info string
	end        uint64
}

// page reads some events of a binary log.
func (f *logSearch) page(ctx context.Context, log string, from uint64, limit int) (events []event, err error) {
	var name, position, server, info sql.RawBytes
	query := fmt.Sprintf("SHOW BINLOG EVENTS IN %s FROM %d LIMIT %d", conn.QuoteText(log), from, limit)
	err = f.session.Rows(ctx, query, nil, func(rows *sql.Rows) error {
		var e event
		if err := rows.Scan(&name, &position, &e.kind, &server, &e.end, &info); err != nil {
			return err
		}
		f.events, f.bytes = f.events+1, f.bytes+len(info)
		e.info = keptInfo(e.kind, info)
		events = append(events, e)
		return nil
	})
	if err == nil && (f.events > mostEvents || f.bytes > mostEventBytes) {
		err = errTooMuchToRead
	}
	return events, err
}

// keptInfo returns what an event says, where that matters: GTIDs, and statements of up to longestStatement bytes. A longer one counts as a
// change of data: the beginning of a statement does not show that it changes nothing.
func keptInfo(kind string, info []byte) string {
	isGTIDs := strings.HasPrefix(kind, "Gtid") || kind == "Previous_gtids"
	if isGTIDs || kind == "Query" && len(info) <= longestStatement {
		return string(info)
	}
	return ""
}

// previous returns what the binary logs before one hold, and what the server executed before it kept any.
func (f *logSearch) previous(ctx context.Context, log string) (gtid.Set, error) {
	head, err := f.page(ctx, log, firstEvent, 3)
	if err != nil {
		return gtid.Set{}, fmt.Errorf("read the head of %s: %w", log, err)
	}
	for _, e := range head {
		if e.kind == "Previous_gtids" {
			return gtid.Parse(conn.Compact(e.info))
		}
	}
	return gtid.Set{}, fmt.Errorf("%s does not say which transactions precede it", log)
}

// read reads a binary log until it has found all that it is expected to hold.
func (f *logSearch) read(ctx context.Context, log string, expected gtid.Set) error {
	from, left := uint64(firstEvent), expected.Count()
	for {
		events, err := f.page(ctx, log, from, eventPage)
		if err != nil {
			return fmt.Errorf("read %s: %w", log, err)
		}
		for _, e := range events {
			if !strings.HasPrefix(e.kind, "Gtid") {
				f.add(e)
				continue
			}
			f.close()
			if left == 0 {
				return nil
			}
			if f.begin(e, expected) {
				left--
			}
		}
		if len(events) < eventPage {
			f.close()
			return nil
		}
		from = events[len(events)-1].end
	}
}

// begin begins a transaction, and says whether it is one of those that are expected.
func (f *logSearch) begin(e event, expected gtid.Set) bool {
	_, id, _ := strings.Cut(e.info, "'")
	id = strings.ToLower(strings.TrimSuffix(id, "'"))
	one, err := gtid.Parse(id)
	if err != nil || one.Count() != 1 || !expected.Contains(one) {
		return false
	}
	f.open = &mysql.LoggedTransaction{GTID: id}
	return true
}

// add adds an event to the transaction that is being read.
func (f *logSearch) add(e event) {
	switch {
	case f.open == nil:
	case e.kind == "Query" && e.info != "":
		f.open.Statements = append(f.open.Statements, e.info)
	case e.kind == "Rotate" || e.kind == "Stop": // the end of the binary log, which belongs to no transaction
		f.close()
	default:
		f.open.Others++
	}
}

// close ends the transaction that is being read.
func (f *logSearch) close() {
	if f.open != nil {
		f.found, f.open = append(f.found, *f.open), nil
	}
}

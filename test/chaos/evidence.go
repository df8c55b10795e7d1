package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// logLines is how much of the operator's log is kept of a failure.
	logLines = 20000
	// evidenceTimeout bounds the collection.
	evidenceTimeout = 2 * time.Minute
)

// Story is what was seen since a time, line by line, with the seconds since.
func (w *World) Story(since time.Time) string {
	var text strings.Builder
	for _, s := range w.watch.since(since) {
		fmt.Fprintf(&text, "%8.3f  %-9s  %s\n", s.At.Sub(since).Seconds(), s.Kind, s.Text)
	}
	return text.String()
}

// Explain writes what a person needs to look into a failure to files, and says where they are.
func (w *World) Explain(ctx context.Context, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	if err := w.ledger.sync(); err != nil {
		w.say("the ledger is not complete: %v", err)
	}
	path := filepath.Join(w.dir, fmt.Sprintf("failure-%d.txt", w.round))
	file, err := os.Create(path)
	if err != nil {
		w.say("nothing is kept of the failure: %v", err)
		return
	}
	defer func() { _ = file.Close() }()
	w.explainTo(ctx, file, since)
	w.say("what was seen is in %s, the ledger in %s", path, w.dir)
}

func (w *World) explainTo(ctx context.Context, out io.Writer, since time.Time) {
	_, _ = fmt.Fprintf(out, "The fault began at %s; the ledger's time 0 is %s.\n\n%s\n", since.UTC().Format(time.RFC3339Nano), w.ledger.began.UTC().Format(time.RFC3339Nano), w.Story(since))
	for _, l := range w.judge.found(0) {
		_, _ = fmt.Fprintln(out, l)
	}
	w.describeMembers(ctx, out)
	w.lab.Diagnose(ctx, out, w.key)
	logs, err := w.lab.OperatorLogs(ctx, logLines)
	if err != nil {
		logs += err.Error()
	}
	_, _ = fmt.Fprintln(out, logs)
}

// questions are what tells of a member's part in a loss.
var questions = []string{
	"SELECT @@server_id, @@server_uuid, @@global.read_only, @@global.super_read_only, @@global.gtid_executed, @@global.gtid_purged",
	"SELECT * FROM nairobi_mysql.membership",
	"SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME LIKE 'Rpl_semi%' OR VARIABLE_NAME = 'Uptime'",
	"SELECT * FROM performance_schema.replication_connection_status",
	"SELECT * FROM performance_schema.replication_applier_status_by_worker",
	"SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_STATE, PROCESSLIST_TIME, PROCESSLIST_INFO FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL",
	"SELECT round, worker, server, COUNT(*), MIN(id), MAX(id) FROM app.writes WHERE round >= (SELECT MAX(round) FROM app.writes) - 1 GROUP BY round, worker, server",
	"SELECT LOGGED, PRIO, ERROR_CODE, DATA FROM performance_schema.error_log WHERE LOGGED > NOW() - INTERVAL 20 MINUTE AND PRIO <> 'Note'",
}

// describeMembers asks every member. What one does not answer is evidence too.
func (w *World) describeMembers(ctx context.Context, out io.Writer) {
	owner, err := w.owner(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(out, "no access to the members:", err)
		return
	}
	c, err := w.cluster(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(out, "no members are known:", err)
		return
	}
	for ordinal, where := range w.members(c) {
		_, _ = fmt.Fprintf(out, "\n=== member %d at %s\n", ordinal, where.address)
		for _, question := range questions {
			_, _ = fmt.Fprintln(out, "\n> "+question)
			if err := owner.ask(ctx, out, where, question); err != nil {
				_, _ = fmt.Fprintln(out, "no answer:", err)
			}
		}
	}
	_, _ = fmt.Fprintln(out)
}

// ask prints the answer to a question, a row a line.
func (a access) ask(ctx context.Context, out io.Writer, where target, question string) error {
	db, err := a.openAt(where)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, question)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		cells := make([][]byte, len(columns))
		into := make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, cell := range cells {
			_, _ = fmt.Fprintf(out, "%s=%s  ", columns[i], cell)
		}
		_, _ = fmt.Fprintln(out)
	}
	return rows.Err()
}

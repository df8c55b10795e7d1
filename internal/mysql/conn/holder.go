package conn

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// mostHolders bounds how many are named of those that keep a statement waiting.
const mostHolders = 3

// lockRows reads the locks of other sessions that meet a condition, each with its session t and the session's transaction x. It shows what a
// session does only after a minute of the same, so that the text about a busy session stays the same, and of a statement the first word:
// the rest may hold data. The lock of a prepared XA transaction has no session, or one that has no transaction in InnoDB any more.
const lockRows = `SELECT /*+ MAX_EXECUTION_TIME(500) */ DISTINCT COALESCE(t.PROCESSLIST_ID, 0), COALESCE(t.PROCESSLIST_USER, ''), COALESCE(t.PROCESSLIST_HOST, ''), COALESCE(t.NAME, ''),
	COALESCE(t.PROCESSLIST_STATE LIKE 'Waiting for semi-sync ACK%%', FALSE),
	CASE WHEN x.trx_started < ` + aMinuteAgo + ` THEN 'in a transaction' WHEN t.PROCESSLIST_TIME < 60 OR t.PROCESSLIST_COMMAND IS NULL THEN '' WHEN t.PROCESSLIST_COMMAND = 'Sleep' THEN 'idle'
		ELSE CONCAT('running ', COALESCE(UPPER(REGEXP_SUBSTR(t.PROCESSLIST_INFO, '^[[:alpha:]]{2,16}')), t.PROCESSLIST_COMMAND)) END,
	COALESCE(IF(x.trx_started < ` + aMinuteAgo + `, UNIX_TIMESTAMP(CONVERT_TZ(x.trx_started, 'SYSTEM', '+00:00')), NULL), UNIX_TIMESTAMP(SYSDATE()) - t.PROCESSLIST_TIME, 0) DIV 60 * 60,
	t.THREAD_ID IS NULL OR x.trx_id IS NULL AND l.OBJECT_TYPE = 'TABLE' AND l.LOCK_TYPE = 'SHARED_WRITE' AND l.LOCK_DURATION = 'TRANSACTION',
	l.OBJECT_TYPE, COALESCE(l.OBJECT_SCHEMA, ''), COALESCE(l.OBJECT_NAME, ''), l.LOCK_TYPE, l.LOCK_STATUS = 'PENDING'
	FROM performance_schema.metadata_locks l LEFT JOIN performance_schema.threads t ON t.THREAD_ID = l.OWNER_THREAD_ID
	LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id = t.PROCESSLIST_ID
	WHERE COALESCE(t.PROCESSLIST_ID, 0) <> CONNECTION_ID() AND l.LOCK_STATUS IN ('GRANTED', 'PENDING') AND (%s) ORDER BY l.LOCK_STATUS = 'PENDING', 1 LIMIT 20`

// aMinuteAgo is in the time zone of INNODB_TRX.
const aMinuteAgo = "CONVERT_TZ(SYSDATE(), '+00:00', 'SYSTEM') - INTERVAL 1 MINUTE"

// Blindness asks whether the Performance Schema shows no metadata locks that are taken from now on.
const Blindness = `SELECT EXISTS (SELECT 1 FROM performance_schema.setup_consumers WHERE NAME = 'global_instrumentation' AND ENABLED = 'NO')
	OR EXISTS (SELECT 1 FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl' AND ENABLED = 'NO')`

// keepsWritable is the condition for the locks of whoever writes or commits. A server waits for their end to become read-only.
const keepsWritable = "l.OBJECT_TYPE IN ('GLOBAL', 'COMMIT') AND l.LOCK_TYPE = 'INTENTION_EXCLUSIVE' AND l.LOCK_STATUS = 'GRANTED'"

// lock is a metadata lock and who has it, or waits for it.
type lock struct {
	mysql.Holder
	kind, schema, name, mode string
	// threadless is true where the lock may be a prepared XA transaction's, and rows where the statement waited for a row lock.
	threadless, rows bool
}

// words say what is locked.
func (l lock) words() string {
	switch {
	case l.kind == "BACKUP LOCK":
		return "the backup lock (LOCK INSTANCE FOR BACKUP)"
	case l.rows:
		return "row locks and uses the table " + l.schema + "." + l.name
	case l.kind == "TABLE":
		return "a lock on the table " + l.schema + "." + l.name
	case l.kind == "SCHEMA":
		return "a lock on the database " + l.schema
	case l.mode == "SHARED":
		return "the global read lock (FLUSH TABLES WITH READ LOCK)"
	}
	return "a lock for writing"
}

// heldUp returns err with the names of those that kept a statement waiting, when that is why it failed. To read them takes no lock that they
// may have.
func (s *Session) heldUp(ctx context.Context, query string, err error) error {
	if !IsServerError(err, mysql.ErLockWaitTimeout) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", mysql.ErrBlocked, s.Holders(ctx, query), err)
}

// Holders says who keeps a statement of the operator's waiting, or why that is not known. Those are the sessions that have a lock in its way.
// Where there is none, it is one that waits itself, ahead in the lock's queue, and those that have what that one waits for.
func (s *Session) Holders(ctx context.Context, query string) string {
	tables := ownTables(query)
	found, err := s.locks(ctx, inTheWay(query, tables))
	if err == nil && len(found) > 0 && found[0].Waits {
		found, err = s.queue(ctx, found[0])
	} else {
		found = slices.DeleteFunc(found, func(l lock) bool { return l.Waits })
	}
	if err == nil && len(found) == 0 && len(tables) > 0 {
		found, err = s.rowLocks(ctx, tables)
	}
	return s.named(ctx, found, err)
}

// WritersAmong says what those of some sessions do that keep the server from becoming read-only.
func (s *Session) WritersAmong(ctx context.Context, sessions []uint64) string {
	found, err := s.locks(ctx, keepsWritable+" AND FIND_IN_SET(t.PROCESSLIST_ID, ?)", List(sessions))
	return s.named(ctx, found, err)
}

// queue returns those that have the lock which one waits for, then that one.
func (s *Session) queue(ctx context.Context, waits lock) ([]lock, error) {
	found, err := s.locks(ctx, "l.LOCK_STATUS = 'GRANTED' AND l.OBJECT_TYPE = ? AND COALESCE(l.OBJECT_SCHEMA, '') = ? AND COALESCE(l.OBJECT_NAME, '') = ? AND l.LOCK_TYPE <> ?",
		waits.kind, waits.schema, waits.name, waits.mode)
	found = slices.DeleteFunc(found, func(l lock) bool { return l.Connection != 0 && l.Connection == waits.Connection })
	return append(found[:min(len(found), mostHolders-1)], waits), err
}

// rowLocks reads which transactions use one of the tables and have locked rows. performance_schema.data_lock_waits shows a wait only while it
// lasts, and data_locks is not read, because a condition on the table does not keep it from visiting all row locks of the server.
func (s *Session) rowLocks(ctx context.Context, tables []string) ([]lock, error) {
	found, err := s.locks(ctx, ofTables(tables)+" AND l.LOCK_STATUS = 'GRANTED' AND l.LOCK_DURATION = 'TRANSACTION' AND (t.THREAD_ID IS NULL OR x.trx_rows_locked > 0 OR x.trx_id IS NULL AND l.LOCK_TYPE = 'SHARED_WRITE')")
	for i := range found {
		found[i].rows = true
	}
	return found, err
}

// locks reads locks that meet a condition.
func (s *Session) locks(ctx context.Context, condition string, args ...any) (found []lock, err error) {
	err = s.Rows(ctx, fmt.Sprintf(lockRows, condition), args, func(rows *sql.Rows) error {
		var l lock
		var since int64
		if err := rows.Scan(&l.Connection, &l.User, &l.Host, &l.Thread, &l.Commits, &l.Does, &since, &l.threadless, &l.kind, &l.schema, &l.name, &l.mode, &l.Waits); err != nil {
			return err
		}
		l.Since = time.Unix(since, 0)
		found = append(found, l)
		return nil
	})
	if err == nil && slices.ContainsFunc(found, func(l lock) bool { return l.threadless }) {
		err = s.prepared(ctx, found)
	}
	return found, err
}

// prepared marks the locks of prepared XA transactions. Such a transaction outlives its session, and the server's run.
func (s *Session) prepared(ctx context.Context, found []lock) error {
	var all []string
	err := s.Rows(ctx, "XA RECOVER CONVERT XID", nil, func(rows *sql.Rows) error {
		var format int64
		var gtrid, bqual int
		var data string
		if err := rows.Scan(&format, &gtrid, &bqual, &data); err != nil {
			return err
		}
		id, err := hex.DecodeString(strings.TrimPrefix(data, "0x"))
		if err != nil || len(id) != gtrid+bqual {
			return fmt.Errorf("XA RECOVER names a transaction of %d and %d bytes as %q", gtrid, bqual, data)
		}
		all = append(all, fmt.Sprintf("X'%X',X'%X',%d", id[:gtrid], id[gtrid:], format))
		return nil
	})
	if err != nil || len(all) == 0 {
		return err
	}
	for i := range found {
		if found[i].threadless {
			found[i].Holder = mysql.Holder{Prepared: true, Waits: found[i].Waits}
			if len(all) == 1 {
				found[i].XID = all[0]
			}
		}
	}
	return nil
}

// named names each of the first that hold locks once, or says why none is known.
func (s *Session) named(ctx context.Context, found []lock, err error) string {
	var texts []string
	seen := map[uint64]bool{}
	for _, l := range found {
		l.Lock = l.words()
		if text := l.String(); !seen[l.Connection] && !slices.Contains(texts, text) && len(texts) < mostHolders {
			seen[l.Connection] = l.Connection != 0
			texts = append(texts, text)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "; ")
	}
	var blind bool
	if err == nil {
		err = s.Row(ctx, Blindness, nil, &blind)
	}
	switch {
	case err != nil:
		return "the holder is not known: " + ServerWords(err)
	case blind:
		return "the holder is not known, because the Performance Schema does not show locks: the instrument wait/lock/metadata/sql/mdl or the consumer global_instrumentation is off"
	}
	return "the holder is not known: the Performance Schema shows none"
}

// ownTable finds the tables of the operator's own database in its statements.
var ownTable = regexp.MustCompile(`\b` + mysql.Database + `\.(\w+)`)

// ownTables returns the names of the operator's own tables in a statement of its own.
func ownTables(query string) []string {
	var names []string
	for _, match := range ownTable.FindAllStringSubmatch(query, -1) {
		names = append(names, match[1])
	}
	return names
}

// ofTables is the condition for locks on tables of the operator's own database.
func ofTables(names []string) string {
	return "l.OBJECT_TYPE = 'TABLE' AND l.OBJECT_SCHEMA = '" + mysql.Database + "' AND l.OBJECT_NAME IN ('" + strings.Join(names, "', '") + "')"
}

// inTheWay is the condition for locks that a statement has to wait for, whether somebody has them or waits for them. tables are those of the
// operator's that it is about.
func inTheWay(query string, tables []string) string {
	global, table := "'GLOBAL', 'COMMIT', 'BACKUP LOCK'", ""
	switch verb, rest, _ := strings.Cut(query, " "); verb {
	case "INSERT", "UPDATE", "DELETE", "REPLACE":
		global, table = "'GLOBAL', 'COMMIT'", " AND l.LOCK_TYPE IN ('SHARED_READ_ONLY', 'SHARED_NO_WRITE', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE')"
	case "SET":
		if strings.Contains(rest, "read_only") {
			return keepsWritable
		}
	}
	condition := "l.OBJECT_TYPE IN (" + global + ") AND l.LOCK_TYPE = 'SHARED' OR l.OBJECT_TYPE = 'SCHEMA' AND l.OBJECT_SCHEMA = '" + mysql.Database + "' AND l.LOCK_TYPE = 'EXCLUSIVE'"
	if len(tables) > 0 {
		condition += " OR " + ofTables(tables) + table
	}
	return condition
}

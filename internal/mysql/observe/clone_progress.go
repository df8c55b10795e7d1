package observe

import (
	"context"
	"database/sql"
	"sync"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// CloneRuns says whether a CLONE statement runs as a recipient, whether or not its client is still there. Its INFO is empty now
// and then; a session of ours that runs it holds CloneLock.
const CloneRuns = "(SELECT COUNT(*) > 0 FROM performance_schema.processlist WHERE INFO LIKE 'CLONE INSTANCE%' OR ID = IS_USED_LOCK('" + conn.CloneLock + "') AND USER = '" + mysql.OperatorUser + "' AND COMMAND <> 'Sleep')"

// cloneOutlived says whether the server that answers was started after the CLONE began. Until then a CLONE that no
// longer runs is one that is done and whose server is about to restart into it.
const cloneOutlived = "(SELECT COALESCE(TIMESTAMPDIFF(SECOND, s.BEGIN_TIME, NOW()), 0) > VARIABLE_VALUE + 1 FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime')"

// lastClone is how far the last CLONE of a run of mysqld had come when the server showed it last.
type lastClone struct {
	mu       sync.Mutex
	server   string
	run      int64 // 0 while nothing was shown
	progress *mysql.CloneProgress
}

// of returns what the run that is observed showed last; false if it has shown nothing yet.
func (l *lastClone) of(o mysql.Observation) (*mysql.CloneProgress, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress, o.Run != 0 && l.run == o.Run && l.server == o.ServerUUID
}

// keep remembers what the run that is observed shows.
func (l *lastClone) keep(o mysql.Observation, progress *mysql.CloneProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server, l.run, l.progress = o.ServerUUID, o.Run, progress
}

// readClone reads how far the last CLONE came, and whether the plug-in is loaded: ON, OFF, or empty while that is not known.
func (m *Observer) readClone(ctx context.Context, s *conn.Session, o mysql.Observation) (progress *mysql.CloneProgress, plugin string) {
	last := conn.State[lastClone](m.h)
	progress, err := cloneProgress(ctx, s)
	if err == nil {
		last.keep(o, progress)
		return progress, "ON"
	}
	if conn.IsServerError(err, mysql.ErNoSuchTable) {
		plugin = "OFF"
	}
	var runs bool
	runsErr := s.Row(ctx, "SELECT "+CloneRuns, nil, &runs)
	return last.refused(o, err, runs, runsErr), plugin
}

// refused returns what is known of the last CLONE where the server refuses to show it, with err. Whether one runs was read alone. If none does, what
// the same run of mysqld showed last still holds, but for one that ran: how that ended is not known.
func (l *lastClone) refused(o mysql.Observation, err error, runs bool, runsErr error) *mysql.CloneProgress {
	known, shown := l.of(o)
	switch {
	case runsErr != nil: // one may have begun since
	case runs:
		progress := &mysql.CloneProgress{State: mysql.CloneInProgress, Error: "its progress is not shown: " + conn.ServerWords(err)}
		l.keep(o, progress)
		return progress
	case shown && (known == nil || known.State != mysql.CloneInProgress):
		return known
	}
	return &mysql.CloneProgress{State: mysql.CloneUnread, Error: conn.ServerWords(err)}
}

// cloneProgress reads how far the last CLONE came; nil for none.
func cloneProgress(ctx context.Context, s *conn.Session) (progress *mysql.CloneProgress, err error) {
	err = s.Rows(ctx, `SELECT s.STATE, s.SOURCE, s.ERROR_MESSAGE, UNIX_TIMESTAMP(s.BEGIN_TIME), p.STAGE, p.STATE, p.ESTIMATE, p.DATA, `+CloneRuns+`, `+cloneOutlived+`
		FROM performance_schema.clone_status s LEFT JOIN performance_schema.clone_progress p ON p.ID = s.ID`, nil,
		func(rows *sql.Rows) error {
			var state, source, message, began, stage, stageState sql.Null[string]
			var estimate, data sql.Null[uint64]
			var runs, outlived bool
			if err := rows.Scan(&state, &source, &message, &began, &stage, &stageState, &estimate, &data, &runs, &outlived); err != nil {
				return err
			}
			if progress == nil {
				progress = &mysql.CloneProgress{State: state.V, Source: source.V, Error: message.V, Began: began.V}
				if state.V == mysql.CloneInProgress && !runs && (outlived || message.V != "") {
					progress.State = mysql.CloneInterrupted
				}
			}
			if stageState.V != "Not Started" && stage.V != "" {
				progress.Stage = stage.V
			}
			progress.BytesDone += data.V
			progress.BytesTotal += estimate.V
			return nil
		})
	return progress, err
}

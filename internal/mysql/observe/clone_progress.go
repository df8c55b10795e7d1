package observe

import (
	"context"
	"database/sql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// CloneRuns says whether a CLONE statement runs as a recipient, whether or not its client is still there. Its INFO is empty now
// and then; a session of ours that runs it holds CloneLock.
const CloneRuns = "(SELECT COUNT(*) > 0 FROM performance_schema.processlist WHERE INFO LIKE 'CLONE INSTANCE%' OR ID = IS_USED_LOCK('" + conn.CloneLock + "') AND USER = '" + mysql.OperatorUser + "' AND COMMAND <> 'Sleep')"

// cloneOutlived says whether the server that answers was started after the CLONE began. Until then a CLONE that no
// longer runs is one that is done and whose server is about to restart into it.
const cloneOutlived = "(SELECT COALESCE(TIMESTAMPDIFF(SECOND, s.BEGIN_TIME, NOW()), 0) > VARIABLE_VALUE + 1 FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime')"

// readClone reads how far the last CLONE came. Nothing depends on it alone, so that errors read as "never".
func readClone(ctx context.Context, s *conn.Session) *mysql.CloneProgress {
	var progress *mysql.CloneProgress
	err := s.Rows(ctx, `SELECT s.STATE, s.SOURCE, s.ERROR_MESSAGE, UNIX_TIMESTAMP(s.BEGIN_TIME), p.STAGE, p.STATE, p.ESTIMATE, p.DATA, `+CloneRuns+`, `+cloneOutlived+`
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
	if err != nil {
		return nil
	}
	return progress
}

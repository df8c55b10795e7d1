package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestSkippedTransactions: a transaction at which the applier stopped, and that counts as executed later, is looked for in the replica's
// binary log. One that is empty there, or not there, was skipped by a person.
func TestSkippedTransactions(t *testing.T) {
	const one = primaryUUID + ":7"
	rows := []mysql.LoggedTransaction{{GTID: one, Statements: []string{"BEGIN"}, Others: 3}}
	empty := []mysql.LoggedTransaction{{GTID: one, Statements: []string{"BEGIN", "COMMIT"}}}
	refused := "Coordinator stopped because there were error(s) in the worker(s). The most recent failure being: Worker 1 failed executing transaction '" + one + "' at source log binlog.000002, end_log_pos 3141."
	for name, row := range map[string]struct {
		failure  string
		executed string
		found    []mysql.LoggedTransaction
		err      error
		asked    bool
		skipped  string
		unread   string
	}{
		"it was applied after all":     {refused, one, rows, nil, true, "", ""},
		"it is empty":                  {refused, one, empty, nil, true, one, ""},
		"it is not there":              {refused, one, nil, nil, true, one, ""},
		"the log cannot be read":       {refused, one, nil, errors.New("purged"), true, "", one},
		"it is not executed yet":       {refused, primaryUUID + ":1-6", nil, nil, false, "", ""},
		"the applier stopped for else": {"a worker was killed", one, empty, nil, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := &loggingServer{found: row.found, err: row.err}
			k, stage := NewLooks(), &stage{}
			passes := 0
			look := func(executed, failure string, run int64) topology.ApplierStops {
				o := errantOn(executed, run)
				o.Now = o.Now.Add(time.Duration(passes) * skipAgain)
				passes++
				o.Members["orders-1"].SQL.Replication.ApplierError = failure
				k.findSkipped(t.Context(), o, LookPorts{Threads: threads{stage}, Server: func(context.Context, *topology.Member) LookedAt { return server }})
				return o.Members["orders-1"].SQL.Replication.Stops
			}
			look(primaryUUID+":1-6", row.failure, 1)
			stage.hangs = true
			if stops := look(row.executed, "", 1); stops.Reading != row.asked || !stops.Skipped.IsEmpty() || !stops.Unread.IsEmpty() {
				t.Errorf("while the log is read: %+v", stops)
			}
			for range 2 * logTries { // a search is begun in the pass after the one in which another failed
				for _, answer := range stage.hung {
					answer()
				}
				stage.hung = nil
				look(row.executed, "", 1)
			}
			if stops := look(row.executed, "", 1); stops.Skipped.String() != row.skipped || stops.Unread.String() != row.unread || stops.Reading {
				t.Errorf("%+v, want skipped %q, unread %q; asked for %q", stops, row.skipped, row.unread, server.asked)
			}
			if stops := look(row.executed, "", 2); stops.Reading || !stops.Skipped.IsEmpty() || !stops.Unread.IsEmpty() {
				t.Errorf("after another start of mysqld: %+v", stops)
			}
		})
	}
}

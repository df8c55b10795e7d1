package observe

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// StrangerThreads are the sessions that read the binary log with semi-sync on and another account than the members'. A
	// replica asks for semi-sync by a user variable, whose name was rpl_semi_sync_slave before MySQL 8.0.26.
	StrangerThreads = `FROM performance_schema.threads WHERE PROCESSLIST_COMMAND IN ('Binlog Dump', 'Binlog Dump GTID') AND PROCESSLIST_USER <> '` + mysql.ReplicationUser + `'
		AND EXISTS (SELECT 1 FROM performance_schema.user_variables_by_thread v WHERE v.THREAD_ID = threads.THREAD_ID
			AND v.VARIABLE_NAME IN ('rpl_semi_sync_replica', 'rpl_semi_sync_slave') AND v.VARIABLE_VALUE NOT IN ('', '0'))`
)

// strangersIn returns them from accounts by connection id, in order.
func strangersIn(facts map[string]string) []mysql.Stranger {
	var found []mysql.Stranger
	for session, account := range facts {
		if id, err := strconv.ParseUint(session, 10, 64); err == nil {
			found = append(found, mysql.Stranger{Session: id, Account: account})
		}
	}
	slices.SortFunc(found, func(a, b mysql.Stranger) int { return cmp.Compare(a.Session, b.Session) })
	return found
}

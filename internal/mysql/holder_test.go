package mysql

import (
	"testing"
	"time"
)

// TestHolderSaysWhoAndHowThatEnds: the cases that a real server does not show by itself in a test of the prober.
func TestHolderSaysWhoAndHowThatEnds(t *testing.T) {
	since := time.Date(2026, 1, 2, 14, 2, 0, 0, time.UTC)
	const row = "row locks and uses the table nairobi_mysql.heartbeat"
	for want, h := range map[string]Holder{
		"connection 7 (app@10.0.1.7), in a transaction since 14:02 UTC on 2 Jan, holds " + row + "; it ends when replicas acknowledge its commit, and KILL does not end it":                       {Connection: 7, User: "app", Host: "10.0.1.7", Commits: true, Does: "in a transaction", Since: since, Lock: row},
		"a transaction without a connection holds " + row + "; it ends by itself":                                                                                                                 {Lock: row},
		"MySQL's own thread thread/sql/compress_gtid_table holds " + row + "; it ends by itself":                                                                                                  {Thread: "thread/sql/compress_gtid_table", Lock: row},
		"connection 8 (nairobi_operator@10.0.0.9), the operator, holds " + row + "; it ends by itself":                                                                                            {Connection: 8, User: OperatorUser, Host: "10.0.0.9", Lock: row},
		"connection 9 (system user), MySQL's replication, in a transaction since 14:02 UTC on 2 Jan, holds " + row + "; it ends with the transaction that is applied, see SHOW REPLICA STATUS":    {Connection: 9, User: "system user", Does: "in a transaction", Since: since, Lock: row},
		"connection 10 (nairobi_metrics@10.0.0.9), the metrics pod of the operator, waits for " + row + ", and this statement waits behind it; it ends within seconds":                            {Connection: 10, User: MetricsUser, Host: "10.0.0.9", Waits: true, Lock: row},
		"connection 11 (nairobi_replication@10.0.0.9), a replica that copies or replicates, running CLONE since 14:02 UTC on 2 Jan, holds the backup lock; it ends when the replica has its copy": {Connection: 11, User: ReplicationUser, Host: "10.0.0.9", Does: "running CLONE", Since: since, Lock: "the backup lock"},
		"connection 12 (nairobi_backup@x@10.0.1.7) holds " + row + "; KILL 12 ends it":                                                                                                            {Connection: 12, User: "nairobi_backup@x", Host: "10.0.1.7", Lock: row},
	} {
		if got := h.String(); got != want {
			t.Errorf("%s\nwant: %s", got, want)
		}
	}
}

package probe

import (
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// heartbeat is the write of the prober. It goes through the binary log and waits for acknowledgements like a client's. In the same
// round trip it reads what a commit rests on: the statement's insert id, which MySQL returns with its OK, holds refusals in the upper
// 32 bits and a checksum of the commit settings in the lower ones. The checksum says only that something has changed; a look at the
// member says what. JSON sorts its keys, and no variable limits its length as group_concat_max_len does that of GROUP_CONCAT.
const (
	heartbeat      = "INSERT INTO nairobi_mysql.heartbeat (id, at) VALUES (1 + 0 * LAST_INSERT_ID(" + commitFacts + "), NOW(6)) ON DUPLICATE KEY UPDATE at = NOW(6)"
	plainHeartbeat = "INSERT INTO nairobi_mysql.heartbeat (id, at) VALUES (1, NOW(6)) ON DUPLICATE KEY UPDATE at = NOW(6)"

	commitFacts = `((@@GLOBAL.read_only | @@GLOBAL.offline_mode << 1 | @@GLOBAL.transaction_read_only << 2) << 32) | CRC32(CONCAT_WS(' ',
		@@GLOBAL.rpl_semi_sync_source_enabled, @@GLOBAL.rpl_semi_sync_source_wait_for_replica_count, @@GLOBAL.rpl_semi_sync_source_timeout,
		@@GLOBAL.rpl_semi_sync_source_wait_point, @@GLOBAL.rpl_semi_sync_source_wait_no_replica, @@GLOBAL.sync_binlog, @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.binlog_format, @@GLOBAL.gtid_mode, @@GLOBAL.server_id,
		@@GLOBAL.autocommit, @@GLOBAL.completion_type, @@GLOBAL.protocol_compression_algorithms, @@GLOBAL.tls_version,
		(SELECT JSON_OBJECTAGG(VARIABLE_NAME, VARIABLE_VALUE) FROM performance_schema.global_status
			WHERE VARIABLE_NAME IN ('Innodb_redo_log_enabled', 'Rpl_semi_sync_source_clients', 'Rpl_semi_sync_source_no_times', 'Rpl_semi_sync_source_status'))))`
)

// plainFor is how long a server is written to without reading anything that did not know a variable.
const plainFor = time.Minute

// beatFacts is what a heartbeat brings back.
type beatFacts struct {
	refusals uint32
	settings uint32
}

// refusedBy are the variables of the bits of beatFacts.refusals.
var refusedBy = []string{"read_only", "offline_mode", "transaction_read_only"}

// refusal is why the server turns clients' writes away, nil when it takes them. The operator's account may write in spite of it.
func (f beatFacts) refusal() error {
	var on []string
	for bit, name := range refusedBy {
		if f.refusals&(1<<bit) != 0 {
			on = append(on, name)
		}
	}
	if len(on) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is ON", mysql.ErrClientsRefused, strings.Join(on, ", "))
}

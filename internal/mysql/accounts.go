package mysql

// OperatorUser is the account that the operator logs in with: no password, a certificate instead.
const OperatorUser = "nairobi_operator"

// ReplicationUser is the account that replicas use for replication and CLONE.
const ReplicationUser = "nairobi_replication"

// BackupUser is the account of the pods that back a cluster up: it reads everything, may hold the global read lock, and
// follows the binary log. It cannot write.
const BackupUser = "nairobi_backup"

// MetricsUser is the account of the pod that exports metrics and logs: it reads status and logs, and no data.
const MetricsUser = "nairobi_metrics"

// Database is the operator's own.
const Database = "nairobi_mysql"

// ReadLogFunction is the stored function in Database through which MetricsUser reads the general and the slow query log. It takes the name
// of a file and where to begin, and returns the size of the file and how much of its head follows, as text in a line, then up to
// LogHeadSize bytes of its head, then up to LogPartSize bytes from where to begin. It returns NULL where there is no such file, where it is
// longer than max_allowed_packet, and to others.
const ReadLogFunction = "read_log"

// Sizes in bytes of what ReadLogFunction returns at most.
const (
	LogHeadSize = 512
	LogPartSize = 1 << 20
)

package mysql

// OperatorUser is the account that the operator logs in with: no password, a certificate instead.
const OperatorUser = "nairobi_operator"

// ReplicationUser is the account that replicas use for replication and CLONE.
const ReplicationUser = "nairobi_replication"

// BackupUser is the account of the pods that back a cluster up: it reads everything, may hold the global read lock, and
// follows the binary log. It cannot write.
const BackupUser = "nairobi_backup"

// MetricsUser is the account of the pod that exports metrics: it reads status and no data.
const MetricsUser = "nairobi_metrics"

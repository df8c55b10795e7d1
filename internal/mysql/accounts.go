package mysql

// OperatorUser is the account that the operator logs in with: no password, a certificate instead.
const OperatorUser = "nairobi_operator"

// ReplicationUser is the account that replicas use for replication and CLONE.
const ReplicationUser = "nairobi_replication"

// ReplicationAccount returns the statements that make the account of ReplicationUser what it has to be, whether or not it is there. Only a
// certificate of the issuer, which is an SQL string, opens it; the empty password is given as a hash, which no password policy is applied to.
// A limit of its own keeps max_user_connections from it: a server takes that for accounts that have none.
func ReplicationAccount(issuer string) []string {
	const account = "'" + ReplicationUser + "'@'%'"
	login := account + " IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER " + issuer
	return []string{
		"CREATE USER IF NOT EXISTS " + login,
		"ALTER USER " + login + " WITH MAX_USER_CONNECTIONS 1000 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK",
		"GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO " + account,
	}
}

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

package mysql

// SourceTimeout is the semi-sync time-out of a source in milliseconds: 49 days, the largest value that MySQL takes, so
// that no outage ends in a commit without acknowledgement.
const SourceTimeout = "4294967295"

// PinnedSettings are the dynamic variables that the promise of no lost commit, or who gets in, rests on, with their values.
// Whoever changes them at run time is overruled by PinSettings. my.cnf sets those whose default is another.
// What belongs to a member's role (super_read_only, who waits, who acknowledges) is set by the methods for it.
func PinnedSettings() map[string]string {
	return map[string]string{
		"sync_binlog":                          "1",
		"binlog_error_action":                  "ABORT_SERVER", // else a full disk ends the log, and commits go on without it
		"innodb_flush_log_at_trx_commit":       "1",
		"innodb_doublewrite":                   "ON",
		"rpl_semi_sync_source_wait_point":      "AFTER_SYNC",
		"rpl_semi_sync_source_wait_no_replica": "ON",
		"rpl_semi_sync_source_timeout":         SourceTimeout,
		"replica_net_timeout":                  "4",   // seconds; with a heartbeat of 1 s (fact 14)
		BinlogFormat:                           "ROW", // a statement may do something else on a replica
		GTIDMode:                               "ON",
		"enforce_gtid_consistency":             "ON",
		"replica_exec_mode":                    "STRICT", // IDEMPOTENT passes over rows that are missing, or there already
		"require_secure_transport":             "ON",
		"init_connect":                         "", // it runs for the accounts of replicas and pods too, and turns away whom it fails for
		"innodb_checksum_algorithm":            "crc32",
		"innodb_log_checksums":                 "ON",
		"innodb_redo_log_encrypt":              "OFF", // members have no keyring
		"innodb_undo_log_encrypt":              "OFF",
		// What a client's COMMIT is: without autocommit a statement is answered, and gone with its session.
		"autocommit":                 "ON",
		"completion_type":            "NO_CHAIN",
		"binlog_order_commits":       "ON",
		"default_storage_engine":     "InnoDB",
		"default_tmp_storage_engine": "InnoDB",
		// Without TLS, or without "uncompressed", nobody gets in any more; who is in stays.
		"protocol_compression_algorithms": "zlib,zstd,uncompressed",
		"tls_version":                     "TLSv1.2,TLSv1.3",
		"ssl_ca":                          TLSDir + "ca.pem",
		"ssl_cert":                        TLSDir + "current.pem",
		"ssl_key":                         TLSDir + "member.key",
		// What a replica receives and how it applies that: it stops at an event that is larger, at a statement of init_replica that fails, and
		// makes other values of those that do not fit.
		"init_replica":               "",
		"replica_max_allowed_packet": "1073741824",
		"replica_type_conversions":   "",
	}
}

// TLSDir is where an instance keeps its certificate and its key, which cannot be read over SQL.
const TLSDir = "/etc/nairobi-mysql/tls/"

// TLSInForce are the pinned variables that count from ALTER INSTANCE RELOAD TLS on, with the properties in tls_channel_status that hold the
// values which are in force.
func TLSInForce() map[string]string {
	return map[string]string{
		"tls_version": "Current_tls_version", "ssl_ca": "Current_tls_ca", "ssl_cert": "Current_tls_cert", "ssl_key": "Current_tls_key",
	}
}

// ReadOnlyPins are those that only my.cnf and a restart can change: Observe shows them, nothing can put them back. A member
// on which one differs was tampered with, and keeps none of the promises that a vote rests on.
func ReadOnlyPins() map[string]string {
	return map[string]string{
		"relay_log_recovery":            "OFF", // ON throws away what was acknowledged but not applied (fact 10)
		"log_bin":                       "ON",
		"log_replica_updates":           "ON",
		"performance_schema":            "ON", // half of what Observe reads comes from it
		"skip_replica_start":            "ON",
		"replica_skip_errors":           "OFF",
		"disabled_storage_engines":      "MyISAM,ARCHIVE,BLACKHOLE,CSV,FEDERATED,MERGE,MRG_MYISAM,EXAMPLE,MEMORY",
		"innodb_force_recovery":         "0",  // with more, InnoDB passes over what it cannot read
		"replica_preserve_commit_order": "ON", // dynamic, but only while the applier stands still
	}
}

// BinlogFormat is the variable that says whether replicas get rows or statements.
const BinlogFormat = "binlog_format"

// GTIDMode is the variable that says whether transactions have a GTID. It changes by one step at a time.
const GTIDMode = "gtid_mode"

// ServerID is the variable that a server is known by to its sources. A replica drops what bears its own.
const ServerID = "server_id"

// RedoLog is the name of what a server says of its redo log, ON or OFF: a status variable, which ALTER INSTANCE changes. Without one a server that ends
// in any other way than by a shutdown has lost all of its data.
const RedoLog = "innodb_redo_log_enabled"

// ClonePlugin is the name of what a server says of its plug-in of CLONE, ON or OFF. UNINSTALL PLUGIN takes it away with the tables that show how
// far a CLONE came.
const ClonePlugin = "clone_plugin"

// SuperReadOnly is the variable that keeps accounts with SUPER from writing beside read_only. A server with read_only alone is half open.
const SuperReadOnly = "super_read_only"

// MaxConnections is the variable that says how many connections a server takes.
const MaxConnections = "max_connections"

// RelaySync is the variable that says after how many events a replica syncs its relay log. my.cnf has 1; a replica that
// acknowledges from memory runs with 10000 (topology/acknowledging.go, docs/lossless.md).
const RelaySync = "sync_relay_log"

// PartialRevokes is the variable that says whether names of databases in privileges are literal, or patterns in which _ and % stand for others.
const PartialRevokes = "partial_revokes"

// PersistedLoad is OFF on a server that was started without what is persisted.
const PersistedLoad = "persisted_globals_load"

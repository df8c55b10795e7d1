package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
)

// ownedGroup is a set of mysqld settings that spec.mysqld refuses for one reason.
type ownedGroup struct {
	// reason follows the setting's name in a message. It says whose the setting is, and what to do instead.
	reason string
	// names are whole names of settings.
	names []string
	// families are beginnings of names: a family refuses every setting that begins so.
	families []string
}

// ownedGroups is the one place that says which settings of mysqld are not a user's. The names are those of MySQL 8.4 and
// 9.7 (Reference Manual, "Server Option, System Variable, and Status Variable Reference"), and older spellings that
// either of them, or the series before, still understood.
// The CEL rules of spec.mysqld are rendered from it; a test holds the two together.
func ownedGroups() []ownedGroup {
	return append(replicatedGroups(), serverGroups()...)
}

// replicatedGroups are the settings that decide what the members hold, who may write, and what a commit is worth.
func replicatedGroups() []ownedGroup {
	return []ownedGroup{
		{
			reason: "replication, its identity and its logs are set up by the operator; choose what it promises with spec.replication",
			names: []string{
				"server_id", "server_id_bits", "server_uuid", "enforce_gtid_consistency", "log_bin", "log_bin_basename",
				"log_bin_index", "log_bin_use_v1_row_events", "sql_log_bin", "binlog_format", "binlog_gtid_simple_recovery",
				"binlog_do_db", "binlog_ignore_db", "binlog_order_commits", "log_replica_updates", "log_slave_updates",
				"max_relay_log_size", "sync_source_info", "sync_master_info", "rbr_exec_mode", "sql_replica_skip_counter",
				"sql_slave_skip_counter",
			},
			families: []string{
				"gtid_", "relay_log", "sync_relay_log", "replica_", "slave_", "replicate_", "rpl_", "source_", "master_", "report_",
				"init_replica", "init_slave", "group_replication", "clone_",
			},
		},
		{
			reason: "who may write is decided by the operator; write through the Service <name>-primary, read through <name>-replicas",
			names: []string{
				"read_only", "super_read_only", "transaction_read_only", "tx_read_only", "innodb_read_only", "offline_mode",
				"autocommit", "completion_type",
			},
		},
		{
			reason: "what makes a commit durable is fixed by the operator; spec.replication.durability: Async is the faster promise",
			names: []string{
				"sync_binlog", "binlog_error_action", "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_force_recovery",
				"innodb_force_load_corrupted", "tc_heuristic_recover", "innodb_checksum_algorithm", "innodb_log_checksums", "disabled_storage_engines", "default_storage_engine", "default_tmp_storage_engine",
			},
			families: []string{"innodb_doublewrite"},
		},
	}
}

// serverGroups are the settings of the server around the data: who gets in, where things are, what code runs.
func serverGroups() []ownedGroup {
	return []ownedGroup{
		{
			reason: "certificates, TLS and the way accounts log in belong to the operator; members and clients get theirs from the CA of the cluster",
			names: []string{
				"ssl", "require_secure_transport", "auto_generate_certs", "have_ssl", "default_authentication_plugin",
				"protocol_compression_algorithms", // without "uncompressed" neither the operator nor the replicas get in
			},
			families: []string{
				"ssl_", "tls_", "admin_", "authentication_", "sha256_password_", "caching_sha2_password_", "persist_only_admin",
			},
		},
		{
			reason: "addresses, ports, paths and the process itself belong to the operator; choose the volume with spec.storage, the image with spec.aws",
			names: []string{
				"port", "port_open_timeout", "bind_address", "socket", "datadir", "basedir", "tmpdir", "pid_file", "user", "chroot",
				"lc_messages_dir", "character_sets_dir", "secure_file_priv", "general_log_file", "slow_query_log_file",
				"innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory", "innodb_tmpdir", "innodb_directories",
				"innodb_redo_log_archive_dirs", "innodb_buffer_pool_filename", "performance_schema",
				// What stands in a demotion's way, and who is connected, is read there.
				"performance_schema_max_metadata_locks", "performance_schema_max_thread_instances", "performance_schema_max_thread_classes",
				"log_raw", "memlock", "daemonize", "console", "bootstrap",
				"upgrade", "validate_config", "help", "verbose", "version", "print_defaults", "no_defaults", "symbolic_links",
				"external_locking", "create_admin_listener_thread", "persisted_globals_load", "core_file", "gdb", "exit_info",
				"allow_suspicious_udfs", "safe_user_create", "no_monitor", "standalone",
				"persist_sensitive_variables_in_plaintext",
			},
			families: []string{
				"mysqlx", "log_error", "innodb_temp_", "defaults_", "initialize", "debug", "named_pipe", "shared_memory",
				"performance_schema_instrument", "performance_schema_consumer",
			},
		},
		{
			reason:   "plug-ins, components and start-up statements could run code beside the operator; do it with SQL on the primary instead",
			names:    []string{"early_plugin_load", "init_file", "init_connect"},
			families: []string{"plugin", "component", "keyring_"},
		},
		{
			reason: "encryption inside MySQL needs a keyring, which members do not have; spec.storage.encrypted, which is the default, encrypts the whole volume",
			names: []string{
				"default_table_encryption", "table_encryption_privilege_check", "innodb_encrypt_online_alter_logs",
				"innodb_redo_log_encrypt", "innodb_undo_log_encrypt", "binlog_encryption", "binlog_rotate_encryption_master_key_at_startup",
			},
		},
		{
			reason: "this is fixed when a data directory is made and could only stop the server from starting; leave it out",
			names:  []string{"lower_case_table_names", "innodb_page_size", "innodb_data_file_path", "innodb_log_files_in_group"},
		},
		{
			reason: "it cuts what every session reads, those that copy the data too; set it in the session that needs it",
			names:  []string{"sql_select_limit", "sql_big_selects"},
		},
		{
			reason:   "write the variable itself: beginnings that change the meaning of an option (loose, skip, enable, disable, maximum) are not taken",
			families: []string{"loose_", "skip_", "enable_", "disable_", "maximum_"},
		},
	}
}

// tunable are settings that are a user's although their names begin an owned one, which would otherwise make them
// count as abbreviations of it.
func tunable() []string {
	return []string{"general_log", "slow_query_log"}
}

// OwnedSetting tells whether spec.mysqld refuses a setting, and if so why, in words that follow the setting's name.
// It takes a name as a user might write it, with hyphens or underscores and in any case, and counts an abbreviation as the
// whole, because mysqld takes an unambiguous beginning of an option's name for the option.
func OwnedSetting(name string) (reason string, owned bool) {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if name == "" || slices.Contains(tunable(), name) {
		return "", false
	}
	for _, group := range ownedGroups() {
		if group.holds(name) {
			return group.reason, true
		}
	}
	return "", false
}

func (g ownedGroup) holds(name string) bool {
	for _, whole := range g.names {
		if strings.HasPrefix(whole, name) {
			return true
		}
	}
	for _, beginning := range g.families {
		if strings.HasPrefix(beginning, name) || strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}

// marker renders the group as the marker that makes the API server refuse its settings.
func (g ownedGroup) marker() string {
	name := "k.lowerAscii().replace('-', '_')"
	var holds []string
	if len(g.names) > 0 {
		holds = append(holds, fmt.Sprintf("[%s].exists(o, o.startsWith(%s))", quoted(g.names), name))
	}
	if len(g.families) > 0 {
		holds = append(holds, fmt.Sprintf("[%s].exists(o, o.startsWith(%s) || %s.startsWith(o))", quoted(g.families), name, name))
	}
	condition := fmt.Sprintf("!(%s in [%s]) && (%s)", name, quoted(tunable()), strings.Join(holds, " || "))
	return fmt.Sprintf(
		`// +kubebuilder:validation:XValidation:rule="!self.exists(k, %s)",messageExpression="'remove ' + self.filter(k, %s)[0] + ': %s'"`,
		condition, condition, g.reason)
}

func quoted(names []string) string {
	return "'" + strings.Join(names, "', '") + "'"
}

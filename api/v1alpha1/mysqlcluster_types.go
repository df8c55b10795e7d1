package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MySQLClusterSpec says what a user wants.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.database) || has(self.database)",message="database cannot be taken out of the spec again: its data would stay on the members. Put it back; to give the database up, drop it with SQL"
// +kubebuilder:validation:XValidation:rule="has(self.bootstrap) == has(oldSelf.bootstrap) && (!has(self.bootstrap) || self.bootstrap == oldSelf.bootstrap)",message="bootstrap cannot be changed: it counts when a cluster is made. To restore something else, make a new cluster"
// +kubebuilder:validation:XValidation:rule="self.version == oldSelf.version || !has(self.aws.download) || !has(self.aws.download.url) || !self.aws.download.url.contains(oldSelf.version) || self.aws.download.url.contains(self.version)",messageExpression="'aws.download.url names the tarball of ' + oldSelf.version + ': set it, and sha256, to the tarball of ' + self.version + ', or set aws.download.mirror, where each version is found by itself'"
// +settings:begin
// +kubebuilder:validation:XValidation:rule="!self.version.startsWith('8.4.') || !has(self.mysqld) || !self.mysqld.exists(k, k in ['activate_mandatory_roles', 'connection_memory_status_limit', 'enable_cascade_triggers', 'enable_secondary_engine_statistics', 'global_connection_memory_status_limit', 'performance_schema_max_logger_classes', 'table_open_cache_triggers'])",messageExpression="'remove ' + self.mysqld.filter(k, k in ['activate_mandatory_roles', 'connection_memory_status_limit', 'enable_cascade_triggers', 'enable_secondary_engine_statistics', 'global_connection_memory_status_limit', 'performance_schema_max_logger_classes', 'table_open_cache_triggers'])[0] + ' from spec.mysqld: MySQL 8.4 has no such variable, MySQL 9.7 has it'"
// +kubebuilder:validation:XValidation:rule="!self.version.startsWith('9.7.') || !has(self.mysqld) || !self.mysqld.exists(k, k in ['innodb_log_file_size', 'mysql_native_password_proxy_users', 'temptable_use_mmap'])",messageExpression="'remove ' + self.mysqld.filter(k, k in ['innodb_log_file_size', 'mysql_native_password_proxy_users', 'temptable_use_mmap'])[0] + ' from spec.mysqld: MySQL 9.7 has no such variable, MySQL 8.4 has it'"
// +kubebuilder:validation:XValidation:rule="(has(self.mysqld) && 'lower_case_table_names' in self.mysqld ? self.mysqld['lower_case_table_names'] : '0') == (has(oldSelf.mysqld) && 'lower_case_table_names' in oldSelf.mysqld ? oldSelf.mysqld['lower_case_table_names'] : '0')",message="mysqld.lower_case_table_names cannot be changed: MySQL fixes it when the data is made. Put the old value back; to change it, make a new cluster and load a dump"
// +settings:end
type MySQLClusterSpec struct {
	// Replicas is the number of members, the primary included: 1 to 9, 3 unless set.
	// With one member nothing is highly available; with two, writes wait after the loss of one (Lossless) until it is
	// replaced; an even number survives no more losses than the odd number below it.
	// Raising it seeds new members by CLONE. After lowering it, the members with the highest ordinals leave, one at a time and
	// when all others are well; what becomes of their volumes is decided by storage.deletionPolicy.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="a cluster has 1 to 9 members. To stop its instances and keep its data, set spec.hibernate to true: kubectl patch mysqlclusters.mysql.alx.ke NAME --type merge --patch '{\"spec\":{\"hibernate\":true}}'"
	// +kubebuilder:validation:Maximum=9
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Version is the exact version of MySQL, x.y.z. Supported are the LTS series 8.4 and 9.7.
	// It does not go down, because MySQL cannot read a newer data directory
	// (MySQL Reference Manual, "Downgrading MySQL"); 8.4 to 9.7 is a supported step from one LTS series to the next.
	// Only while an upgrade has not reached the primary it can be set back to what status.rollout.previousVersion says: members
	// that went ahead are then seeded anew from the others.
	// A change replaces the members' instances, one at a time, the replicas first and the primary after a switchover. Each
	// keeps its volume, of which a snapshot is taken before (kept 7 days). See spec.upgrade and spec.maintenanceWindow.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self.matches('^(8[.]4|9[.]7)[.](0|[1-9][0-9]{0,2})$')",message="must be the exact version of a supported series, 8.4.z or 9.7.z; for example 9.7.1"
	Version string `json:"version"`

	// MySQLD holds settings of mysqld: a system variable's name, in lower case with underscores, and its value.
	// At most 64 settings of together 4096 characters (they travel in an instance's user data, which EC2 limits to 16 KiB).
	// A changed dynamic variable takes effect at once (SET PERSIST); any other by a rolling RESTART, replicas first.
	// A setting that is taken out goes back to MySQL's default.
	// lower_case_table_names is taken when the cluster is made, and cannot be changed.
	// Refused is what the operator sets itself (replication, who may write, durability, TLS, addresses, paths, plug-ins) to
	// another value than it has, what MySQL does not persist, and what the series of spec.version does not have; the message
	// names the setting and says what to do instead. docs/settings.md lists every variable and option.
	// Values are written without quotes, lists without blanks.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9_]{1,63}([.][a-z0-9_]{1,63})?$'))",message="write each setting as the system variable's name, in lower case with underscores, at most 64 characters; for example max_connections"
	// +kubebuilder:validation:XValidation:rule="self.map(k, size(k) + size(self[k])).sum() <= 4096",message="the settings are longer than 4096 characters together: leave out those that equal MySQL's default"
	// +settings:begin
	// +kubebuilder:validation:XValidation:rule="!('innodb_buffer_pool_size' in self) || self['innodb_buffer_pool_size'].matches('^([0-9]{1,13}|[0-9]{1,10}[kK]|[0-9]{1,7}[mM]|[0-9]{1,4}[gG])$')",message="innodb_buffer_pool_size must be a number of bytes, or a number with K, M or G, of at most 9999G; leave it out to have MySQL take what suits the instance type"
	// +kubebuilder:validation:XValidation:rule="!('max_allowed_packet' in self) || self['max_allowed_packet'].matches('^(209715[2-9]|20971[6-9][0-9]|2097[2-9][0-9]{2}|209[89][0-9]{3}|2[1-9][0-9]{5}|[3-9][0-9]{6}|[1-9][0-9]{7,}|(204[89]|20[5-9][0-9]|2[1-9][0-9]{2}|[3-9][0-9]{3}|[1-9][0-9]{4,})[kK]|([2-9]|[1-9][0-9]+)[mM]|[1-9][0-9]*[gG])$')",message="max_allowed_packet must be at least 2M, as a number of bytes or with K, M or G: CLONE, by which members get their data, refuses less"
	// +kubebuilder:validation:XValidation:rule="!('binlog_expire_logs_seconds' in self) || self['binlog_expire_logs_seconds'].matches('^(0|3[6-9][0-9]{2}|[4-9][0-9]{3}|[1-9][0-9]{4,})$')",message="binlog_expire_logs_seconds must be at least 3600 (an hour), or 0 for never: a replica that is copied or restarted needs the binary logs of that time from the primary, and so does the archive"
	// +kubebuilder:validation:XValidation:rule="!('event_scheduler' in self) || self['event_scheduler'].matches('^([oO][nN]|[oO][fF][fF]|0|1)$')",message="event_scheduler must be ON or OFF: MySQL takes DISABLED only when it starts, and not from what is set while it runs"
	// +kubebuilder:validation:XValidation:rule="!('thread_handling' in self) || self['thread_handling'].matches('^(one-thread-per-connection)$')",message="thread_handling must be one-thread-per-connection, the default of MySQL: with one thread for all, nobody gets in beside the operator; leave it out"
	// +kubebuilder:validation:XValidation:rule="!('lower_case_table_names' in self) || self['lower_case_table_names'].matches('^(0|1)$')",message="lower_case_table_names must be 0 or 1: on Linux MySQL takes no other value"
	// +kubebuilder:validation:XValidation:rule="!('replica_parallel_workers' in self) || self['replica_parallel_workers'].matches('^([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-6])$')",message="replica_parallel_workers must be from 1 to 256 threads; 16 unless set, about 4 for each vCPU where there are more than 4"
	// +kubebuilder:validation:XValidation:rule="!('replica_pending_jobs_size_max' in self) || self['replica_pending_jobs_size_max'].matches('^((1[6-9]|[2-9][0-9]|[1-9][0-9]{2,5})[mM]|[1-9][0-9]{0,2}[gG]|(16[89][0-9]{5}|1[7-9][0-9]{6}|[2-9][0-9]{7}|[1-9][0-9]{8,11}))$')",message="replica_pending_jobs_size_max must be at least 16M, as a number of bytes (16800000 or more) or with M or G: with less a replica applies one large transaction at a time"
	// +kubebuilder:validation:XValidation:rule="!('tls_ciphersuites' in self) || self['tls_ciphersuites'].matches('^(TLS_(AES_128_GCM_SHA256|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)(:TLS_(AES_128_GCM_SHA256|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)){0,2})$')",message="tls_ciphersuites must be one or more of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256, with colons between: the operator and the replicas connect with no others"
	// +kubebuilder:validation:XValidation:rule="!('log_output' in self) || self['log_output'].matches('^(([fF][iI][lL][eE]|[nN][oO][nN][eE])(,([fF][iI][lL][eE]|[nN][oO][nN][eE]))*)$')",message="log_output must be FILE or NONE: files are rotated, and LOAD_FILE reads them; the log tables grow for ever, and nobody can empty them on a replica"
	// +kubebuilder:validation:XValidation:rule="!('performance_schema_setup_actors_size' in self) || self['performance_schema_setup_actors_size'].matches('^(-1|1[6-9]|[2-9][0-9]|[1-9][0-9]{2,3})$')",message="performance_schema_setup_actors_size must be at least 16, or -1 for no fixed size: the operator names the memory of each mysqld there, without which it does not know what a replica has acknowledged"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['sql_mode', 'optimizer_switch', 'optimizer_trace', 'optimizer_trace_features', 'binlog_row_value_options', 'myisam_recover_options', 'innodb_monitor_enable', 'innodb_monitor_disable'] && !self[k].matches('^([^ ]*)$'))",messageExpression="self.filter(k, k in ['sql_mode', 'optimizer_switch', 'optimizer_trace', 'optimizer_trace_features', 'binlog_row_value_options', 'myisam_recover_options', 'innodb_monitor_enable', 'innodb_monitor_disable'] && !self[k].matches('^([^ ]*)$'))[0] + ' is a list: write it without blanks'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['server_id', 'server_id_bits', 'enforce_gtid_consistency', 'log_bin', 'log_bin_index', 'log_bin_use_v1_row_events', 'binlog_format', 'binlog_gtid_simple_recovery', 'binlog_do_db', 'binlog_ignore_db', 'binlog_order_commits', 'log_replica_updates', 'log_slave_updates', 'max_relay_log_size', 'sync_source_info', 'sync_master_info', 'rbr_exec_mode', 'sql_replica_skip_counter', 'sql_slave_skip_counter', 'skip_replica_start', 'skip_slave_start', 'gtid_executed', 'gtid_purged', 'gtid_owned'] || (!(k in ['clone_buffer_size', 'clone_max_concurrency', 'clone_max_data_bandwidth', 'clone_max_network_bandwidth', 'gtid_next', 'relay_log_basename', 'relay_log_space_limit', 'replica_parallel_workers', 'replica_pending_jobs_size_max']) && ['gtid_', 'relay_log', 'sync_relay_log', 'replica_', 'slave_', 'replicate_', 'rpl_', 'source_', 'master_', 'report_', 'init_replica', 'init_slave', 'group_replication', 'clone_', 'show_replica_auth_info', 'show_slave_auth_info'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['binlog_format=ROW', 'binlog_gtid_simple_recovery=1', 'binlog_gtid_simple_recovery=ON', 'binlog_gtid_simple_recovery=TRUE', 'binlog_gtid_simple_recovery=YES', 'binlog_order_commits=1', 'binlog_order_commits=ON', 'binlog_order_commits=TRUE', 'binlog_order_commits=YES', 'enforce_gtid_consistency=1', 'enforce_gtid_consistency=ON', 'gtid_mode=ON', 'log_replica_updates=1', 'log_replica_updates=ON', 'log_replica_updates=TRUE', 'log_replica_updates=YES', 'log_slave_updates=1', 'log_slave_updates=ON', 'log_slave_updates=TRUE', 'log_slave_updates=YES', 'relay_log_recovery=0', 'relay_log_recovery=FALSE', 'relay_log_recovery=NO', 'relay_log_recovery=OFF', 'replica_net_timeout=4', 'replica_parallel_type=LOGICAL_CLOCK', 'replica_preserve_commit_order=1', 'replica_preserve_commit_order=ON', 'replica_preserve_commit_order=TRUE', 'replica_preserve_commit_order=YES', 'skip_replica_start=1', 'skip_replica_start=ON', 'skip_replica_start=TRUE', 'skip_replica_start=YES']))",messageExpression="'remove ' + self.filter(k, (k in ['server_id', 'server_id_bits', 'enforce_gtid_consistency', 'log_bin', 'log_bin_index', 'log_bin_use_v1_row_events', 'binlog_format', 'binlog_gtid_simple_recovery', 'binlog_do_db', 'binlog_ignore_db', 'binlog_order_commits', 'log_replica_updates', 'log_slave_updates', 'max_relay_log_size', 'sync_source_info', 'sync_master_info', 'rbr_exec_mode', 'sql_replica_skip_counter', 'sql_slave_skip_counter', 'skip_replica_start', 'skip_slave_start', 'gtid_executed', 'gtid_purged', 'gtid_owned'] || (!(k in ['clone_buffer_size', 'clone_max_concurrency', 'clone_max_data_bandwidth', 'clone_max_network_bandwidth', 'gtid_next', 'relay_log_basename', 'relay_log_space_limit', 'replica_parallel_workers', 'replica_pending_jobs_size_max']) && ['gtid_', 'relay_log', 'sync_relay_log', 'replica_', 'slave_', 'replicate_', 'rpl_', 'source_', 'master_', 'report_', 'init_replica', 'init_slave', 'group_replication', 'clone_', 'show_replica_auth_info', 'show_slave_auth_info'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['binlog_format=ROW', 'binlog_gtid_simple_recovery=1', 'binlog_gtid_simple_recovery=ON', 'binlog_gtid_simple_recovery=TRUE', 'binlog_gtid_simple_recovery=YES', 'binlog_order_commits=1', 'binlog_order_commits=ON', 'binlog_order_commits=TRUE', 'binlog_order_commits=YES', 'enforce_gtid_consistency=1', 'enforce_gtid_consistency=ON', 'gtid_mode=ON', 'log_replica_updates=1', 'log_replica_updates=ON', 'log_replica_updates=TRUE', 'log_replica_updates=YES', 'log_slave_updates=1', 'log_slave_updates=ON', 'log_slave_updates=TRUE', 'log_slave_updates=YES', 'relay_log_recovery=0', 'relay_log_recovery=FALSE', 'relay_log_recovery=NO', 'relay_log_recovery=OFF', 'replica_net_timeout=4', 'replica_parallel_type=LOGICAL_CLOCK', 'replica_preserve_commit_order=1', 'replica_preserve_commit_order=ON', 'replica_preserve_commit_order=TRUE', 'replica_preserve_commit_order=YES', 'skip_replica_start=1', 'skip_replica_start=ON', 'skip_replica_start=TRUE', 'skip_replica_start=YES']))[0] + ': replication, its identity and its logs are set up by the operator; choose what it promises with spec.replication'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['relay_log_space_limit']) && !((k + '=' + self[k].upperAscii()) in ['relay_log_space_limit=0']))",messageExpression="'remove ' + self.filter(k, (k in ['relay_log_space_limit']) && !((k + '=' + self[k].upperAscii()) in ['relay_log_space_limit=0']))[0] + ': a replica whose relay log has reached its limit stops receiving, and commits would wait for it; give the volume the room with spec.storage.size'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['read_only', 'super_read_only', 'transaction_read_only', 'tx_read_only', 'innodb_read_only', 'offline_mode', 'autocommit', 'completion_type']) && !((k + '=' + self[k].upperAscii()) in ['autocommit=1', 'autocommit=ON', 'autocommit=TRUE', 'autocommit=YES', 'completion_type=0', 'completion_type=NO_CHAIN']))",messageExpression="'remove ' + self.filter(k, (k in ['read_only', 'super_read_only', 'transaction_read_only', 'tx_read_only', 'innodb_read_only', 'offline_mode', 'autocommit', 'completion_type']) && !((k + '=' + self[k].upperAscii()) in ['autocommit=1', 'autocommit=ON', 'autocommit=TRUE', 'autocommit=YES', 'completion_type=0', 'completion_type=NO_CHAIN']))[0] + ': who may write is decided by the operator; write through the Service <name>-primary, read through <name>-replicas'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['sync_binlog', 'binlog_error_action', 'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_force_recovery', 'innodb_force_load_corrupted', 'tc_heuristic_recover', 'innodb_checksum_algorithm', 'innodb_log_checksums', 'innodb_doublewrite', 'innodb_doublewrite_dir', 'disabled_storage_engines', 'default_storage_engine', 'default_tmp_storage_engine']) && !((k + '=' + self[k].upperAscii()) in ['binlog_error_action=1', 'binlog_error_action=ABORT_SERVER', 'default_storage_engine=INNODB', 'default_tmp_storage_engine=INNODB', 'innodb_checksum_algorithm=CRC32', 'innodb_doublewrite=1', 'innodb_doublewrite=ON', 'innodb_doublewrite=TRUE', 'innodb_doublewrite=YES', 'innodb_flush_log_at_trx_commit=1', 'innodb_flush_method=O_DIRECT', 'innodb_force_recovery=0', 'innodb_log_checksums=1', 'innodb_log_checksums=ON', 'innodb_log_checksums=TRUE', 'innodb_log_checksums=YES', 'sync_binlog=1']))",messageExpression="'remove ' + self.filter(k, (k in ['sync_binlog', 'binlog_error_action', 'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_force_recovery', 'innodb_force_load_corrupted', 'tc_heuristic_recover', 'innodb_checksum_algorithm', 'innodb_log_checksums', 'innodb_doublewrite', 'innodb_doublewrite_dir', 'disabled_storage_engines', 'default_storage_engine', 'default_tmp_storage_engine']) && !((k + '=' + self[k].upperAscii()) in ['binlog_error_action=1', 'binlog_error_action=ABORT_SERVER', 'default_storage_engine=INNODB', 'default_tmp_storage_engine=INNODB', 'innodb_checksum_algorithm=CRC32', 'innodb_doublewrite=1', 'innodb_doublewrite=ON', 'innodb_doublewrite=TRUE', 'innodb_doublewrite=YES', 'innodb_flush_log_at_trx_commit=1', 'innodb_flush_method=O_DIRECT', 'innodb_force_recovery=0', 'innodb_log_checksums=1', 'innodb_log_checksums=ON', 'innodb_log_checksums=TRUE', 'innodb_log_checksums=YES', 'sync_binlog=1']))[0] + ': what makes a commit durable is fixed by the operator; spec.replication.durability: Async is the faster promise'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['innodb_native_foreign_keys'])",messageExpression="'remove ' + self.filter(k, k in ['innodb_native_foreign_keys'])[0] + ': members of which some cascade in the storage engine and some above it do not replicate from each other, and a change is rolled through them one by one; leave it out'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['require_secure_transport', 'auto_generate_certs', 'have_ssl', 'default_authentication_plugin', 'protocol_compression_algorithms'] || (!(k in ['caching_sha2_password_digest_rounds', 'ssl_session_cache_mode', 'ssl_session_cache_timeout', 'tls_ciphersuites']) && ['ssl', 'tls_', 'admin_', 'authentication_', 'sha256_password_', 'caching_sha2_password_', 'persist_only_admin'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['auto_generate_certs=0', 'auto_generate_certs=FALSE', 'auto_generate_certs=NO', 'auto_generate_certs=OFF', 'require_secure_transport=1', 'require_secure_transport=ON', 'require_secure_transport=TRUE', 'require_secure_transport=YES', 'tls_version=TLSV1.2,TLSV1.3']))",messageExpression="'remove ' + self.filter(k, (k in ['require_secure_transport', 'auto_generate_certs', 'have_ssl', 'default_authentication_plugin', 'protocol_compression_algorithms'] || (!(k in ['caching_sha2_password_digest_rounds', 'ssl_session_cache_mode', 'ssl_session_cache_timeout', 'tls_ciphersuites']) && ['ssl', 'tls_', 'admin_', 'authentication_', 'sha256_password_', 'caching_sha2_password_', 'persist_only_admin'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['auto_generate_certs=0', 'auto_generate_certs=FALSE', 'auto_generate_certs=NO', 'auto_generate_certs=OFF', 'require_secure_transport=1', 'require_secure_transport=ON', 'require_secure_transport=TRUE', 'require_secure_transport=YES', 'tls_version=TLSV1.2,TLSV1.3']))[0] + ': certificates, TLS and the way accounts log in belong to the operator; members and clients get theirs from the CA of the cluster, and tls_ciphersuites may be narrowed'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['port', 'port_open_timeout', 'bind_address', 'socket', 'datadir', 'basedir', 'tmpdir', 'pid_file', 'user', 'chroot', 'lc_messages_dir', 'character_sets_dir', 'secure_file_priv', 'general_log_file', 'slow_query_log_file', 'innodb_data_home_dir', 'innodb_log_group_home_dir', 'innodb_undo_directory', 'innodb_tmpdir', 'innodb_directories', 'innodb_redo_log_archive_dirs', 'innodb_buffer_pool_filename', 'innodb_temp_tablespaces_dir', 'performance_schema', 'log_raw', 'memlock', 'daemonize', 'console', 'bootstrap', 'upgrade', 'validate_config', 'help', 'verbose', 'version', 'print_defaults', 'no_defaults', 'symbolic_links', 'external_locking', 'skip_external_locking', 'skip_networking', 'skip_name_resolve', 'skip_grant_tables', 'create_admin_listener_thread', 'persisted_globals_load', 'core_file', 'gdb', 'exit_info', 'allow_suspicious_udfs', 'safe_user_create', 'no_monitor', 'standalone', 'persist_sensitive_variables_in_plaintext', 'log_error', 'log_error_services', 'log_tc', 'log_tc_size', 'super_large_pages', 'innodb_status_file'] || (['mysqlx', 'defaults_', 'initialize', 'debug', 'named_pipe', 'shared_memory'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['performance_schema=1', 'performance_schema=ON', 'performance_schema=TRUE', 'performance_schema=YES', 'skip_name_resolve=1', 'skip_name_resolve=ON', 'skip_name_resolve=TRUE', 'skip_name_resolve=YES']))",messageExpression="'remove ' + self.filter(k, (k in ['port', 'port_open_timeout', 'bind_address', 'socket', 'datadir', 'basedir', 'tmpdir', 'pid_file', 'user', 'chroot', 'lc_messages_dir', 'character_sets_dir', 'secure_file_priv', 'general_log_file', 'slow_query_log_file', 'innodb_data_home_dir', 'innodb_log_group_home_dir', 'innodb_undo_directory', 'innodb_tmpdir', 'innodb_directories', 'innodb_redo_log_archive_dirs', 'innodb_buffer_pool_filename', 'innodb_temp_tablespaces_dir', 'performance_schema', 'log_raw', 'memlock', 'daemonize', 'console', 'bootstrap', 'upgrade', 'validate_config', 'help', 'verbose', 'version', 'print_defaults', 'no_defaults', 'symbolic_links', 'external_locking', 'skip_external_locking', 'skip_networking', 'skip_name_resolve', 'skip_grant_tables', 'create_admin_listener_thread', 'persisted_globals_load', 'core_file', 'gdb', 'exit_info', 'allow_suspicious_udfs', 'safe_user_create', 'no_monitor', 'standalone', 'persist_sensitive_variables_in_plaintext', 'log_error', 'log_error_services', 'log_tc', 'log_tc_size', 'super_large_pages', 'innodb_status_file'] || (['mysqlx', 'defaults_', 'initialize', 'debug', 'named_pipe', 'shared_memory'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['performance_schema=1', 'performance_schema=ON', 'performance_schema=TRUE', 'performance_schema=YES', 'skip_name_resolve=1', 'skip_name_resolve=ON', 'skip_name_resolve=TRUE', 'skip_name_resolve=YES']))[0] + ': addresses, ports, paths and the process itself belong to the operator; choose the volume with spec.storage, the image with spec.aws'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['performance_schema_max_metadata_locks', 'performance_schema_max_thread_instances', 'performance_schema_max_thread_classes', 'performance_schema_max_stage_classes', 'performance_schema_max_file_classes', 'performance_schema_logger', 'performance_schema_meter'] || (['performance_schema_instrument', 'performance_schema_consumer'].exists(f, k.startsWith(f))))",messageExpression="'remove ' + self.filter(k, k in ['performance_schema_max_metadata_locks', 'performance_schema_max_thread_instances', 'performance_schema_max_thread_classes', 'performance_schema_max_stage_classes', 'performance_schema_max_file_classes', 'performance_schema_logger', 'performance_schema_meter'] || (['performance_schema_instrument', 'performance_schema_consumer'].exists(f, k.startsWith(f))))[0] + ': the operator reads the Performance Schema to find who is connected, what stands in the way of a switchover and whose commit waits; change its consumers and instruments with SQL, in performance_schema.setup_consumers and setup_instruments'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['early_plugin_load', 'init_file', 'init_connect', 'archive', 'blackhole', 'federated', 'ngram'] || (['plugin', 'component', 'ndb'].exists(f, k.startsWith(f))))",messageExpression="'remove ' + self.filter(k, k in ['early_plugin_load', 'init_file', 'init_connect', 'archive', 'blackhole', 'federated', 'ngram'] || (['plugin', 'component', 'ndb'].exists(f, k.startsWith(f))))[0] + ': plug-ins, components and start-up statements could run code beside the operator; install plug-ins and components with SQL on the primary instead'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['default_table_encryption', 'table_encryption_privilege_check', 'innodb_encrypt_online_alter_logs', 'innodb_redo_log_encrypt', 'innodb_undo_log_encrypt', 'binlog_encryption', 'binlog_rotate_encryption_master_key_at_startup'] || (['keyring_'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['innodb_redo_log_encrypt=0', 'innodb_redo_log_encrypt=FALSE', 'innodb_redo_log_encrypt=NO', 'innodb_redo_log_encrypt=OFF', 'innodb_undo_log_encrypt=0', 'innodb_undo_log_encrypt=FALSE', 'innodb_undo_log_encrypt=NO', 'innodb_undo_log_encrypt=OFF']))",messageExpression="'remove ' + self.filter(k, (k in ['default_table_encryption', 'table_encryption_privilege_check', 'innodb_encrypt_online_alter_logs', 'innodb_redo_log_encrypt', 'innodb_undo_log_encrypt', 'binlog_encryption', 'binlog_rotate_encryption_master_key_at_startup'] || (['keyring_'].exists(f, k.startsWith(f)))) && !((k + '=' + self[k].upperAscii()) in ['innodb_redo_log_encrypt=0', 'innodb_redo_log_encrypt=FALSE', 'innodb_redo_log_encrypt=NO', 'innodb_redo_log_encrypt=OFF', 'innodb_undo_log_encrypt=0', 'innodb_undo_log_encrypt=FALSE', 'innodb_undo_log_encrypt=NO', 'innodb_undo_log_encrypt=OFF']))[0] + ': encryption inside MySQL needs a keyring, which members do not have; spec.storage.encrypted, which is the default, encrypts the whole volume'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['external_table_storage_engine', 'external_table_secondary_storage_engine'])",messageExpression="'remove ' + self.filter(k, k in ['external_table_storage_engine', 'external_table_secondary_storage_engine'])[0] + ': members have neither a secondary nor an external engine; leave it out'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (k in ['innodb_page_size', 'innodb_data_file_path', 'innodb_log_files_in_group', 'innodb_undo_tablespaces']) && !((k + '=' + self[k].upperAscii()) in ['innodb_page_size=16384', 'innodb_page_size=16K']))",messageExpression="'remove ' + self.filter(k, (k in ['innodb_page_size', 'innodb_data_file_path', 'innodb_log_files_in_group', 'innodb_undo_tablespaces']) && !((k + '=' + self[k].upperAscii()) in ['innodb_page_size=16384', 'innodb_page_size=16K']))[0] + ': this is fixed when a data directory is made and could only stop the server from starting; leave it out'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['innodb_dedicated_server'])",messageExpression="'remove ' + self.filter(k, k in ['innodb_dedicated_server'])[0] + ': innodb_dedicated_server is ON, and MySQL lets nobody persist another value: set innodb_buffer_pool_size and innodb_redo_log_capacity, which it works out otherwise'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['innodb_temp_data_file_path'])",messageExpression="'remove ' + self.filter(k, k in ['innodb_temp_data_file_path'])[0] + ': MySQL takes it from its command line only, and members are changed over SQL; the temporary tablespace grows on the data volume, and a restart of mysqld (annotation mysql.alx.ke/restartedAt) gives its room back'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['innodb_buffer_pool_load_at_startup'])",messageExpression="'remove ' + self.filter(k, k in ['innodb_buffer_pool_load_at_startup'])[0] + ': MySQL takes it from its command line only, and members are changed over SQL; load the dump with SQL: SET GLOBAL innodb_buffer_pool_load_now = ON'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['ft_stopword_file'])",messageExpression="'remove ' + self.filter(k, k in ['ft_stopword_file'])[0] + ': MySQL takes it from its command line only, and members are changed over SQL; name a table of stop words with innodb_ft_server_stopword_table'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['mysql_native_password'])",messageExpression="'remove ' + self.filter(k, k in ['mysql_native_password'])[0] + ': MySQL takes it from its command line only, and members are changed over SQL; move the accounts to caching_sha2_password with ALTER USER … IDENTIFIED WITH caching_sha2_password BY …'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['container_aware', 'server_memory'])",messageExpression="'remove ' + self.filter(k, k in ['container_aware', 'server_memory'])[0] + ': MySQL works out from the instance what it has; choose spec.aws.instanceType, and set innodb_buffer_pool_size'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['check_table_functions', 'log_isam', 'log_short_format', 'max_binlog_dump_events', 'myisam_block_size', 'sporadic_binlog_dump_fail', 'sysdate_is_now', 'validate_user_plugins'])",messageExpression="'remove ' + self.filter(k, k in ['check_table_functions', 'log_isam', 'log_short_format', 'max_binlog_dump_events', 'myisam_block_size', 'sporadic_binlog_dump_fail', 'sysdate_is_now', 'validate_user_plugins'])[0] + ': MySQL takes it from its command line only, and members are changed over SQL; leave it out'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['default_time_zone'])",messageExpression="'remove ' + self.filter(k, k in ['default_time_zone'])[0] + ': default_time_zone is an option of the command line: write time_zone, the variable that it sets'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['restrict_fk_on_non_standard_key'])",messageExpression="'remove ' + self.filter(k, k in ['restrict_fk_on_non_standard_key'])[0] + ': MySQL does not persist it, so a restart would undo it; set it in the session that needs it'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['innodb_commit_concurrency'])",messageExpression="'remove ' + self.filter(k, k in ['innodb_commit_concurrency'])[0] + ': MySQL takes it when it starts and refuses the change while it runs; innodb_thread_concurrency limits the threads instead'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['innodb_buffer_pool_dump_now', 'innodb_buffer_pool_load_now', 'innodb_buffer_pool_load_abort', 'innodb_monitor_reset', 'innodb_monitor_reset_all', 'innodb_ft_aux_table'])",messageExpression="'remove ' + self.filter(k, k in ['innodb_buffer_pool_dump_now', 'innodb_buffer_pool_load_now', 'innodb_buffer_pool_load_abort', 'innodb_monitor_reset', 'innodb_monitor_reset_all', 'innodb_ft_aux_table'])[0] + ': it starts something once and is no setting that stays; run SET GLOBAL with SQL on the member instead'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['sql_select_limit', 'sql_big_selects'])",messageExpression="'remove ' + self.filter(k, k in ['sql_select_limit', 'sql_big_selects'])[0] + ': it cuts what every session reads, those that copy the data too; set it in the session that needs it'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['error_count', 'external_user', 'identity', 'immediate_server_version', 'insert_id', 'last_insert_id', 'original_commit_timestamp', 'original_server_version', 'proxy_user', 'pseudo_replica_mode', 'pseudo_slave_mode', 'pseudo_thread_id', 'rand_seed1', 'rand_seed2', 'require_row_format', 'resultset_metadata', 'show_create_table_skip_secondary_engine', 'sql_log_bin', 'statement_id', 'timestamp', 'transaction_allow_batching', 'use_secondary_engine', 'warning_count', 'gtid_next'])",messageExpression="'remove ' + self.filter(k, k in ['error_count', 'external_user', 'identity', 'immediate_server_version', 'insert_id', 'last_insert_id', 'original_commit_timestamp', 'original_server_version', 'proxy_user', 'pseudo_replica_mode', 'pseudo_slave_mode', 'pseudo_thread_id', 'rand_seed1', 'rand_seed2', 'require_row_format', 'resultset_metadata', 'show_create_table_skip_secondary_engine', 'sql_log_bin', 'statement_id', 'timestamp', 'transaction_allow_batching', 'use_secondary_engine', 'warning_count', 'gtid_next'])[0] + ': it counts for one session and has no value for the server; set it in the session that needs it'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['build_id', 'character_set_system', 'have_compress', 'have_dynamic_loading', 'have_geometry', 'have_profiling', 'have_query_cache', 'have_rtree_keys', 'have_statement_timeout', 'have_symlink', 'hostname', 'innodb_version', 'large_files_support', 'large_page_size', 'license', 'locked_in_memory', 'log_bin_basename', 'lower_case_file_system', 'protocol_version', 'relay_log_basename', 'server_uuid', 'system_time_zone', 'version_comment', 'version_compile_machine', 'version_compile_os', 'version_compile_zlib', 'version_with_update'])",messageExpression="'remove ' + self.filter(k, k in ['build_id', 'character_set_system', 'have_compress', 'have_dynamic_loading', 'have_geometry', 'have_profiling', 'have_query_cache', 'have_rtree_keys', 'have_statement_timeout', 'have_symlink', 'hostname', 'innodb_version', 'large_files_support', 'large_page_size', 'license', 'locked_in_memory', 'log_bin_basename', 'lower_case_file_system', 'protocol_version', 'relay_log_basename', 'server_uuid', 'system_time_zone', 'version_comment', 'version_compile_machine', 'version_compile_os', 'version_compile_zlib', 'version_with_update'])[0] + ': MySQL only shows it; leave it out'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, (!(k in ['skip_external_locking', 'skip_grant_tables', 'skip_name_resolve', 'skip_networking', 'skip_replica_start', 'skip_show_database', 'skip_slave_start']) && ['loose_', 'skip_', 'disable_', 'maximum_'].exists(f, k.startsWith(f))))",messageExpression="'remove ' + self.filter(k, (!(k in ['skip_external_locking', 'skip_grant_tables', 'skip_name_resolve', 'skip_networking', 'skip_replica_start', 'skip_show_database', 'skip_slave_start']) && ['loose_', 'skip_', 'disable_', 'maximum_'].exists(f, k.startsWith(f))))[0] + ': write the variable itself: beginnings that change the meaning of an option (loose, skip, disable, maximum) are not taken'"
	// +kubebuilder:validation:XValidation:rule="!('character_set_server' in self && 'collation_server' in self) || (self['collation_server'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_').startsWith((self['character_set_server'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_'))",message="character_set_server and collation_server contradict each other: a collation sets its character set too, with which its name begins. Keep the collation alone, or change one of them"
	// +kubebuilder:validation:XValidation:rule="!('character_set_database' in self && 'collation_database' in self) || (self['collation_database'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_').startsWith((self['character_set_database'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_'))",message="character_set_database and collation_database contradict each other: a collation sets its character set too, with which its name begins. Keep the collation alone, or change one of them"
	// +kubebuilder:validation:XValidation:rule="!('character_set_connection' in self && 'collation_connection' in self) || (self['collation_connection'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_').startsWith((self['character_set_connection'] + '_').lowerAscii().replace('utf8_', 'utf8mb3_'))",message="character_set_connection and collation_connection contradict each other: a collation sets its character set too, with which its name begins. Keep the collation alone, or change one of them"
	// +kubebuilder:validation:XValidation:rule="!('log_slow_slave_statements' in self && 'log_slow_replica_statements' in self)",message="log_slow_slave_statements and log_slow_replica_statements are one variable: keep log_slow_replica_statements"
	// +settings:end
	// +optional
	MySQLD map[string]PlainValue `json:"mysqld,omitempty"`

	// AWS says where and on what the members run.
	AWS AWSSpec `json:"aws"`

	// Storage describes the EBS volume of each member.
	// +kubebuilder:default={size: "20Gi", type: "gp3", encrypted: true, deletionPolicy: "Snapshot"}
	// +optional
	Storage StorageSpec `json:"storage,omitempty"`

	// Replication says what replication promises.
	// +kubebuilder:default={durability: "Lossless", acknowledge: "Memory", maxLag: "30s"}
	// +optional
	Replication ReplicationSpec `json:"replication,omitempty"`

	// Database is the application's database and its owner. With it the operator makes both, and the Secret <name>-app
	// with the owner's password and addresses (keys of the Service Binding specification).
	// It may be added at any time; name and owner are fixed from then on.
	// +optional
	Database *DatabaseSpec `json:"database,omitempty"`

	// DeletionProtection, true unless set, keeps the cluster from being deleted: the webhook refuses the delete, and where
	// a deletion got past it (the namespace or the CRD was deleted) the cluster keeps running and nothing in AWS is touched.
	// To delete the cluster, set this to false first:
	//   kubectl patch mysqlclusters.mysql.alx.ke <name> --type=merge -p '{"spec":{"deletionProtection":false}}'
	// What becomes of the data then is decided by storage.deletionPolicy.
	// +kubebuilder:default=true
	// +optional
	DeletionProtection *bool `json:"deletionProtection,omitempty"`

	// Upgrade says how members are replaced and restarted one after the other when the spec changes.
	// +optional
	Upgrade *UpgradeSpec `json:"upgrade,omitempty"`

	// MaintenanceWindow says when members may be replaced or restarted because the spec was changed; at any time unless set.
	// Failover and healing wait for no window. A member whose turn has begun when it closes goes on with the instance that it
	// has until the next one opens.
	// +optional
	MaintenanceWindow *MaintenanceWindow `json:"maintenanceWindow,omitempty"`

	// Hibernate, false unless set, takes the cluster's instances away and keeps its volumes: writes are drained, the
	// replicas catch up, then every instance is terminated. Set back to false, the members are launched on their volumes
	// again, and the primary is found by proof.
	// +optional
	Hibernate bool `json:"hibernate,omitempty"`

	// Backup says when, how and to where the cluster is backed up. Without it nothing is.
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`

	// Monitoring has metrics of the members' MySQL servers exported. Without it nothing is: a pod for each cluster takes room that the
	// administrator has to give, and an upgrade of the operator must not start one beside every cluster that is there.
	// "monitoring: {}" is enough.
	// +optional
	Monitoring *MonitoringSpec `json:"monitoring,omitempty"`

	// Bootstrap says what a new cluster begins with: an empty database unless it is set. It counts once, and cannot be
	// changed.
	// +optional
	Bootstrap *BootstrapSpec `json:"bootstrap,omitempty"`
}

// UpgradeSpec says how changes that disturb members are rolled through them.
type UpgradeSpec struct {
	// Paused, false unless set, stops a change of the spec where it is: nobody who works is disturbed for it. A member that is
	// off its old instance is brought back on the new one.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Soak is how long a member has to run on its new instance before the next is replaced, from 0s (the default) to 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) <= duration('24h')",message="must be a duration from 0s to 24h; for example 10m"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// MaintenanceWindow is a time that comes again and again.
type MaintenanceWindow struct {
	// Schedule is when it opens: five fields of cron (minute, hour, day of month, month, day of week), or @hourly, @daily,
	// @weekly or @monthly; for example "0 3 * * SUN".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(hourly|daily|midnight|weekly|monthly)|[0-9A-Za-z*,/?-]+( [0-9A-Za-z*,/?-]+){4})$')",message="must be five fields of cron with single spaces between them, or @hourly, @daily, @weekly or @monthly; for example 0 3 * * SUN"
	Schedule string `json:"schedule"`

	// Duration is how long it stays open, from 10m to 168h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('10m') && duration(self) <= duration('168h')",message="must be a duration from 10m to 168h; for example 2h"
	Duration metav1.Duration `json:"duration"`

	// TimeZone is the zone that Schedule is meant in, by its name in the IANA database; Etc/UTC unless set.
	// +kubebuilder:default="Etc/UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+/-]*$')",message="must be the name of a time zone in the IANA database; for example Africa/Nairobi"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// PlainValue is the value of a setting of mysqld. Its length is bounded, so that the API server can estimate
// what the rules on such maps cost; its characters, so that it means the same wherever it is written.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_.,:=+*/%@ -]*$') && !self.startsWith(' ') && !self.endsWith(' ')",message="a value may hold letters, digits, inner spaces and _ . , : = + * / % @ - only: write it without quotes, comments and line breaks"
type PlainValue = string

// ReplicationSpec says what replication promises.
type ReplicationSpec struct {
	// Durability says what an acknowledged commit is worth. Lossless (the default): more than half of the voting members
	// hold it, no failover loses it, and with too few members left writes wait. Async: the primary alone holds it
	// on disk, and a failover may lose the newest commits.
	// A change takes effect at once and restarts nothing.
	// +kubebuilder:default=Lossless
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Acknowledge says where a replica holds a commit when it acknowledges it; it has no effect with Async. Memory (the default):
	// in memory, and on its disk soon after, at the speed of the network. Disk: on its disk, one transaction after the other, so
	// that a few dozen to a few hundred are committed in a second.
	// No failover loses a commit with either. What differs is who must come back after members lost power together; see
	// docs/lossless.md. A change takes effect at once and restarts nothing.
	// +kubebuilder:default=Memory
	// +optional
	Acknowledge Acknowledge `json:"acknowledge,omitempty"`

	// MaxLag is how far a replica may be behind the primary and still be counted as Ready and be sent reads, from 1s to 24h;
	// 30s unless set. A replica is taken out of <name>-replicas only past twice this, so that it does not flap.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be a duration from 1s to 24h; for example 30s or 1m30s"
	// +optional
	MaxLag *metav1.Duration `json:"maxLag,omitempty"`

	// MaxApplyLag is how long a failover may have to wait until who takes over has applied what it has received, from 1s to 24h. While every
	// voter would take longer at its present rate, voters acknowledge from disk, which slows writes, until one would take less than half of it.
	// Unless set, writes are as fast as they can be, and a failover takes as long as it takes. It has no effect with Async or Disk.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be a duration from 1s to 24h; for example 30s or 1m30s"
	// +optional
	MaxApplyLag *metav1.Duration `json:"maxApplyLag,omitempty"`
}

// DatabaseSpec describes the application's database and its owner. Both are made once and never renamed.
//
// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name",message="database.name cannot be changed: MySQL cannot rename a database. Put the old name back, and make a further database with SQL"
// +kubebuilder:validation:XValidation:rule="self.owner == oldSelf.owner",message="database.owner cannot be changed: put the old owner back, and make a further account with SQL"
type DatabaseSpec struct {
	// Name of the database: 1 to 64 letters, digits and underscores, each underscore counted as two characters, beginning with
	// a letter; none of MySQL's own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_]*$`
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['mysql', 'sys', 'information_schema', 'performance_schema', 'ndbinfo', 'nairobi_mysql'])",message="is a name that MySQL or the operator uses itself: choose another"
	// +kubebuilder:validation:XValidation:rule="size(self) + self.findAll('_').size() <= 64",message="must have at most 64 characters with each underscore counted as two: MySQL stores the owner's privileges under the name with a backslash before each underscore. Choose a shorter name, or one with fewer underscores"
	Name string `json:"name"`

	// Owner is the account that has every privilege on the database; app unless set.
	// 1 to 32 (MySQL's limit for account names) lower-case letters, digits and underscores, beginning with a letter.
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'root' && self != 'mysql' && !self.startsWith('nairobi_')",message="is an account that MySQL or the operator uses itself (root, mysql, nairobi_…): choose another"
	// +optional
	Owner string `json:"owner,omitempty"`

	// RetainPassword is how long the owner's password of before still logs in after the one in Secret <name>-app was changed,
	// so that clients have time to read it again; from 0s (it stops at once, and so does one that is retained already) to
	// 720h, 24h unless set. Only the one before is retained.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$') && duration(self) <= duration('720h')",message="must be a duration from 0s to 720h; for example 24h"
	// +optional
	RetainPassword *metav1.Duration `json:"retainPassword,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=nmysql
// +kubebuilder:printcolumn:name=Available,type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether a write through the primary Service succeeded in the last seconds"
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`,description="How far the cluster is, or why a member is not Ready"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.readyMembers`,description="Members that are Ready, of those wanted"
// +kubebuilder:printcolumn:name=Primary,type=string,JSONPath=`.status.primary`,description="The writable member"
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=`.status.version`,description="The version of MySQL that runs"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Lag,type=string,JSONPath=`.status.lag`,priority=1,description="The largest lag among the replicas, in steps"
// +kubebuilder:printcolumn:name="Last Backup",type=date,JSONPath=`.status.backup.lastGoodAt`,priority=1,description="How long ago the newest good backup was taken"
// +kubebuilder:printcolumn:name="PITR From",type=date,JSONPath=`.status.backup.firstRecoverablePoint`,priority=1,description="How far back any moment can be restored: from there on the archive of binary logs has no gap"
// +kubebuilder:printcolumn:name="Cost/Month",type=string,JSONPath=`.status.cost.monthly`,priority=1,description="What it costs for a month by list prices, in the currency of .status.cost.currency"
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.aws.instanceType`,priority=1,description="The instance type"
// +kubebuilder:printcolumn:name=Region,type=string,JSONPath=`.spec.aws.region`,priority=1,description="The AWS region"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 40 characters, begin with a letter and hold lower-case letters, digits and inner hyphens only: the members' host names and the Services' names are derived from it"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.endsWith('-primary') && !self.metadata.name.endsWith('-replicas')",message="metadata.name must not end in -primary or -replicas: the Services of another cluster could have that name"
// +kubebuilder:validation:XValidation:rule="self.spec.version == oldSelf.spec.version || !self.spec.version.matches('^[0-9]+[.][0-9]+[.][0-9]+$') || !oldSelf.spec.version.matches('^[0-9]+[.][0-9]+[.][0-9]+$') || int(self.spec.version.split('.')[0]) * 1000000 + int(self.spec.version.split('.')[1]) * 1000 + int(self.spec.version.split('.')[2]) >= int(oldSelf.spec.version.split('.')[0]) * 1000000 + int(oldSelf.spec.version.split('.')[1]) * 1000 + int(oldSelf.spec.version.split('.')[2]) || has(oldSelf.status) && has(oldSelf.status.rollout) && has(oldSelf.status.rollout.previousVersion) && self.spec.version == oldSelf.status.rollout.previousVersion",fieldPath=".spec.version",messageExpression="'must not go down from ' + oldSelf.spec.version + ': MySQL cannot read the data of a newer version. Set ' + oldSelf.spec.version + ' or a later one; ' + (has(oldSelf.status) && has(oldSelf.status.rollout) && has(oldSelf.status.rollout.previousVersion) ? 'or ' + oldSelf.status.rollout.previousVersion + ', to call the upgrade off while the primary still runs that' : 'to go back, restore a backup into a new cluster')"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.storage.size) || !has(oldSelf.spec.storage.size) || !isQuantity(string(self.spec.storage.size)) || !isQuantity(string(oldSelf.spec.storage.size)) || quantity(string(self.spec.storage.size)).compareTo(quantity(string(oldSelf.spec.storage.size))) >= 0 || has(oldSelf.status) && has(oldSelf.status.volumeSize) && quantity(string(self.spec.storage.size)).compareTo(quantity(oldSelf.status.volumeSize)) >= 0",fieldPath=".spec.storage.size",messageExpression="'storage.size cannot shrink: EBS cannot shrink a volume. Set ' + (has(oldSelf.status) && has(oldSelf.status.volumeSize) ? oldSelf.status.volumeSize : string(oldSelf.spec.storage.size)) + ' or more; for smaller volumes restore a backup into a new cluster'"

// MySQLCluster is a highly available MySQL replication cluster on EC2 instances.
type MySQLCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is wanted.
	Spec MySQLClusterSpec `json:"spec"`

	// Status says what was observed. Deleting it by hand changes nothing: the operator never reads it to decide.
	// +kubebuilder:default={}
	// +optional
	Status MySQLClusterStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// MySQLClusterList is a list of MySQLClusters.
type MySQLClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the clusters.
	Items []MySQLCluster `json:"items"`
}

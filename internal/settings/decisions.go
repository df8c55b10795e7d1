package settings

import "slices"

// Class says what becomes of a setting in spec.mysqld.
type Class string

const (
	// Settable: taken, persisted on every member, and in force after a restart and on a new member.
	Settable Class = "settable"
	// Creation: taken when the cluster is made, and fixed from then on.
	Creation Class = "at creation"
	// Operators: the operator sets it. Its own value may be written, and changes nothing.
	Operators Class = "the operator's"
	// Refused: nobody can set it in a way that lasts, or it does not fit what the operator promises.
	Refused Class = "refused"
)

// group is a set of settings that have one decision in common.
type group struct {
	class Class
	// reason follows the setting's name in a message: why it is not taken, and what to do instead. Empty for those that are.
	reason string
	// names are whole names of settings, apart by blanks.
	names string
	// families are beginnings of names: they hold every setting that begins so and is not named by any group.
	families []string
}

// decisions is the one place that says what spec.mysqld takes. Everything else about it is generated from here: the rules of
// the CRD, the table in docs/settings.md, and what members are launched with. A test fails while a variable or an option of a
// series has no decision, or two.
func decisions() []group {
	taken := []group{{class: Settable, names: settable}, {class: Creation, names: "lower_case_table_names"}}
	return slices.Concat(taken, replicated(), around(), unkept(), noSettings())
}

// replicated are the settings that decide what the members hold, who may write, and what a commit is worth.
func replicated() []group {
	return []group{
		{
			class:  Operators,
			reason: "replication, its identity and its logs are set up by the operator; choose what it promises with spec.replication",
			names: `server_id server_id_bits enforce_gtid_consistency log_bin log_bin_index log_bin_use_v1_row_events
				binlog_format binlog_gtid_simple_recovery binlog_do_db binlog_ignore_db binlog_order_commits log_replica_updates
				log_slave_updates max_relay_log_size sync_source_info sync_master_info rbr_exec_mode sql_replica_skip_counter
				sql_slave_skip_counter skip_replica_start skip_slave_start gtid_executed gtid_purged gtid_owned`,
			families: []string{
				"gtid_", "relay_log", "sync_relay_log", "replica_", "slave_", "replicate_", "rpl_", "source_", "master_", "report_",
				"init_replica", "init_slave", "group_replication", "clone_", "show_replica_auth_info", "show_slave_auth_info",
			},
		},
		{
			class:  Operators,
			reason: "a replica whose relay log has reached its limit stops receiving, and commits would wait for it; give the volume the room with spec.storage.size",
			names:  "relay_log_space_limit",
		},
		{
			class:  Operators,
			reason: "who may write is decided by the operator; write through the Service <name>-primary, read through <name>-replicas",
			names:  `read_only super_read_only transaction_read_only tx_read_only innodb_read_only offline_mode autocommit completion_type`,
		},
		{
			class:  Operators,
			reason: "what makes a commit durable is fixed by the operator; spec.replication.durability: Async is the faster promise",
			names: `sync_binlog binlog_error_action innodb_flush_log_at_trx_commit innodb_flush_method innodb_force_recovery
				innodb_force_load_corrupted tc_heuristic_recover innodb_checksum_algorithm innodb_log_checksums innodb_doublewrite
				innodb_doublewrite_dir disabled_storage_engines default_storage_engine default_tmp_storage_engine`,
		},
		{
			class:  Refused,
			reason: "members of which some cascade in the storage engine and some above it do not replicate from each other, and a change is rolled through them one by one; leave it out",
			names:  "innodb_native_foreign_keys",
		},
	}
}

// around are the settings of the server around the data: who gets in, where things are, what code runs.
func around() []group {
	return []group{
		{
			class:  Operators,
			reason: "certificates, TLS and the way accounts log in belong to the operator; members and clients get theirs from the CA of the cluster, and tls_ciphersuites may be narrowed",
			names:  `require_secure_transport auto_generate_certs have_ssl default_authentication_plugin protocol_compression_algorithms`, // without "uncompressed" neither the operator nor the replicas get in
			families: []string{
				"ssl", "tls_", "admin_", "authentication_", "sha256_password_", "caching_sha2_password_", "persist_only_admin",
			},
		},
		{
			class:  Operators,
			reason: "addresses, ports, paths and the process itself belong to the operator; choose the volume with spec.storage, the image with spec.aws",
			names: `port port_open_timeout bind_address socket datadir basedir tmpdir pid_file user chroot lc_messages_dir
				character_sets_dir secure_file_priv general_log_file slow_query_log_file innodb_data_home_dir
				innodb_log_group_home_dir innodb_undo_directory innodb_tmpdir innodb_directories innodb_redo_log_archive_dirs
				innodb_buffer_pool_filename innodb_temp_tablespaces_dir performance_schema log_raw memlock daemonize console
				bootstrap upgrade validate_config help verbose version print_defaults no_defaults symbolic_links external_locking
				skip_external_locking skip_networking skip_name_resolve skip_grant_tables create_admin_listener_thread
				persisted_globals_load core_file gdb exit_info allow_suspicious_udfs safe_user_create no_monitor standalone
				persist_sensitive_variables_in_plaintext log_error log_error_services log_tc log_tc_size super_large_pages
				innodb_status_file`,
			families: []string{"mysqlx", "defaults_", "initialize", "debug", "named_pipe", "shared_memory"},
		},
		{
			class:  Operators,
			reason: "the operator reads the Performance Schema to find who is connected, what stands in the way of a switchover and whose commit waits; change its consumers and instruments with SQL, in performance_schema.setup_consumers and setup_instruments",
			names: `performance_schema_max_metadata_locks performance_schema_max_thread_instances performance_schema_max_thread_classes
				performance_schema_max_stage_classes performance_schema_max_file_classes performance_schema_logger performance_schema_meter`,
			families: []string{"performance_schema_instrument", "performance_schema_consumer"},
		},
		{
			class:    Operators,
			reason:   "plug-ins, components and start-up statements could run code beside the operator; install plug-ins and components with SQL on the primary instead",
			names:    `early_plugin_load init_file init_connect archive blackhole federated ngram`,
			families: []string{"plugin", "component", "ndb"},
		},
		{
			class:  Refused,
			reason: "encryption inside MySQL needs a keyring, which members do not have; spec.storage.encrypted, which is the default, encrypts the whole volume",
			names: `default_table_encryption table_encryption_privilege_check innodb_encrypt_online_alter_logs
				innodb_redo_log_encrypt innodb_undo_log_encrypt binlog_encryption binlog_rotate_encryption_master_key_at_startup`,
			families: []string{"keyring_"},
		},
		{
			class:  Refused,
			reason: "members have neither a secondary nor an external engine; leave it out",
			names:  `external_table_storage_engine external_table_secondary_storage_engine`,
		},
	}
}

// unkept are the settings of which MySQL keeps no value that it is given over SQL.
func unkept() []group {
	return []group{
		{
			class:  Refused,
			reason: "this is fixed when a data directory is made and could only stop the server from starting; leave it out",
			names:  `innodb_page_size innodb_data_file_path innodb_log_files_in_group innodb_undo_tablespaces`,
		},
		{
			class:  Refused,
			reason: "innodb_dedicated_server is ON, and MySQL lets nobody persist another value: set innodb_buffer_pool_size and innodb_redo_log_capacity, which it works out otherwise",
			names:  "innodb_dedicated_server",
		},
		{
			class:  Refused,
			reason: "MySQL takes it from its command line only, and members are changed over SQL; the temporary tablespace grows on the data volume, and a restart of mysqld (annotation mysql.alx.ke/restartedAt) gives its room back",
			names:  "innodb_temp_data_file_path",
		},
		{
			class:  Refused,
			reason: "MySQL takes it from its command line only, and members are changed over SQL; load the dump with SQL: SET GLOBAL innodb_buffer_pool_load_now = ON",
			names:  "innodb_buffer_pool_load_at_startup",
		},
		{
			class:  Refused,
			reason: "MySQL takes it from its command line only, and members are changed over SQL; name a table of stop words with innodb_ft_server_stopword_table",
			names:  "ft_stopword_file",
		},
		{
			class:  Refused,
			reason: "MySQL takes it from its command line only, and members are changed over SQL; move the accounts to caching_sha2_password with ALTER USER … IDENTIFIED WITH caching_sha2_password BY …",
			names:  "mysql_native_password",
		},
		{
			class:  Refused,
			reason: "MySQL works out from the instance what it has; choose spec.aws.instanceType, and set innodb_buffer_pool_size",
			names:  `container_aware server_memory`,
		},
		{
			class:  Refused,
			reason: "MySQL takes it from its command line only, and members are changed over SQL; leave it out",
			names: `check_table_functions log_isam log_short_format max_binlog_dump_events myisam_block_size sporadic_binlog_dump_fail
				sysdate_is_now validate_user_plugins`,
		},
		{
			class:  Refused,
			reason: "default_time_zone is an option of the command line: write time_zone, the variable that it sets",
			names:  "default_time_zone",
		},
		{
			class:  Refused,
			reason: "MySQL does not persist it, so a restart would undo it; set it in the session that needs it",
			names:  "restrict_fk_on_non_standard_key",
		},
	}
}

// noSettings are names of what is no setting of the server that stays.
func noSettings() []group {
	return []group{
		{
			class:  Refused,
			reason: "MySQL takes it when it starts and refuses the change while it runs; innodb_thread_concurrency limits the threads instead",
			names:  "innodb_commit_concurrency",
		},
		{
			class:  Refused,
			reason: "it starts something once and is no setting that stays; run SET GLOBAL with SQL on the member instead",
			names: `innodb_buffer_pool_dump_now innodb_buffer_pool_load_now innodb_buffer_pool_load_abort innodb_monitor_reset
				innodb_monitor_reset_all innodb_ft_aux_table`,
		},
		{
			class:  Refused,
			reason: "it cuts what every session reads, those that copy the data too; set it in the session that needs it",
			names:  `sql_select_limit sql_big_selects`,
		},
		{
			class:  Refused,
			reason: "it counts for one session and has no value for the server; set it in the session that needs it",
			names: `error_count external_user identity immediate_server_version insert_id last_insert_id original_commit_timestamp
				original_server_version proxy_user pseudo_replica_mode pseudo_slave_mode pseudo_thread_id rand_seed1 rand_seed2
				require_row_format resultset_metadata show_create_table_skip_secondary_engine sql_log_bin statement_id timestamp
				transaction_allow_batching use_secondary_engine warning_count gtid_next`,
		},
		{
			class:  Refused,
			reason: "MySQL only shows it; leave it out",
			names: `build_id character_set_system have_compress have_dynamic_loading have_geometry have_profiling have_query_cache
				have_rtree_keys have_statement_timeout have_symlink hostname innodb_version large_files_support large_page_size
				license locked_in_memory log_bin_basename lower_case_file_system protocol_version relay_log_basename server_uuid
				system_time_zone version_comment version_compile_machine version_compile_os version_compile_zlib
				version_with_update`,
		},
		{
			class:    Refused,
			reason:   "write the variable itself: beginnings that change the meaning of an option (loose, skip, disable, maximum) are not taken",
			families: []string{"loose_", "skip_", "disable_", "maximum_"},
		},
	}
}

// settable are the names that are a user's.
const settable = `
	activate_all_roles_on_login activate_mandatory_roles auto_increment_increment auto_increment_offset automatic_sp_privileges
	back_log big_tables binlog_cache_size binlog_checksum binlog_direct_non_transactional_updates binlog_expire_logs_auto_purge
	binlog_expire_logs_seconds binlog_group_commit_sync_delay binlog_group_commit_sync_no_delay_count
	binlog_max_flush_queue_time binlog_row_event_max_size binlog_row_image binlog_row_metadata binlog_row_value_options
	binlog_rows_query_log_events binlog_stmt_cache_size binlog_transaction_compression
	binlog_transaction_compression_level_zstd binlog_transaction_dependency_history_size block_encryption_mode
	bulk_insert_buffer_size caching_sha2_password_digest_rounds character_set_client character_set_connection
	character_set_database character_set_filesystem character_set_results character_set_server check_proxy_users
	clone_buffer_size clone_max_concurrency clone_max_data_bandwidth clone_max_network_bandwidth collation_connection
	collation_database collation_server concurrent_insert connect_timeout connection_memory_chunk_size connection_memory_limit
	connection_memory_status_limit cte_max_recursion_depth default_collation_for_utf8mb4 default_password_lifetime
	default_week_format delay_key_write delayed_insert_limit delayed_insert_timeout delayed_queue_size
	disconnect_on_expired_password div_precision_increment enable_cascade_triggers enable_secondary_engine_statistics
	end_markers_in_json eq_range_index_dive_limit event_scheduler explain_format explain_json_format_version
	explicit_defaults_for_timestamp flush flush_time foreign_key_checks ft_boolean_syntax ft_max_word_len ft_min_word_len
	ft_query_expansion_limit general_log generated_random_password_length global_connection_memory_limit
	global_connection_memory_status_limit global_connection_memory_tracking group_concat_max_len
	histogram_generation_max_mem_size host_cache_size information_schema_stats_expiry innodb_adaptive_flushing
	innodb_adaptive_flushing_lwm innodb_adaptive_hash_index innodb_adaptive_hash_index_parts innodb_adaptive_max_sleep_delay
	innodb_api_bk_commit_interval innodb_api_disable_rowlock innodb_api_enable_binlog innodb_api_enable_mdl
	innodb_api_trx_level innodb_autoextend_increment innodb_autoinc_lock_mode innodb_buffer_pool_chunk_size
	innodb_buffer_pool_dump_at_shutdown innodb_buffer_pool_dump_pct innodb_buffer_pool_in_core_file
	innodb_buffer_pool_instances innodb_buffer_pool_size innodb_change_buffer_max_size innodb_change_buffering
	innodb_cmp_per_index_enabled innodb_compression_failure_threshold_pct innodb_compression_level
	innodb_compression_pad_pct_max innodb_concurrency_tickets innodb_ddl_buffer_size innodb_ddl_threads innodb_deadlock_detect
	innodb_default_row_format innodb_disable_sort_file_cache innodb_doublewrite_batch_size innodb_doublewrite_files
	innodb_doublewrite_pages innodb_extend_and_initialize innodb_fast_shutdown innodb_file_per_table innodb_fill_factor
	innodb_flush_log_at_timeout innodb_flush_neighbors innodb_flush_sync innodb_flushing_avg_loops innodb_fsync_threshold
	innodb_ft_cache_size innodb_ft_enable_diag_print innodb_ft_enable_stopword innodb_ft_max_token_size
	innodb_ft_min_token_size innodb_ft_num_word_optimize innodb_ft_result_cache_limit innodb_ft_server_stopword_table
	innodb_ft_sort_pll_degree innodb_ft_total_cache_size innodb_ft_user_stopword_table innodb_idle_flush_pct
	innodb_io_capacity innodb_io_capacity_max innodb_lock_wait_timeout innodb_log_buffer_size innodb_log_compressed_pages
	innodb_log_file_size innodb_log_spin_cpu_abs_lwm innodb_log_spin_cpu_pct_hwm innodb_log_wait_for_flush_spin_hwm
	innodb_log_write_ahead_size innodb_log_writer_threads innodb_lru_scan_depth innodb_max_dirty_pages_pct
	innodb_max_dirty_pages_pct_lwm innodb_max_purge_lag innodb_max_purge_lag_delay innodb_max_undo_log_size
	innodb_monitor_disable innodb_monitor_enable innodb_numa_interleave innodb_old_blocks_pct innodb_old_blocks_time
	innodb_online_alter_log_max_size innodb_open_files innodb_optimize_fulltext_only innodb_page_cleaners
	innodb_parallel_read_threads innodb_print_all_deadlocks innodb_print_ddl_logs innodb_purge_batch_size
	innodb_purge_rseg_truncate_frequency innodb_purge_threads innodb_random_read_ahead innodb_read_ahead_threshold
	innodb_read_io_threads innodb_redo_log_capacity innodb_replication_delay innodb_rollback_on_timeout
	innodb_rollback_segments innodb_segment_reserve_factor innodb_sort_buffer_size innodb_spin_wait_delay
	innodb_spin_wait_pause_multiplier innodb_stats_auto_recalc innodb_stats_include_delete_marked innodb_stats_method
	innodb_stats_on_metadata innodb_stats_persistent innodb_stats_persistent_sample_pages
	innodb_stats_transient_sample_pages innodb_status_output innodb_status_output_locks innodb_strict_mode
	innodb_sync_array_size innodb_sync_spin_loops innodb_table_locks innodb_thread_concurrency innodb_thread_sleep_delay
	innodb_undo_log_truncate innodb_use_fdatasync innodb_use_native_aio innodb_validate_tablespace_paths
	innodb_write_io_threads interactive_timeout internal_tmp_mem_storage_engine join_buffer_size keep_files_on_create
	key_buffer_size key_cache_age_threshold key_cache_block_size key_cache_division_limit large_pages lc_messages
	lc_time_names local_infile lock_wait_timeout log_bin_trust_function_creators log_error_suppression_list
	log_error_verbosity log_output log_queries_not_using_indexes log_slow_admin_statements log_slow_extra
	log_slow_replica_statements log_slow_slave_statements log_statements_unsafe_for_binlog
	log_throttle_queries_not_using_indexes log_timestamps long_query_time low_priority_updates mandatory_roles
	max_allowed_packet max_binlog_cache_size max_binlog_size max_binlog_stmt_cache_size max_connect_errors max_connections
	max_delayed_threads max_digest_length max_error_count max_execution_time max_heap_table_size max_insert_delayed_threads
	max_join_size max_length_for_sort_data max_points_in_geometry max_prepared_stmt_count max_seeks_for_key max_sort_length
	max_sp_recursion_depth max_user_connections max_write_lock_count min_examined_row_limit myisam_data_pointer_size
	myisam_max_sort_file_size myisam_mmap_size myisam_recover_options myisam_sort_buffer_size myisam_stats_method
	myisam_use_mmap mysql_native_password_proxy_users net_buffer_length net_read_timeout net_retry_count net_write_timeout
	ngram_token_size old_alter_table open_files_limit optimizer_max_subgraph_pairs optimizer_prune_level
	optimizer_search_depth optimizer_switch optimizer_trace optimizer_trace_features optimizer_trace_limit
	optimizer_trace_max_mem_size optimizer_trace_offset parser_max_mem_size partial_revokes password_history
	password_require_current password_reuse_interval performance_schema_accounts_size performance_schema_digests_size
	performance_schema_error_size performance_schema_events_stages_history_long_size
	performance_schema_events_stages_history_size performance_schema_events_statements_history_long_size
	performance_schema_events_statements_history_size performance_schema_events_transactions_history_long_size
	performance_schema_events_transactions_history_size performance_schema_events_waits_history_long_size
	performance_schema_events_waits_history_size performance_schema_hosts_size performance_schema_max_cond_classes
	performance_schema_max_cond_instances performance_schema_max_digest_length performance_schema_max_digest_sample_age
	performance_schema_max_file_handles performance_schema_max_file_instances
	performance_schema_max_index_stat performance_schema_max_logger_classes performance_schema_max_memory_classes
	performance_schema_max_meter_classes performance_schema_max_metric_classes performance_schema_max_mutex_classes
	performance_schema_max_mutex_instances performance_schema_max_prepared_statements_instances
	performance_schema_max_program_instances performance_schema_max_rwlock_classes performance_schema_max_rwlock_instances
	performance_schema_max_socket_classes performance_schema_max_socket_instances performance_schema_max_sql_text_length
	performance_schema_max_statement_classes performance_schema_max_statement_stack
	performance_schema_max_table_handles performance_schema_max_table_instances performance_schema_max_table_lock_stat
	performance_schema_session_connect_attrs_size performance_schema_setup_actors_size performance_schema_setup_objects_size
	performance_schema_show_processlist performance_schema_users_size preload_buffer_size print_identified_with_as_hex
	profiling profiling_history_size query_alloc_block_size query_prealloc_size range_alloc_block_size
	range_optimizer_max_mem_size read_buffer_size read_rnd_buffer_size regexp_stack_limit regexp_time_limit
	replica_parallel_workers replica_pending_jobs_size_max replication_optimize_for_static_plugin_config
	replication_sender_observe_commit_only schema_definition_cache secondary_engine_cost_threshold select_into_buffer_size
	select_into_disk_sync select_into_disk_sync_delay session_track_gtids session_track_schema session_track_state_change
	session_track_system_variables session_track_transaction_info set_operations_buffer_size show_create_table_verbosity
	show_gipk_in_create_table_and_information_schema skip_show_database slow_launch_time slow_query_log sort_buffer_size
	sql_auto_is_null sql_buffer_result sql_generate_invisible_primary_key sql_log_off sql_mode sql_notes
	sql_quote_show_create sql_require_primary_key sql_safe_updates sql_warnings ssl_session_cache_mode
	ssl_session_cache_timeout stored_program_cache stored_program_definition_cache table_definition_cache table_open_cache
	table_open_cache_instances table_open_cache_triggers tablespace_definition_cache temptable_max_mmap temptable_max_ram
	temptable_use_mmap terminology_use_previous thread_cache_size thread_handling thread_stack time_zone tls_ciphersuites
	tmp_table_size transaction_alloc_block_size transaction_isolation transaction_prealloc_size unique_checks
	updatable_views_with_limit wait_timeout windowing_use_high_precision xa_detach_on_prepare`

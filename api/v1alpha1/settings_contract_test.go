package v1alpha1_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// tuned are variables that people tune, and that no rule may take from them.
const tuned = `
activate_all_roles_on_login auto_increment_increment auto_increment_offset back_log big_tables binlog_cache_size
binlog_checksum binlog_expire_logs_seconds binlog_group_commit_sync_delay binlog_group_commit_sync_no_delay_count
binlog_row_image binlog_row_metadata binlog_rows_query_log_events binlog_stmt_cache_size binlog_transaction_compression
binlog_transaction_dependency_history_size block_encryption_mode bulk_insert_buffer_size character_set_server
check_proxy_users collation_server connect_timeout concurrent_insert cte_max_recursion_depth default_password_lifetime
default_week_format div_precision_increment end_markers_in_json eq_range_index_dive_limit event_scheduler
explicit_defaults_for_timestamp expire_logs_days flush flush_time ft_max_word_len ft_min_word_len general_log
group_concat_max_len histogram_generation_max_mem_size host_cache_size information_schema_stats_expiry
innodb_adaptive_flushing innodb_adaptive_hash_index innodb_autoextend_increment innodb_autoinc_lock_mode
innodb_buffer_pool_chunk_size innodb_buffer_pool_dump_pct innodb_buffer_pool_instances innodb_buffer_pool_size
innodb_change_buffering innodb_concurrency_tickets innodb_ddl_threads innodb_deadlock_detect
innodb_default_row_format innodb_fast_shutdown innodb_file_per_table innodb_fill_factor innodb_flush_log_at_timeout
innodb_flush_neighbors innodb_ft_max_token_size innodb_ft_min_token_size innodb_io_capacity innodb_io_capacity_max
innodb_lock_wait_timeout innodb_log_buffer_size innodb_log_file_size innodb_log_writer_threads innodb_lru_scan_depth
innodb_max_dirty_pages_pct innodb_max_purge_lag innodb_numa_interleave innodb_old_blocks_time innodb_online_alter_log_max_size
innodb_open_files innodb_page_cleaners innodb_parallel_read_threads innodb_print_all_deadlocks innodb_purge_threads
innodb_random_read_ahead innodb_read_ahead_threshold innodb_read_io_threads innodb_redo_log_capacity innodb_rollback_on_timeout
innodb_sort_buffer_size innodb_spin_wait_delay innodb_stats_persistent innodb_strict_mode innodb_sync_array_size
innodb_thread_concurrency innodb_undo_log_truncate innodb_use_fdatasync innodb_write_io_threads interactive_timeout
internal_tmp_mem_storage_engine join_buffer_size keep_files_on_create key_buffer_size large_pages local_infile
lock_wait_timeout log_bin_trust_function_creators log_output log_queries_not_using_indexes log_slow_admin_statements
log_slow_extra log_slow_replica_statements log_throttle_queries_not_using_indexes log_timestamps long_query_time
low_priority_updates mandatory_roles max_allowed_packet max_binlog_cache_size max_binlog_size max_connect_errors
max_connections max_digest_length max_error_count max_execution_time max_heap_table_size max_join_size
max_length_for_sort_data max_points_in_geometry max_prepared_stmt_count max_seeks_for_key max_sort_length
max_sp_recursion_depth max_user_connections max_write_lock_count min_examined_row_limit net_buffer_length
net_read_timeout net_retry_count net_write_timeout ngram_token_size old_alter_table open_files_limit optimizer_prune_level
optimizer_search_depth optimizer_switch parser_max_mem_size partial_revokes password_history password_require_current
performance_schema_digests_size performance_schema_error_size performance_schema_max_digest_length
performance_schema_max_sql_text_length preload_buffer_size print_identified_with_as_hex profiling_history_size
query_alloc_block_size query_prealloc_size range_alloc_block_size range_optimizer_max_mem_size read_buffer_size
read_rnd_buffer_size regexp_stack_limit regexp_time_limit schema_definition_cache select_into_buffer_size
session_track_gtids session_track_schema set_operations_buffer_size show_create_table_verbosity slow_launch_time slow_query_log
sort_buffer_size sql_generate_invisible_primary_key sql_mode sql_require_primary_key sql_safe_updates
stored_program_cache stored_program_definition_cache table_definition_cache table_open_cache table_open_cache_instances
tablespace_definition_cache temptable_max_mmap temptable_max_ram temptable_use_mmap thread_cache_size thread_handling
thread_stack time_zone tmp_table_size transaction_alloc_block_size transaction_isolation transaction_prealloc_size
updatable_views_with_limit wait_timeout windowing_use_high_precision xa_detach_on_prepare
validate_password.policy validate_password.length connection_memory_limit global_connection_memory_limit
global_connection_memory_tracking init_tables
`

func TestTunedSettingsStayTheUsers(t *testing.T) {
	for _, name := range strings.Fields(tuned) {
		if reason, owned := settings.Owned(name); owned {
			t.Errorf("%s is taken from the user: %s", name, reason)
		}
	}
}

// TestGoAndTheAPIServerAgreeOnSettings asks both about every name of both series, and about what begins like an owned one.
func TestGoAndTheAPIServerAgreeOnSettings(t *testing.T) {
	api := api(t)
	asked := append(strings.Fields(tuned), "loose_back_log", "loose_sync_binlog", "skip_innodb", "mysqlx_anything", "clone_more", "validate_password.policy")
	version := map[string]string{"8.4": "8.4.6", "9.7": "9.7.4"}
	for _, series := range settings.Series {
		asked = append(asked, settings.Names(series)...)
	}
	for _, series := range settings.Series {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(asked))) {
			want := settings.Check(name, "1")
			object := cluster(t, "orders", set("mysqld", map[string]any{name: "1"}), set("version", version[series]))
			err := api.Create(t.Context(), object, client.DryRunAll)
			if want == nil && settings.Missing(series, name) {
				want = fmt.Errorf("remove %s from spec.mysqld", name)
			}
			if (want == nil) != (err == nil) || want != nil && !strings.Contains(err.Error(), strings.ReplaceAll(want.Error(), name+": ", "remove "+name+": ")) {
				t.Errorf("%s of %s: settings says %v, the API server said: %v", name, series, want, err)
			}
		}
	}
}

// TestWhatIsPinnedIsOwned: a user must not be able to ask for what the operator puts back at every pass.
func TestWhatIsPinnedIsOwned(t *testing.T) {
	for _, pins := range []map[string]string{mysql.PinnedSettings(), mysql.ReadOnlyPins()} {
		for name := range pins {
			if _, owned := settings.Owned(name); !owned {
				t.Errorf("%s is pinned, and spec.mysqld takes it", name)
			}
		}
	}
}

// TestWhatIsInForceIsPinned: what is said to be in force on every member is put back when somebody changes it. Every series has what is
// pinned: a member without it would have no vote.
func TestWhatIsInForceIsPinned(t *testing.T) {
	dynamic := func(name string) bool {
		return !slices.ContainsFunc(settings.Series, func(series string) bool {
			fact, known := settings.Facts(series, name)
			return !known || !fact.Variable || !fact.Dynamic
		})
	}
	pins := mysql.PinnedSettings()
	for _, name := range settings.Fixed() {
		if _, pinned := pins[name]; dynamic(name) && !pinned && mysql.ReadOnlyPins()[name] == "" {
			t.Errorf("%s can be changed on a running member, and is not pinned", name)
		}
	}
	for name, value := range pins {
		if !strings.HasPrefix(name, "rpl_semi_sync_") && !dynamic(name) {
			t.Errorf("%s is pinned to %q: SET GLOBAL does not take it in every series", name, value)
		}
	}
}

// TestGoAndTheAPIServerAgreeOnPairsOfSettings: two settings that contradict each other are refused together, and each alone is taken.
func TestGoAndTheAPIServerAgreeOnPairsOfSettings(t *testing.T) {
	api := api(t)
	for _, spec := range []map[string]any{
		{"log_slow_slave_statements": "ON", "log_slow_replica_statements": "ON"}, {"log_slow_slave_statements": "ON"},
		{"character_set_server": "latin1", "collation_server": "utf8mb4_bin"}, {"character_set_server": "latin1"}, {"collation_server": "utf8mb4_bin"},
		{"character_set_server": "UTF8", "collation_server": "utf8mb3_bin"}, {"character_set_server": "utf8", "collation_server": "utf8mb4_bin"},
		{"character_set_database": "binary", "collation_database": "binary"}, {"character_set_connection": "latin2", "collation_connection": "latin1_bin"},
	} {
		plain := map[string]string{}
		for name, value := range spec {
			plain[name] = fmt.Sprint(value)
		}
		err := api.Create(t.Context(), cluster(t, "orders", set("mysqld", spec)), client.DryRunAll)
		ignored := settings.NotTaken(plain)
		if (err == nil) != (len(ignored) == 0) {
			t.Errorf("%v: settings says %v, the API server said: %v", spec, ignored, err)
		}
		for _, why := range ignored {
			if !strings.Contains(err.Error(), why) {
				t.Errorf("%v: settings says %s, the API server said: %v", spec, why, err)
			}
		}
	}
}

package main

// The labels of what a person chose.
const (
	ofCluster = `{namespace=~"$namespace",cluster=~"$cluster"}`
	ofMember  = `{namespace=~"$namespace",cluster=~"$cluster",member=~"$member"}`
)

var (
	inNamespace = variable{name: "namespace", label: "Namespace", metric: "mysqlcluster_phase", several: true}
	oneOf       = variable{name: "namespace", label: "Namespace", metric: "mysqlcluster_phase"}
	oneCluster  = variable{name: "cluster", label: "Cluster", metric: `mysqlcluster_phase{namespace=~"$namespace"}`}
	oneMember   = variable{name: "member", label: "Member", metric: `mysql_up` + ofCluster, several: true}
)

// yes and no are the states of what should hold.
var yesNo = map[string]state{"1": {"yes", green}, "0": {"no", red}}

// fleet is for whoever runs many clusters: which of them needs somebody, and is the operator well.
var fleet = board{
	uid: "nairobi-mysql-fleet", title: "MySQL: fleet", description: "All MySQL clusters, those that need somebody first, and the operator.",
	rows: []row{
		{"Clusters", []panel{
			{kind: figure, title: "Clusters", description: "All clusters that the operator looks after, hibernated ones too.", queries: []query{
				{expr: `count(count by (namespace, cluster) (mysqlcluster_phase)) or vector(0)`},
			}},
			{kind: figure, title: "Writes fail", description: "Clusters on which the operator's own write has failed for more than five seconds.", badAt: one, queries: []query{
				{expr: `count(max by (namespace, cluster) (mysqlcluster_available) == 0) or vector(0)`},
			}},
			{kind: figure, title: "Need attention", description: "Clusters with at least one problem.", warnAt: one, queries: []query{
				{expr: `count(count by (namespace, cluster) (mysqlcluster_problem == 1)) or vector(0)`},
			}},
			{kind: figure, title: "No voter to spare", description: "Clusters of three members and more on which commits wait when one more voter fails.", warnAt: one, queries: []query{
				{expr: `count(max by (namespace, cluster) (mysqlcluster_quorum_headroom) < 1 and on (namespace, cluster) sum by (namespace, cluster) (mysqlcluster_members) >= 3) or vector(0)`},
			}},
			{kind: figure, title: "Critical alerts", description: "Alerts that somebody must look at now.", badAt: one, queries: []query{
				{expr: `count(ALERTS{alertstate="firing",severity="critical",alertname=~"MySQL.+"}) or vector(0)`},
			}},
			{kind: figure, title: "Members", description: "MySQL servers of all clusters.", queries: []query{{expr: `sum(max by (namespace, cluster, phase) (mysqlcluster_members)) or vector(0)`}}},
			{kind: grid, title: "Every cluster", description: "One row for each cluster. Headroom is how many more voters may fail before commits wait.", queries: []query{
				{expr: `max by (namespace, cluster) (mysqlcluster_available)`, legend: "Writes succeed", unit: "bool_yes_no"},
				{expr: `count by (namespace, cluster) (max by (namespace, cluster, reason) (mysqlcluster_problem) == 1)`, legend: "Problems", unit: "none"},
				{expr: `max by (namespace, cluster) (mysqlcluster_quorum_headroom)`, legend: "Headroom", unit: "none"},
				{expr: `sum by (namespace, cluster) (max by (namespace, cluster, phase) (mysqlcluster_members))`, legend: "Members", unit: "none"},
				{expr: `sum by (namespace, cluster) (rate(mysql_global_status_questions[5m]))`, legend: "Statements", unit: "reqps"},
				{expr: `max by (namespace, cluster) (mysqlcluster_replication_lag_seconds)`, legend: "Largest lag", unit: "s"},
				{expr: `min by (namespace, cluster) (mysqlcluster_data_volume_bytes{kind="free"} / ignoring (kind) mysqlcluster_data_volume_bytes{kind="size"})`, legend: "Least free disk", unit: "percentunit"},
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_backup_last_good_timestamp_seconds) > 0)`, legend: "Age of the last good backup", unit: "s"},
				{expr: `min by (namespace, cluster) (mysqlcluster_certificate_expiry_timestamp_seconds) - time()`, legend: "Certificates end in", unit: "s"},
				{expr: `sum by (namespace, cluster) (max by (namespace, cluster, kind) (mysqlcluster_cost_per_month))`, legend: "Cost a month", unit: "none"},
			}},
			{title: "Problems by reason", description: "How many clusters have each reason. docs/operations.md says what each means and what to do.", unit: "none", width: 12, low: zero, queries: []query{
				{expr: `count by (reason) (max by (namespace, cluster, reason) (mysqlcluster_problem) == 1) or on () label_replace(vector(0), "reason", "none", "", "")`, legend: "{{reason}}"},
			}},
			{title: "Promotions", description: "Failovers, switchovers and reopenings of the same primary, by the hour.", unit: "none", width: 12, low: zero, queries: []query{
				{expr: `sum by (kind) (increase(mysqlcluster_promotions_total[1h]))`, legend: "{{kind}}"},
			}},
		}},
		{"Operator", []panel{
			{kind: figure, title: "Leads", description: "Whether one copy of the operator works.", values: yesNo, queries: []query{{expr: `max(mysqlcluster_operator_leading)`}}},
			{kind: figure, title: "Copies", description: "Copies of the operator that answer. One works, the others wait.", badBelow: one, queries: []query{{expr: `count(mysqlcluster_operator_leading) or vector(0)`}}},
			{title: "Looks at clusters", description: "Reconciles, and those that ended with an error and are repeated.", unit: "ops", low: zero, queries: []query{
				{expr: `sum by (error) (rate(mysqlcluster_reconciles_total[$__rate_interval]))`, legend: "error: {{error}}"},
			}},
			{title: "Time of a look", description: "How long a reconcile takes, half of them and 95 in 100 at most.", unit: "s", low: zero, queries: []query{
				{expr: `histogram_quantile(0.5, sum by (le) (rate(mysqlcluster_reconciles_duration_seconds_bucket[$__rate_interval])))`, legend: "p50"},
				{expr: `histogram_quantile(0.95, sum by (le) (rate(mysqlcluster_reconciles_duration_seconds_bucket[$__rate_interval])))`, legend: "p95"},
			}},
			{title: "Calls to AWS", description: "Calls by the code of the answer; retries count.", unit: "reqps", low: zero, queries: []query{
				{expr: `sum by (code) (rate(mysqlcluster_aws_calls_total[$__rate_interval]))`, legend: "{{code}}"},
			}},
			{title: "Time of a call to AWS", description: "95 in 100 calls of each operation were answered within this time.", unit: "s", low: zero, queries: []query{
				{expr: `histogram_quantile(0.95, sum by (le, operation) (rate(mysqlcluster_aws_call_duration_seconds_bucket[$__rate_interval])))`, legend: "{{operation}}"},
			}},
			{title: "Memory of the operator", description: "Resident memory of each copy.", unit: "bytes", low: zero, queries: []query{
				{expr: `process_resident_memory_bytes and on (instance, job) mysqlcluster_operator_leading`, legend: "{{instance}}"},
			}},
		}},
	},
}

// cluster is for whoever looks after one cluster: does it serve, who serves, is anything about to end.
var cluster = board{
	uid: "nairobi-mysql-cluster", title: "MySQL: cluster", description: "One MySQL cluster: whether it takes writes, what its members do, how they replicate.",
	variables: []variable{oneOf, oneCluster},
	rows: []row{
		{"Health", []panel{
			{kind: figure, title: "Writes succeed", description: "Whether the operator's own write through the primary Service has succeeded in the last five seconds.", values: yesNo, queries: []query{
				{expr: `max(mysqlcluster_available` + ofCluster + `)`},
			}},
			{kind: figure, title: "Headroom", description: "How many more voters may fail before commits wait.", warnAt: nil, badBelow: one, queries: []query{{expr: `max(mysqlcluster_quorum_headroom` + ofCluster + `)`}}},
			{kind: figure, title: "Availability", description: "The part of the chosen time in which writes succeeded.", unit: "percentunit", badBelow: new(0.999), queries: []query{
				{expr: `avg_over_time(max(mysqlcluster_available` + ofCluster + `)[$__range:30s])`},
			}},
			{kind: figure, title: "Statements", description: "Statements of clients on all members.", unit: "reqps", queries: []query{{expr: `sum(rate(mysql_global_status_questions` + ofCluster + `[5m]))`}}},
			{kind: figure, title: "Largest lag", description: "How far the replica that is furthest behind has to apply.", unit: "s", warnAt: new(30.0), badAt: new(300.0), queries: []query{
				{expr: `max(mysqlcluster_replication_lag_seconds` + ofCluster + `)`},
			}},
			{kind: figure, title: "Certificates end in", description: "The certificate that ends first. They are renewed when a third of their life is left.", unit: "s", badBelow: new(7 * 86400.0), queries: []query{
				{expr: `min(mysqlcluster_certificate_expiry_timestamp_seconds` + ofCluster + `) - time()`},
			}},
			{kind: timeline, title: "Phase", description: "The phase of the cluster.", width: 12, values: map[string]state{"1": {"in this phase", blue}}, queries: []query{
				{expr: `max by (phase) (mysqlcluster_phase` + ofCluster + `) == 1`, legend: "{{phase}}"},
			}},
			{kind: timeline, title: "Problems", description: "What needs attention; docs/operations.md says what each reason means and what to do. Empty is good.", width: 12,
				values: map[string]state{"1": {"there", red}, "0": {"none", green}}, queries: []query{
					{expr: `max by (reason) (mysqlcluster_problem` + ofCluster + `) or on () label_replace(vector(0), "reason", "none", "", "")`, legend: "{{reason}}"},
				}},
			{kind: timeline, title: "Who takes writes", description: "The primary is the member that is not read-only.", width: 12, values: map[string]state{"0": {"primary", blue}, "1": {"replica", grey}}, queries: []query{
				{expr: `max by (member) (mysql_global_variables_read_only` + ofCluster + `)`, legend: "{{member}}"},
			}},
			{kind: timeline, title: "Members answer", description: "Whether each member answers queries.", width: 12, values: yesNo, queries: []query{
				{expr: `max by (member) (mysql_up` + ofCluster + `)`, legend: "{{member}}"},
			}},
		}},
		{"Load", []panel{
			{title: "Statements", description: "Statements of clients, by member.", unit: "reqps", low: zero, queries: []query{
				{expr: `sum by (member) (rate(mysql_global_status_questions` + ofCluster + `[$__rate_interval]))`, legend: "{{member}}"},
			}},
			{title: "Latency", description: "How long statements took: half, 95 and 99 in 100 at most. Those of replication and of the operator are among them.", unit: "s", low: zero, queries: []query{
				{expr: `histogram_quantile(0.5, sum by (le) (rate(mysql_statement_duration_seconds_bucket` + ofCluster + `[$__rate_interval])))`, legend: "p50"},
				{expr: `histogram_quantile(0.95, sum by (le) (rate(mysql_statement_duration_seconds_bucket` + ofCluster + `[$__rate_interval])))`, legend: "p95"},
				{expr: `histogram_quantile(0.99, sum by (le) (rate(mysql_statement_duration_seconds_bucket` + ofCluster + `[$__rate_interval])))`, legend: "p99"},
			}},
			{title: "Connections", description: "Open connections, by member.", unit: "none", low: zero, queries: []query{
				{expr: `sum by (member) (mysql_global_status_threads_connected` + ofCluster + `)`, legend: "{{member}}"},
			}},
		}},
		{"Replication", []panel{
			{title: "Lag of receiving", description: "How long after its commit the newest transaction reached the replica. A failover loses nothing of what was received.", unit: "s", low: zero, queries: []query{
				{expr: `max by (member) (mysql_replica_receive_lag_seconds` + ofCluster + `)`, legend: "{{member}}"},
			}},
			{title: "Lag of applying", description: "How long ago the primary committed what the replica applies now. Reads from the replica are this old.", unit: "s", low: zero, queries: []query{
				{expr: `max by (member) (mysql_slave_status_seconds_behind_master` + ofCluster + `)`, legend: "{{member}}"},
			}},
			{title: "Wait for an acknowledgement", description: "How long a commit on the primary waits for its replicas, on average.", unit: "µs", low: zero, queries: []query{
				{expr: `sum(rate(mysql_global_status_rpl_semi_sync_source_tx_wait_time` + ofCluster + `[$__rate_interval])) / sum(rate(mysql_global_status_rpl_semi_sync_source_tx_waits` + ofCluster + `[$__rate_interval]))`, legend: "mean"},
			}},
			{title: "Commits by acknowledgement", description: "Commits of the primary that a replica acknowledged, and those answered without: those a failover may lose.", unit: "ops", low: zero, queries: []query{
				{expr: `sum(rate(mysql_global_status_rpl_semi_sync_source_yes_tx` + ofCluster + `[$__rate_interval]))`, legend: "acknowledged"},
				{expr: `sum(rate(mysql_global_status_rpl_semi_sync_source_no_tx` + ofCluster + `[$__rate_interval]))`, legend: "not acknowledged"},
			}},
			{title: "Sessions that wait", description: "Sessions whose commit waits for an acknowledgement now.", unit: "none", low: zero, queries: []query{
				{expr: `max by (member) (mysql_global_status_rpl_semi_sync_source_wait_sessions` + ofCluster + `)`, legend: "{{member}}"},
			}},
			{title: "Binary logs", description: "Bytes of all binary logs, by member.", unit: "bytes", low: zero, queries: []query{
				{expr: `sum by (member) (mysql_binlog_size_bytes` + ofCluster + `)`, legend: "{{member}}"},
			}},
		}},
		{"Disk", []panel{
			{title: "Free space", description: "The free part of each data volume.", unit: "percentunit", low: zero, high: one, width: 12, queries: []query{
				{expr: `max by (member) (mysqlcluster_data_volume_bytes{kind="free",namespace=~"$namespace",cluster=~"$cluster"}) / max by (member) (mysqlcluster_data_volume_bytes{kind="size",namespace=~"$namespace",cluster=~"$cluster"})`, legend: "{{member}}"},
			}},
			{title: "Full in", description: "When each data volume is full if it fills as in the last hour; at most 30 days, empty when it does not fill.", unit: "s", low: zero, width: 12, queries: []query{
				{expr: `clamp_max(max by (member) (mysqlcluster_data_volume_bytes{kind="free",namespace=~"$namespace",cluster=~"$cluster"}) / (- max by (member) (deriv(mysqlcluster_data_volume_bytes{kind="free",namespace=~"$namespace",cluster=~"$cluster"}[1h])) > 0), 30 * 86400)`, legend: "{{member}}"},
			}},
		}},
	},
}

// member is for whoever tunes a server or looks for what makes it slow.
var member = board{
	uid: "nairobi-mysql-member", title: "MySQL: member", description: "The inside of MySQL servers: statements, connections, InnoDB, errors.",
	variables: []variable{oneOf, oneCluster, oneMember},
	rows: []row{
		{"Server", []panel{
			{kind: figure, title: "Up", description: "Whether the server answers.", values: yesNo, width: 6, queries: []query{{expr: `max by (member) (mysql_up` + ofMember + `)`, legend: "{{member}}"}}},
			{kind: figure, title: "Uptime", description: "How long ago the server started.", unit: "s", width: 6, queries: []query{{expr: `max by (member) (mysql_global_status_uptime` + ofMember + `)`, legend: "{{member}}"}}},
			{kind: figure, title: "Version", description: "The version of the server.", width: 6, names: true, queries: []query{{expr: `max by (member, version) (mysql_version_info` + ofMember + `)`, legend: "{{member}} {{version}}"}}},
			{kind: figure, title: "Buffer pool", description: "The size of InnoDB's buffer pool.", unit: "bytes", width: 6, queries: []query{{expr: `max by (member) (mysql_global_variables_innodb_buffer_pool_size` + ofMember + `)`, legend: "{{member}}"}}},
		}},
		{"Statements", []panel{
			{title: "By kind", description: "Statements by kind, the ten most frequent.", unit: "ops", low: zero, queries: []query{
				{expr: `topk(10, sum by (command) (rate(mysql_global_status_commands_total` + ofMember + `[$__rate_interval])))`, legend: "{{command}}"},
			}},
			{title: "Latency", description: "How long statements took: half, 95 and 99 in 100 at most.", unit: "s", low: zero, queries: []query{
				{expr: `histogram_quantile(0.5, sum by (le) (rate(mysql_statement_duration_seconds_bucket` + ofMember + `[$__rate_interval])))`, legend: "p50"},
				{expr: `histogram_quantile(0.95, sum by (le) (rate(mysql_statement_duration_seconds_bucket` + ofMember + `[$__rate_interval])))`, legend: "p95"},
				{expr: `histogram_quantile(0.99, sum by (le) (rate(mysql_statement_duration_seconds_bucket` + ofMember + `[$__rate_interval])))`, legend: "p99"},
			}},
			{title: "Slow and without index", description: "Statements slower than long_query_time, and statements that scanned a table.", unit: "ops", low: zero, queries: []query{
				{expr: `sum by (member) (rate(mysql_global_status_slow_queries` + ofMember + `[$__rate_interval]))`, legend: "{{member}} slow"},
				{expr: `sum by (member) (rate(mysql_perf_schema_events_statements_sum_no_index_used` + ofMember + `[$__rate_interval]))`, legend: "{{member}} without index"},
			}},
			{title: "Rows", description: "Rows that statements examined, and those they returned or changed. Far apart, an index is missing.", unit: "ops", low: zero, queries: []query{
				{expr: `sum(rate(mysql_perf_schema_events_statements_sum_rows_examined` + ofMember + `[$__rate_interval]))`, legend: "examined"},
				{expr: `sum(rate(mysql_perf_schema_events_statements_sum_rows_sent` + ofMember + `[$__rate_interval]))`, legend: "returned"},
				{expr: `sum(rate(mysql_perf_schema_events_statements_sum_rows_affected` + ofMember + `[$__rate_interval]))`, legend: "changed"},
			}},
			{title: "Errors", description: "Statements that failed, and connections that were refused or broke off.", unit: "ops", low: zero, queries: []query{
				{expr: `sum by (member) (rate(mysql_perf_schema_events_statements_sum_errors` + ofMember + `[$__rate_interval]))`, legend: "{{member}} statements"},
				{expr: `sum by (member) (rate(mysql_global_status_aborted_connects` + ofMember + `[$__rate_interval]))`, legend: "{{member}} refused"},
				{expr: `sum by (member) (rate(mysql_global_status_aborted_clients` + ofMember + `[$__rate_interval]))`, legend: "{{member}} broke off"},
			}},
			{title: "Temporary tables", description: "Internal temporary tables in memory and on disk.", unit: "ops", low: zero, queries: []query{
				{expr: `sum(rate(mysql_global_status_created_tmp_tables` + ofMember + `[$__rate_interval]))`, legend: "all"},
				{expr: `sum(rate(mysql_global_status_created_tmp_disk_tables` + ofMember + `[$__rate_interval]))`, legend: "on disk"},
			}},
		}},
		{"Connections and network", []panel{
			{title: "Connections", description: "Open connections against the most that the server takes.", unit: "percentunit", low: zero, high: one, queries: []query{
				{expr: `max by (member) (mysql_global_status_threads_connected` + ofMember + `) / max by (member) (mysql_global_variables_max_connections` + ofMember + `)`, legend: "{{member}}"},
			}},
			{title: "Running", description: "Connections that run a statement. More than the server has cores means waiting.", unit: "none", low: zero, queries: []query{
				{expr: `max by (member) (mysql_global_status_threads_running` + ofMember + `)`, legend: "{{member}}"},
			}},
			{title: "Network", description: "Bytes from and to clients.", unit: "Bps", queries: []query{
				{expr: `sum(rate(mysql_global_status_bytes_received` + ofMember + `[$__rate_interval]))`, legend: "received"},
				{expr: `sum(rate(mysql_global_status_bytes_sent` + ofMember + `[$__rate_interval]))`, legend: "sent"},
			}},
		}},
		{"InnoDB", []panel{
			{title: "Buffer pool", description: "Bytes of the buffer pool that hold data, and those that are to be written.", unit: "bytes", low: zero, queries: []query{
				{expr: `max by (member) (mysql_global_status_innodb_buffer_pool_bytes_data` + ofMember + `)`, legend: "{{member}} data"},
				{expr: `max by (member) (mysql_global_status_innodb_buffer_pool_bytes_dirty` + ofMember + `)`, legend: "{{member}} to be written"},
			}},
			{title: "Reads that went to disk", description: "The part of reads that the buffer pool could not answer. Above one in a hundred for long, it is too small.", unit: "percentunit", low: zero, queries: []query{
				{expr: `sum by (member) (rate(mysql_global_status_innodb_buffer_pool_reads` + ofMember + `[$__rate_interval])) / sum by (member) (rate(mysql_global_status_innodb_buffer_pool_read_requests` + ofMember + `[$__rate_interval]))`, legend: "{{member}}"},
			}},
			{title: "Rows", description: "Rows by what was done with them.", unit: "ops", low: zero, queries: []query{
				{expr: `sum by (operation) (rate(mysql_global_status_innodb_row_ops_total` + ofMember + `[$__rate_interval]))`, legend: "{{operation}}"},
			}},
			{title: "Row locks", description: "Sessions that wait for a row lock now.", unit: "none", low: zero, queries: []query{
				{expr: `max by (member) (mysql_global_status_innodb_row_lock_current_waits` + ofMember + `)`, legend: "{{member}}"},
			}},
			{title: "Redo log", description: "Bytes of the redo log in use, against what it may take. Near the limit writes wait.", unit: "percentunit", low: zero, high: one, queries: []query{
				{expr: `max by (member) (mysql_global_status_innodb_redo_log_logical_size` + ofMember + `) / max by (member) (mysql_global_variables_innodb_redo_log_capacity` + ofMember + `)`, legend: "{{member}}"},
			}},
			{title: "History list", description: "Transactions that purge has still to remove. It grows while a transaction stays open.", unit: "none", low: zero, queries: []query{
				{expr: `max by (member) (mysql_info_schema_innodb_metrics_transaction_trx_rseg_history_len` + ofMember + `)`, legend: "{{member}}"},
			}},
			{title: "Disk", description: "Bytes read from and written to data files, and to the redo log.", unit: "Bps", low: zero, queries: []query{
				{expr: `sum(rate(mysql_global_status_innodb_data_read` + ofMember + `[$__rate_interval]))`, legend: "read"},
				{expr: `sum(rate(mysql_global_status_innodb_data_written` + ofMember + `[$__rate_interval]))`, legend: "written"},
				{expr: `sum(rate(mysql_global_status_innodb_os_log_written` + ofMember + `[$__rate_interval]))`, legend: "redo log"},
			}},
			{title: "Syncs", description: "Calls of fsync for data files.", unit: "ops", low: zero, queries: []query{
				{expr: `sum by (member) (rate(mysql_global_status_innodb_data_fsyncs` + ofMember + `[$__rate_interval]))`, legend: "{{member}}"},
			}},
			{title: "Tables", description: "Tables that had to be opened because the cache did not hold them.", unit: "ops", low: zero, queries: []query{
				{expr: `sum by (member) (rate(mysql_global_status_table_open_cache_misses` + ofMember + `[$__rate_interval]))`, legend: "{{member}}"},
			}},
		}},
		{"Reading these figures", []panel{
			{title: "Time of a reading", description: "How long the exporter took to read the server.", unit: "s", low: zero, width: 12, queries: []query{
				{expr: `max by (member) (mysql_exporter_scrape_duration_seconds` + ofMember + `)`, legend: "{{member}}"},
			}},
			{kind: timeline, title: "Queries that failed", description: "Whether every query of the exporter succeeded.", width: 12, values: yesNo, queries: []query{
				{expr: `min by (member) (mysql_exporter_collector_success` + ofMember + `)`, legend: "{{member}}"},
			}},
		}},
	},
}

// backups is for whoever answers for getting data back.
var backups = board{
	uid: "nairobi-mysql-backup", title: "MySQL: backup", description: "Whether what is needed to restore is there: backups, their verification, the archive of binary logs.",
	variables: []variable{inNamespace, {name: "cluster", label: "Cluster", metric: `mysqlcluster_phase{namespace=~"$namespace"}`, several: true}},
	rows: []row{
		{"Backups", []panel{
			{kind: figure, title: "Oldest last good backup", description: "The cluster whose last good backup is the oldest.", unit: "s", width: 5, badAt: new(2 * 86400.0), queries: []query{
				{expr: `time() - min(max by (namespace, cluster) (mysqlcluster_backup_last_good_timestamp_seconds` + ofCluster + ` > 0))`},
			}},
			{kind: figure, title: "Never backed up", description: "Clusters with backups configured of which none has completed.", width: 5, badAt: one, queries: []query{
				{expr: `count(max by (namespace, cluster) (mysqlcluster_backup_last_good_timestamp_seconds` + ofCluster + `) == 0) or vector(0)`},
			}},
			{kind: figure, title: "Verification failed", description: "Clusters whose last verified backup was not whole.", width: 5, badAt: one, queries: []query{
				{expr: `count(max by (namespace, cluster) (mysqlcluster_backup_verification_failed` + ofCluster + `) == 1) or vector(0)`},
			}},
			{kind: figure, title: "Nothing archived", description: "Clusters whose archive of binary logs holds nothing yet: they can be restored to backups only.", badAt: one, queries: []query{
				{expr: `count(max by (namespace, cluster) (mysqlcluster_archive_segments` + ofCluster + `) == 0) or vector(0)`},
			}},
			{kind: figure, title: "Archive furthest behind", description: "How old the newest commit is that the archive furthest behind holds: what a restore to now would lose.", unit: "s", width: 5, warnAt: new(120.0), badAt: new(600.0), queries: []query{
				{expr: `time() - min(max by (namespace, cluster) (mysqlcluster_archive_covered_until_timestamp_seconds` + ofCluster + ` > 0))`},
			}},
			{kind: grid, title: "Every cluster", description: "One row for each cluster with backups or an archive.", queries: []query{
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_backup_last_good_timestamp_seconds` + ofCluster + `) > 0)`, legend: "Age of the last good backup", unit: "s"},
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_backup_last_verified_timestamp_seconds` + ofCluster + `) > 0)`, legend: "Verified", unit: "s"},
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_backup_last_failed_timestamp_seconds` + ofCluster + `) > 0)`, legend: "Last failure", unit: "s"},
				{expr: `max by (namespace, cluster) (mysqlcluster_backup_verification_failed` + ofCluster + `)`, legend: "Verification failed", unit: "bool_yes_no"},
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_archive_covered_until_timestamp_seconds` + ofCluster + `) > 0)`, legend: "Archive behind", unit: "s"},
				{expr: `max by (namespace, cluster) (mysqlcluster_archive_segments` + ofCluster + `)`, legend: "Segments", unit: "none"},
			}},
			{title: "Age of the last good backup", description: "How much the archive has to replay, or is lost without one, after a restore.", unit: "s", low: zero, width: 12, queries: []query{
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_backup_last_good_timestamp_seconds` + ofCluster + `) > 0)`, legend: "{{namespace}}/{{cluster}}"},
			}},
			{title: "Archive behind", description: "How old the newest commit is that the archive holds.", unit: "s", low: zero, width: 12, queries: []query{
				{expr: `time() - (max by (namespace, cluster) (mysqlcluster_archive_covered_until_timestamp_seconds` + ofCluster + `) > 0)`, legend: "{{namespace}}/{{cluster}}"},
			}},
			{kind: timeline, title: "Problems", description: "What is wrong with backups or the archive. Empty is good.", width: 24, values: map[string]state{"1": {"there", red}, "0": {"none", green}}, queries: []query{
				{expr: `max by (namespace, cluster, reason) (mysqlcluster_problem{reason=~"Backup.+|Archive.+|Verification.+",namespace=~"$namespace",cluster=~"$cluster"}) or on () label_replace(vector(0), "reason", "none", "", "")`, legend: "{{cluster}} {{reason}}"},
			}},
		}},
	},
}

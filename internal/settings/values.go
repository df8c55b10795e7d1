package settings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// valueRule is what the value of some settings must look like beyond what MySQL demands.
type valueRule struct {
	// names are apart by blanks.
	names string
	// like is a regular expression in RE2, which the API server and Go read alike. It is matched against the whole value.
	like string
	// words follow the name.
	words string
}

func (v valueRule) pattern() *regexp.Regexp { return regexp.MustCompile("^(" + v.like + ")$") }

// values are the settings that not every value is taken of, although MySQL would.
func values() []valueRule {
	return []valueRule{
		{
			names: "innodb_buffer_pool_size", like: `[0-9]{1,13}|[0-9]{1,10}[kK]|[0-9]{1,7}[mM]|[0-9]{1,4}[gG]`,
			words: "must be a number of bytes, or a number with K, M or G, of at most 9999G; leave it out to have MySQL take what suits the instance type",
		},
		{
			names: "max_allowed_packet",
			like:  `209715[2-9]|20971[6-9][0-9]|2097[2-9][0-9]{2}|209[89][0-9]{3}|2[1-9][0-9]{5}|[3-9][0-9]{6}|[1-9][0-9]{7,}|(204[89]|20[5-9][0-9]|2[1-9][0-9]{2}|[3-9][0-9]{3}|[1-9][0-9]{4,})[kK]|([2-9]|[1-9][0-9]+)[mM]|[1-9][0-9]*[gG]`,
			words: "must be at least 2M, as a number of bytes or with K, M or G: CLONE, by which members get their data, refuses less",
		},
		{
			names: "binlog_expire_logs_seconds", like: `0|3[6-9][0-9]{2}|[4-9][0-9]{3}|[1-9][0-9]{4,}`,
			words: "must be at least 3600 (an hour), or 0 for never: a replica that is copied or restarted needs the binary logs of that time from the primary, and so does the archive",
		},
		{
			names: "event_scheduler", like: `[oO][nN]|[oO][fF][fF]|0|1`,
			words: "must be ON or OFF: MySQL takes DISABLED only when it starts, and not from what is set while it runs",
		},
		{
			names: "thread_handling", like: `one-thread-per-connection`,
			words: "must be one-thread-per-connection, the default of MySQL: with one thread for all, nobody gets in beside the operator; leave it out",
		},
		{
			names: "lower_case_table_names", like: `0|1`,
			words: "must be 0 or 1: on Linux MySQL takes no other value",
		},
		{
			names: "replica_parallel_workers", like: `[1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-6]`,
			words: "must be from 1 to 256 threads; 16 unless set, about 4 for each vCPU where there are more than 4",
		},
		{
			names: "replica_pending_jobs_size_max", like: `(1[6-9]|[2-9][0-9]|[1-9][0-9]{2,5})[mM]|[1-9][0-9]{0,2}[gG]|(16[89][0-9]{5}|1[7-9][0-9]{6}|[2-9][0-9]{7}|[1-9][0-9]{8,11})`,
			words: "must be at least 16M, as a number of bytes (16800000 or more) or with M or G: with less a replica applies one large transaction at a time",
		},
		{
			names: "tls_ciphersuites", like: `TLS_(AES_128_GCM_SHA256|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)(:TLS_(AES_128_GCM_SHA256|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)){0,2}`,
			words: "must be one or more of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256, with colons between: the operator and the replicas connect with no others",
		},
		{
			names: "log_output", like: `([fF][iI][lL][eE]|[nN][oO][nN][eE])(,([fF][iI][lL][eE]|[nN][oO][nN][eE]))*`,
			words: "must be FILE or NONE: files are rotated, and LOAD_FILE reads them; the log tables grow for ever, and nobody can empty them on a replica",
		},
		{
			names: "performance_schema_setup_actors_size", like: `-1|1[6-9]|[2-9][0-9]|[1-9][0-9]{2,3}`,
			words: "must be at least 16, or -1 for no fixed size: the operator names the memory of each mysqld there, without which it does not know what a replica has acknowledged",
		},
		{
			names: lists, like: `[^ ]*`,
			words: "is a list: write it without blanks",
		},
	}
}

// lists are settings of which MySQL takes a list with commas and no blanks.
const lists = `sql_mode optimizer_switch optimizer_trace optimizer_trace_features binlog_row_value_options
	myisam_recover_options innodb_monitor_enable innodb_monitor_disable`

// inForce are the operator's settings with the values that they have on every member, in capitals. Who writes one of them changes
// nothing, and is not refused.
func inForce() map[string][]string {
	on, off := []string{"ON", "1", "TRUE", "YES"}, []string{"OFF", "0", "FALSE", "NO"}
	return map[string][]string{
		"autocommit":                     on,
		"auto_generate_certs":            off,
		"binlog_error_action":            {"ABORT_SERVER", "1"},
		"binlog_format":                  {"ROW"},
		"binlog_gtid_simple_recovery":    on,
		"binlog_order_commits":           on,
		"completion_type":                {"NO_CHAIN", "0"},
		"default_storage_engine":         {"INNODB"},
		"default_tmp_storage_engine":     {"INNODB"},
		"enforce_gtid_consistency":       {"ON", "1"},
		"gtid_mode":                      {"ON"},
		"innodb_checksum_algorithm":      {"CRC32"},
		"innodb_doublewrite":             {"ON", "1", "TRUE", "YES"},
		"innodb_flush_log_at_trx_commit": {"1"},
		"innodb_flush_method":            {"O_DIRECT"},
		"innodb_force_recovery":          {"0"},
		"innodb_log_checksums":           on,
		"innodb_page_size":               {"16384", "16K"},
		"innodb_redo_log_encrypt":        off,
		"innodb_undo_log_encrypt":        off,
		"log_replica_updates":            on,
		"log_slave_updates":              on,
		"performance_schema":             on,
		"relay_log_recovery":             off,
		"relay_log_space_limit":          {"0"},
		"replica_net_timeout":            {"4"},
		"replica_preserve_commit_order":  on,
		"replica_parallel_type":          {"LOGICAL_CLOCK"},
		"require_secure_transport":       on,
		"skip_name_resolve":              on,
		"skip_replica_start":             on,
		"sync_binlog":                    {"1"},
		"tls_version":                    {"TLSV1.2,TLSV1.3"},
	}
}

// Fixed are the operator's settings that have one value on every member.
func Fixed() []string { return slices.Sorted(maps.Keys(inForce())) }

// InForce says whether a value of an operator's setting is the one that it has on every member anyway.
func InForce(name, value string) bool {
	return slices.Contains(inForce()[name], strings.ToUpper(value))
}

// NotTaken returns those of the settings in a spec that are ignored, each with why. The API server refuses them: a spec holds one if it was
// accepted before there was a rule against it.
func NotTaken(spec map[string]string) map[string]string {
	found := map[string]string{}
	for name, value := range spec {
		if err := Check(name, value); err != nil {
			found[name] = err.Error()
		}
	}
	for _, p := range pairs() {
		if p.contradicts(spec) {
			found[p.ignored] = p.message()
		}
	}
	return found
}

// takenOf returns those of the settings in a spec that are not ignored, each under its canonical name.
func takenOf(spec map[string]string) map[string]string {
	ignored := NotTaken(spec)
	return ByVariable(only(spec, func(name, _ string) bool { _, is := ignored[name]; return !is }))
}

// ForMembers returns those of the settings in spec.mysqld that are applied to members over SQL, by their canonical names: without those
// that are in force anyway, those that are fixed when a cluster is made, and those that are ignored.
func ForMembers(spec map[string]string) map[string]string {
	return only(takenOf(spec), func(name, value string) bool {
		d, _ := Decide(name)
		return d.Class != Creation && !InForce(name, value)
	})
}

// ForLaunch returns those of ForMembers that a member of a series starts with the first time: variables that SQL persists later and
// that mysqld takes from its option file too. What it does not persist would be gone after a restart, and of a name that is unknown,
// such as a component's, mysqld might take what only begins so. Of a number beyond a variable's range it would take the nearest one within,
// such as a single connection for max_connections=0; over SQL that is refused.
func ForLaunch(series string, spec map[string]string) map[string]string {
	return only(ForMembers(spec), func(name, value string) bool {
		fact, known := Facts(series, name)
		in, ranged := InRange(name, value)
		return known && fact.Option && fact.Persistable && (in || !ranged)
	})
}

// AtCreation returns the settings in spec.mysqld that are fixed when a cluster is made.
func AtCreation(spec map[string]string) map[string]string {
	return only(takenOf(spec), func(name, _ string) bool {
		d, _ := Decide(name)
		return d.Class == Creation
	})
}

// only returns a copy of the settings that are to be kept.
func only(spec map[string]string, keep func(name, value string) bool) map[string]string {
	kept := maps.Clone(spec)
	maps.DeleteFunc(kept, func(name, value string) bool { return !keep(name, value) })
	return kept
}

// CountsFromRestart says whether mysqld takes a new value of a dynamic variable only when replication or TLS is set up again: the
// operator restarts it for that.
func CountsFromRestart(name string) bool {
	switch name {
	case "replica_parallel_workers", "replica_pending_jobs_size_max", "tls_ciphersuites":
		return true
	}
	return false
}

// pendingBlock is what MySQL keeps replica_pending_jobs_size_max in multiples of, in bytes.
const pendingBlock = 1024

// RoundsTo says whether a value of a variable that counts from a restart is another one that MySQL makes of it.
func RoundsTo(name, value, have string) bool {
	return name == "replica_pending_jobs_size_max" && sizeOf(value) != 0 && sizeOf(value)/pendingBlock*pendingBlock == sizeOf(have)
}

// Check says why spec.mysqld does not take a setting; nil if it does.
func Check(name, value string) error {
	reason, owned := Owned(name)
	if owned && !InForce(name, value) {
		return fmt.Errorf("%s: %s", name, reason)
	}
	for _, v := range values() {
		if slices.Contains(strings.Fields(v.names), name) && !v.pattern().MatchString(value) {
			return fmt.Errorf("%s %s", name, v.words)
		}
	}
	return nil
}

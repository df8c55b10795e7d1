package podclient

import (
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// RowMode is the SQL mode in which tables and rows are made: no value is refused or changed that the other server has.
const RowMode = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"

// A server that is filled may have settings that refuse what the dumped server accepted, or that change it. Every session that fills it sets
// its own values for them, in the lists below; variables that have no session value are in groundVariables. The limits that sessions share
// with those that only read are in conn.WholeReads.

// permissive are the variables that refuse or add something whatever a statement says. The binary log does not record them, so that
// a replay needs them as well.
const permissive = ", SESSION restrict_fk_on_non_standard_key = 0, SESSION innodb_strict_mode = 0, SESSION sql_generate_invisible_primary_key = 0" +
	", SESSION parser_max_mem_size = " + conn.Unlimited + ", SESSION old_alter_table = 0"

// LoadSettings is the first statement of every session that loads a dump: of MySQL's client, of a RowLoader and of a Loader.
const LoadSettings = conn.WholeReads + permissive + ", SESSION autocommit = 1, SESSION transaction_read_only = 0, SESSION completion_type = NO_CHAIN" +
	", SESSION foreign_key_checks = 0, SESSION sql_require_primary_key = 0, SESSION explicit_defaults_for_timestamp = 1" +
	", SESSION default_table_encryption = 0, SESSION default_storage_engine = InnoDB, SESSION wait_timeout = 31536000" +
	", SESSION lock_wait_timeout = 31536000, SESSION innodb_lock_wait_timeout = 31536000"

// rowSettings are those that a dump gives its own session at its beginning.
const rowSettings = "SET SESSION sql_log_bin = OFF, SESSION sql_mode = '" + RowMode + "', SESSION unique_checks = 0, SESSION time_zone = '+00:00', SESSION sql_notes = 0"

// programSettings are those of a Loader, which waits for nobody.
const programSettings = "SET SESSION sql_log_bin = OFF, SESSION lock_wait_timeout = 60, SESSION sql_mode = ''"

// replaySettings returns the statement that sets up a session that replays transactions. What the binary log records of a statement's session
// is set with that statement.
func replaySettings() string {
	settings := conn.SessionSettings()
	settings["lock_wait_timeout"] = "60"
	settings["sql_log_bin"], settings["pseudo_replica_mode"] = "ON", "ON"
	settings["net_read_timeout"] = "600" // a statement that is read from a bucket may come slowly
	var assignments []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		assignments = append(assignments, "SESSION "+name+" = "+settings[name])
	}
	return "SET " + strings.Join(assignments, ", ") + permissive
}

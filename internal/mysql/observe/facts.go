package observe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

const (
	// diskReport is where the member's instance writes how full the data volume is: "<size> <free> <time>", in bytes and
	// in seconds since 1970. Its folder is below the server's secure_file_priv, and only root can write there.
	diskReport = ExchangeDir + "machine/disk"
	// bootReport is where the member's instance writes, at each start of mysqld, a name of its boot, and shutDown in a second line when the
	// run of mysqld in front of it ended with a complete shutdown.
	bootReport = ExchangeDir + "machine/boot"
	shutDown   = "Shutdown complete"
	// diskStale is the age, by the member's clock, at which a report says nothing any more. One comes every ten seconds.
	diskStale = 2 * time.Minute

	// redoLog is mysql.RedoLog as the server writes it.
	redoLog = "Innodb_redo_log_enabled"

	// never stands for the age of what has not happened.
	never = time.Duration(-1)
)

// statusVariables are the server's counters that Observe reads.
var statusVariables = []string{
	"Threads_connected",
	"Uptime",
	redoLog,
	"Rpl_semi_sync_replica_status",
	"Rpl_semi_sync_source_clients",
	"Rpl_semi_sync_source_no_times",
	"Rpl_semi_sync_source_status",
	"Rpl_semi_sync_source_wait_sessions",
	"Rpl_semi_sync_source_yes_tx",
}

// otherVariables are read besides the pinned variables: most belong to a member's role.
var otherVariables = []string{
	mysql.MaxConnections,
	mysql.PartialRevokes,
	mysql.PersistedLoad,
	mysql.RelaySync,
	offlineMode,
	transactionReadOnly,
	"rpl_semi_sync_replica_enabled",
	"rpl_semi_sync_source_enabled",
	"rpl_semi_sync_source_wait_for_replica_count",
}

// Kinds of what one statement reads.
const (
	factVariable  = "variable"
	factPersisted = "persisted"
	factStatus    = "status"
	factTLS       = "tls"
	factLink      = "link"
	factInstance  = "instance"
	factStranger  = "stranger"
	factMemory    = "memory"
	factChannel   = "channel"
)

// facts is everything about a server that is a name and a value, read in one statement, by kind and name.
type facts struct {
	values map[string]map[string]string
	// middle is when the statement was half way, by the operator's clock.
	middle time.Time
}

// factsQuery reads everything that is a name and a value: of variables these, which are names by mysql.CheckVariable. Times are taken as
// seconds since 1970: performance_schema shows the moment of a heartbeat in the server's time zone, not in the session's, and one that
// never was as year 0.
func factsQuery(watched []string) string {
	tls := slices.AppendSeq([]string{"Ssl_server_not_after", "Ssl_server_not_before"}, maps.Values(mysql.TLSInForce()))
	slices.Sort(tls)
	wanted := slices.Concat(slices.Sorted(maps.Keys(mysql.PinnedSettings())), slices.Sorted(maps.Keys(mysql.ReadOnlyPins())), otherVariables, watched)
	in := func(names []string) string { return " WHERE VARIABLE_NAME IN ('" + strings.Join(names, "','") + "')" }
	return `SELECT '` + factVariable + `', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables` + in(wanted) + `
		UNION ALL SELECT '` + factPersisted + `', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables
		UNION ALL SELECT '` + factStatus + `', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status` + in(statusVariables) + `
		UNION ALL SELECT '` + factTLS + `', PROPERTY, VALUE FROM performance_schema.tls_channel_status WHERE CHANNEL = 'mysql_main' AND PROPERTY IN ('` + strings.Join(tls, "','") + `')
		UNION ALL SELECT '` + factLink + `', 'silence', UNIX_TIMESTAMP(NOW(6)) - NULLIF(GREATEST(UNIX_TIMESTAMP(LAST_HEARTBEAT_TIMESTAMP),
			UNIX_TIMESTAMP(LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP), UNIX_TIMESTAMP(QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP)), 0)
			FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''
		UNION ALL SELECT '` + factChannel + `', 'options', ` + ChannelDiffers + `
		UNION ALL ` + strangerSessions + `
		UNION ALL ` + memoryNames + `
		UNION ALL SELECT '` + factInstance + `', 'owned', CONVERT(@@GLOBAL.gtid_owned USING utf8mb4)
		UNION ALL SELECT '` + factInstance + `', 'clock', UNIX_TIMESTAMP(NOW(6))
		UNION ALL SELECT '` + factInstance + `', 'disk', LEFT(CONVERT(LOAD_FILE('` + diskReport + `') USING utf8mb4), 200)
		UNION ALL SELECT '` + factInstance + `', 'boot', LEFT(CONVERT(LOAD_FILE('` + bootReport + `') USING utf8mb4), 200)`
}

// plainFacts is the statement for a member of which nothing more is watched.
var plainFacts = unique.Make(factsQuery(nil))

// threadOfGTID is what follows each number in gtid_owned: the thread that owns it.
var threadOfGTID = regexp.MustCompile(`#[0-9]+`)

// clock is the member's time.
func (f facts) clock() (now time.Time, ok bool) {
	since, err := seconds(f.values[factInstance]["clock"])
	return time.Unix(0, 0).Add(since), err == nil
}

// findTampering adds the options of the channel that are not as the operator sets them.
func (f facts) findTampering(t *mysql.Tampering) {
	for _, differs := range strings.FieldsFunc(f.values[factChannel]["options"], func(r rune) bool { return r == '\n' }) {
		if differs == generatesKeys {
			t.Filters = append(t.Filters, differs)
			continue
		}
		t.Options = append(t.Options, differs)
	}
}

// silence is the age of the last sign of life of the member's source, or never.
func (f facts) silence() time.Duration {
	age, err := seconds(f.values[factLink]["silence"])
	if err != nil {
		return never
	}
	// A clock that was set back makes the past lie ahead.
	return max(age, 0)
}

// diskOf reads a report of the member's instance; nil when there is none, or none of this time.
func diskOf(report string, now time.Time) *mysql.Disk {
	var d mysql.Disk
	var at int64
	if _, err := fmt.Sscanf(report, "%d %d %d", &d.SizeBytes, &d.FreeBytes, &at); err != nil || !strings.HasSuffix(report, "\n") {
		return nil
	}
	d.At = time.Unix(at, 0)
	if age := now.Sub(d.At); age > diskStale || age < -diskStale || d.SizeBytes == 0 || d.FreeBytes > d.SizeBytes {
		return nil
	}
	return &d
}

// bootOf reads a report of the member's instance; empty and false when there is none.
func bootOf(report string) (boot string, ended bool) {
	boot, how, _ := strings.Cut(report, "\n")
	return boot, how == shutDown+"\n"
}

// seconds reads a number of seconds with a fraction. Of a time of this century a float keeps a quarter of a microsecond.
func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	return time.Duration(n * float64(time.Second)), err
}

// number reads a count as MySQL prints it; what is no count is 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

func isOn(value string) bool {
	return strings.EqualFold(value, "ON") || value == "1"
}

// strangerSessions reads them as facts.
const strangerSessions = `SELECT '` + factStranger + `', CONVERT(PROCESSLIST_ID USING utf8mb4), LEFT(CONVERT(CONCAT(PROCESSLIST_USER, '@', PROCESSLIST_HOST) USING utf8mb4), 100) ` + StrangerThreads

// Variables with which a server turns clients or their writes away.
const (
	offlineMode         = "offline_mode"
	transactionReadOnly = "transaction_read_only"
)

// refusing returns those that do, with the value that does not. transaction_read_only may be asked for in the spec; the
// caller knows.
func refusing(settings map[string]string) map[string]string {
	found := map[string]string{}
	for _, name := range []string{offlineMode, transactionReadOnly} {
		if isOn(settings[name]) {
			found[name] = "OFF"
		}
	}
	return found
}

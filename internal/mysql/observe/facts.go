package observe

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// diskReport is where the member's instance writes how full the data volume is: "<size> <free> <time>", in bytes and
	// in seconds since 1970. Its folder is below the server's secure_file_priv, and only root can write there.
	diskReport = ExchangeDir + "machine/disk"
	// diskStale is the age, by the member's clock, at which a report says nothing any more. One comes every ten seconds.
	diskStale = 2 * time.Minute

	// never stands for the age of what has not happened.
	never = time.Duration(-1)
)

// statusVariables are the server's counters that Observe reads.
var statusVariables = []string{
	"Threads_connected",
	"Uptime",
	"Rpl_semi_sync_replica_status",
	"Rpl_semi_sync_source_clients",
	"Rpl_semi_sync_source_no_times",
	"Rpl_semi_sync_source_wait_sessions",
	"Rpl_semi_sync_source_yes_tx",
}

// otherVariables are read besides the pinned variables: most belong to a member's role.
var otherVariables = []string{
	mysql.MaxConnections,
	mysql.PersistedLoad,
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
)

// facts is everything about a server that is a name and a value, read in one statement, by kind and name.
type facts struct {
	values map[string]map[string]string
	// middle is when the statement was half way, by the operator's clock.
	middle time.Time
}

// factsQuery reads everything that is a name and a value: of variables these, which are names by checkVariable. Times are taken as
// seconds since 1970: performance_schema shows the moment of a heartbeat in the server's time zone, not in the session's, and one that
// never was as year 0.
func factsQuery(watched []string) string {
	wanted := slices.Concat(slices.Sorted(maps.Keys(mysql.PinnedSettings())), slices.Sorted(maps.Keys(mysql.ReadOnlyPins())), otherVariables, watched)
	in := func(names []string) string { return " WHERE VARIABLE_NAME IN ('" + strings.Join(names, "','") + "')" }
	return `SELECT '` + factVariable + `', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables` + in(wanted) + `
		UNION ALL SELECT '` + factPersisted + `', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables
		UNION ALL SELECT '` + factStatus + `', VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status` + in(statusVariables) + `
		UNION ALL SELECT '` + factTLS + `', PROPERTY, VALUE FROM performance_schema.tls_channel_status WHERE CHANNEL = 'mysql_main' AND PROPERTY IN ('Ssl_server_not_after', 'Ssl_server_not_before')
		UNION ALL SELECT '` + factLink + `', 'silence', UNIX_TIMESTAMP(NOW(6)) - NULLIF(GREATEST(UNIX_TIMESTAMP(LAST_HEARTBEAT_TIMESTAMP),
			UNIX_TIMESTAMP(LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP), UNIX_TIMESTAMP(QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP)), 0)
			FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''
		UNION ALL ` + strangerSessions + `
		UNION ALL SELECT '` + factInstance + `', 'owned', CONVERT(@@GLOBAL.gtid_owned USING utf8mb4)
		UNION ALL SELECT '` + factInstance + `', 'clock', UNIX_TIMESTAMP(NOW(6))
		UNION ALL SELECT '` + factInstance + `', 'disk', CONVERT(LOAD_FILE('` + diskReport + `') USING utf8mb4)`
}

// plainFacts is the statement for a member of which nothing more is watched.
var plainFacts = unique.Make(factsQuery(nil))

// readFacts reads what factsQuery asks for.
func (m *Observer) readFacts(ctx context.Context, s *conn.Session) (facts, error) {
	found := facts{values: map[string]map[string]string{
		factVariable: {}, factPersisted: {}, factStatus: {}, factTLS: {}, factLink: {}, factInstance: {}, factStranger: {},
	}}
	began := m.h.Options().Clock.Now()
	var kind, name, value sql.RawBytes // of the one row
	into := []any{&kind, &name, &value}
	err := s.Rows(ctx, conn.State[watch](m.h).asks(), nil, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if of := found.values[string(kind)]; of != nil {
			of[string(name)] = string(value)
		}
		return nil
	})
	found.middle = began.Add(m.h.Options().Clock.Now().Sub(began) / 2)
	return found, err
}

// interpret puts into o what follows from the facts.
func (m *Observer) interpret(f facts, o *mysql.Observation) {
	status := f.values[factStatus]
	o.Settings, o.Persisted = f.values[factVariable], f.values[factPersisted]
	o.PersistedIgnored = o.Settings[mysql.PersistedLoad] == "OFF"
	// Empty when performance_schema is off. The handshake's certificate is used then.
	const asOpenSSLPrints = "Jan _2 15:04:05 2006 MST"
	if t, err := time.Parse(asOpenSSLPrints, f.values[factTLS]["Ssl_server_not_after"]); err == nil {
		o.CertNotAfter = t
	}
	if t, err := time.Parse(asOpenSSLPrints, f.values[factTLS]["Ssl_server_not_before"]); err == nil {
		o.CertNotBefore = t
	}
	o.StartedAt = m.h.Options().Clock.Now().Add(-time.Duration(number(status["Uptime"])) * time.Second).Truncate(time.Second)
	o.Connections, o.MaxConnections = number(status["Threads_connected"]), number(o.Settings[mysql.MaxConnections])
	o.PendingCommits = number(status["Rpl_semi_sync_source_wait_sessions"])
	o.AnsweredCommits = number(status["Rpl_semi_sync_source_yes_tx"])
	o.SemiSync = mysql.SemiSync{
		SourceEnabled:  isOn(o.Settings["rpl_semi_sync_source_enabled"]),
		ReplicaEnabled: isOn(o.Settings["rpl_semi_sync_replica_enabled"]),
		ReplicaActive:  isOn(status["Rpl_semi_sync_replica_status"]),
		WaitCount:      number(o.Settings["rpl_semi_sync_source_wait_for_replica_count"]),
		Clients:        number(status["Rpl_semi_sync_source_clients"]),
		OffTimes:       number(status["Rpl_semi_sync_source_no_times"]),
		Strangers:      strangersIn(f.values[factStranger]),
	}
	o.Refusing = refusing(o.Settings)
	o.Waiting = conn.Compact(threadOfGTID.ReplaceAllString(f.values[factInstance]["owned"], ""))
	if now, ok := f.clock(); ok {
		o.ClockSkew = now.Sub(f.middle)
		o.Disk = diskOf(f.values[factInstance]["disk"], now)
	}
}

// threadOfGTID is what follows each number in gtid_owned: the thread that owns it.
var threadOfGTID = regexp.MustCompile(`#[0-9]+`)

// clock is the member's time.
func (f facts) clock() (now time.Time, ok bool) {
	since, err := seconds(f.values[factInstance]["clock"])
	return time.Unix(0, 0).Add(since), err == nil
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

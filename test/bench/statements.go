package bench

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// quoted finds the strings in a statement.
var quoted = regexp.MustCompile(`'([^']*)'`)

// statement is one of those that the operator sends, by how it begins.
type statement struct {
	begins string
	answer func(m *member, id uint32, text string) rowset
}

// statements are what a Ready member is asked. Everything else is refused and counted: a steady operator changes nothing.
var statements = []statement{
	{"SELECT CONNECTION_ID()", func(_ *member, id uint32, _ string) rowset { return one(strconv.Itoa(int(id))) }},
	{"SELECT @@server_uuid, @@version", (*member).identity},
	{"SELECT @@server_uuid, EXISTS(", func(m *member, _ uint32, _ string) rowset { return one(m.uuid, "0") }},
	{"SELECT 'variable'", (*member).variables},
	{"SHOW REPLICA STATUS", (*member).replicaStatus},
	{"SELECT epoch, voters, w FROM nairobi_mysql.membership", (*member).membership},
	{"SELECT s.STATE", func(*member, uint32, string) rowset { return rowset{columns: numbered(8)} }},
	{"SELECT GET_LOCK(", (*member).getLock},
	{"SELECT IS_USED_LOCK(", (*member).isUsedLock},
	{"SELECT EXISTS(SELECT 1 FROM information_schema.SCHEMATA", func(*member, uint32, string) rowset { return one("1", "*hash", "1") }},
	{"SET ", func(m *member, _ uint32, _ string) rowset { m.count.sessions.Add(1); return rowset{} }},
	{"INSERT INTO nairobi_mysql.heartbeat", (*member).heartbeat},
	{"KILL ", (*member).killed},
}

// query answers a statement.
func (m *member) query(id uint32, text string) (rowset, error) {
	for _, s := range statements {
		if !strings.HasPrefix(text, s.begins) || strings.HasPrefix(text, "SET GLOBAL") || strings.HasPrefix(text, "SET PERSIST") {
			continue
		}
		if strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "SHOW") {
			m.count.reads.Add(1)
		}
		return s.answer(m, id, text), nil
	}
	if strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "SHOW") {
		m.count.unknown.Add(1)
	} else {
		m.count.changes.Add(1)
	}
	return rowset{}, &sqlError{erSyntax, "the stub does not do this: " + text}
}

// one is an answer of one row.
func one(values ...string) rowset {
	row := make([]any, len(values))
	for i, v := range values {
		row[i] = v
	}
	return rowset{columns: numbered(len(values)), rows: [][]any{row}}
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "c" + strconv.Itoa(i)
	}
	return names
}

func (m *member) identity(uint32, string) rowset {
	readOnly := "1"
	if m.primary {
		readOnly = "0"
	}
	return one(m.uuid, serverVersion, strconv.Itoa(m.serverID), readOnly, readOnly, m.trio.gtids(), "")
}

// variables answers the one statement by which the operator reads variables, persisted variables, counters and the state
// of TLS.
func (m *member) variables(uint32, string) rowset {
	answer := rowset{columns: []string{"variable", "VARIABLE_NAME", "VARIABLE_VALUE"}}
	add := func(kind, name, value string) { answer.rows = append(answer.rows, []any{kind, name, value}) }
	for name, value := range mysql.PinnedSettings() {
		add("variable", name, value)
	}
	for name, value := range mysql.ReadOnlyPins() {
		add("variable", name, value)
	}
	add("variable", "rpl_semi_sync_source_enabled", onOff(m.primary))
	add("variable", "rpl_semi_sync_replica_enabled", onOff(!m.primary))
	add("variable", "rpl_semi_sync_source_wait_for_replica_count", strconv.Itoa(len(m.trio.voters)/2))
	for name, value := range m.trio.settings {
		add("variable", name, value)
		add("persisted", name, value)
	}
	clients := 0
	if m.primary {
		clients = len(m.trio.voters) - 1
	}
	add("status", "Uptime", "86400")
	add("status", "Rpl_semi_sync_replica_status", onOff(!m.primary))
	add("status", "Rpl_semi_sync_source_clients", strconv.Itoa(clients))
	add("status", "Rpl_semi_sync_source_wait_sessions", "0")
	add("tls", "Ssl_server_not_after", m.notAfter.UTC().Format("Jan _2 15:04:05 2006")+" GMT")
	return answer
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

func (m *member) replicaStatus(uint32, string) rowset {
	source := m.trio.members[0]
	host, _, _ := strings.Cut(source.address, ":")
	answer := rowset{columns: []string{"Channel_Name", "Source_Host", "Source_Port", "Source_UUID", "Replica_IO_Running",
		"Replica_SQL_Running", "Retrieved_Gtid_Set", "Last_IO_Error", "Last_SQL_Error", "Auto_Position", "Seconds_Behind_Source"}}
	if !m.primary {
		answer.rows = [][]any{{"", host, "3306", source.uuid, "Yes", "Yes", m.trio.gtids(), "", "", "1", "0"}}
	}
	return answer
}

func (m *member) membership(uint32, string) rowset {
	return one(strconv.Itoa(membershipEpoch), `["`+strings.Join(m.trio.voters, `","`)+`"]`, strconv.Itoa(len(m.trio.voters)/2))
}

func (m *member) getLock(id uint32, text string) rowset {
	m.count.locks.Add(1)
	if m.lock(argumentOf(text), id) {
		return one("1")
	}
	return one("0")
}

func (m *member) isUsedLock(_ uint32, text string) rowset {
	if holder, taken := m.holder(argumentOf(text)); taken {
		return one(strconv.Itoa(int(holder)))
	}
	return rowset{columns: numbered(1), rows: [][]any{{nil}}}
}

func argumentOf(text string) string {
	if found := quoted.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

func (m *member) heartbeat(uint32, string) rowset {
	m.count.heartbeats.Add(1)
	m.trio.executed.Add(1)
	return rowset{}
}

func (m *member) killed(_ uint32, text string) rowset {
	if id, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(text, "KILL ")), 10, 32); err == nil {
		m.kill(uint32(id))
	}
	return rowset{}
}

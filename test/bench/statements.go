package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

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
	{"SELECT epoch, ", (*member).membership},
	{"SELECT s.STATE", none(8)},
	{"SELECT GET_LOCK(", (*member).getLock},
	{"SELECT MAX(ID) FROM performance_schema.processlist", func(*member, uint32, string) rowset { return null }},
	{"SELECT IS_USED_LOCK(", (*member).isUsedLock},
	{"SELECT PROCESSLIST_ID FROM performance_schema.threads", none(1)},
	{"SELECT EXISTS(SELECT 1 FROM information_schema.SCHEMATA", func(*member, uint32, string) rowset { return one("1", "*hash", "3600", "0", "1") }},
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

// null is an answer of one row that is NULL.
var null = rowset{columns: numbered(1), rows: [][]any{{nil}}}

// none answers with no row.
func none(columns int) func(*member, uint32, string) rowset {
	return func(*member, uint32, string) rowset { return rowset{columns: numbered(columns)} }
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

// variables answers the one statement by which the operator reads variables, persisted variables, counters, the state of
// TLS, of the link to the source, and of the machine.
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
	add("status", "Rpl_semi_sync_source_status", onOff(m.primary))
	add("status", "Rpl_semi_sync_source_wait_sessions", "0")
	add("variable", mysql.RelaySync, "10000")
	add("memory", m.name, "")
	add("tls", "Ssl_server_not_after", m.notAfter.UTC().Format("Jan _2 15:04:05 2006")+" GMT")
	if !m.primary {
		add("link", "silence", "0.4")
	}
	now := time.Now()
	add("instance", "clock", fmt.Sprintf("%.6f", float64(now.UnixMicro())/1e6))
	add("instance", "disk", fmt.Sprintf("%d %d %d\n", int64(20<<30), int64(15<<30), now.Unix()))
	return answer
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

// replicaColumns are those of SHOW REPLICA STATUS in MySQL 9.7. All count: an operator reads what it does not need, too.
var replicaColumns = strings.Fields(`Replica_IO_State Source_Host Source_User Source_Port Connect_Retry Source_Log_File Read_Source_Log_Pos
	Relay_Log_File Relay_Log_Pos Relay_Source_Log_File Replica_IO_Running Replica_SQL_Running Replicate_Do_DB Replicate_Ignore_DB
	Replicate_Do_Table Replicate_Ignore_Table Replicate_Wild_Do_Table Replicate_Wild_Ignore_Table Last_Errno Last_Error Skip_Counter
	Exec_Source_Log_Pos Relay_Log_Space Until_Condition Until_Log_File Until_Log_Pos Source_SSL_Allowed Source_SSL_CA_File
	Source_SSL_CA_Path Source_SSL_Cert Source_SSL_Cipher Source_SSL_Key Seconds_Behind_Source Source_SSL_Verify_Server_Cert
	Last_IO_Errno Last_IO_Error Last_SQL_Errno Last_SQL_Error Replicate_Ignore_Server_Ids Source_Server_Id Source_UUID
	Source_Info_File SQL_Delay SQL_Remaining_Delay Replica_SQL_Running_State Source_Retry_Count Source_Bind Last_IO_Error_Timestamp
	Last_SQL_Error_Timestamp Source_SSL_Crl Source_SSL_Crlpath Retrieved_Gtid_Set Executed_Gtid_Set Auto_Position Replicate_Rewrite_DB
	Channel_Name Source_TLS_Version Source_public_key_path Get_Source_public_key Network_Namespace`)

func (m *member) replicaStatus(uint32, string) rowset {
	answer := rowset{columns: replicaColumns}
	if m.primary {
		return answer
	}
	source := m.trio.members[0]
	host, _, _ := strings.Cut(source.address, ":")
	at := strconv.FormatInt(400*m.trio.executed.Load(), 10)
	values := map[string]string{
		"Replica_IO_State": "Waiting for source to send event", "Source_Host": host, "Source_User": mysql.ReplicationUser, "Source_Port": "3306",
		"Connect_Retry": "60", "Source_Log_File": "binlog.000002", "Read_Source_Log_Pos": at, "Relay_Log_File": "relay.000002", "Relay_Log_Pos": at,
		"Relay_Source_Log_File": "binlog.000002", "Replica_IO_Running": "Yes", "Replica_SQL_Running": "Yes", "Last_Errno": "0", "Skip_Counter": "0",
		"Exec_Source_Log_Pos": at, "Relay_Log_Space": at, "Until_Condition": "None", "Until_Log_Pos": "0", "Source_SSL_Allowed": "Yes",
		"Source_SSL_CA_File": "/etc/nairobi-mysql/tls/ca.pem", "Source_SSL_Cert": "/etc/nairobi-mysql/tls/current.pem",
		"Source_SSL_Key": "/etc/nairobi-mysql/tls/member.key", "Seconds_Behind_Source": "0", "Source_SSL_Verify_Server_Cert": "Yes",
		"Last_IO_Errno": "0", "Last_SQL_Errno": "0", "Source_Server_Id": strconv.Itoa(source.serverID), "Source_UUID": source.uuid,
		"Source_Info_File": "mysql.slave_master_info", "SQL_Delay": "0", "Replica_SQL_Running_State": "Replica has read all relay log; waiting for more updates",
		"Source_Retry_Count": "0", "Retrieved_Gtid_Set": m.trio.gtids(), "Executed_Gtid_Set": m.trio.gtids(), "Auto_Position": "1", "Get_Source_public_key": "0",
	}
	row := make([]any, len(replicaColumns))
	for i, name := range replicaColumns {
		row[i] = values[name]
		if name == "SQL_Remaining_Delay" {
			row[i] = nil
		}
	}
	answer.rows = [][]any{row}
	return answer
}

// membership answers with the columns that are asked for, by name.
func (m *member) membership(_ uint32, text string) rowset {
	row := map[string]string{
		"epoch": strconv.Itoa(membershipEpoch), "leader": m.trio.members[0].name, "voters": `["` + strings.Join(m.trio.voters, `","`) + `"]`,
		"previous": "[]", "w": strconv.Itoa(len(m.trio.voters) / 2), "memory": m.trio.memories(),
	}
	columns, _, _ := strings.Cut(strings.TrimPrefix(text, "SELECT "), " FROM ")
	var values []string
	for column := range strings.SplitSeq(columns, ", ") {
		values = append(values, row[column])
	}
	return one(values...)
}

// memories says that each voter has acknowledged from one memory, which has its own name.
func (t *trio) memories() string {
	var named []string
	for _, voter := range t.voters {
		named = append(named, fmt.Sprintf("%q: %q", voter, voter))
	}
	return "{" + strings.Join(named, ", ") + "}"
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
	return null
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

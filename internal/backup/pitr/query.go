package pitr

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Codes of what a QUERY event tells of its session (MySQL's statement_events.h, Query_event_status_vars).
const (
	varFlags2                 = 0
	varSQLMode                = 1
	varCatalog                = 2
	varAutoIncrement          = 3
	varCharset                = 4
	varTimeZone               = 5
	varCatalogNZ              = 6
	varLCTimeNames            = 7
	varCharsetDatabase        = 8
	varTableMapForUpdate      = 9
	varSourceDataWritten      = 10
	varInvoker                = 11
	varUpdatedDatabases       = 12
	varMicroseconds           = 13
	varCommitTS               = 14
	varCommitTS2              = 15
	varExplicitDefaults       = 16
	varDDLLoggedWithXID       = 17
	varDefaultCollation       = 18
	varRequirePrimaryKey      = 19
	varDefaultTableEncryption = 20
)

// Bits of varFlags2 (MySQL's query_options.h).
const (
	optionAutoIsNull          = 1 << 14
	optionNoForeignKeyChecks  = 1 << 26
	optionRelaxedUniqueChecks = 1 << 27
)

// modeNoBackslashEscapes is a bit of the SQL mode.
const modeNoBackslashEscapes = 1 << 20

// tooManyDatabases in place of their number: their names are left out.
const tooManyDatabases = 254

// setting is a session variable and its value as SQL.
type setting struct{ name, value string }

// query is a statement with the session that it ran in.
type query struct {
	text     string
	database string
	settings []setting
	// microseconds belong to the event's time.
	microseconds uint32
	// invoker is who ran the statement, as SQL, where that makes a difference; user and host are the same.
	invoker    string
	user, host string
	// backslashes: one in a string quotes what follows.
	backslashes bool
}

// absent are the variables of which a statement says nothing when they have these values. That of collation_database is the collation of
// the default database.
var absent = []setting{{"auto_increment_increment", "1"}, {"auto_increment_offset", "1"}, {"lc_time_names", "0"}, {collationDatabase, "DEFAULT"}}

const collationDatabase = "collation_database"

// statement is the text to run. A replica runs ALTER EVENT as whoever ran it, who becomes the event's definer, and takes CURRENT_USER for
// that account in statements about accounts; the other statements name theirs.
func (q *query) statement() string {
	at := skipBlank(q.text, 0)
	if q.invoker == "" {
		return q.text
	}
	for _, verb := range []string{"GRANT", "REVOKE"} {
		if hasWord(q.text[at:], verb) {
			return withAccount(q.text, q.invoker, q.backslashes)
		}
	}
	for _, verb := range []string{"ALTER", "CREATE", "DROP", "RENAME"} {
		if !hasWord(q.text[at:], verb) {
			continue
		}
		at = skipBlank(q.text, at+len(verb))
		switch {
		case hasWord(q.text[at:], "USER"), hasWord(q.text[at:], "ROLE"):
			return withAccount(q.text, q.invoker, q.backslashes)
		case verb == "ALTER" && hasWord(q.text[at:], "EVENT"):
			return q.text[:at] + "DEFINER=" + q.invoker + " " + q.text[at:]
		}
		break
	}
	return q.text
}

// parseQuery reads a QUERY event's body.
func parseQuery(e binlog.Event, body []byte) (q query, err error) {
	defer func() {
		if r := recover(); r != nil { // an index out of range: the body is cut short
			err = fmt.Errorf("%w: a statement cannot be read", binlog.ErrDamaged)
		}
	}()
	var event replication.QueryEvent
	if err := event.Decode(body); err != nil {
		return q, fmt.Errorf("%w: a statement cannot be read: %w", binlog.ErrDamaged, err)
	}
	q.text, q.settings, q.backslashes = string(event.Query), slices.Clone(absent), true
	if e.Flags()&binlog.FlagSuppressUse == 0 {
		q.database = string(event.Schema)
	}
	b := event.StatusVars
	for len(b) > 0 {
		code := b[0]
		n, err := q.variable(code, b[1:])
		if err != nil {
			return q, err
		}
		b = b[1+n:]
	}
	return q, nil
}

// numbers are the variables that are told as one number, of that many bytes.
var numbers = map[byte]struct {
	name string
	size int
}{
	varSQLMode:                {"sql_mode", 8},
	varLCTimeNames:            {"lc_time_names", 2},
	varCharsetDatabase:        {collationDatabase, 2},
	varExplicitDefaults:       {"explicit_defaults_for_timestamp", 1},
	varDefaultCollation:       {"default_collation_for_utf8mb4", 2},
	varRequirePrimaryKey:      {"sql_require_primary_key", 1},
	varDefaultTableEncryption: {"default_table_encryption", 1},
}

// unneeded are the lengths of what a replay does not need, because it follows from the rest or is for replicas only.
var unneeded = map[byte]int{varTableMapForUpdate: 8, varDDLLoggedWithXID: 8, varSourceDataWritten: 4, varCommitTS: 0, varCommitTS2: 0}

// variable reads what follows a code and returns how long that is.
func (q *query) variable(code byte, b []byte) (int, error) {
	if n, known := numbers[code]; known {
		value := make([]byte, 8)
		copy(value, b[:n.size])
		q.set(n.name, binary.LittleEndian.Uint64(value))
		q.backslashes = q.backslashes && (code != varSQLMode || binary.LittleEndian.Uint64(value)&modeNoBackslashEscapes == 0)
		return n.size, nil
	}
	if n, known := unneeded[code]; known {
		return n, nil
	}
	u16 := binary.LittleEndian.Uint16
	switch code {
	case varFlags2:
		flags := binary.LittleEndian.Uint32(b)
		q.set("sql_auto_is_null", onOff(flags&optionAutoIsNull != 0))
		q.set("foreign_key_checks", onOff(flags&optionNoForeignKeyChecks == 0))
		q.set("unique_checks", onOff(flags&optionRelaxedUniqueChecks == 0))
		return 4, nil
	case varCatalog:
		return int(b[0]) + 2, nil
	case varCatalogNZ:
		return int(b[0]) + 1, nil
	case varAutoIncrement:
		q.set("auto_increment_increment", u16(b))
		q.set("auto_increment_offset", u16(b[2:]))
		return 4, nil
	case varCharset:
		q.set("character_set_client", u16(b))
		q.set("collation_connection", u16(b[2:]))
		q.set("collation_server", u16(b[4:]))
		return 6, nil
	case varTimeZone:
		n := int(b[0])
		q.set("time_zone", "'"+strings.ReplaceAll(string(b[1:1+n]), "'", "''")+"'")
		return n + 1, nil
	case varInvoker:
		user := int(b[0]) + 1
		end := user + int(b[user]) + 1
		q.user, q.host = string(b[1:user]), string(b[user+1:end])
		q.invoker = conn.QuoteName(q.user) + "@" + conn.QuoteName(q.host)
		return end, nil
	case varUpdatedDatabases:
		return databasesLength(b), nil
	case varMicroseconds:
		q.microseconds = uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		return 3, nil
	}
	return 0, fmt.Errorf("a statement tells something of its session that this release of the operator does not know (%d)", code)
}

func (q *query) set(name string, value any) {
	s := setting{name, fmt.Sprint(value)}
	if i := slices.IndexFunc(q.settings, func(known setting) bool { return known.name == name }); i >= 0 {
		q.settings[i] = s
		return
	}
	q.settings = append(q.settings, s)
}

// databasesLength is the length of a list of databases: their number, and names that end with a zero.
func databasesLength(b []byte) int {
	if b[0] == tooManyDatabases {
		return 1
	}
	n := 1
	for range b[0] {
		for b[n] != 0 {
			n++
		}
		n++
	}
	return n
}

func onOff(on bool) int {
	if on {
		return 1
	}
	return 0
}

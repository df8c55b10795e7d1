package pitr

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
)

// plainEvent is an event without a checksum.
func plainEvent(kind replication.EventType, flags uint16, body []byte) binlog.Event {
	e := make([]byte, bodyOffset, bodyOffset+len(body))
	binary.LittleEndian.PutUint32(e, 1767323045)
	e[4] = byte(kind)
	binary.LittleEndian.PutUint32(e[9:], uint32(bodyOffset+len(body))) //nolint:gosec // small
	binary.LittleEndian.PutUint16(e[17:], flags)
	return append(e, body...)
}

// queryBody is a QUERY event's.
func queryBody(variables []byte, database, text string) []byte {
	b := make([]byte, 13)
	b[8] = byte(len(database))
	binary.LittleEndian.PutUint16(b[11:], uint16(len(variables))) //nolint:gosec // small
	return slices.Concat(b, variables, []byte(database), []byte{0}, []byte(text))
}

// everyVariable is what a statement can tell of its session.
func everyVariable() []byte {
	u16 := func(n uint16) []byte { return binary.LittleEndian.AppendUint16(nil, n) }
	var b []byte
	for _, part := range [][]byte{
		{varFlags2}, binary.LittleEndian.AppendUint32(nil, optionNoForeignKeyChecks), {varSQLMode}, binary.LittleEndian.AppendUint64(nil, 1436549152), {varCatalogNZ, 3}, []byte("std"),
		{varAutoIncrement}, u16(7), u16(3), {varCharset}, u16(8), u16(8), u16(255), {varTimeZone, 6}, []byte("+05:30"), {varLCTimeNames}, u16(4), {varCharsetDatabase}, u16(255),
		{varTableMapForUpdate}, make([]byte, 8), {varInvoker, 7}, []byte("o'bri`n"), {4}, []byte("10.%"), {varUpdatedDatabases, 2}, []byte("shop\x00b\xc3\xbcro\x00"),
		{varMicroseconds, 0x40, 0xe2, 0x01}, {varExplicitDefaults, 1}, {varDDLLoggedWithXID}, make([]byte, 8), {varDefaultCollation}, u16(45), {varRequirePrimaryKey, 1}, {varDefaultTableEncryption, 0},
	} {
		b = append(b, part...)
	}
	return b
}

func TestAStatementsSession(t *testing.T) {
	q, err := parseQuery(plainEvent(replication.QUERY_EVENT, 0, nil), queryBody(everyVariable(), "shop", "ALTER EVENT e DISABLE"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "[{auto_increment_increment 7} {auto_increment_offset 3} {lc_time_names 4} {collation_database 255} {sql_auto_is_null 0} {foreign_key_checks 0} {unique_checks 1} {sql_mode 1436549152}" +
		" {character_set_client 8} {collation_connection 8} {collation_server 255} {time_zone '+05:30'}" +
		" {explicit_defaults_for_timestamp 1} {default_collation_for_utf8mb4 45} {sql_require_primary_key 1} {default_table_encryption 0}]"
	if got := fmt.Sprint(q.settings); got != want || q.database != "shop" || q.microseconds != 123456 || q.invoker != "`o'bri``n`@`10.%`" {
		t.Errorf("it says %+v", q)
	}
	if got := q.statement(); got != "ALTER DEFINER=`o'bri``n`@`10.%` EVENT e DISABLE" {
		t.Errorf("it runs %s", got)
	}
	if q, err := parseQuery(plainEvent(replication.QUERY_EVENT, binlog.FlagSuppressUse, nil), queryBody(nil, "shop", "DROP DATABASE shop")); err != nil || q.database != "" {
		t.Errorf("no default database: %+v, %v", q, err)
	}
	if _, err := parseQuery(plainEvent(replication.QUERY_EVENT, 0, nil), queryBody([]byte{99, 1}, "", "x")); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("something new: %v", err)
	}
}

func TestOnlyAlterEventGetsItsDefiner(t *testing.T) {
	for text, want := range map[string]string{
		"ALTER EVENT e DISABLE":                          "ALTER DEFINER=me EVENT e DISABLE",
		" /* x */ alter\n-- y\nevent`e`":                 " /* x */ alter\n-- y\nDEFINER=me event`e`",
		"# x\nALTER\tEVENT e":                            "# x\nALTER\tDEFINER=me EVENT e",
		"ALTER DEFINER=`a`@`b` EVENT e":                  "ALTER DEFINER=`a`@`b` EVENT e",
		"ALTER EVENTUALLY":                               "ALTER EVENTUALLY",
		"ALTER TABLE event ADD x INT":                    "ALTER TABLE event ADD x INT",
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DO 1": "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DO 1",
		"/* never ends":                                  "/* never ends",
		"ALTER":                                          "ALTER",
		"":                                               "",
	} {
		if got := (&query{text: text, invoker: "me"}).statement(); got != want {
			t.Errorf("%q became %q", text, got)
		}
		if got := (&query{text: text}).statement(); got != text {
			t.Errorf("without an invoker %q became %q", text, got)
		}
	}
}

// TestCurrentUserIsTheInvoker in statements about accounts, and nowhere else.
func TestCurrentUserIsTheInvoker(t *testing.T) {
	for text, want := range map[string]string{
		"DROP USER CURRENT_USER()":                                         "DROP USER me",
		"/* x */ drop user `CURRENT_USER`, Current_User ( ) , 'a'":         "/* x */ drop user `CURRENT_USER`, me , 'a'",
		"GRANT r TO CURRENT_USER":                                          "GRANT r TO me",
		"REVOKE r FROM CURRENT_USER()":                                     "REVOKE r FROM me",
		"GRANT SELECT ON x . current_user TO a@current_user, CURRENT_USER": "GRANT SELECT ON x . current_user TO a@current_user, me",
		"ALTER USER CURRENT_USER() DEFAULT ROLE r":                         "ALTER USER me DEFAULT ROLE r",
		"ALTER USER a COMMENT 'it\\'s CURRENT_USER', CURRENT_USER()":       "ALTER USER a COMMENT 'it\\'s CURRENT_USER', me",
		"RENAME USER CURRENT_USER() TO b":                                  "RENAME USER me TO b",
		"CREATE DEFINER=`a`@`b` VIEW v AS SELECT CURRENT_USER()":           "CREATE DEFINER=`a`@`b` VIEW v AS SELECT CURRENT_USER()",
		"CREATE TABLE user (c TEXT DEFAULT (CURRENT_USER()))":              "CREATE TABLE user (c TEXT DEFAULT (CURRENT_USER()))",
		"DROP USER XCURRENT_USER, CURRENT_USERS":                           "DROP USER XCURRENT_USER, CURRENT_USERS",
		"GRANT 'never ends":                                                "GRANT 'never ends",
	} {
		if got := (&query{text: text, invoker: "me", backslashes: true}).statement(); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
	const text = `ALTER USER a COMMENT '\', CURRENT_USER`
	if got := (&query{text: text, invoker: "me"}).statement(); got != `ALTER USER a COMMENT '\', me` {
		t.Errorf("where a backslash is one, it became %q", got)
	}
}

// TestWhatAStatementDoesNotSay of its session is the default, whatever the statement before it said.
func TestWhatAStatementDoesNotSay(t *testing.T) {
	var sent recorder
	a := newApplier(&sent)
	for _, variables := range [][]byte{everyVariable(), nil, nil} {
		if err := a.plain(t.Context(), plainEvent(replication.QUERY_EVENT, 0, queryBody(variables, "", "CREATE DATABASE x"))); err != nil {
			t.Fatal(err)
		}
	}
	const want = "SET @@SESSION.auto_increment_increment = 1, @@SESSION.auto_increment_offset = 1, @@SESSION.lc_time_names = 0, @@SESSION.collation_database = DEFAULT, "
	if len(sent) != 6 || !strings.HasPrefix(sent[2], want) || !strings.HasPrefix(sent[4], "SET @@SESSION.collation_database = DEFAULT, @@SESSION.TIMESTAMP") {
		t.Errorf("sent was %q", sent)
	}
}

// recorder takes statements in.
type recorder []string

func (r *recorder) Replay(_ context.Context, statement string) error {
	*r = append(*r, statement)
	return nil
}

func (r *recorder) ReplayFrom(_ context.Context, statement io.Reader) error {
	text, err := io.ReadAll(statement)
	*r = append(*r, string(text))
	return err
}

// TestNoEventBringsTheReplayDown cuts every kind of event short and fills it with noise: it is refused or replayed.
func TestNoEventBringsTheReplayDown(t *testing.T) {
	random := rand.New(rand.NewSource(1)) //nolint:gosec // to be repeated
	whole := queryBody(everyVariable(), "shop", "SELECT 1")
	for n := range whole {
		a := newApplier(&recorder{})
		_ = a.plain(t.Context(), plainEvent(replication.QUERY_EVENT, 0, whole[:n]))
	}
	for kind := range 60 {
		for n := range 80 {
			body := make([]byte, n)
			random.Read(body)
			a := newApplier(&recorder{})
			_ = a.plain(t.Context(), plainEvent(replication.EventType(kind), 0, body)) //nolint:gosec // small
		}
	}
}

func TestWhatCannotBeReplayedIsRefused(t *testing.T) {
	for kind, says := range map[replication.EventType]string{
		replication.USER_VAR_EVENT: "binlog_format=ROW", replication.EXECUTE_LOAD_QUERY_EVENT: "binlog_format=ROW", replication.BEGIN_LOAD_QUERY_EVENT: "binlog_format=ROW",
		replication.EventType(77): "binlog_format=ROW",
	} {
		if err := newApplier(&recorder{}).plain(t.Context(), plainEvent(kind, 0, make([]byte, 40))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	a := newApplier(&recorder{})
	if err := a.plain(t.Context(), plainEvent(replication.WRITE_ROWS_EVENTv2, 0, make([]byte, 40))); err != nil {
		t.Fatal(err)
	}
	if err := a.plain(t.Context(), plainEvent(replication.XID_EVENT, 0, make([]byte, 8))); !errors.Is(err, binlog.ErrDamaged) {
		t.Errorf("rows without an end: %v", err)
	}
}

// TestAStatementOfManyRowsIsSentInParts, each with its tables and its end.
func TestAStatementOfManyRowsIsSentInParts(t *testing.T) {
	var sent recorder
	a := newApplier(&sent)
	table := plainEvent(replication.TABLE_MAP_EVENT, 0, make([]byte, 30))
	row := make([]byte, batchBytes/3)
	send := func(e binlog.Event) {
		t.Helper()
		if err := a.plain(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	send(table)
	for range 6 {
		send(plainEvent(replication.WRITE_ROWS_EVENTv2, 0, row))
	}
	last := append([]byte(nil), row...)
	last[rowFlags] = stmtEnd
	send(plainEvent(replication.WRITE_ROWS_EVENTv2, 0, last))
	send(plainEvent(replication.XID_EVENT, 0, make([]byte, 8)))
	if len(sent) != 4 || sent[3] != "COMMIT" {
		t.Fatalf("%d statements were sent, the last of which is %.20s", len(sent), sent[len(sent)-1])
	}
	for _, s := range sent[:3] {
		if !strings.HasPrefix(s, "BINLOG '") || len(s) > 2*batchBytes {
			t.Errorf("sent was %.20s… of %d bytes", s, len(s))
		}
	}
}

// TestARevokeWithoutIfExists: the server refuses then what it only warns of.
func TestARevokeWithoutIfExists(t *testing.T) {
	for text, want := range map[string]string{
		"REVOKE IF EXISTS SELECT ON a.* FROM b":     "REVOKE SELECT ON a.* FROM b",
		" /* x */ revoke if/* y */exists`r` FROM b": " /* x */ revoke `r` FROM b",
		"REVOKE SELECT ON a.* FROM b":               "REVOKE SELECT ON a.* FROM b",
		"REVOKE `IF EXISTS` FROM b":                 "REVOKE `IF EXISTS` FROM b",
		"DROP USER IF EXISTS b":                     "DROP USER IF EXISTS b",
		"REVOKE IF":                                 "REVOKE IF",
	} {
		if got, lenient := withoutIfExists(text); got != want || lenient != (text != want) {
			t.Errorf("%q became %q, %v", text, got, lenient)
		}
	}
}

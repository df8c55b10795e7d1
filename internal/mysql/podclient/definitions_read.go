package podclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// systemTable is a table of MySQL's own with rows that belong to the user.
type systemTable struct {
	name    string // without its database where that is mysql
	columns string
	// merged: rows of the restored server stay beside the restored ones.
	merged bool
}

// systemTables are in the order in which they are filled. Time zones come from mysql_tzinfo_to_sql, the others from CREATE SERVER
// and from people who change the optimizer's cost model or the options of the sys schema.
var systemTables = []systemTable{
	{"time_zone", "Time_zone_id, Use_leap_seconds", false},
	{"time_zone_name", "Name, Time_zone_id", false},
	{"time_zone_transition", "Time_zone_id, Transition_time, Transition_type_id", false},
	{"time_zone_transition_type", "Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation", false},
	{"time_zone_leap_second", "Transition_time, Correction", false},
	{"servers", "Server_name, Host, Db, Username, Password, Port, Socket, Wrapper, Owner", false},
	{"server_cost", "cost_name, cost_value, comment", true},
	{"engine_cost", "engine_name, device_type, cost_name, cost_value, comment", true},
	{"sys.sys_config", "variable, value", false},
}

// qualified is the name of a system table with its database.
func qualified(table string) string {
	if strings.Contains(table, ".") {
		return table
	}
	return "mysql." + table
}

// unconverted has the server send text as it keeps it, and converted in UTF-8 again.
const (
	unconverted = "SET SESSION character_set_results = NULL"
	converted   = "SET SESSION character_set_results = utf8mb4"
)

// Inventory is what a server holds beside tables, rows and accounts.
type Inventory struct{ v *Visit }

// Inventory reads what the server holds.
func (v *Visit) Inventory() Inventory { return Inventory{v} }

// Definitions reads what the server holds beside tables, rows and accounts. It is no view of one moment: compare Sum.
func (i Inventory) Definitions(ctx context.Context) (Definitions, error) {
	r := definitionReader{s: i.v.s}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"prepare the session", func(ctx context.Context) error { return i.v.exec(ctx, printing) }},
		{"the spatial reference systems", r.referenceSystems}, {"the tablespaces", r.tablespaces}, {"the tables of mysql", r.systemRows},
		{"the databases", r.databases}, {"the views and stored programs", r.programs},
	} {
		if err := step.read(ctx); err != nil {
			return Definitions{}, fmt.Errorf("read the definitions: %s: %w", step.what, err)
		}
	}
	return r.found, nil
}

// definitionReader collects the definitions of a server.
type definitionReader struct {
	s     *conn.Session
	found Definitions
}

// all reads rows of any number, with a time-out for none of them.
func (r *definitionReader) all(ctx context.Context, query string, scan func(*sql.Rows) error) error {
	return r.s.LongRows(ctx, query, nil, scan)
}

func (r *definitionReader) referenceSystems(ctx context.Context) error {
	return r.all(ctx, "SELECT SRS_ID, SRS_NAME, ORGANIZATION, ORGANIZATION_COORDSYS_ID, DEFINITION, DESCRIPTION FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS ORDER BY SRS_ID",
		conn.Append(&r.found.ReferenceSystems, func(one *ReferenceSystem) []any {
			return []any{&one.ID, &one.Name, &one.Organization, &one.OrganizationID, &one.Definition, &one.Description}
		}))
}

func (r *definitionReader) tablespaces(ctx context.Context) error {
	return r.all(ctx, `SELECT t.NAME, f.FILE_NAME, t.ZIP_PAGE_SIZE, t.AUTOEXTEND_SIZE, t.ENCRYPTION = 'Y', e.ENGINE_ATTRIBUTE
		FROM information_schema.INNODB_TABLESPACES t JOIN information_schema.FILES f ON f.TABLESPACE_NAME = t.NAME AND f.FILE_TYPE = 'TABLESPACE'
		LEFT JOIN information_schema.TABLESPACES_EXTENSIONS e ON e.TABLESPACE_NAME = t.NAME
		WHERE t.SPACE_TYPE = 'General' AND t.NAME <> 'mysql' ORDER BY t.NAME`,
		conn.Append(&r.found.Tablespaces, func(one *Tablespace) []any {
			return []any{&one.Name, &one.File, &one.BlockSize, &one.AutoextendSize, &one.Encrypted, &one.EngineAttribute}
		}))
}

func (r *definitionReader) systemRows(ctx context.Context) error {
	for _, t := range systemTables {
		found, err := r.systemTable(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if len(found.Rows) > 0 {
			r.found.SystemRows = append(r.found.SystemRows, found)
		}
	}
	return nil
}

func (r *definitionReader) systemTable(ctx context.Context, t systemTable) (SystemRows, error) {
	found := SystemRows{Table: t.name}
	width := strings.Count(t.columns, ",") + 1
	err := r.all(ctx, "SELECT "+t.columns+" FROM "+qualified(t.name)+" ORDER BY "+t.columns, func(rows *sql.Rows) error {
		row, into := make([]*string, width), make([]any, width)
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		found.Rows = append(found.Rows, row)
		return nil
	})
	if conn.IsServerError(err, mysql.ErNoSuchTable, mysql.ErBadDB) {
		err = nil // somebody dropped the sys schema
	}
	return found, err
}

func (r *definitionReader) databases(ctx context.Context) error {
	err := r.all(ctx, "SELECT SCHEMA_NAME, IFNULL(OPTIONS, '') LIKE '%READ ONLY=1%' FROM information_schema.SCHEMATA_EXTENSIONS WHERE SCHEMA_NAME NOT IN "+systemSchemas+" ORDER BY SCHEMA_NAME",
		conn.Append(&r.found.Databases, func(one *DatabaseOptions) []any { return []any{&one.Name, &one.ReadOnly} }))
	for i, one := range r.found.Databases {
		if err == nil {
			var name string
			err = r.s.Row(ctx, "SHOW CREATE DATABASE "+conn.QuoteName(one.Name), nil, &name, &r.found.Databases[i].Definition)
		}
	}
	return err
}

// programQueries list the programs, in the order in which they are made: kind, database, name, definer and when. The triggers of a
// table are in the order in which they fire.
var programQueries = []string{
	"SELECT 'LIBRARY', LIBRARY_SCHEMA, LIBRARY_NAME, '', UNIX_TIMESTAMP(LAST_ALTERED) FROM information_schema.LIBRARIES WHERE LIBRARY_SCHEMA NOT IN " + systemSchemas + " ORDER BY 2, 3",
	"SELECT ROUTINE_TYPE, ROUTINE_SCHEMA, ROUTINE_NAME, DEFINER, UNIX_TIMESTAMP(LAST_ALTERED) FROM information_schema.ROUTINES WHERE ROUTINE_TYPE IN ('FUNCTION', 'PROCEDURE') AND ROUTINE_SCHEMA NOT IN " + systemSchemas + " ORDER BY 2, 1, 3",
	"SELECT 'VIEW', TABLE_SCHEMA, TABLE_NAME, DEFINER, 0 FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN " + systemSchemas + " ORDER BY 2, 3",
	"SELECT 'TRIGGER', TRIGGER_SCHEMA, TRIGGER_NAME, DEFINER, FLOOR(UNIX_TIMESTAMP(CREATED)) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA NOT IN " + systemSchemas +
		" ORDER BY EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, EVENT_MANIPULATION, ACTION_TIMING, ACTION_ORDER",
	eventQuery + " ORDER BY 2, 3",
}

// eventQuery lists the scheduled events as programQueries do. An event may be altered once its time is over. The server has its times in UTC and
// shows them in the event's time zone; one that it does not know any more gives NULL.
const eventQuery = "SELECT 'EVENT', EVENT_SCHEMA, EVENT_NAME, DEFINER, LEAST(UNIX_TIMESTAMP(LAST_ALTERED), IFNULL(UNIX_TIMESTAMP(CONVERT_TZ(COALESCE(EXECUTE_AT, ENDS), TIME_ZONE, @@time_zone)) - 1, UNIX_TIMESTAMP(LAST_ALTERED))) FROM information_schema.EVENTS WHERE EVENT_SCHEMA NOT IN " + systemSchemas

func (r *definitionReader) programs(ctx context.Context) error {
	for _, query := range programQueries {
		err := r.list(ctx, query)
		if conn.IsServerError(err, mysql.ErUnknownTable) {
			continue // MySQL 8.4 has no libraries
		}
		if err != nil {
			return err
		}
	}
	// A body is in the character set of whoever made it, and must not be converted.
	if err := r.all(ctx, unconverted, ignoreRow); err != nil {
		return err
	}
	for i := range r.found.Programs {
		if err := r.program(ctx, &r.found.Programs[i]); err != nil {
			return fmt.Errorf("%s: %w", r.found.Programs[i].Title(), err)
		}
	}
	return r.all(ctx, converted, ignoreRow)
}

// list adds the programs that a query lists.
func (r *definitionReader) list(ctx context.Context, query string) error {
	return r.all(ctx, query, conn.Append(&r.found.Programs, func(p *Program) []any { return []any{&p.Kind, &p.Database, &p.Name, &p.Definer, &p.AlteredAt} }))
}

func ignoreRow(*sql.Rows) error { return nil }

// errGone: what was listed is not there any more.
var errGone = errors.New("it was dropped meanwhile")

// program reads how one is made.
func (r *definitionReader) program(ctx context.Context, p *Program) error {
	shown := map[string]string{}
	err := r.s.Rows(ctx, "SHOW CREATE "+string(p.Kind)+" "+p.quoted(), nil, func(rows *sql.Rows) error {
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, name := range names {
			shown[strings.ToLower(name)] = values[i].String
		}
		return nil
	})
	switch {
	case err != nil && p.Kind == KindView && conn.ServerErrorNumber(err) != 0:
		return r.unshown(ctx, p, conn.ServerWords(err))
	case err != nil:
		return err
	case len(shown) == 0:
		return errGone
	}
	p.SQLMode, p.CharacterSet, p.Collation = shown["sql_mode"], shown["character_set_client"], shown["collation_connection"]
	p.DatabaseCollation, p.TimeZone = shown["database collation"], shown["time_zone"]
	p.Statement = SQLText(shown["create "+strings.ToLower(string(p.Kind))])
	if p.Kind == KindTrigger {
		p.Statement = SQLText(shown["sql original statement"])
	}
	if len(p.Statement) == 0 {
		return errors.New("the server does not show how it is made")
	}
	if p.Kind == KindView {
		p.Broken, err = r.broken(ctx, p)
		return err
	}
	return r.oneCharacterSet(ctx, p)
}

// bodyQueries read the body of a stored program as UTF-8.
var bodyQueries = map[ProgramKind]string{
	KindFunction:  "SELECT ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ? AND ROUTINE_NAME = ? AND ROUTINE_TYPE = 'FUNCTION'",
	KindProcedure: "SELECT ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ? AND ROUTINE_NAME = ? AND ROUTINE_TYPE = 'PROCEDURE'",
	KindTrigger:   "SELECT ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? AND TRIGGER_NAME = ?",
	KindEvent:     "SELECT EVENT_DEFINITION FROM information_schema.EVENTS WHERE EVENT_SCHEMA = ? AND EVENT_NAME = ?",
}

// oneCharacterSet brings a statement into the character set of its session. The server shows the body in that, and what it puts before
// it, as names and comments, in UTF-8, but for the parameters of a routine.
func (r *definitionReader) oneCharacterSet(ctx context.Context, p *Program) error {
	query, known := bodyQueries[p.Kind]
	ascii := !slices.ContainsFunc(p.Statement, func(b byte) bool { return b >= utf8.RuneSelf })
	if !known || ascii || strings.HasPrefix(p.CharacterSet, "utf8") || p.CharacterSet == "binary" {
		return nil
	}
	var body []byte
	if err := r.s.Row(ctx, query, []any{p.Database, p.Name}, &body); err != nil {
		return err
	}
	encode := func(text []byte) (raw []byte, err error) {
		err = r.s.Row(ctx, "SELECT CAST(CONVERT(CAST(? AS CHAR CHARACTER SET utf8mb4) USING "+p.CharacterSet+") AS BINARY)", []any{string(text)}, &raw)
		return raw, err
	}
	raw, err := encode(body)
	if err != nil {
		return err
	}
	before, found := bytes.CutSuffix(p.Statement, raw)
	if !found {
		return nil
	}
	var statement []byte
	for len(before) > 0 {
		plain, foreign := plainText(before)
		if before = before[len(plain)+len(foreign):]; utf8.Valid(foreign) {
			if foreign, err = encode(foreign); err != nil {
				return err
			}
		}
		statement = slices.Concat(statement, plain, foreign)
	}
	p.Statement = slices.Concat(statement, raw)
	return nil
}

// plainText is the ASCII that a text begins with, and what follows up to the next.
func plainText(b []byte) (plain, foreign []byte) {
	begin := 0
	for begin < len(b) && b[begin] < utf8.RuneSelf {
		begin++
	}
	end := begin
	for end < len(b) && b[end] >= utf8.RuneSelf {
		end++
	}
	return b[:begin], b[begin:end]
}

// unshown reads how a view is made that the server does not show because it cannot use it, but for its algorithm.
func (r *definitionReader) unshown(ctx context.Context, p *Program, why string) error {
	var body, check, security string
	err := r.s.Row(ctx, "SELECT VIEW_DEFINITION, CHECK_OPTION, SECURITY_TYPE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION FROM information_schema.VIEWS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		[]any{p.Database, p.Name}, &body, &check, &security, &p.CharacterSet, &p.Collation)
	if errors.Is(err, sql.ErrNoRows) {
		return errGone
	}
	if err != nil {
		return err
	}
	definer, _ := p.definer()
	text := "CREATE ALGORITHM=UNDEFINED DEFINER=" + definer.Quoted() + " SQL SECURITY " + security + " VIEW " + p.quoted() + " AS " + body
	if check != "NONE" {
		text += " WITH " + check + " CHECK OPTION"
	}
	p.Statement, p.Broken = SQLText(text), why
	return nil
}

// broken is what the server says of a view that it has just shown and cannot use, "" of any other.
func (r *definitionReader) broken(ctx context.Context, p *Program) (why string, err error) {
	stored := 0
	err = r.s.Rows(ctx, "SHOW WARNINGS", nil, func(rows *sql.Rows) error {
		var level, text string
		var code uint16
		if err := rows.Scan(&level, &code, &text); err != nil {
			return err
		}
		stored++
		if code == mysql.ErViewInvalid {
			why = text
		}
		return nil
	})
	if err != nil || why != "" {
		return why, err
	}
	// A server with a small max_error_count, which an account of a pod may not change, counts warnings and does not keep them all.
	var warnings int
	if err := r.s.Row(ctx, "SELECT @@warning_count", nil, &warnings); err != nil || warnings == stored {
		return "", err
	}
	err = r.s.Rows(ctx, "SELECT 1 FROM "+p.quoted()+" LIMIT 0", nil, ignoreRow)
	switch {
	case conn.IsServerError(err, mysql.ErViewInvalid):
		return conn.ServerWords(err), nil
	case conn.IsRefusal(err): // of another kind than the server warns of
		return "", nil
	}
	return "", err
}

// ShowTables calls show with what SHOW CREATE TABLE prints of each table, the same on every server, or with why it prints nothing. What is
// printed is what mysqldump writes: the server takes it for utf8mb3 and keeps characters of four bytes in it, as in a CHECK; converted
// to utf8mb4 they become question marks.
func (i Inventory) ShowTables(ctx context.Context, tables []Table, show func(t Table, create string, err error) error) error {
	for _, statement := range []string{printing, unconverted} {
		if err := i.v.exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare to read how tables are made: %w", err)
		}
	}
	for _, t := range tables {
		var name, create string
		err := i.v.long(ctx, "SHOW CREATE TABLE "+t.quoted(), &name, &create)
		if err := show(t, create, err); err != nil {
			return err
		}
	}
	return i.v.exec(ctx, converted)
}

// Sum sums up the databases, tablespaces, views and stored programs of the server, as the session's snapshot shows them where it has one. As long
// as it is the same, so are they.
func (i Inventory) Sum(ctx context.Context) (string, error) {
	sum := sha256.New()
	for _, query := range []string{
		"SELECT 'D', SCHEMA_NAME, DEFAULT_COLLATION_NAME, DEFAULT_ENCRYPTION, NULL FROM information_schema.SCHEMATA ORDER BY 2",
		"SELECT 'S', NAME, NULL, NULL, NULL FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'General' ORDER BY 2",
		"SELECT 'V', TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, CONCAT_WS(' ', DEFINER, SECURITY_TYPE, CHECK_OPTION, CHARACTER_SET_CLIENT, COLLATION_CONNECTION) FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN " + systemSchemas + " ORDER BY 2, 3",
		"SELECT ROUTINE_TYPE, ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_DEFINITION, CONCAT_WS(' ', DEFINER, LAST_ALTERED, SECURITY_TYPE) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN " + systemSchemas + " ORDER BY 1, 2, 3",
		"SELECT 'T', TRIGGER_SCHEMA, TRIGGER_NAME, ACTION_STATEMENT, CONCAT_WS(' ', DEFINER, CREATED, ACTION_ORDER) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA NOT IN " + systemSchemas + " ORDER BY 2, 3",
		"SELECT 'E', EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION, CONCAT_WS(' ', DEFINER, LAST_ALTERED, STATUS) FROM information_schema.EVENTS WHERE EVENT_SCHEMA NOT IN " + systemSchemas + " ORDER BY 2, 3",
	} {
		if err := i.v.s.LongRows(ctx, query, nil, func(rows *sql.Rows) error {
			line, into := make([]sql.NullString, 5), make([]any, 5)
			for n := range line {
				into[n] = &line[n]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			for _, value := range line {
				fmt.Fprintf(sum, "%t %q ", value.Valid, value.String)
			}
			return nil
		}); err != nil {
			return "", fmt.Errorf("sum up the definitions: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// LeftOut lists what the server holds and no dump carries, and what a restore may not be able to make.
func (i Inventory) LeftOut(ctx context.Context) ([]LeftOut, error) {
	if err := i.v.exec(ctx, printing); err != nil { // with the generated invisible primary keys
		return nil, fmt.Errorf("prepare to look for what a dump does not carry: %w", err)
	}
	var found []LeftOut
	for _, q := range leftOutQueries {
		err := i.v.s.LongRows(ctx, q.query, nil, func(rows *sql.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			found = append(found, LeftOut{What: q.what + " " + name, Why: q.why, EndsReplay: q.endsReplay})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for what a dump does not carry: %s: %w", q.what, err)
		}
	}
	slices.SortFunc(found, compareLeftOut)
	return found, nil
}

// systemTableNames are the tables that MySQL 8.4 and 9.7 have in the database mysql.
const systemTableNames = `('columns_priv', 'component', 'db', 'default_roles', 'engine_cost', 'func', 'general_log', 'global_grants', 'gtid_executed', 'help_category',
	'help_keyword', 'help_relation', 'help_topic', 'innodb_index_stats', 'innodb_table_stats', 'ndb_binlog_index', 'password_history', 'plugin', 'procs_priv', 'proxies_priv',
	'replication_asynchronous_connection_failover', 'replication_asynchronous_connection_failover_managed', 'replication_group_configuration_version',
	'replication_group_member_actions', 'role_edges', 'server_cost', 'servers', 'slave_master_info', 'slave_relay_log_info', 'slave_worker_info', 'slow_log', 'tables_priv',
	'time_zone', 'time_zone_leap_second', 'time_zone_name', 'time_zone_transition', 'time_zone_transition_type', 'user')`

// leftOutQueries find what is not carried, by name.
var leftOutQueries = []struct {
	what, query, why string
	endsReplay       bool
}{
	{"loadable function", "SELECT name FROM mysql.func", "it is a library on the server; install it again after a restore (CREATE FUNCTION … SONAME)", false},
	{"plug-in", "SELECT name FROM mysql.plugin", "it is a library on the server; install it again after a restore (INSTALL PLUGIN), with the privileges that it defines", false},
	{"component", "SELECT component_urn FROM mysql.component", "it is a library on the server; install it again after a restore (INSTALL COMPONENT), with its settings and the privileges that it defines", false},
	{"resource group", "SELECT RESOURCE_GROUP_NAME FROM information_schema.RESOURCE_GROUPS WHERE RESOURCE_GROUP_NAME NOT IN ('USR_default', 'SYS_default')", "it belongs to the one server; create it again on every member after a restore", false},
	{"undo tablespace", "SELECT NAME FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'Undo' AND NAME NOT IN ('innodb_undo_001', 'innodb_undo_002')", "it belongs to the one server; create it again on every member after a restore if it is wanted", false},
	{"statistics of column", "SELECT CONCAT(SCHEMA_NAME, '.', TABLE_NAME, '.', COLUMN_NAME) FROM information_schema.COLUMN_STATISTICS WHERE SCHEMA_NAME NOT IN " + systemSchemas,
		"a server that is closed to writes takes none; make them again after a restore (ANALYZE TABLE … UPDATE HISTOGRAM)", false},
	{"privilege of", "SELECT CONCAT(ACCOUNT, ' on table ', Db, '.', Table_name) FROM (SELECT " + grantee + " AS ACCOUNT, Db, Table_name FROM mysql.tables_priv WHERE Table_priv <> '') p WHERE NOT EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = p.Db COLLATE utf8mb3_bin AND t.TABLE_NAME = p.Table_name COLLATE utf8mb3_bin)", whatIsGone, false},
	{"privilege of", "SELECT CONCAT(ACCOUNT, ' on column ', Db, '.', Table_name, '.', Column_name) FROM (SELECT " + grantee + " AS ACCOUNT, Db, Table_name, Column_name FROM mysql.columns_priv) p WHERE NOT EXISTS (SELECT 1 FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA = p.Db COLLATE utf8mb3_bin AND c.TABLE_NAME = p.Table_name COLLATE utf8mb3_bin AND c.COLUMN_NAME = p.Column_name)", whatIsGone, false},
	{"privilege of", "SELECT CONCAT(ACCOUNT, ' on ', LOWER(Routine_type), ' ', Db, '.', Routine_name) FROM (SELECT " + grantee + " AS ACCOUNT, Db, Routine_name, Routine_type FROM mysql.procs_priv) p WHERE Routine_type IN ('FUNCTION', 'PROCEDURE') AND NOT EXISTS (SELECT 1 FROM information_schema.ROUTINES r WHERE r.ROUTINE_SCHEMA = p.Db COLLATE utf8mb3_bin AND r.ROUTINE_NAME = p.Routine_name AND r.ROUTINE_TYPE = p.Routine_type)", whatIsGone, false},
	{"account", "SELECT CONCAT('`', User, '`@`', Host, '`') FROM mysql.user u WHERE " + reservedAccounts + " AND plugin NOT IN ('caching_sha2_password', 'sha256_password')",
		"a server without its authentication plug-in makes it locked, with its privileges; give it caching_sha2_password", false},
	{"account", "SELECT CONCAT('''''@', QUOTE(Host)) FROM mysql.user WHERE User = ''", "anonymous accounts are not restored, because they can take the place of others; create it again if it is wanted", false},
	{"table", "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME, ' (', ENGINE, ')') FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE <> 'InnoDB' AND TABLE_SCHEMA NOT IN " + systemSchemas,
		"its engine gives no consistent view, and it is restored as InnoDB; alter it to ENGINE=InnoDB", false},
	{"table", "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME, ' (encrypted)') FROM information_schema.TABLES WHERE CREATE_OPTIONS LIKE '%ENCRYPTION=_Y%' AND TABLE_SCHEMA NOT IN " + systemSchemas,
		"a restore fails on a server without a keyring; alter it to ENCRYPTION='N' (the volume is encrypted by spec.storage)", false},
	{"FLOAT column", "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME, '.', COLUMN_NAME) FROM information_schema.COLUMNS c WHERE DATA_TYPE = 'float' AND TABLE_SCHEMA NOT IN " + systemSchemas + " AND EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME AND t.TABLE_TYPE = 'BASE TABLE') AND " + withoutKey,
		"its table has no primary key without FLOAT: mysqldump rounds FLOAT to six digits, so that a replay to a later point in time does not find the rows that are changed or deleted there, and ends with ReplayFailed. Add a primary key, or make it a DOUBLE", true},
	{"tablespace", "SELECT CONCAT(NAME, ' (encrypted)') FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'General' AND NAME <> 'mysql' AND ENCRYPTION = 'Y'",
		"a restore fails on a server without a keyring; alter it to ENCRYPTION='N' (the volume is encrypted by spec.storage)", false},
	{"database", "SELECT CONCAT(SCHEMA_NAME, ' (encrypted by default)') FROM information_schema.SCHEMATA WHERE DEFAULT_ENCRYPTION = 'YES' AND SCHEMA_NAME NOT IN " + systemSchemas,
		"a restore fails on a server without a keyring when a table is made in it; alter it to DEFAULT ENCRYPTION='N'", false},
	{"table", "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME NOT IN " + systemTableNames +
		" OR TABLE_SCHEMA = 'sys' AND TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME <> 'sys_config'", notOfMySQL + ". A restore to a later point in time ends at the first change of it (ReplayFailed)", true},
	{"view", "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'sys' AND DEFINER <> 'mysql.sys@localhost'", notOfMySQL, false},
	{"routine", "SELECT CONCAT(ROUTINE_SCHEMA, '.', ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA IN ('mysql', 'sys') AND DEFINER <> 'mysql.sys@localhost'", notOfMySQL, false},
	{"view", dependentViews, "it uses a loadable function, or what people made in a database of MySQL itself, which are not in a dump: a restore leaves it out, with the privileges on it; create it again once what it uses is there", false},
	{"trigger", "SELECT CONCAT(TRIGGER_SCHEMA, '.', TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA IN ('mysql', 'sys') AND DEFINER <> 'mysql.sys@localhost'", notOfMySQL, false},
	{"event", "SELECT CONCAT(EVENT_SCHEMA, '.', EVENT_NAME) FROM information_schema.EVENTS WHERE EVENT_SCHEMA IN ('mysql', 'sys')", notOfMySQL, false},
}

// dependentViews are the views that need what is not carried, and those that need such views.
const dependentViews = `WITH RECURSIVE dependent AS (
	SELECT u.VIEW_SCHEMA AS s, u.VIEW_NAME AS n FROM information_schema.VIEW_TABLE_USAGE u JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = u.TABLE_SCHEMA AND t.TABLE_NAME = u.TABLE_NAME
		LEFT JOIN information_schema.VIEWS w ON w.TABLE_SCHEMA = u.TABLE_SCHEMA AND w.TABLE_NAME = u.TABLE_NAME
		WHERE u.VIEW_SCHEMA NOT IN ` + systemSchemas + ` AND (u.TABLE_SCHEMA = 'mysql' AND u.TABLE_NAME NOT IN ` + systemTableNames + ` OR u.TABLE_SCHEMA = 'sys' AND IFNULL(w.DEFINER <> 'mysql.sys@localhost', u.TABLE_NAME <> 'sys_config'))
	UNION SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS v JOIN mysql.func f ON v.VIEW_DEFINITION LIKE CONCAT('%', f.name, '(%') WHERE TABLE_SCHEMA NOT IN ` + systemSchemas + `
	UNION SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS v JOIN information_schema.ROUTINES r ON r.ROUTINE_SCHEMA IN ('mysql', 'sys') AND r.DEFINER <> 'mysql.sys@localhost'
		AND v.VIEW_DEFINITION LIKE CONCAT('%', CHAR(96), r.ROUTINE_SCHEMA, CHAR(96), '.', CHAR(96), r.ROUTINE_NAME, CHAR(96), '(%') WHERE TABLE_SCHEMA NOT IN ` + systemSchemas + `
	UNION SELECT u.VIEW_SCHEMA, u.VIEW_NAME FROM dependent JOIN information_schema.VIEW_TABLE_USAGE u ON u.TABLE_SCHEMA = s AND u.TABLE_NAME = n
) SELECT CONCAT(s, '.', n) FROM dependent`

// grantee names an account in the tables of privileges, and whatIsGone is why a privilege is left out.
const (
	grantee    = "CONCAT('`', User, '`@`', Host, '`')"
	whatIsGone = "what it is on is gone, and a restore leaves it out; revoke it"
)

// notOfMySQL is why what people keep in MySQL's own databases is not carried.
const notOfMySQL = "databases of MySQL itself are not in a dump; move it to a database of your own"

package backup

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// schemasVariable is how many databases the test makes, sliceSchemas by default, schemasAtOnce on one server.
	schemasVariable             = "NAIROBI_SCHEMAS"
	sliceSchemas, schemasAtOnce = 16, 16
	schemasSeed                 = "NAIROBI_SEED"
	// least is the part of the made up statements that a server has to take, so that the test tries something, in percent.
	least = 75
)

func environment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	return n
}

// TestHostileSchemas makes databases from a seed, with all that a server can hold. Each is dumped, verified and restored, and then
// compared by what the client shows of both servers: it is equal, or named by the backup.
func TestHostileSchemas(t *testing.T) {
	w := theWorld(t)
	seed := environment(t, schemasSeed, uint64(time.Now().UnixNano()))
	count := int(environment(t, schemasVariable, sliceSchemas)) //nolint:gosec // a few hundred
	for first := 0; first < count; first += schemasAtOnce {
		n := min(schemasAtOnce, count-first)
		t.Run(fmt.Sprintf("databases %d to %d of seed %d", first+1, first+n, seed), func(t *testing.T) {
			g := newSchemaGenerator(seed, uint64(first)) //nolint:gosec // not negative
			from := w.source(t, g.source())
			_, err := from.SQL(t.Context(), g.quoting()+"INSERT INTO mysql.time_zone VALUES (1, 'N'); INSERT INTO mysql.time_zone_name VALUES ('Test/Zone', 1); INSERT INTO mysql.time_zone_transition_type VALUES (1, 0, 7200, 0, 'TST'); INSERT INTO mysql.time_zone_transition VALUES (1, -2147483648, 0)")
			must(t, err)
			g.global()
			for i := range n {
				g.schema(first + i)
			}
			g.farewell()
			taken, refusals := play(t, from, g.statements)
			if taken*100 < least*len(g.statements) {
				t.Errorf("the server took %d of %d statements", taken, len(g.statements))
			}
			t.Logf("%d of %d statements; refused, for example: %s", taken, len(g.statements), strings.Join(refusals[:min(3, len(refusals))], " | "))
			settings := g.settings()
			t.Logf("restored with %v", settings)
			target, named, _ := w.roundTrip(t, from, settings)
			if t.Failed() {
				return
			}
			for _, difference := range compareServers(t, from, target, named) {
				t.Error(difference)
			}
		})
	}
}

// refusal finds the errors in what the client prints with --force.
var refusal = regexp.MustCompile(`(?m)^ERROR \d+ .*$`)

// play runs statements, each whatever becomes of the others, and returns how many the server took.
func play(t *testing.T, s *mysqld.Server, statements []string) (taken int, refusals []string) {
	t.Helper()
	cmd := s.Program(t.Context(), "mysql", "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock", "--force", "--batch", "--default-character-set=utf8mb4", "--delimiter=@@@")
	cmd.Stdin = strings.NewReader(strings.Join(statements, "@@@\n") + "@@@\n")
	out, err := cmd.CombinedOutput()
	refusals = refusal.FindAllString(string(out), -1)
	if err != nil && len(refusals) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return len(statements) - len(refusals), refusals
}

// queries read what the other server has to show too: first what a line is about, then what there is to say of it. Rows of privileges
// that DROP USER leaves behind belong to nobody.
var queries = []string{
	"SELECT CONCAT('database ', SCHEMA_NAME), DEFAULT_COLLATION_NAME, DEFAULT_ENCRYPTION FROM information_schema.SCHEMATA WHERE SCHEMA_NAME <> 'nairobi_mysql'",
	"SELECT CONCAT('database ', SCHEMA_NAME), OPTIONS FROM information_schema.SCHEMATA_EXTENSIONS WHERE SCHEMA_NAME <> 'nairobi_mysql'",
	"SELECT CONCAT('column ', TABLE_SCHEMA, '.', TABLE_NAME, '.', COLUMN_NAME), ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE, COLUMN_TYPE, COLLATION_NAME, COLUMN_KEY, EXTRA, COLUMN_COMMENT, GENERATION_EXPRESSION, SRS_ID FROM information_schema.COLUMNS c WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'nairobi_mysql') AND EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME AND t.TABLE_TYPE = 'BASE TABLE')",
	"SELECT CONCAT('key ', TABLE_SCHEMA, '.', TABLE_NAME, '.', INDEX_NAME), SEQ_IN_INDEX, NON_UNIQUE, COLUMN_NAME, COLLATION, SUB_PART, INDEX_TYPE, INDEX_COMMENT, IS_VISIBLE, EXPRESSION FROM information_schema.STATISTICS WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'nairobi_mysql')",
	"SELECT CONCAT('constraint ', CONSTRAINT_SCHEMA, '.', CONSTRAINT_NAME), TABLE_NAME, CONSTRAINT_TYPE, ENFORCED FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'nairobi_mysql')",
	"SELECT CONCAT('check ', CONSTRAINT_SCHEMA, '.', CONSTRAINT_NAME), CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA <> 'nairobi_mysql'",
	"SELECT CONCAT('foreign key ', CONSTRAINT_SCHEMA, '.', CONSTRAINT_NAME), UNIQUE_CONSTRAINT_SCHEMA, UPDATE_RULE, DELETE_RULE, TABLE_NAME, REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS",
	"SELECT CONCAT('partition ', TABLE_SCHEMA, '.', TABLE_NAME, '.', PARTITION_NAME), SUBPARTITION_NAME, PARTITION_METHOD, PARTITION_EXPRESSION, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE PARTITION_NAME IS NOT NULL",
	"SELECT CONCAT('view ', TABLE_SCHEMA, '.', TABLE_NAME), VIEW_DEFINITION, CHECK_OPTION, DEFINER, SECURITY_TYPE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION FROM information_schema.VIEWS WHERE TABLE_SCHEMA <> 'sys'",
	"SELECT CONCAT(LOWER(ROUTINE_TYPE), ' ', ROUTINE_SCHEMA, '.', ROUTINE_NAME), DTD_IDENTIFIER, ROUTINE_DEFINITION, IS_DETERMINISTIC, SQL_DATA_ACCESS, SECURITY_TYPE, SQL_MODE, ROUTINE_COMMENT, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN ('mysql', 'sys')",
	"SELECT CONCAT('parameter ', SPECIFIC_SCHEMA, '.', SPECIFIC_NAME), ORDINAL_POSITION, PARAMETER_MODE, PARAMETER_NAME, DTD_IDENTIFIER, COLLATION_NAME FROM information_schema.PARAMETERS WHERE SPECIFIC_SCHEMA NOT IN ('mysql', 'sys')",
	"SELECT CONCAT('trigger ', TRIGGER_SCHEMA, '.', TRIGGER_NAME), EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER, ACTION_TIMING, ACTION_STATEMENT, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA <> 'sys'",
	"SELECT CONCAT('event ', EVENT_SCHEMA, '.', EVENT_NAME), DEFINER, TIME_ZONE, EVENT_DEFINITION, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD, SQL_MODE, STARTS, ENDS, STATUS, ON_COMPLETION, EVENT_COMMENT, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION FROM information_schema.EVENTS",
	"SELECT CONCAT('tablespace ', NAME), ZIP_PAGE_SIZE, ENCRYPTION, AUTOEXTEND_SIZE FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'General'",
	"SELECT CONCAT('account `', User, '`@`', Host, '`'), plugin, HEX(authentication_string), ssl_type, x509_subject, max_questions, max_user_connections, password_expired, password_last_changed, password_lifetime, account_locked, Password_reuse_history, Password_reuse_time, Password_require_current, HEX(CAST(User_attributes AS CHAR)), Select_priv, Super_priv, Grant_priv, Create_role_priv FROM mysql.user WHERE User NOT LIKE 'nairobi\\_%'",
	"SELECT CONCAT('role edge ', FROM_USER, '@', FROM_HOST, ' ', TO_USER, '@', TO_HOST), WITH_ADMIN_OPTION FROM mysql.role_edges",
	"SELECT CONCAT('default role ', USER, '@', HOST), DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST FROM mysql.default_roles",
	"SELECT CONCAT('privilege ', USER, '@', HOST, ' ', PRIV), WITH_GRANT_OPTION FROM mysql.global_grants WHERE USER NOT LIKE 'nairobi\\_%'",
	"SELECT CONCAT('privilege `', User, '`@`', Host, '` on ', Db), Select_priv, Insert_priv, Create_view_priv, Execute_priv, Event_priv, Trigger_priv, Grant_priv FROM mysql.db p WHERE EXISTS (SELECT 1 FROM mysql.user u WHERE u.User = p.User AND u.Host = p.Host)",
	"SELECT CONCAT('privilege of `', User, '`@`', Host, '` on table ', Db, '.', Table_name), Table_priv, Column_priv FROM mysql.tables_priv p WHERE EXISTS (SELECT 1 FROM mysql.user u WHERE u.User = p.User AND u.Host = p.Host)",
	"SELECT CONCAT('privilege of `', User, '`@`', Host, '` on column ', Db, '.', Table_name, '.', Column_name), Column_priv FROM mysql.columns_priv p WHERE EXISTS (SELECT 1 FROM mysql.user u WHERE u.User = p.User AND u.Host = p.Host)",
	"SELECT CONCAT('privilege of `', User, '`@`', Host, '` on ', LOWER(Routine_type), ' ', Db, '.', LOWER(Routine_name)), Proc_priv FROM mysql.procs_priv p WHERE EXISTS (SELECT 1 FROM mysql.user u WHERE u.User = p.User AND u.Host = p.Host)",
	"SELECT CONCAT('proxy ', User, '@', Host), Proxied_user, Proxied_host, With_grant FROM mysql.proxies_priv WHERE User <> 'root'",
	"SELECT CONCAT('old password ', User, '@', Host), Password_timestamp, HEX(Password) FROM mysql.password_history",
	"SELECT CONCAT('time zone ', Name), Time_zone_id FROM mysql.time_zone_name",
	"SELECT CONCAT('cost ', cost_name), cost_value FROM mysql.server_cost",
	"SELECT CONCAT('server ', Server_name), Host, Username, Password FROM mysql.servers",
	"SELECT CONCAT('reference system ', SRS_ID), SRS_NAME, ORGANIZATION, DEFINITION, DESCRIPTION FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS WHERE SRS_ID > 32766",
}

// comparing is the session in which both servers are asked.
const comparing = "SET NAMES utf8mb4, sql_select_limit = 1000000000, autocommit = 1, completion_type = NO_CHAIN, sql_mode = '', time_zone = '+00:00', show_create_table_verbosity = OFF, show_gipk_in_create_table_and_information_schema = ON, sql_quote_show_create = ON; "

// What may differ between tables that are the same: the counter after an UPDATE; the character set of a literal in the expression of
// a column, which the server converts to that of the column when it is given what it printed; and the character set of a column
// beside its collation, which says both; and the quotes of names in an expression, which it has when it was made with sql_quote_show_create.
var (
	counter   = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	converted = regexp.MustCompile(`\b_[a-z0-9]+\\*'`)
	explicit  = regexp.MustCompile(` CHARACTER SET [a-z0-9]+ COLLATE `)
)

// shown is all that a server shows, by what it is about.
func shown(t *testing.T, s *mysqld.Server) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, query := range queries {
		for _, line := range strings.Split(sql(t, s, comparing+query), "\n") {
			about, rest, _ := strings.Cut(line, "\t")
			found[about] = append(found[about], strings.ReplaceAll(converted.ReplaceAllString(rest, "'"), "`", ""))
		}
	}
	const tables = "SELECT CONCAT(HEX(TABLE_SCHEMA), ' ', HEX(TABLE_NAME)) FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'nairobi_mysql') ORDER BY 1"
	var ask strings.Builder
	names := strings.Fields(strings.ReplaceAll(sql(t, s, comparing+tables), "\n", " "))
	for pair := range slices.Chunk(names, 2) {
		name := quoted(t, pair[0]) + "." + quoted(t, pair[1])
		fmt.Fprintf(&ask, "SELECT 'table %s.%s'; SHOW CREATE TABLE %s; CHECKSUM TABLE %s; SELECT COUNT(*) FROM %s;\n", pair[0], pair[1], name, name, name)
	}
	about := ""
	for _, line := range strings.Split(sql(t, s, comparing+ask.String()), "\n") {
		if rest, ok := strings.CutPrefix(line, "table "); ok {
			schema, table, _ := strings.Cut(rest, ".")
			about = "table " + unhex(t, schema) + "." + unhex(t, table)
			continue
		}
		found[about] = append(found[about], explicit.ReplaceAllString(counter.ReplaceAllString(strings.ReplaceAll(converted.ReplaceAllString(line, "'"), "`", ""), ""), " COLLATE "))
	}
	for _, lines := range found {
		slices.Sort(lines)
	}
	return found
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	must(t, err)
	return string(b)
}

// escapes are those of the client's output.
var escapes = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00", `\\`, `\`)

// compareServers returns what differs and was not named.
func compareServers(t *testing.T, from, target *mysqld.Server, named []podclient.LeftOut) []string {
	t.Helper()
	want, got := shown(t, from), shown(t, target)
	isNamed := map[string]bool{}
	for _, l := range named {
		isNamed[l.What] = true
		if column, ok := strings.CutPrefix(l.What, "column "); ok {
			isNamed["table "+column[:strings.LastIndexByte(column, '.')]] = true
		}
	}
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var differences []string
	for _, about := range slices.Sorted(maps.Keys(keys)) {
		what := escapes.Replace(about)
		_, view, _ := strings.Cut(what, " on table ") // a view that is not restored is named with the privileges on it
		if !slices.Equal(want[about], got[about]) && !isNamed[what] && !isNamed["view "+view] {
			differences = append(differences, fmt.Sprintf("%s is\n%q\nof\n%q", about, got[about], want[about]))
		}
	}
	if len(want) < 50 {
		differences = append(differences, fmt.Sprintf("only %d things were compared", len(want)))
	}
	return differences
}

package backup

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// schemaGenerator makes statements up: a grammar over what a server can hold. Some of them the server refuses.
type schemaGenerator struct {
	r          *rand.Rand
	statements []string
	accounts   []string
	roles      []string
	// tables, views, functions and procedures are those of the present database, with its name before them; others those of all.
	database                             string
	tables, views, functions, procedures []string
	others                               []string
}

func newSchemaGenerator(seed, round uint64) *schemaGenerator {
	return &schemaGenerator{r: rand.New(rand.NewPCG(seed, round))}
}

func (g *schemaGenerator) say(format string, arguments ...any) {
	g.statements = append(g.statements, fmt.Sprintf(format, arguments...))
}

func pick[T any](g *schemaGenerator, from ...T) T { return from[g.r.IntN(len(from))] }

// maybe is true n times of ten.
func (g *schemaGenerator) maybe(n int) bool { return g.r.IntN(10) < n }

func (g *schemaGenerator) optional(n int, text string) string {
	if g.maybe(n) {
		return " " + text
	}
	return ""
}

func backquoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// name makes an awkward name up that is not there yet.
func (g *schemaGenerator) name(n int) string {
	return pick(g, "plain", "select", "we`ird", "it's", `quo"ted`, "back\\slash", "ümläut", "日本", "a b", "x.y", "semi;colon", "--dash", "%per_cent", "(1)", "UPPER", "/*!50001 x */", "DELIMITER") + fmt.Sprint(n)
}

func (g *schemaGenerator) text() string {
	return pick(g, "''", "'a'", "'it''s'", "'line\nbreak'", `'back\\slash'`, "'; DROP DATABASE x; --'", "'ü😀'", "'`'", `'"'`, "'/* */'", "'@ @'")
}

// settings are those of the restoring cluster: what refuses, and what changes what a statement means.
func (g *schemaGenerator) settings() map[string]string {
	choices := map[string][]string{
		"sql_require_primary_key": {"ON", "OFF"}, "sql_mode": {"ANSI", "TRADITIONAL", "NO_BACKSLASH_ESCAPES", "PAD_CHAR_TO_FULL_LENGTH,ONLY_FULL_GROUP_BY"},
		"explicit_defaults_for_timestamp": {"ON", "OFF"}, "sql_generate_invisible_primary_key": {"ON", "OFF"}, "innodb_strict_mode": {"ON", "OFF"}, "autocommit": {"ON", "OFF"},
		"default_collation_for_utf8mb4": {"utf8mb4_0900_ai_ci", "utf8mb4_general_ci"}, "collation_server": {"utf8mb4_bin", "utf8mb4_general_ci"}, "restrict_fk_on_non_standard_key": {"ON", "OFF"},
		"default_time_zone": {"+05:30", "SYSTEM"}, "sql_select_limit": {"1", "1000"}, "sql_quote_show_create": {"OFF", "ON"}, "show_gipk_in_create_table_and_information_schema": {"OFF", "ON"},
		"innodb_file_per_table": {"ON", "OFF"}, "password_history": {"0", "3"}, "require_secure_transport": {"ON", "OFF"}, "max_user_connections": {"1", "0"}, "table_encryption_privilege_check": {"ON", "OFF"},
	}
	settings := map[string]string{"partial_revokes": "ON"} // as on the source: privileges on databases mean something else without it
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		if value := pick(g, choices[name]...); g.maybe(6) {
			settings[name] = value
		}
	}
	return settings
}

// source are settings of the server that is dumped: what changes how it prints.
func (g *schemaGenerator) source() map[string]string {
	return map[string]string{"partial_revokes": "ON", "show_create_table_verbosity": pick(g, "ON", "OFF"), "show_gipk_in_create_table_and_information_schema": pick(g, "ON", "OFF")}
}

// quoting sets what cannot be in an option file.
func (g *schemaGenerator) quoting() string {
	return "SET GLOBAL sql_quote_show_create = " + pick(g, "ON", "OFF") + "; "
}

// global makes what belongs to no database.
func (g *schemaGenerator) global() {
	for i := range 3 {
		role := fmt.Sprintf("'role%d'@'%%'", i)
		g.roles = append(g.roles, role)
		g.say("CREATE ROLE %s", role)
	}
	for i := range 6 {
		account := fmt.Sprintf("'%s'@'%s'", strings.ReplaceAll(strings.ReplaceAll(g.name(i), `\`, `\\`), "'", "''"), pick(g, "%", "localhost", "10.%", "192.168.0.0/255.255.0.0"))
		g.accounts = append(g.accounts, account)
		g.say("CREATE USER %s IDENTIFIED BY 'pass %d'%s%s%s%s%s%s", account, i, g.optional(3, pick(g, "REQUIRE SSL", "REQUIRE SUBJECT '/CN=x'")), g.optional(3, "WITH MAX_QUERIES_PER_HOUR 5 MAX_USER_CONNECTIONS 3"),
			g.optional(4, pick(g, "PASSWORD EXPIRE", "PASSWORD EXPIRE INTERVAL 9 DAY", "PASSWORD EXPIRE NEVER")), g.optional(4, "PASSWORD HISTORY 3 PASSWORD REUSE INTERVAL 9 DAY"), g.optional(3, "ACCOUNT LOCK"),
			g.optional(4, pick(g, `COMMENT 'it''s'`, `ATTRIBUTE '{"a": "b\\"c"}'`)))
		if g.maybe(4) {
			g.say("ALTER USER %s IDENTIFIED BY 'next %d' RETAIN CURRENT PASSWORD", account, i)
		}
		g.say("GRANT %s ON *.* TO %s%s", pick(g, "SELECT, INSERT", "PROCESS, RELOAD", "BACKUP_ADMIN, ROLE_ADMIN", "ALL", "USAGE", "SET_ANY_DEFINER, SELECT"), account, g.optional(3, "WITH GRANT OPTION"))
		if g.maybe(4) {
			g.say("REVOKE %s ON %s.* FROM %s", pick(g, "SELECT", "INSERT"), pick(g, "mysql", "sys"), account)
		}
		g.say("GRANT %s TO %s%s", pick(g, g.roles...), account, g.optional(3, "WITH ADMIN OPTION"))
		if g.maybe(5) {
			g.say("SET DEFAULT ROLE ALL TO %s", account)
		}
		if g.maybe(3) {
			g.say("GRANT PROXY ON %s TO %s", pick(g, g.accounts...), account)
		}
	}
	g.say("GRANT %s TO %s", g.roles[0], g.roles[1])
	for i := range 2 {
		g.say("CREATE TABLESPACE %s ADD DATAFILE 'ts%d.ibd'%s", backquoted(fmt.Sprintf("ts ü%d", i)), i, g.optional(3, "AUTOEXTEND_SIZE = 4M"))
	}
	g.say(`CREATE SPATIAL REFERENCE SYSTEM 1000001 NAME %s DEFINITION 'GEOGCS["x",DATUM["y",SPHEROID["z",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["degree",0.017453292519943278],AXIS["Lat",NORTH],AXIS["Lon",EAST]]'`, pick(g, "'mine'", "'it''s'", "'ü'"))
	g.say("UPDATE mysql.server_cost SET cost_value = %d WHERE cost_name = 'key_compare_cost'", 1+g.r.IntN(5))
}

// schema makes a database with all kinds of things in it.
func (g *schemaGenerator) schema(n int) {
	g.database = backquoted(g.name(n) + "_db")
	g.tables, g.views, g.functions, g.procedures = nil, nil, nil, nil
	g.say("CREATE DATABASE %s COLLATE %s", g.database, pick(g, "utf8mb4_0900_ai_ci", "latin1_german1_ci", "utf8mb4_bin", "utf8mb3_general_ci", "sjis_japanese_ci"))
	g.say("USE %s", g.database)
	for i := range 2 + g.r.IntN(4) {
		g.table(i)
	}
	for i := range 1 + g.r.IntN(3) {
		g.routine(i)
	}
	for i := range 2 + g.r.IntN(5) {
		g.view(i)
	}
	for i := range g.r.IntN(5) {
		g.trigger(i)
	}
	for i := range g.r.IntN(3) {
		g.event(i)
	}
	for range 4 {
		g.grant()
	}
	g.others = append(g.others, g.tables...)
	if g.maybe(3) {
		g.say("ALTER DATABASE %s COLLATE utf8mb4_unicode_ci", g.database)
	}
	g.breakSomething()
}

// breakSomething takes away what others need.
func (g *schemaGenerator) breakSomething() {
	g.say("SET foreign_key_checks = OFF")
	switch g.r.IntN(6) {
	case 0:
		g.say("DROP TABLE %s", g.tables[len(g.tables)-1])
	case 1:
		g.say("ALTER TABLE %s DROP COLUMN c0", pick(g, g.tables...))
	case 2:
		if len(g.functions) > 0 {
			g.say("DROP FUNCTION %s", pick(g, g.functions...))
		}
	case 3:
		g.say("DROP VIEW %s", pick(g, g.views...))
	case 4:
		g.say("ALTER DATABASE %s READ ONLY = 1", g.database)
	}
	g.say("SET foreign_key_checks = ON")
}

// farewell drops an account that others may be defined by.
func (g *schemaGenerator) farewell() { g.say("DROP USER %s", pick(g, g.accounts...)) }

// column is a type, with a value for it.
func (g *schemaGenerator) column() (kind, value string) {
	switch g.r.IntN(14) {
	case 0:
		return pick(g, "TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "BIGINT UNSIGNED ZEROFILL"), fmt.Sprint(g.r.IntN(100))
	case 1:
		return "DECIMAL(20,6)", fmt.Sprintf("%d.%06d", g.r.IntN(1e9), g.r.IntN(1e6))
	case 2:
		return "DOUBLE", pick(g, "1e300", "-0e0", "3.141592653589793", "5e-324")
	case 3:
		return fmt.Sprintf("VARCHAR(%d)", 50+g.r.IntN(50)) + g.optional(3, "CHARACTER SET "+pick(g, "latin1", "utf8mb3", "utf8mb4 COLLATE utf8mb4_bin", "ascii", "utf16", "gbk")), pick(g, "'abc'", "''", "'it''s \\\\ x'", "'a\nb'")
	case 4:
		return pick(g, "TEXT", "MEDIUMTEXT"), g.text()
	case 5:
		return pick(g, "BLOB", "VARBINARY(100)"), pick(g, "0x00ff27285c0a0d1a", "''", "'x'")
	case 6:
		return pick(g, `ENUM('a','it''s','c;d','ü')`, `ENUM('a','','it''s')`, `ENUM('a','it''s','b','😀')`), pick(g, "'a'", "'it''s'", "3", "''", "'none of them'")
	case 7:
		return "SET('x','y y','z')", "'x,z'"
	case 8:
		return "JSON", pick(g, `'{"a": [1, "x''y", null]}'`, "'null'", `'"ü😀"'`, "'[]'")
	case 9:
		if g.maybe(2) {
			return "VARCHAR(50) CHARACTER SET " + pick(g, "cp932", "sjis", "cp1250", "euckr"), pick(g, "0x81CA", "0xEEF9", "'abc'", "0x81")
		}
		return pick(g, "TIMESTAMP(6) NULL", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"), pick(g, "'2026-03-29 02:30:00'", "'1970-01-01 12:00:01'", "NULL")
	case 10:
		return "DATETIME(3)", pick(g, "'9999-12-31 23:59:59.999'", "'1000-01-01'", "'2024-02-31'", "'2023-04-00'")
	case 11:
		return pick(g, "BIT(9)", "BIT(1)"), "b'1'"
	case 12:
		return pick(g, "YEAR", "DATE", "TIME(2)"), pick(g, "'2001'", "'20010203'")
	}
	return pick(g, "POINT SRID 4326", "GEOMETRY", "POINT SRID 1000001", "VECTOR(3)", "LINESTRING"), "NULL"
}

func (g *schemaGenerator) table(n int) {
	name := g.database + "." + backquoted(g.name(n))
	var lines, values []string
	key := g.r.IntN(5)
	if key > 0 {
		lines = append(lines, "id INT NOT NULL"+g.optional(5, "AUTO_INCREMENT")+g.optional(3, "COMMENT "+g.text()))
	}
	for i := range 2 + g.r.IntN(5) {
		kind, value := g.column()
		line := fmt.Sprintf("c%d %s", i, kind)
		if value != "NULL" && !strings.Contains(kind, "NULL") && g.maybe(2) {
			line += " NOT NULL"
		}
		lines = append(lines, line+g.optional(2, "INVISIBLE")+g.optional(3, "COMMENT "+g.text()))
		values = append(values, value)
	}
	lines = append(lines, "k INT DEFAULT "+pick(g, "7", "NULL", "(1 + 2)")+g.optional(3, "INVISIBLE"), "s VARCHAR(40) DEFAULT "+g.text())
	if g.maybe(5) {
		lines = append(lines, fmt.Sprintf("g%d %s %s", n, pick(g, "INT AS (k * 2)", "VARCHAR(90) AS (CONCAT(s, 'x\\'y'))", "INT GENERATED ALWAYS AS (LENGTH(s))"), pick(g, "STORED", "VIRTUAL", "VIRTUAL INVISIBLE")))
	}
	if key > 0 {
		lines = append(lines, pick(g, "PRIMARY KEY (id)", "PRIMARY KEY (id)", "UNIQUE KEY (id)"))
	}
	if g.maybe(2) {
		lines = append(lines, "at TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", pick(g, "day DATE AS (DATE(at)) STORED", "hour INT AS (HOUR(at)) STORED", "day DATE DEFAULT '2024-02-31'"))
	}
	if g.maybe(1) {
		for i := range 30 {
			lines = append(lines, fmt.Sprintf("`a rather long name ) VALUES (%d` INT DEFAULT %d", i, i))
		}
	}
	lines = append(lines, "KEY "+backquoted(g.name(n)+"k")+" (k)"+g.optional(2, "INVISIBLE")+g.optional(2, "COMMENT 'it''s'"))
	for _, more := range []string{"KEY fn ((k + 1), s)", "KEY pre (s(5) DESC)", "FULLTEXT KEY ft (s)", "UNIQUE KEY uq (k, s)",
		"CONSTRAINT " + backquoted(fmt.Sprintf("chk`%d", n)) + " CHECK (k <> 99 OR s <> 'it''s') NOT ENFORCED", "CHECK (k < 1000)", "CHECK (k <> 98 OR s <> _utf8mb4'😁')"} {
		if g.maybe(2) {
			lines = append(lines, more)
		}
	}
	if len(g.tables) > 0 && g.maybe(4) {
		lines = append(lines, fmt.Sprintf("CONSTRAINT fk%d FOREIGN KEY (k) REFERENCES %s (k) %s", n, pick(g, g.tables...), pick(g, "", "ON DELETE CASCADE", "ON DELETE SET NULL ON UPDATE CASCADE")))
	}
	options := g.optional(2, pick(g, "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", "ROW_FORMAT=REDUNDANT", "COMPRESSION='zlib'", "STATS_PERSISTENT=0 STATS_AUTO_RECALC=0", "TABLESPACE `ts ü0`", "TABLESPACE `ts ü1`")) +
		g.optional(3, "COMMENT="+g.text()) + g.optional(2, "AUTO_INCREMENT=1000") + g.optional(3, "DEFAULT CHARSET="+pick(g, "latin1", "utf8mb4 COLLATE utf8mb4_general_ci", "utf8mb3"))
	partitions := ""
	if key == 0 && !strings.Contains(strings.Join(lines, ""), "FOREIGN") {
		partitions = g.optional(4, pick(g, "PARTITION BY HASH (k) PARTITIONS 3", "PARTITION BY RANGE (k) (PARTITION `p;1` VALUES LESS THAN (10) COMMENT 'it''s', PARTITION p2 VALUES LESS THAN MAXVALUE)", "PARTITION BY LIST COLUMNS (s) (PARTITION a VALUES IN ('it''s','a',''), PARTITION b VALUES IN ('x', NULL))"))
	}
	g.say("SET SESSION restrict_fk_on_non_standard_key = OFF, sql_generate_invisible_primary_key = %s, innodb_strict_mode = OFF, sql_mode = 'ALLOW_INVALID_DATES', time_zone = '%s'", pick(g, "ON", "OFF"), pick(g, "+00:00", "+05:30"))
	g.say("CREATE TABLE %s (%s)%s%s", name, strings.Join(lines, ", "), options, partitions)
	g.tables = append(g.tables, name)
	columns := make([]string, len(values))
	for i := range values {
		columns[i] = fmt.Sprintf("c%d", i)
	}
	for i := range g.r.IntN(4) {
		id, at := "", ""
		if key > 0 {
			id, at = "id, ", fmt.Sprintf("%d, ", i+1)
		}
		g.say("INSERT IGNORE INTO %s (%s%s, k) VALUES (%s%s, %d)", name, id, strings.Join(columns, ", "), at, strings.Join(values, ", "), i)
	}
	g.say("SET SESSION sql_mode = DEFAULT, time_zone = SYSTEM")
}

// session is what a program is made in.
func (g *schemaGenerator) session() {
	g.say("SET SESSION sql_mode = '%s'", pick(g, "", "ANSI_QUOTES", "PIPES_AS_CONCAT,NO_ZERO_DATE", "STRICT_TRANS_TABLES"))
	g.say("SET NAMES %s", pick(g, "utf8mb4", "utf8mb4", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb3"))
}

func (g *schemaGenerator) definer() string {
	return pick(g, "", "", "DEFINER = "+pick(g, g.accounts...)+" ", "DEFINER = 'gone'@'away' ")
}

func (g *schemaGenerator) routine(n int) {
	g.session()
	name := g.database + "." + backquoted(g.name(n)+"r")
	traits := g.optional(4, "COMMENT 'it''s ; ü'") + g.optional(4, "SQL SECURITY INVOKER") + " " + pick(g, "DETERMINISTIC", "READS SQL DATA DETERMINISTIC", "NO SQL", "DETERMINISTIC NO SQL")
	g.say("SET GLOBAL log_bin_trust_function_creators = ON")
	if g.maybe(6) {
		g.functions = append(g.functions, name)
		g.say("CREATE %sFUNCTION %s(x %s) RETURNS %s%s RETURN %s", g.definer(), name, pick(g, "TEXT", "VARCHAR(200)", "CHAR(9) CHARACTER SET latin1", "INT"), pick(g, "TEXT", "VARCHAR(300)", "INT"), traits, pick(g, "LENGTH(x)", "LENGTH(CONCAT(x, 'it''s;'))", "1"))
	} else {
		g.procedures = append(g.procedures, name)
		g.say("CREATE %sPROCEDURE %s(IN a INT, INOUT b VARCHAR(20))%s BEGIN DECLARE v TEXT DEFAULT 'x;\n--y'; SELECT a, b, v; /* it's */ END", g.definer(), name, traits)
	}
	g.say("SET GLOBAL log_bin_trust_function_creators = OFF")
}

func (g *schemaGenerator) view(n int) {
	g.session()
	name := g.database + "." + backquoted(pick(g, "a", "z")+g.name(n)+"v")
	table := pick(g, g.tables...)
	body := pick(g, "SELECT k, s FROM "+table, "SELECT k, s, c0 FROM "+table+" WHERE k < 5", "SELECT DISTINCT s FROM "+table+" UNION ALL SELECT 'it''s ü'",
		"WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT n AS k, 'x' AS s FROM c", "SELECT j.* FROM JSON_TABLE('[{\"a\": 1}]', '$[*]' COLUMNS (k INT PATH '$.a', s TEXT PATH '$.b')) j",
		"SELECT COUNT(*) OVER w AS k, s AS `we``ird \"alias\"` FROM "+table+" WINDOW w AS (ORDER BY k)")
	if len(g.views) > 0 && g.maybe(4) {
		body = "SELECT * FROM " + pick(g, g.views...)
	}
	if len(g.functions) > 0 && g.maybe(4) {
		body = "SELECT k, " + pick(g, g.functions...) + "(s) AS s FROM " + table
	}
	if len(g.others) > 0 && g.maybe(1) {
		body = "SELECT k, s FROM " + pick(g, g.others...)
	}
	g.say("CREATE%s %s%s VIEW %s AS %s%s", g.optional(4, "ALGORITHM = "+pick(g, "MERGE", "TEMPTABLE", "UNDEFINED")), g.definer(), g.optional(4, "SQL SECURITY "+pick(g, "INVOKER", "DEFINER")), name, body, g.optional(1, "WITH CASCADED CHECK OPTION"))
	g.views = append(g.views, name)
}

func (g *schemaGenerator) trigger(n int) {
	g.session()
	body := pick(g, "SET NEW.s = 'it''s;\n--x'", "SET NEW.k = 1", "BEGIN DECLARE x INT DEFAULT 1; SET @x = NEW.k; END", "IF NEW.k > 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'ü'; END IF")
	g.say("CREATE %sTRIGGER %s.%s BEFORE %s ON %s FOR EACH ROW %s", g.definer(), g.database, backquoted(g.name(n)+pick(g, "a", "z")), pick(g, "INSERT", "UPDATE"), g.tables[g.r.IntN(min(2, len(g.tables)))], body)
}

func (g *schemaGenerator) event(n int) {
	g.session()
	g.say("SET SESSION time_zone = '%s'", pick(g, "SYSTEM", "+05:30", "Test/Zone"))
	g.say("CREATE %sEVENT %s.%s ON SCHEDULE %s%s DISABLE%s DO %s", g.definer(), g.database, backquoted(g.name(n)+"e"),
		pick(g, "EVERY 1 DAY STARTS '2020-01-01 03:00:00'", "EVERY '1:30' HOUR_MINUTE ENDS '2037-01-01'", "AT '2036-02-29 12:00:00'", "EVERY 2 WEEK"), g.optional(5, "ON COMPLETION PRESERVE"), g.optional(4, "COMMENT 'it''s ü'"), pick(g, "SELECT 1", "BEGIN SELECT ';'; END", "DO SLEEP(0)"))
	g.say("SET SESSION time_zone = SYSTEM")
}

func (g *schemaGenerator) grant() {
	to := pick(g, pick(g, g.accounts...), pick(g, g.roles...))
	with := g.optional(2, "WITH GRANT OPTION")
	switch g.r.IntN(5) {
	case 0:
		g.say("GRANT SELECT, EXECUTE, CREATE VIEW ON %s.* TO %s%s", g.database, to, with)
	case 1:
		g.say("GRANT INSERT, SELECT (k, s) ON %s TO %s%s", pick(g, g.tables...), to, with)
	case 2:
		g.say("GRANT SELECT, SHOW VIEW ON %s TO %s%s", pick(g, g.views...), to, with)
	case 3:
		if len(g.functions) > 0 {
			g.say("GRANT EXECUTE ON FUNCTION %s TO %s%s", pick(g, g.functions...), to, with)
		}
	case 4:
		if len(g.procedures) > 0 {
			g.say("GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE %s TO %s", pick(g, g.procedures...), to)
		}
	}
}

package logs

import (
	"strings"
	"testing"
)

// TestPasswordsAreLeftOut of statements as MySQL logs them without leaving them out itself, and of nothing else.
func TestPasswordsAreLeftOut(t *testing.T) {
	const p = "hunter2"
	for _, statement := range []string{
		"ALTER USER app IDENTIFIED BY '" + p + "'",
		"ALTER USER app IDENTIFIED\n\tBY /* a comment */ \"" + p + "\"",
		"ALTER USER app IDENTIFIED -- so\n BY # so\n'" + p + "'",
		"CREATE USER app identified with 'caching_sha2_password' by '" + p + "' REQUIRE SSL",
		"CREATE USER app IDENTIFIED WITH `mysql_native_password` AS '*" + p + "'",
		"CREATE USER app IDENTIFIED WITH caching_sha2_password AS 0x68756E74657232",
		"CREATE USER app IDENTIFIED WITH caching_sha2_password AS X'68756E74657232'",
		"CREATE USER app IDENTIFIED BY _utf8mb4'" + p + "'",
		"CREATE USER app IDENTIFIED BY 'it''s " + p + "'",
		`CREATE USER app IDENTIFIED BY 'it\'s ` + p + `'`,
		"CREATE USER a IDENTIFIED BY '" + p + "', b IDENTIFIED BY '" + p + "' AND IDENTIFIED WITH x BY '" + p + "'",
		"ALTER USER USER() IDENTIFIED BY 'x' REPLACE '" + p + "' RETAIN CURRENT PASSWORD",
		"SET PASSWORD = '" + p + "'",
		"SET PASSWORD FOR 'app'@'%' = '" + p + "' REPLACE '" + p + "'",
		"SET PASSWORD FOR CURRENT_USER() = PASSWORD('" + p + "')",
		"CHANGE REPLICATION SOURCE TO SOURCE_USER='r', SOURCE_PASSWORD = '" + p + "'",
		"CHANGE MASTER TO MASTER_PASSWORD='" + p + "'",
		"START REPLICA USER='r' PASSWORD='" + p + "'",
		"CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '" + p + "', HOST 'h')",
		"CLONE INSTANCE FROM c@h:3306 IDENTIFIED BY '" + p + "'",
		"/*!80000 ALTER USER app IDENTIFIED BY '" + p + "' */",
		"CREATE PROCEDURE r() BEGIN ALTER USER app IDENTIFIED BY '" + p + "'; SELECT 1; END",
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SET PASSWORD FOR app = '" + p + "'",
		"SET @v = 'ALTER USER app IDENTIFIED BY ''" + p + "'''",
		`SET @v = "ALTER USER app IDENTIFIED BY '` + p + `'"`,
		`PREPARE s FROM 'ALTER USER app IDENTIFIED BY \'` + p + `\''`,
		`SET @v = 'PREPARE s FROM ''ALTER USER app IDENTIFIED BY \\''` + p + `\\'''''`,
		"SET @v = CONCAT('ALTER USER app IDENTIFIED BY ', QUOTE('" + p + "'))",
		"SET @v = CONCAT('ALTER USER app IDENTIFIED BY ''', NAME_CONST('p', _utf8mb4'" + p + "' COLLATE utf8mb4_bin), '''')",
		"SET @password := '" + p + "'",
		"ALTER USER app IDENTIFIED BY '" + p, // the entry was cut
		"SET @v = 'ALTER USER app IDENTIFIED BY ''" + p,
		`ALTER USER app IDENTIFIED BY '` + p + `\`,
	} {
		got := withoutSecrets(statement)
		if strings.Contains(got, p) || strings.Contains(got, "68756E74657232") || !strings.Contains(got, secret) {
			t.Errorf("%s\nis printed as\n%s", statement, got)
		}
	}
	for statement, want := range map[string]string{
		"ALTER USER 'app'@'%' IDENTIFIED BY 'x' COMMENT 'kept'":                "ALTER USER 'app'@'%' IDENTIFIED BY <secret> COMMENT 'kept'",
		"SET PASSWORD FOR 'app'@'10.%' = 'x'; SELECT a = 'kept'":               "SET PASSWORD FOR 'app'@'10.%' = <secret>; SELECT a = 'kept'",
		"SET @v = 'ALTER USER a IDENTIFIED BY ''x'''; SELECT 'kept'":           "SET @v = 'ALTER USER a IDENTIFIED BY <secret>'; SELECT 'kept'",
		"SELECT name AS 'password', 'identified' FROM t WHERE note = 'it''s'":  "SELECT name AS 'password', 'identified' FROM t WHERE note = 'it''s'",
		"ALTER USER app IDENTIFIED BY RANDOM PASSWORD":                         "ALTER USER app IDENTIFIED BY RANDOM PASSWORD",
		"SELECT REPLACE('a', 'b', 'c'), 'the password is on the other page'":   "SELECT REPLACE('a', 'b', 'c'), 'the password is on the other page'",
		"INSERT INTO t VALUES ('caf\u00e9', \"identified\", `password`, -1.5)": "INSERT INTO t VALUES ('caf\u00e9', \"identified\", `password`, -1.5)",
	} {
		if got := withoutSecrets(statement); got != want {
			t.Errorf("%s\nis printed as\n%s\nwant\n%s", statement, got, want)
		}
	}
}

package mysql_test

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// TestChangesNothing: the list of what changes no data is closed, and whatever is not plainly on it is taken for a change.
func TestChangesNothing(t *testing.T) {
	for statement, want := range map[string]string{
		"FLUSH STATUS":                            "FLUSH STATUS",
		"flush  status":                           "flush status",
		"FLUSH STATUS, PRIVILEGES":                "FLUSH STATUS, PRIVILEGES",
		"FLUSH ENGINE LOGS,STATUS":                "FLUSH ENGINE LOGS,STATUS",
		"FLUSH ERROR LOGS":                        "FLUSH ERROR LOGS",
		"FLUSH SLOW LOGS":                         "FLUSH SLOW LOGS",
		"FLUSH GENERAL LOGS":                      "FLUSH GENERAL LOGS",
		"FLUSH USER_RESOURCES":                    "FLUSH USER_RESOURCES",
		"FLUSH OPTIMIZER_COSTS":                   "FLUSH OPTIMIZER_COSTS",
		"FLUSH TABLES":                            "FLUSH TABLES",
		"FLUSH TABLE":                             "FLUSH TABLE",
		"FLUSH TABLES a, shop.b, `with`.`x y`":    "FLUSH TABLES a, shop.b, `with`.`x y`",
		"use `shop`; FLUSH TABLES a":              "FLUSH TABLES a",
		"ANALYZE TABLE shop.a":                    "ANALYZE TABLE shop.a",
		"analyze tables a,b":                      "analyze tables a,b",
		"":                                        "",
		"FLUSH":                                   "",
		"FLUSH LOGS":                              "",
		"FLUSH RELAY LOGS":                        "",
		"FLUSH BINARY LOGS":                       "",
		"FLUSH STATUS,":                           "",
		"FLUSH ,STATUS":                           "",
		"FLUSH STATUS PRIVILEGES":                 "",
		"FLUSH `STATUS`":                          "",
		"FLUSH STATUS /*! , PRIVILEGES */":        "",
		"/*!80000 FLUSH STATUS */":                "",
		"/* agent */ FLUSH STATUS":                "",
		"-- x\nFLUSH STATUS":                      "",
		"# x\nFLUSH STATUS":                       "",
		"FLUSH STATUS -- x":                       "",
		"FLUSH STATUS; DROP TABLE a":              "",
		"use `x`; DROP TABLE a; FLUSH STATUS":     "",
		"use `a``; `; FLUSH STATUS":               "",
		"FLUSH TABLES WITH READ LOCK":             "",
		"FLUSH TABLES a WITH READ LOCK":           "",
		"FLUSH TABLES a FOR EXPORT":               "",
		"FLUSH TABLES a,":                         "",
		"FLUSH TABLES a b":                        "",
		"FLUSH TABLES a.b.c":                      "",
		"FLUSH TABLES \"a\"":                      "",
		"FLUSH TABLES `a":                         "",
		"ANALYZE TABLE":                           "",
		"ANALYZE TABLE a UPDATE HISTOGRAM ON v":   "",
		"ANALYZE TABLE a DROP HISTOGRAM ON v":     "",
		"OPTIMIZE TABLE a":                        "",
		"REPAIR TABLE a":                          "",
		"CREATE TABLE a (id INT)":                 "",
		"DROP TABLE IF EXISTS a":                  "",
		"GRANT SELECT ON shop.* TO a":             "",
		"INSERT INTO a VALUES (1)":                "",
		"XA COMMIT X'61',X'',1":                   "",
		"BEGIN":                                   "",
		"SET PERSIST long_query_time = 1":         "",
		"FLUSH STATUS\x00":                        "",
		"FLUSH\u00a0STATUS":                       "",
		"FLUSH STATUS /* xid=218 */":              "",
		"use `shop`; ANALYZE TABLE a, `b`":        "ANALYZE TABLE a, `b`",
		"CREATE DATABASE flush":                   "",
		"FLUSH TABLES STATUS, PRIVILEGES":         "FLUSH TABLES STATUS, PRIVILEGES",
		"FLUSH NO_WRITE_TO_BINLOG STATUS":         "",
		"FLUSH TABLES `a`, INSERT INTO b VALUES ": "",
	} {
		what, certain := mysql.LoggedTransaction{Statements: []string{statement}}.ChangesNothing()
		if certain != (want != "") || what != want {
			t.Errorf("%q: got %q, %t; want %q", statement, what, certain, want)
		}
	}
	for name, c := range map[string]struct {
		logged mysql.LoggedTransaction
		want   bool
	}{
		"empty":               {mysql.LoggedTransaction{Statements: []string{"BEGIN", "COMMIT"}}, true},
		"with rows":           {mysql.LoggedTransaction{Statements: []string{"BEGIN", "COMMIT"}, Others: 2}, false},
		"FLUSH with rows":     {mysql.LoggedTransaction{Statements: []string{"FLUSH STATUS"}, Others: 1}, false},
		"cut off":             {mysql.LoggedTransaction{Statements: []string{"BEGIN"}}, false},
		"in a transaction":    {mysql.LoggedTransaction{Statements: []string{"BEGIN", "FLUSH STATUS", "COMMIT"}}, false},
		"several":             {mysql.LoggedTransaction{Statements: []string{"FLUSH STATUS", "FLUSH STATUS"}}, false},
		"nothing known of it": {mysql.LoggedTransaction{}, false},
	} {
		if _, certain := c.logged.ChangesNothing(); certain != c.want {
			t.Errorf("%s: changes nothing: %t, want %t", name, certain, c.want)
		}
	}
}

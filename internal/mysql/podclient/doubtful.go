package podclient

import (
	"regexp"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Doubt is something with values that a dump may not bring back as they are, or for which a restore may fail.
type Doubt struct {
	Table Table
	// What has such values: a column, a key or a constraint, by its name.
	What string
	// query is true where there is such a value; it is empty where there is no need to look.
	query string
	// Why says what becomes of them, and what to do.
	Why string
	// endsReplay: a replay ends at a change of such rows.
	endsReplay bool
}

// Certain says that there is no need to look for values.
func (d Doubt) Certain() bool { return d.query == "" }

// LeftOut names what has such values.
func (d Doubt) LeftOut(before string) LeftOut {
	return LeftOut{What: d.What, Why: before + d.Why, EndsReplay: d.endsReplay}
}

// doubtful is a column as the dictionary shows it.
type doubtful struct {
	table                           Table
	name, kind, charset, expression string
}

// rowWhere asks whether a row meets a condition.
func (c doubtful) rowWhere(condition string) string {
	return "SELECT EXISTS (SELECT 1 FROM " + c.table.quoted() + " WHERE " + condition + ")"
}

// Conditions on a column c of information_schema.
const (
	// withoutKey: its table has no unique key without NULL and FLOAT, by which a replica finds rows whatever else is in them.
	withoutKey = "NOT EXISTS (SELECT 1 FROM information_schema.STATISTICS s JOIN information_schema.COLUMNS k ON k.TABLE_SCHEMA = s.TABLE_SCHEMA AND k.TABLE_NAME = s.TABLE_NAME AND k.COLUMN_NAME = s.COLUMN_NAME" +
		" WHERE s.TABLE_SCHEMA = c.TABLE_SCHEMA AND s.TABLE_NAME = c.TABLE_NAME AND s.NON_UNIQUE = 0 GROUP BY s.INDEX_NAME HAVING SUM(k.IS_NULLABLE = 'YES' OR k.DATA_TYPE = 'float') = 0)"
	// inUniqueKey: a unique key has it, or an expression or generated column that may depend on it.
	inUniqueKey = "EXISTS (SELECT 1 FROM information_schema.STATISTICS s LEFT JOIN information_schema.COLUMNS k ON k.TABLE_SCHEMA = s.TABLE_SCHEMA AND k.TABLE_NAME = s.TABLE_NAME AND k.COLUMN_NAME = s.COLUMN_NAME" +
		" WHERE s.TABLE_SCHEMA = c.TABLE_SCHEMA AND s.TABLE_NAME = c.TABLE_NAME AND s.NON_UNIQUE = 0 AND (s.COLUMN_NAME = c.COLUMN_NAME OR IFNULL(s.EXPRESSION, k.GENERATION_EXPRESSION) LIKE CONCAT('%', c.COLUMN_NAME, '%')))"
)

// rounded asks for values of a FLOAT that a unique key or a CHECK has.
func (c doubtful) rounded() (query, why string) {
	return c.rowWhere("NOT (" + c.quoted() + " <=> CAST(CAST(" + c.quoted() + " AS CHAR) AS FLOAT))"), "a unique key or a CHECK depends on it, and rows hold values that mysqldump rounds to six digits: a restore may fail for values that are then the same or out of bounds (LoadRejected). Make it a DOUBLE"
}

// convertedBack is a value in UTF-8 and back.
func (c doubtful) convertedBack(value string) string {
	return "CONVERT(CONVERT(" + value + " USING utf8mb4) USING " + c.charset + ")"
}

// title names the column, for people.
func (c doubtful) title() string {
	return "column " + c.table.Database + "." + c.table.Name + "." + c.name
}

func (c doubtful) quoted() string { return conn.QuoteName(c.name) }

// escaped is what the dictionary puts a backslash before in an expression.
var escaped = regexp.MustCompile(`(?s)\\(.)`)

// plainExpression is an expression of the dictionary as a statement has it.
func plainExpression(shown string) string { return "(" + escaped.ReplaceAllString(shown, "$1") + ")" }

// converted is the expression of a generated column as a value of the column's type.
func (c doubtful) converted() string {
	expression := plainExpression(c.expression)
	kind, length := strings.Fields(c.kind)[0], ""
	if open := strings.IndexByte(kind, '('); open >= 0 {
		kind, length = kind[:open], kind[open:]
	}
	switch {
	case strings.HasSuffix(kind, "int") || kind == "year":
		if kind == "year" || strings.Contains(c.kind, "unsigned") {
			return "CAST(" + expression + " AS UNSIGNED)"
		}
		return "CAST(" + expression + " AS SIGNED)"
	case kind == "decimal", kind == "date", kind == "datetime", kind == "time":
		return "CAST(" + expression + " AS " + kind + length + ")"
	}
	return expression
}

// zoned is a condition that an expression of the table that an alias names gives another value in another time zone.
func zoned(alias, expression string) string {
	return "(" + expression + " REGEXP 'unix' OR " + dependsOn(alias, expression, "o.DATA_TYPE = 'timestamp'") + ")"
}

// subtracts is a condition that an expression may fail without NO_UNSIGNED_SUBTRACTION.
func subtracts(alias, expression string) string {
	return "(" + expression + " LIKE '% - %' AND " + dependsOn(alias, expression, "o.COLUMN_TYPE LIKE '%unsigned%'") + ")"
}

// dependsOn is a condition that an expression has the name of such a column of its table.
func dependsOn(alias, expression, columns string) string {
	return "EXISTS (SELECT 1 FROM information_schema.COLUMNS o WHERE o.TABLE_SCHEMA = " + alias + ".TABLE_SCHEMA AND o.TABLE_NAME = " + alias + ".TABLE_NAME AND " + expression + " LIKE CONCAT('%', o.COLUMN_NAME, '%') AND " + columns + ")"
}

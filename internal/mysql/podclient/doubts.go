package podclient

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Doubt is a column with values that a dump may not bring back as they are.
type Doubt struct {
	Table  Table
	Column string
	// Where finds rows with such a value, as SQL. Where it is empty the column itself is not brought back.
	Where string
	// Why says what becomes of them, and what to do.
	Why string
}

// LeftOut names the column.
func (d Doubt) LeftOut(before string) LeftOut {
	return LeftOut{What: "column " + d.Table.Database + "." + d.Table.Name + "." + d.Column, Why: before + d.Why}
}

// doubtful is a column as the dictionary shows it.
type doubtful struct {
	table                           Table
	name, kind, charset, expression string
}

// doubts are the kinds of columns with doubtful values: a condition that finds the columns, and what there is to say of one.
var doubts = []struct {
	columns string
	doubt   func(c doubtful) (where, why string)
}{
	{"DATA_TYPE IN ('enum', 'set') AND COLUMN_TYPE LIKE '%?%' AND CHARACTER_SET_NAME IN ('utf8mb4', 'utf16', 'utf16le', 'utf32', 'gb18030')", func(doubtful) (string, string) {
		return "", "MySQL shows characters of four bytes in its elements as question marks, also to a dump: a restore has question marks for elements, loses values, or fails. " +
			"Give it elements without such characters, or make it a VARCHAR; nothing is lost where the elements have question marks"
	}},
	{"DATA_TYPE = 'enum' AND COLUMN_TYPE REGEXP '[(,]\\'\\'[,)]'", func(c doubtful) (string, string) {
		return c.quoted() + " + 0 = 0", "rows hold an invalid value (index 0), which a dump writes like the element ''; a restore has that element. UPDATE the rows WHERE " + c.quoted() + " + 0 = 0"
	}},
	{"CHARACTER_SET_NAME NOT IN ('utf8mb4', 'utf8mb3', 'latin1') AND DATA_TYPE NOT IN ('enum', 'set')", func(c doubtful) (string, string) {
		again := "CONVERT(CONVERT(" + c.quoted() + " USING utf8mb4) USING " + c.charset + ")"
		return "CAST(" + c.quoted() + " AS BINARY) <> CAST(" + again + " AS BINARY)",
			"rows hold bytes for which " + c.charset + " has no character, or other bytes for the same one; a restore has others. UPDATE … SET " + c.quoted() + " = " + again + " does the same here"
	}},
	{"EXTRA LIKE '%STORED GENERATED%' AND (GENERATION_EXPRESSION REGEXP 'unix' OR EXISTS (SELECT 1 FROM information_schema.COLUMNS o WHERE o.TABLE_SCHEMA = c.TABLE_SCHEMA AND o.TABLE_NAME = c.TABLE_NAME" +
		" AND c.GENERATION_EXPRESSION LIKE CONCAT('%', o.COLUMN_NAME, '%') AND (o.DATA_TYPE = 'timestamp' OR o.COLUMN_TYPE LIKE '%unsigned%' AND c.GENERATION_EXPRESSION LIKE '% - %')))", func(c doubtful) (string, string) {
		return "NOT (" + c.quoted() + " <=> " + c.converted() + ")", "rows hold another value than its expression gives in UTC and without NO_UNSIGNED_SUBTRACTION, as it was made in a session with another time_zone or sql_mode; a restore computes it once more, " +
			"or fails. Make it an ordinary column, or an expression that does not depend on the session, and write the rows again with time_zone = '+00:00'"
	}},
}

func (c doubtful) quoted() string { return conn.QuoteName(c.name) }

// escaped is what the dictionary puts a backslash before in an expression.
var escaped = regexp.MustCompile(`(?s)\\(.)`)

// converted is the expression of a generated column as a value of the column's type.
func (c doubtful) converted() string {
	expression := "(" + escaped.ReplaceAllString(c.expression, "$1") + ")"
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

// Doubts lists the columns with doubtful values, as the session's snapshot shows them.
func (i Inventory) Doubts(ctx context.Context) ([]Doubt, error) {
	if err := i.v.exec(ctx, printing); err != nil {
		return nil, fmt.Errorf("prepare to look for doubtful values: %w", err)
	}
	var found []Doubt
	for _, kind := range doubts {
		query := "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, GENERATION_EXPRESSION FROM information_schema.COLUMNS c WHERE TABLE_SCHEMA NOT IN " + systemSchemas +
			" AND EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME AND t.TABLE_TYPE = 'BASE TABLE') AND (" + kind.columns + ") ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
		err := i.v.s.LongRows(ctx, query, nil, func(rows *sql.Rows) error {
			var c doubtful
			var charset, expression sql.NullString
			if err := rows.Scan(&c.table.Database, &c.table.Name, &c.name, &c.kind, &charset, &expression); err != nil {
				return err
			}
			c.charset, c.expression = charset.String, expression.String
			where, why := kind.doubt(c)
			found = append(found, Doubt{Table: c.table, Column: c.name, Where: where, Why: why})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for doubtful values: %w", err)
		}
	}
	return found, nil
}

// Confirmed says whether the table has a row with such a value, in a session like the one that loads it; that may take long. What the server
// says against an expression, it may also say when the rows are loaded: then it is true as well.
func (i Inventory) Confirmed(ctx context.Context, d Doubt) (bool, error) {
	if err := i.v.exec(ctx, "SET SESSION sql_mode = '"+RowMode+"', SESSION time_zone = '+00:00'"); err != nil {
		return false, fmt.Errorf("prepare to look for doubtful values: %w", err)
	}
	var is bool
	err := i.v.long(ctx, "SELECT EXISTS (SELECT 1 FROM "+d.Table.quoted()+" WHERE "+d.Where+")", &is)
	if conn.IsServerError(err, erBadField, erParse, erOutOfRange) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for doubtful values in %s.%s: %w", d.Table.Database, d.Table.Name, err)
	}
	return is, nil
}

package podclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// doubts are the kinds of columns with doubtful values: a condition that finds the columns, and what there is to ask and to say of one.
var doubts = []struct {
	columns string
	doubt   func(c doubtful) (query, why string)
	// endsReplay: a replay does not find rows with such values.
	endsReplay bool
}{
	{"DATA_TYPE IN ('enum', 'set') AND COLUMN_TYPE LIKE '%?%' AND CHARACTER_SET_NAME IN ('utf8mb4', 'utf16', 'utf16le', 'utf32', 'gb18030')", func(doubtful) (string, string) {
		return "", "MySQL shows characters of four bytes in its elements as question marks, also to a dump: a restore has question marks for elements, loses values, or fails. " +
			"Give it elements without such characters, or make it a VARCHAR; nothing is lost where the elements have question marks"
	}, false},
	{"DATA_TYPE = 'enum' AND COLUMN_TYPE REGEXP '[(,]\\'\\'[,)]'", func(c doubtful) (string, string) {
		return c.rowWhere(c.quoted() + " + 0 = 0"), "rows hold an invalid value (index 0), which a dump writes like the element ''; a restore has that element. UPDATE the rows WHERE " + c.quoted() + " + 0 = 0"
	}, false},
	{"CHARACTER_SET_NAME NOT IN ('utf8mb4', 'utf8mb3', 'latin1') AND DATA_TYPE NOT IN ('enum', 'set')", func(c doubtful) (string, string) {
		again := c.convertedBack(c.quoted())
		return c.rowWhere("CAST(" + c.quoted() + " AS BINARY) <> CAST(" + again + " AS BINARY)"),
			"rows hold bytes for which " + c.charset + " has no character, or other bytes for the same one; a restore has others. UPDATE … SET " + c.quoted() + " = " + again + " does the same here"
	}, false},
	// A default with a character that utf8mb3 does not have is printed in hexadecimal digits, and so restored as it is.
	{"CHARACTER_SET_NAME NOT IN ('utf8mb4', 'utf8mb3', 'latin1') AND DATA_TYPE NOT IN ('enum', 'set') AND COLUMN_DEFAULT IS NOT NULL AND COLUMN_DEFAULT NOT LIKE '%?%' AND EXTRA NOT LIKE '%DEFAULT_GENERATED%'", func(c doubtful) (string, string) {
		value := "DEFAULT(" + c.quoted() + ")"
		return "SELECT CAST(" + value + " AS BINARY) <> CAST(" + c.convertedBack(value) + " AS BINARY) FROM (SELECT 1) AS one LEFT JOIN " + c.table.quoted() + " ON FALSE",
			"its default has bytes for whose character " + c.charset + " has others as well; a restore has those. ALTER TABLE … ALTER COLUMN … SET DEFAULT with the character itself does the same here"
	}, false},
	{"DATA_TYPE IN ('double', 'float') AND NUMERIC_SCALE IS NOT NULL", func(c doubtful) (string, string) {
		return c.rowWhere(c.quoted() + " = 0 AND CAST(" + c.quoted() + " AS CHAR) LIKE '-%'"), "rows hold a negative zero, which MySQL takes for no column of a fixed number of decimals; a restore has 0. UPDATE … SET " + c.quoted() + " = 0 WHERE " + c.quoted() + " = 0 does the same here"
	}, false},
	{"EXTRA LIKE '%STORED GENERATED%' AND (" + zoned("c", "c.GENERATION_EXPRESSION") + " OR " + subtracts("c", "c.GENERATION_EXPRESSION") + ")", func(c doubtful) (string, string) {
		return c.rowWhere("NOT (" + c.quoted() + " <=> " + c.converted() + ")"), "rows hold another value than its expression gives in UTC and without NO_UNSIGNED_SUBTRACTION, as it was made in a session with another time_zone or sql_mode; a restore computes it once more, " +
			"or fails. Make it an ordinary column, or an expression that does not depend on the session, and write the rows again with time_zone = '+00:00'"
	}, false},
	{"DATA_TYPE = 'float' AND " + inUniqueKey, doubtful.rounded, false},
	{"DATA_TYPE = 'json' AND " + withoutKey, func(c doubtful) (string, string) {
		typed := "NOT IN ('NULL', 'OBJECT', 'ARRAY', 'BOOLEAN', 'INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'STRING')"
		inside := func(path string) string {
			return " OR EXISTS (SELECT 1 FROM JSON_TABLE(JSON_EXTRACT(" + c.quoted() + ", '" + path + "'), '$[*]' COLUMNS (v JSON PATH '$')) AS inside WHERE JSON_TYPE(v) " + typed + ")"
		}
		return c.rowWhere("JSON_TYPE(" + c.quoted() + ") " + typed + inside("$**.*") + inside("$**[*]")),
			"rows hold a DECIMAL, date, time or binary value inside JSON, which a dump writes as text; a restore has a DOUBLE or a string there. Its table has no primary key, so that a replay to a later point in time does not find the rows that are changed or deleted there, and ends with ReplayFailed. Add a primary key"
	}, true},
}

// Doubts lists the columns, keys and constraints with doubtful values, as the session's snapshot shows them.
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
			query, why := kind.doubt(c)
			found = append(found, Doubt{Table: c.table, What: c.title(), query: query, Why: why, endsReplay: kind.endsReplay})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for doubtful values: %w", err)
		}
	}
	for _, more := range []func(context.Context) ([]Doubt, error){i.doubtfulKeys, i.doubtfulChecks} {
		doubts, err := more(ctx)
		if err != nil {
			return nil, fmt.Errorf("look for doubtful keys and constraints: %w", err)
		}
		found = append(found, doubts...)
	}
	return found, nil
}

// Confirmed says whether the table has such a value, in a session like the one that loads it; that may take long. What the server
// says against an expression, it may also say when the rows are loaded: then it is true as well.
func (i Inventory) Confirmed(ctx context.Context, d Doubt) (bool, error) {
	if err := i.v.exec(ctx, "SET SESSION sql_mode = '"+RowMode+"', SESSION time_zone = '+00:00'"); err != nil {
		return false, fmt.Errorf("prepare to look for doubtful values: %w", err)
	}
	var is bool
	err := i.v.long(ctx, d.query, &is)
	switch {
	case err == nil:
	case conn.RefusesForGood(err) && !errors.Is(err, ErrTableGone):
		return true, nil
	default:
		return false, fmt.Errorf("look for doubtful values in %s.%s: %w", d.Table.Database, d.Table.Name, err)
	}
	return is, nil
}

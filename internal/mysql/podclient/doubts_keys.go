package podclient

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// keyExpression is what a part s of a key is computed from, with its column k.
const keyExpression = "IFNULL(s.EXPRESSION, k.GENERATION_EXPRESSION)"

// keyParts are the parts of keys with their columns.
const keyParts = " FROM information_schema.STATISTICS s LEFT JOIN information_schema.COLUMNS k ON k.TABLE_SCHEMA = s.TABLE_SCHEMA AND k.TABLE_NAME = s.TABLE_NAME AND k.COLUMN_NAME = s.COLUMN_NAME" +
	" WHERE s.TABLE_SCHEMA NOT IN " + systemSchemas

// doubtfulKeys are the keys on expressions and generated columns that may have other values, or none, where the rows are loaded.
func (i Inventory) doubtfulKeys(ctx context.Context) ([]Doubt, error) {
	var found []Doubt
	var names []string
	var unique []bool
	query := "SELECT DISTINCT s.TABLE_SCHEMA, s.TABLE_NAME, s.INDEX_NAME, s.NON_UNIQUE = 0" + keyParts + " AND " + keyExpression + " <> '' AND (s.NON_UNIQUE = 0 AND " + zoned("s", keyExpression) + " OR " + subtracts("s", keyExpression) + ")"
	err := i.v.s.LongRows(ctx, query, nil, func(rows *sql.Rows) error {
		var d Doubt
		var name string
		var one bool
		if err := rows.Scan(&d.Table.Database, &d.Table.Name, &name, &one); err != nil {
			return err
		}
		d.What = "key " + d.Table.Database + "." + d.Table.Name + "." + name
		d.Why = "in UTC and without NO_UNSIGNED_SUBTRACTION its expression gives rows the same value, or fails: they were written in sessions with another time_zone or sql_mode, and a restore fails (LoadRejected). " +
			"Make it a key on ordinary columns, or on an expression that does not depend on the session"
		found, names, unique = append(found, d), append(names, name), append(unique, one)
		return nil
	})
	for n := range found {
		if err == nil {
			found[n].query, err = i.keyQuery(ctx, found[n].Table, names[n], unique[n])
		}
	}
	return found, err
}

// keyQuery asks whether rows have the same key. No row is found by the key itself, whose values are those of when it was written.
func (i Inventory) keyQuery(ctx context.Context, t Table, key string, unique bool) (string, error) {
	var parts []string
	query := "SELECT s.COLUMN_NAME, k.COLUMN_TYPE, s.SUB_PART, " + keyExpression + keyParts + " AND s.TABLE_SCHEMA = ? AND s.TABLE_NAME = ? AND s.INDEX_NAME = ? ORDER BY s.SEQ_IN_INDEX"
	err := i.v.s.Rows(ctx, query, []any{t.Database, t.Name, key}, func(rows *sql.Rows) error {
		var name, kind, expression sql.NullString
		var length sql.Null[int]
		if err := rows.Scan(&name, &kind, &length, &expression); err != nil {
			return err
		}
		c := doubtful{name: name.String, kind: kind.String, expression: expression.String}
		part := c.quoted()
		switch {
		case !name.Valid:
			part = plainExpression(expression.String)
		case expression.String != "":
			part = c.converted()
		}
		if length.Valid {
			part = fmt.Sprintf("LEFT(%s, %d)", part, length.V)
		}
		parts = append(parts, "COALESCE("+part+")") // which no key is on
		return nil
	})
	same := "< 0" // of a key that is not unique each value is computed
	if unique {
		same = "> 1"
	}
	return "SELECT EXISTS (SELECT 1 FROM " + t.quoted() + " USE INDEX () WHERE " + strings.Join(parts, " IS NOT NULL AND ") + " IS NOT NULL GROUP BY " + strings.Join(parts, ", ") + " HAVING COUNT(*) " + same + ")", err
}

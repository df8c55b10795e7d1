package podclient

import (
	"context"
	"database/sql"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// check is a CHECK that counts.
type check struct {
	table        Table
	name, clause string
}

// mentions says whether the name of a column is in the clause.
func (c check) mentions(column string) bool {
	return strings.Contains(strings.ToLower(c.clause), strings.ToLower(column))
}

// doubt is what there is to ask and to say where its clause depends on the session.
func (c check) doubt() Doubt {
	return Doubt{
		Table: c.table, What: "constraint " + c.table.Database + "." + c.table.Name + "." + c.name,
		query: "SELECT EXISTS (SELECT 1 FROM " + c.table.quoted() + " WHERE NOT " + plainExpression(c.clause) + ")",
		Why: "rows do not meet it in UTC and without NO_UNSIGNED_SUBTRACTION, because they were written in sessions with another time_zone or sql_mode, and a restore fails (LoadRejected). " +
			"Make it a CHECK that does not depend on the session, or ALTER TABLE … ALTER CHECK … NOT ENFORCED",
	}
}

// doubtfulChecks are the CHECKs that rows may not meet where they are loaded, and the FLOAT columns of CHECKs. The server takes a minute to
// join these views of a thousand tables, and a moment to read each.
func (i Inventory) doubtfulChecks(ctx context.Context) ([]Doubt, error) {
	checks, err := i.checks(ctx)
	if err != nil || len(checks) == 0 {
		return nil, err
	}
	columns := map[Table][]doubtful{}
	err = i.v.s.LongRows(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA NOT IN "+systemSchemas+" AND (DATA_TYPE IN ('timestamp', 'float') OR COLUMN_TYPE LIKE '%unsigned%') ORDER BY 1, 2, ORDINAL_POSITION", nil, func(rows *sql.Rows) error {
		var c doubtful
		err := rows.Scan(&c.table.Database, &c.table.Name, &c.name, &c.kind)
		columns[c.table] = append(columns[c.table], c)
		return err
	})
	var found []Doubt
	for _, c := range checks {
		depends := c.mentions("unix")
		for _, column := range columns[c.table] {
			switch {
			case !c.mentions(column.name):
			case strings.HasPrefix(column.kind, "float"):
				query, why := column.rounded()
				found = append(found, Doubt{Table: c.table, What: column.title(), query: query, Why: why})
			default:
				depends = depends || strings.HasPrefix(column.kind, "timestamp") || strings.Contains(c.clause, " - ")
			}
		}
		if depends {
			found = append(found, c.doubt())
		}
	}
	return found, err
}

// checks are the CHECKs that count.
func (i Inventory) checks(ctx context.Context) ([]check, error) {
	type key struct{ database, name string }
	clauses := map[key]string{}
	err := i.v.s.LongRows(ctx, "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA NOT IN "+systemSchemas, nil, func(rows *sql.Rows) error {
		var k key
		var clause string
		err := rows.Scan(&k.database, &k.name, &clause)
		clauses[k] = clause
		return err
	})
	if err != nil || len(clauses) == 0 {
		return nil, err
	}
	var found []check
	err = i.v.s.LongRows(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_TYPE = 'CHECK' AND ENFORCED = 'YES' AND TABLE_SCHEMA NOT IN "+systemSchemas, nil,
		conn.Append(&found, func(c *check) []any { return []any{&c.table.Database, &c.table.Name, &c.name} }))
	for n, c := range found {
		found[n].clause = clauses[key{c.table.Database, c.name}]
	}
	return found, err
}

package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// CreateDatabase makes the operator's own database.
const CreateDatabase = "CREATE DATABASE IF NOT EXISTS " + mysql.Database

// baseTable is the TABLE_TYPE of a table that is no view.
const baseTable = "BASE TABLE"

// reclaimDatabase makes the operator's own database, or takes away what somebody gave it that can keep the operator from writing there:
// READ ONLY, the triggers on its tables, and its events, which may change the tables again.
func reclaimDatabase(ctx context.Context, s *Session) error {
	var options sql.NullString
	err := s.Row(ctx, "SELECT OPTIONS LIKE '%READ ONLY=1%' FROM information_schema.SCHEMATA_EXTENSIONS WHERE SCHEMA_NAME = '"+mysql.Database+"'", nil, &options)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s.Change(ctx, "own/create-database", CreateDatabase)
	case err != nil:
		return fmt.Errorf("look at the database %s: %w", mysql.Database, err)
	case options.String == "1":
		if err := s.Change(ctx, "own/read-write", "ALTER DATABASE "+mysql.Database+" READ ONLY = 0"); err != nil {
			return err
		}
	}
	type program struct{ kind, name string }
	var programs []program
	err = s.Rows(ctx, "SELECT 'TRIGGER', TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '"+mysql.Database+
		"' UNION ALL SELECT 'EVENT', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = '"+mysql.Database+"'", nil,
		Append(&programs, func(p *program) []any { return []any{&p.kind, &p.name} }))
	if err != nil {
		return fmt.Errorf("look for triggers and events in %s: %w", mysql.Database, err)
	}
	var failures []error
	for _, p := range programs {
		failures = append(failures, s.Change(ctx, "own/drop-program", "DROP "+p.kind+" IF EXISTS "+ownName(p.name)))
	}
	return errors.Join(failures...)
}

// ownName is a name in the operator's own database.
func ownName(name string) string { return mysql.Database + "." + QuoteName(name) }

// ownKind returns the TABLE_TYPE of a table or view in the operator's own database; empty if there is none.
func ownKind(ctx context.Context, s *Session, name string) (kind string, err error) {
	err = s.Row(ctx, "SELECT COALESCE(MAX(TABLE_TYPE), '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+mysql.Database+"' AND TABLE_NAME = ?", []any{name}, &kind)
	return kind, err
}

// ownStep is a statement that changes the operator's own database, with its name for the hook.
type ownStep struct{ op, query string }

// dropOwn drops a table or a view, whichever it is here and on each replica: each of the statements passes over the other kind.
func dropOwn(quoted string) []ownStep {
	return []ownStep{{"own/drop-table", "DROP TABLE IF EXISTS " + quoted}, {"own/drop-view", "DROP VIEW IF EXISTS " + quoted}}
}

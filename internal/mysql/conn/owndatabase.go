package conn

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// CreateDatabase makes the operator's own database.
const CreateDatabase = "CREATE DATABASE IF NOT EXISTS " + mysql.Database

// CreateHeartbeat makes the table in it that the prober writes to. wholeHeartbeat says whether that is as it was made; kind is its TABLE_TYPE.
const (
	CreateHeartbeat = `CREATE TABLE IF NOT EXISTS ` + mysql.Database + `.heartbeat (
	id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, CONSTRAINT one_beat CHECK (id = 1)) ENGINE=InnoDB`

	heartbeatIn    = " WHERE TABLE_SCHEMA = '" + mysql.Database + "' AND TABLE_NAME = 'heartbeat'"
	wholeHeartbeat = `SELECT COALESCE((SELECT COUNT(*) = 2 AND SUM(GENERATION_EXPRESSION = '' AND (COLUMN_NAME = 'id' AND COLUMN_TYPE = 'tinyint unsigned' AND COLUMN_KEY = 'PRI'
			OR COLUMN_NAME = 'at' AND COLUMN_TYPE = 'timestamp(6)' AND COLUMN_KEY = '')) = 2 FROM information_schema.COLUMNS` + heartbeatIn + `), FALSE)
		AND EXISTS(SELECT 1 FROM information_schema.TABLES` + heartbeatIn + ` AND ENGINE = 'InnoDB' AND CREATE_OPTIONS NOT LIKE '%partitioned%')
		AND (SELECT COUNT(*) <= 2 FROM information_schema.TABLE_CONSTRAINTS` + heartbeatIn + `),
		COALESCE((SELECT MAX(TABLE_TYPE) FROM information_schema.TABLES` + heartbeatIn + `), '')`
)

// RestoreHeartbeat makes the database and the table that the prober writes to as they were made, when somebody changed or dropped them. What
// is in the table is of no use: the next write makes its row. It does nothing when nobody did.
func RestoreHeartbeat(ctx context.Context, s *Session) error {
	if err := ReclaimDatabase(ctx, s); err != nil {
		return err
	}
	var whole bool
	var kind string
	if err := s.Row(ctx, wholeHeartbeat, nil, &whole, &kind); err != nil || whole {
		return err
	}
	statements := []string{CreateDatabase, CreateHeartbeat}
	switch kind {
	case "":
	case "VIEW":
		statements = append([]string{"DROP VIEW " + mysql.Database + ".heartbeat"}, statements...)
	default:
		statements = append([]string{"DROP TABLE " + mysql.Database + ".heartbeat"}, statements...)
	}
	for _, statement := range statements {
		if err := s.Change(ctx, "own/restore-heartbeat", statement); err != nil {
			return fmt.Errorf("make the table %s.heartbeat again, which was changed or dropped: %w", mysql.Database, err)
		}
	}
	return nil
}

// ReclaimDatabase takes away what somebody gave the operator's own database that can keep the operator from writing there: READ ONLY, and
// triggers on its tables.
func ReclaimDatabase(ctx context.Context, s *Session) error {
	var readOnly bool
	if err := s.Row(ctx, "SELECT EXISTS(SELECT 1 FROM information_schema.SCHEMATA_EXTENSIONS WHERE SCHEMA_NAME = '"+mysql.Database+"' AND OPTIONS LIKE '%READ ONLY=1%')", nil, &readOnly); err != nil {
		return fmt.Errorf("look at the database %s: %w", mysql.Database, err)
	}
	if readOnly {
		if err := s.Change(ctx, "own/read-write", "ALTER DATABASE "+mysql.Database+" READ ONLY = 0"); err != nil {
			return err
		}
	}
	var triggers []string
	err := s.Rows(ctx, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '"+mysql.Database+"'", nil,
		Append(&triggers, func(name *string) []any { return []any{name} }))
	if err != nil {
		return fmt.Errorf("look for triggers in %s: %w", mysql.Database, err)
	}
	var failures []error
	for _, name := range triggers {
		failures = append(failures, s.Change(ctx, "own/drop-trigger", "DROP TRIGGER IF EXISTS "+mysql.Database+"."+QuoteName(name)))
	}
	return errors.Join(failures...)
}

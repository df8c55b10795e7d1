package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The operator's own database. Both tables are made together with the first membership row. "primary" is a reserved word.
const (
	createDatabase   = "CREATE DATABASE IF NOT EXISTS nairobi_mysql"
	createMembership = `CREATE TABLE IF NOT EXISTS nairobi_mysql.membership (
		id TINYINT UNSIGNED NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL, leader VARCHAR(64) NOT NULL DEFAULT '', voters JSON NOT NULL,
		w TINYINT UNSIGNED NOT NULL, CONSTRAINT one_row CHECK (id = 1)) ENGINE=InnoDB`
	addLeader       = "ALTER TABLE nairobi_mysql.membership ADD COLUMN leader VARCHAR(64) NOT NULL DEFAULT ''"
	createHeartbeat = `CREATE TABLE IF NOT EXISTS nairobi_mysql.heartbeat (
		id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, CONSTRAINT one_beat CHECK (id = 1)) ENGINE=InnoDB`

	// maxMemberName is the width of the column, in characters.
	maxMemberName = 64
)

// WriteMembership replaces the membership row of epoch oldEpoch by row, in one transaction. oldEpoch 0 says that there is
// none yet: database and tables are made as needed. When the row is there as wanted already, it is a success.
// ErrEpochChanged says that somebody else wrote; ErrCommitsPending that the commit waits for its acknowledgements, and may
// yet be done.
//
// A table of a release that did not write the primary down gets the column for it first, unless too few replicas are
// there to acknowledge that: then the row is written without, and its Primary reads as empty until the next one.
func (m *Member) WriteMembership(ctx context.Context, oldEpoch uint64, row Membership) (err error) {
	defer m.annotate(&err, fmt.Sprintf("write membership epoch %d", row.Epoch))
	if row.Epoch <= oldEpoch || len(row.Voters) == 0 || row.W < 0 || utf8.RuneCountInString(row.Primary) > maxMemberName {
		return fmt.Errorf("%w: epoch %d after %d, %d voters, W %d, primary %q", ErrInvalidArgument, row.Epoch, oldEpoch, len(row.Voters), row.W, row.Primary)
	}
	voters, err := json.Marshal(slices.Sorted(slices.Values(row.Voters)))
	if err != nil {
		return err
	}
	return m.transact(ctx, func(s *session) error {
		present, known := readMembership(ctx, s)
		if !known {
			return fmt.Errorf("read the present row: %w", ErrUnreachable)
		}
		if done, err := compareEpoch(present, oldEpoch, row); done || err != nil {
			return err
		}
		if present == nil {
			if err := createTables(ctx, s); err != nil {
				return err
			}
		}
		withLeader, err := ensureLeader(ctx, s)
		if err != nil {
			return err
		}
		if !withLeader {
			row.Primary = ""
		}
		return swapMembership(ctx, s, oldEpoch, row, string(voters), withLeader)
	})
}

// compareEpoch says whether the row is there as wanted, or fails when it is not the one to be replaced.
func compareEpoch(present *Membership, oldEpoch uint64, row Membership) (done bool, err error) {
	var epoch uint64
	if present != nil {
		epoch = present.Epoch
		wanted, have := slices.Sorted(slices.Values(row.Voters)), slices.Sorted(slices.Values(present.Voters))
		if epoch == row.Epoch && present.Primary == row.Primary && present.W == row.W && slices.Equal(wanted, have) {
			return true, nil
		}
	}
	if epoch != oldEpoch {
		return false, fmt.Errorf("%w: %d, not %d", ErrEpochChanged, epoch, oldEpoch)
	}
	return false, nil
}

func createTables(ctx context.Context, s *session) error {
	for _, step := range []struct{ op, query string }{
		{"membership/create-database", createDatabase},
		{"membership/create-heartbeat", createHeartbeat},
		{"membership/create-table", createMembership},
	} {
		if err := s.change(ctx, step.op, step.query); err != nil {
			return err
		}
	}
	return nil
}

// ensureLeader adds the column for the primary's name to a table that lacks it, and says whether it is there now.
// While an ALTER TABLE waits for its acknowledgement nobody can read the table, and without reading it the operator
// would never point the replicas here that are to acknowledge. So it waits for a time at which they are connected.
func ensureLeader(ctx context.Context, s *session) (bool, error) {
	var there, acknowledged bool
	err := s.row(ctx, `SELECT EXISTS(SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'membership' AND COLUMN_NAME = 'leader'),
		NOT @@GLOBAL.rpl_semi_sync_source_enabled OR @@GLOBAL.rpl_semi_sync_source_wait_for_replica_count <=
		(SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_clients')`,
		nil, &there, &acknowledged)
	if err != nil || there || !acknowledged {
		return there, err
	}
	err = s.change(ctx, "membership/add-leader", addLeader)
	if isServerError(err, erDuplicateColumn) {
		err = nil
	}
	return err == nil, err
}

// swapMembership is one statement and so one transaction: the comparison is in its WHERE, or in the primary key.
// withLeader says that the table has the column.
func swapMembership(ctx context.Context, s *session, oldEpoch uint64, row Membership, voters string, withLeader bool) error {
	assignments, values := "epoch = ?, voters = ?, w = ?", []any{row.Epoch, voters, row.W}
	if withLeader {
		assignments, values = assignments+", leader = ?", append(values, row.Primary)
	}
	op, query := "membership/insert", "INSERT IGNORE INTO nairobi_mysql.membership SET id = 1, "+assignments
	if oldEpoch != 0 {
		op, query = "membership/update", "UPDATE nairobi_mysql.membership SET "+assignments+" WHERE id = 1 AND epoch = ?"
		values = append(values, oldEpoch)
	}
	if err := s.change(ctx, op, query, values...); err != nil {
		return err
	}
	present, known := readMembership(ctx, s)
	if !known {
		return fmt.Errorf("read the new row: %w", ErrUnreachable)
	}
	done, err := compareEpoch(present, row.Epoch, row)
	if err == nil && !done {
		err = fmt.Errorf("%w: another row has epoch %d", ErrEpochChanged, row.Epoch)
	}
	return err
}

// readMembership reads the membership row. known is false when it could not be read; a missing table, or an empty one,
// is known to be no row. Columns are taken by name, because an earlier release made the table without one of them.
func readMembership(ctx context.Context, s *session) (row *Membership, known bool) {
	var columns map[string]sql.Null[string]
	err := s.rows(ctx, "SELECT * FROM nairobi_mysql.membership WHERE id = 1", nil, func(rows *sql.Rows) (err error) {
		columns, err = named(rows)
		return err
	})
	switch {
	case isServerError(err, erNoSuchTable, erBadDatabase), err == nil && columns == nil:
		return nil, true
	case err != nil:
		return nil, false
	}
	row = &Membership{Primary: columns["leader"].V, W: number(columns["w"].V)}
	if row.Epoch, err = strconv.ParseUint(columns["epoch"].V, 10, 64); err != nil {
		return nil, false
	}
	if json.Unmarshal([]byte(columns["voters"].V), &row.Voters) != nil {
		return nil, false
	}
	return row, true
}

// named returns the present row by the names of its columns, for results whose columns depend on the version.
func named(rows *sql.Rows) (map[string]sql.Null[string], error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]sql.Null[string], len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	row := make(map[string]sql.Null[string], len(columns))
	for i, name := range columns {
		row[name] = values[i]
	}
	return row, nil
}

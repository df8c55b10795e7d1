package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// The operator's own database. Both tables are made together with the first membership row.
const (
	createDatabase   = "CREATE DATABASE IF NOT EXISTS nairobi_mysql"
	createMembership = `CREATE TABLE IF NOT EXISTS nairobi_mysql.membership (
		id TINYINT UNSIGNED NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL, voters JSON NOT NULL, w TINYINT UNSIGNED NOT NULL,
		CONSTRAINT one_row CHECK (id = 1)) ENGINE=InnoDB`
	createHeartbeat = `CREATE TABLE IF NOT EXISTS nairobi_mysql.heartbeat (
		id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, CONSTRAINT one_beat CHECK (id = 1)) ENGINE=InnoDB`
)

// WriteMembership replaces the membership row of epoch oldEpoch by row, in one transaction. oldEpoch 0 says that there is
// none yet: database and tables are made as needed. When the row is there as wanted already, it is a success.
// ErrEpochChanged says that somebody else wrote; ErrCommitsPending that the commit waits for its acknowledgements, and may
// yet be done.
func (m *Member) WriteMembership(ctx context.Context, oldEpoch uint64, row Membership) (err error) {
	defer m.annotate(&err, fmt.Sprintf("write membership epoch %d", row.Epoch))
	if row.Epoch <= oldEpoch || len(row.Voters) == 0 || row.W < 0 {
		return fmt.Errorf("%w: epoch %d after %d, %d voters, W %d", ErrInvalidArgument, row.Epoch, oldEpoch, len(row.Voters), row.W)
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
		return swapMembership(ctx, s, oldEpoch, row, string(voters))
	})
}

// compareEpoch says whether the row is there as wanted, or fails when it is not the one to be replaced.
func compareEpoch(present *Membership, oldEpoch uint64, row Membership) (done bool, err error) {
	var epoch uint64
	if present != nil {
		epoch = present.Epoch
		wanted, have := slices.Sorted(slices.Values(row.Voters)), slices.Sorted(slices.Values(present.Voters))
		if epoch == row.Epoch && present.W == row.W && slices.Equal(wanted, have) {
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

// swapMembership is one statement and so one transaction: the comparison is in its WHERE, or in the primary key.
func swapMembership(ctx context.Context, s *session, oldEpoch uint64, row Membership, voters string) error {
	var err error
	if oldEpoch == 0 {
		err = s.change(ctx, "membership/insert", "INSERT IGNORE INTO nairobi_mysql.membership (id, epoch, voters, w) VALUES (1, ?, ?, ?)",
			row.Epoch, voters, row.W)
	} else {
		err = s.change(ctx, "membership/update", "UPDATE nairobi_mysql.membership SET epoch = ?, voters = ?, w = ? WHERE id = 1 AND epoch = ?",
			row.Epoch, voters, row.W, oldEpoch)
	}
	if err != nil {
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

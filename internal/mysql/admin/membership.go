package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// membershipTable is that of the membership row, which is made together with that of the heartbeat. "primary" is a reserved word.
var membershipTable = conn.OwnTable{
	Name: "membership",
	Columns: `id TINYINT UNSIGNED NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL, leader VARCHAR(64) NOT NULL,
		voters JSON NOT NULL, previous JSON NOT NULL, w TINYINT UNSIGNED NOT NULL, memory JSON NULL, CHECK (id = 1)`,
	Kept: "WHERE id = 1 LIMIT 1", // the one that observers read, in a table without its primary key as well
}

// maxMemberName is the width of the column leader, in characters.
const maxMemberName = 64

// WriteMembership replaces the membership row of epoch oldEpoch by row, in one transaction. oldEpoch 0 says that there is
// none yet: database and tables are made as needed. When the row is there as wanted already, it is a success.
// ErrEpochChanged says that somebody else wrote; ErrCommitsPending that the commit waits for its acknowledgements, and may
// yet be done.
func (m *Member) WriteMembership(ctx context.Context, oldEpoch uint64, row mysql.Membership) (err error) {
	defer m.h.Annotate(&err, fmt.Sprintf("write membership epoch %d", row.Epoch))
	if row.Epoch <= oldEpoch || len(row.Voters) == 0 || row.W < 0 || utf8.RuneCountInString(row.Primary) > maxMemberName {
		return fmt.Errorf("%w: epoch %d after %d, %d voters, W %d, primary %q", mysql.ErrInvalidArgument, row.Epoch, oldEpoch, len(row.Voters), row.W, row.Primary)
	}
	return m.h.Transact(ctx, func(s *conn.Session) error {
		present, known := observe.ReadMembership(ctx, s)
		if !known {
			return fmt.Errorf("read the present row: %w", mysql.ErrUnreachable)
		}
		if done, err := compareEpoch(present, oldEpoch, row); done || err != nil {
			return err
		}
		err := replaceMembership(ctx, s, present, oldEpoch, row)
		if conn.RefusesForGood(err) || errors.Is(err, mysql.ErrEpochChanged) {
			return errors.Join(err, membershipTable.Restore(ctx, s)) // the next attempt may succeed
		}
		return err
	})
}

// replaceMembership writes the row into the table, which it makes as it has to be.
func replaceMembership(ctx context.Context, s *conn.Session, present *mysql.Membership, oldEpoch uint64, row mysql.Membership) error {
	if present == nil {
		if err := errors.Join(conn.Heartbeat.Restore(ctx, s), membershipTable.Restore(ctx, s)); err != nil {
			return err
		}
	}
	if err := addMemory(ctx, s, row); err != nil {
		return err
	}
	return swapMembership(ctx, s, oldEpoch, row, present != nil && len(present.Memory) > 0)
}

// compareEpoch says whether the row is there as wanted, or fails when it is not the one to be replaced.
func compareEpoch(present *mysql.Membership, oldEpoch uint64, row mysql.Membership) (done bool, err error) {
	var epoch uint64
	if present != nil {
		epoch = present.Epoch
		if epoch == row.Epoch && present.Primary == row.Primary && present.W == row.W &&
			namesJSON(present.Voters) == namesJSON(row.Voters) && namesJSON(present.Previous) == namesJSON(row.Previous) && maps.Equal(present.Memory, row.Memory) {
			return true, nil
		}
	}
	if epoch != oldEpoch {
		return false, fmt.Errorf("%w: %d, not %d", mysql.ErrEpochChanged, epoch, oldEpoch)
	}
	return false, nil
}

// addMemory adds the column that a table of an older release lacks, before the first row that needs it.
func addMemory(ctx context.Context, s *conn.Session, row mysql.Membership) error {
	if len(row.Memory) == 0 {
		return nil
	}
	var there int
	if err := s.Row(ctx, "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'membership' AND COLUMN_NAME = 'memory'", nil, &there); err != nil || there > 0 {
		return err
	}
	return s.Change(ctx, "membership/add-memory", "ALTER TABLE nairobi_mysql.membership ADD COLUMN memory JSON NULL")
}

// memoryJSON writes who acknowledges from which memory, NULL for nobody.
func memoryJSON(memory map[string]string) any {
	if len(memory) == 0 {
		return nil
	}
	text, err := json.Marshal(memory)
	if err != nil {
		return nil // strings always encode
	}
	return string(text)
}

// namesJSON writes names in order, [] for none.
func namesJSON(names []string) string {
	text, err := json.Marshal(append([]string{}, slices.Sorted(slices.Values(names))...))
	if err != nil {
		return "[]" // strings always encode
	}
	return string(text)
}

// swapMembership is one statement and so one transaction: the comparison is in its WHERE, or in the primary key.
func swapMembership(ctx context.Context, s *conn.Session, oldEpoch uint64, row mysql.Membership, hadMemory bool) error {
	assignments := "epoch = ?, leader = ?, voters = ?, previous = ?, w = ?"
	values := []any{row.Epoch, row.Primary, namesJSON(row.Voters), namesJSON(row.Previous), row.W}
	if len(row.Memory) > 0 || hadMemory {
		assignments += ", memory = ?"
		values = append(values, memoryJSON(row.Memory))
	}
	op, query := "membership/insert", "INSERT IGNORE INTO nairobi_mysql.membership SET id = 1, "+assignments
	if oldEpoch != 0 {
		op, query = "membership/update", "UPDATE nairobi_mysql.membership SET "+assignments+" WHERE id = 1 AND epoch = ?"
		values = append(values, oldEpoch)
	}
	if err := commit(ctx, s, op, query, values...); err != nil {
		return err
	}
	present, known := observe.ReadMembership(ctx, s)
	if !known {
		return fmt.Errorf("read the new row: %w", mysql.ErrUnreachable)
	}
	done, err := compareEpoch(present, row.Epoch, row)
	if err == nil && !done {
		err = fmt.Errorf("%w: another row has epoch %d", mysql.ErrEpochChanged, row.Epoch)
	}
	return err
}

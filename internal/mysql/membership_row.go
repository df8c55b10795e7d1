package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// ReadMembership reads the membership row. known is false when it could not be read; a missing table, or an empty one,
// is known to be no row.
func ReadMembership(ctx context.Context, s *Session) (row *Membership, known bool) {
	row = &Membership{}
	var voters, previous string
	err := s.Row(ctx, "SELECT epoch, leader, voters, previous, w FROM nairobi_mysql.membership WHERE id = 1", nil,
		&row.Epoch, &row.Primary, &voters, &previous, &row.W)
	switch {
	case errors.Is(err, sql.ErrNoRows), IsServerError(err, ErNoSuchTable, ErBadDatabase):
		return nil, true
	case err != nil:
		return nil, false
	}
	if json.Unmarshal([]byte(voters), &row.Voters) != nil || json.Unmarshal([]byte(previous), &row.Previous) != nil {
		return nil, false
	}
	return row, true
}

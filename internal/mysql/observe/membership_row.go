package observe

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// ReadMembership reads the membership row. known is false when it could not be read; a missing table, or an empty one, or one without the
// columns, is known to be no row.
func ReadMembership(ctx context.Context, s *conn.Session) (row *mysql.Membership, known bool) {
	row = &mysql.Membership{}
	var voters, previous string
	var memory sql.NullString
	const fields, from = "SELECT epoch, leader, voters, previous, w", " FROM nairobi_mysql.membership WHERE id = 1"
	err := s.Row(ctx, fields+", memory"+from, nil, &row.Epoch, &row.Primary, &voters, &previous, &row.W, &memory)
	if conn.IsServerError(err, mysql.ErBadField) { // of a release that did not have it
		err = s.Row(ctx, fields+from, nil, &row.Epoch, &row.Primary, &voters, &previous, &row.W)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows), conn.HoldsNothing(err):
		return nil, true
	case err != nil:
		return nil, false
	}
	if json.Unmarshal([]byte(voters), &row.Voters) != nil || json.Unmarshal([]byte(previous), &row.Previous) != nil {
		return nil, false
	}
	if memory.Valid && json.Unmarshal([]byte(memory.String), &row.Memory) != nil {
		return nil, false
	}
	return row, true
}

package admin

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// ReleaseWaiting makes a source wait for nobody any more, and so answers the commits that wait (fact 4). It is right
// in one case only: every other voter is known never to acknowledge again and to hold nothing that anybody could be
// promoted with, so that what is on the source's own disk is all there is.
func (m *Member) ReleaseWaiting(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "stop waiting for acknowledgements")
	return m.h.Control(ctx, func(s *conn.Session) error {
		if err := s.Change(ctx, "role/release", "SET GLOBAL rpl_semi_sync_source_enabled = OFF"); err != nil {
			return err
		}
		enabled, _, err := sourceWait(ctx, s)
		if err == nil && enabled {
			err = fmt.Errorf("%w: semi-sync source is ON", mysql.ErrStepNotEffective)
		}
		return err
	})
}

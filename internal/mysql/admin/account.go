package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// RestoreReplicationAccount makes the account of replicas on this server what it has to be, under the authority that the operator's own
// account there is bound to. It is not logged: a logged change would wait for the acknowledgements of the very replicas that cannot connect,
// and nobody could log in meanwhile. So the replicas keep what somebody made of their own account until their mysqld starts again, or until
// one of them is a source and refuses its replicas.
func (m *Member) RestoreReplicationAccount(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "restore the account "+mysql.ReplicationUser)
	return m.h.Control(ctx, func(s *conn.Session) error { // a row of the primary's may wait for those replicas, and is the one transaction
		var issuer string
		if err := s.Row(ctx, "SELECT QUOTE(CONVERT(x509_issuer USING utf8mb4)) FROM mysql.user WHERE User = ? AND Host = '%'", []any{mysql.OperatorUser}, &issuer); err != nil {
			return err
		}
		return unlogged(ctx, s, mysql.ReplicationAccount(issuer))
	})
}

// unlogged runs statements that do not get into the binary log. A session that could not be made to log again is not used any more.
func unlogged(ctx context.Context, s *conn.Session, statements []string) (err error) {
	if err := s.Change(ctx, "unlogged/begin", "SET SESSION sql_log_bin = OFF"); err != nil {
		return err
	}
	defer func() {
		if end := s.Change(ctx, "unlogged/end", "SET SESSION sql_log_bin = ON"); end != nil {
			s.Break()
			err = errors.Join(err, end)
		}
	}()
	for _, statement := range statements {
		if err := s.Change(ctx, "unlogged/"+strings.ToLower(strings.Fields(statement)[0]), statement); err != nil {
			return err
		}
	}
	return nil
}

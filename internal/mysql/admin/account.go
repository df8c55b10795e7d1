package admin

import (
	"context"
	"slices"
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
	return m.h.Transact(ctx, func(s *conn.Session) error {
		var issuer string
		if err := s.Row(ctx, "SELECT QUOTE(CONVERT(x509_issuer USING utf8mb4)) FROM mysql.user WHERE User = ? AND Host = '%'", []any{mysql.OperatorUser}, &issuer); err != nil {
			return err
		}
		for _, statement := range slices.Concat([]string{"SET SESSION sql_log_bin = OFF"}, mysql.ReplicationAccount(issuer)) {
			if err := s.Change(ctx, "account/"+strings.ToLower(strings.Fields(statement)[0]), statement); err != nil {
				return err
			}
		}
		return nil
	})
}

package admin

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// Adopt takes out of a server's data what binds it to the cluster that the data was copied from: the operator's own database
// with its row of voters, and the operator's accounts but for the two that every start of the server sets right. Databases,
// accounts of people and the GTIDs stay. Nothing of it is in the binary log. The server stays read-only, and the call may be
// made again and again before the cluster has begun on it.
//
// It refuses with ErrWritable, ErrReplicates and ErrNothingThere.
func (m *Member) Adopt(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "adopt the data")
	return m.h.Transact(ctx, func(s *conn.Session) error {
		if err := refuseUnadoptable(ctx, s); err != nil {
			return err
		}
		// super_read_only keeps even this account from writing; read_only stays on, so that nobody else can.
		for _, step := range []struct{ op, query string }{
			{"adopt/unlogged", "SET SESSION sql_log_bin = OFF"},
			{"adopt/open", "SET GLOBAL super_read_only = OFF"},
			{"adopt/drop-database", "DROP DATABASE IF EXISTS nairobi_mysql"},
		} {
			if err := s.Change(ctx, step.op, step.query); err != nil {
				return err
			}
		}
		if err := dropForeignAccounts(ctx, s); err != nil {
			return err
		}
		return setReadOnly(ctx, s, true)
	})
}

// refuseUnadoptable fails on a server that is in use, or that holds nothing.
func refuseUnadoptable(ctx context.Context, s *conn.Session) error {
	if err := refuseWritable(ctx, s); err != nil {
		return err
	}
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil {
		return err
	}
	if status != nil {
		return fmt.Errorf("%w: %s", mysql.ErrReplicates, status.SourceHost)
	}
	var executed string
	if err := s.Row(ctx, "SELECT @@GLOBAL.gtid_executed", nil, &executed); err != nil {
		return fmt.Errorf("read the executed GTIDs: %w", err)
	}
	if conn.Compact(executed) == "" {
		return mysql.ErrNothingThere
	}
	return nil
}

// dropForeignAccounts drops the operator's accounts that are bound to another cluster's authority. Those of pods are
// made again when they are needed.
func dropForeignAccounts(ctx context.Context, s *conn.Session) error {
	var accounts []conn.Account
	err := s.Rows(ctx, `SELECT User, Host FROM mysql.user WHERE User IN ('nairobi_operator', 'nairobi_replication', 'nairobi_backup', 'nairobi_metrics') AND NOT (Host = '%' AND User IN ('nairobi_operator', 'nairobi_replication'))`, nil,
		conn.Append(&accounts, func(a *conn.Account) []any { return []any{&a.User, &a.Host} }))
	if err != nil {
		return fmt.Errorf("list the accounts: %w", err)
	}
	for _, a := range accounts {
		if err := s.Change(ctx, "adopt/drop-account", "DROP USER IF EXISTS "+a.Quoted()); err != nil {
			return err
		}
	}
	return nil
}

package admin

import (
	"context"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// retiredTable has the GTIDs that were used up because the cluster had lost their transactions. Whoever keeps transactions elsewhere, as the
// archive of binary logs does, sees in it that theirs are others than those of the cluster.
var retiredTable = conn.OwnTable{
	Name:    "retired",
	Columns: "id BINARY(32) NOT NULL PRIMARY KEY, gtids MEDIUMTEXT CHARACTER SET ascii NOT NULL, at DATETIME(6) NOT NULL",
	Kept:    "WHERE TRUE",
	Missing: map[string]string{"id": "UNHEX(SHA2(gtids, 256))", "at": "UTC_TIMESTAMP(6)"},
}

const insertRetired = `INSERT IGNORE INTO nairobi_mysql.retired (id, gtids, at)
	SELECT UNHEX(SHA2(lost.gtids, 256)), lost.gtids, UTC_TIMESTAMP(6) FROM (SELECT GTID_SUBTRACT(?, '') AS gtids) AS lost`

// RetireTransactions records on a primary that the cluster has lost the transactions of these GTIDs, each uuid:number, and then commits an
// empty transaction under each as AdoptTransactions does. The record comes first: whoever sees one of the GTIDs on the primary finds the
// record there.
func (m *Member) RetireTransactions(ctx context.Context, gtids []string) error {
	if err := recordRetired(ctx, m.h, strings.Join(gtids, ",")); err != nil {
		return err
	}
	return m.AdoptTransactions(ctx, gtids)
}

func recordRetired(ctx context.Context, h *conn.Handle, set string) (err error) {
	defer h.Annotate(&err, "record lost transactions")
	return h.Transact(ctx, func(s *conn.Session) error {
		if err := retiredTable.Restore(ctx, s); err != nil {
			return err
		}
		return s.Change(ctx, "retire/record", insertRetired, set)
	})
}

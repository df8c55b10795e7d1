package conn

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// EndSessions kills the sessions whose ids a query finds, and returns the ids.
func EndSessions(ctx context.Context, s *Session, which string) (ended []uint64, err error) {
	var found []uint64
	err = s.Rows(ctx, which, nil, Append(&found, func(id *uint64) []any { return []any{id} }))
	if err != nil {
		return nil, fmt.Errorf("look for sessions in the way: %w", err)
	}
	for _, id := range found {
		if err := s.Kill(ctx, id); err != nil {
			return ended, err
		}
		ended = append(ended, id)
	}
	return ended, nil
}

// List writes ids as FIND_IN_SET takes them.
func List(ids []uint64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatUint(id, 10)
	}
	return strings.Join(texts, ",")
}

// OfClients is the condition for sessions of clients. Ours, the replicas' and the server's own are not among them.
const OfClients = "PROCESSLIST_ID IS NOT NULL AND PROCESSLIST_USER NOT IN ('" + mysql.OperatorUser + "', '" + mysql.ReplicationUser + "', 'system user')"

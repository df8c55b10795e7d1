package podclient

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// loadAttempts is how often a statement is run that loses a deadlock. Nothing of it is left then.
const loadAttempts = 10

// RowLoader loads rows of tables into a server that a Recovery has opened, without the binary log and beside others.
type RowLoader struct {
	v        *Visit
	database string
}

// NewRowLoader makes a connection one that loads rows, and nothing else from now on.
func NewRowLoader(ctx context.Context, v *Visit) (*RowLoader, error) {
	for _, statement := range []string{LoadSettings, rowSettings, "SET NAMES utf8mb4"} {
		if err := v.exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("prepare a session that loads rows: %w", err)
		}
	}
	return &RowLoader{v: v}, nil
}

// Run runs a statement in a database, however long it takes.
func (l *RowLoader) Run(ctx context.Context, database, statement string) error {
	if database != l.database {
		if err := l.v.exec(ctx, "USE "+conn.QuoteName(database)); err != nil {
			return err
		}
		l.database = database
	}
	for attempt := 1; ; attempt++ {
		if err := l.v.exec(ctx, statement); !conn.IsServerError(err, mysql.ErLockDeadlock) || attempt == loadAttempts {
			return err
		}
	}
}

// Close ends the session.
func (l *RowLoader) Close() { l.v.Close() }

// CPUs returns how many processors the server has, or 0 where it does not say.
func CPUs(ctx context.Context, v *Visit) (int, error) {
	// The default group has all of them (reference manual, "Resource Groups"), as in 0-3,8.
	ranges, err := v.lines(ctx, "SELECT CAST(VCPU_IDS AS CHAR) FROM information_schema.RESOURCE_GROUPS WHERE RESOURCE_GROUP_NAME = 'USR_default' AND VCPU_IDS IS NOT NULL")
	if err != nil {
		return 0, fmt.Errorf("read how many processors the server has: %w", err)
	}
	return countCPUs(strings.Join(ranges, ",")), nil
}

// countCPUs counts the numbers in a list such as 0-3,8. It returns 0 for what is no such list.
func countCPUs(list string) int {
	count := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil || to < from {
			return 0
		}
		count += to - from + 1
	}
	return count
}

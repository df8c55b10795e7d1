package observe

import (
	"context"

	"github.com/google/uuid"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// memoryActor marks the row of performance_schema.setup_actors by which a run of mysqld is known. The table's rows can be written while the
// server takes no writes, are in no binary log, and end with the process. No account of the server has this name.
const memoryActor = "nairobi_memory"

// memoryNames reads the names that a run was given as facts: two operators may have seen it first.
const memoryNames = `SELECT '` + factMemory + `', HOST, '' FROM performance_schema.setup_actors WHERE USER = '` + memoryActor + `'`

// memory is the name of the run of mysqld that was read: the first in order. Empty when it has none.
func (f facts) memory() string {
	first := ""
	for name := range f.values[factMemory] {
		if first == "" || name < first {
			first = name
		}
	}
	return first
}

// nameMemory gives a run of mysqld its name. Empty when the server does not take it; the next observation tries again.
func nameMemory(ctx context.Context, s *conn.Session) string {
	name := uuid.NewString()
	if err := s.Change(ctx, "memory/name", "INSERT INTO performance_schema.setup_actors VALUES (?, '"+memoryActor+"', '%', 'NO', 'NO')", name); err != nil {
		return ""
	}
	return name
}

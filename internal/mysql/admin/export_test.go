package admin

import "github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"

// What the tests see of the package's inside.
const (
	MaxPassword    = maxPassword
	KeepBinaryLogs = keepBinaryLogs
	ApplyStep      = applyStep
)

var (
	ChangeSource  = changeSource
	StartsAtOther = startsAtOther
)

// Handle is what the member is reached by.
func (m *Member) Handle() *conn.Handle { return m.h }

package mysql

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
func (m *Member) Handle() *Handle { return m.h }

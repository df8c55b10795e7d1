package observe

import (
	"errors"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// TestCloneThatMayRunIsUnread: while it cannot be read either whether a CLONE runs, one may have begun since the server showed its last one.
func TestCloneThatMayRunIsUnread(t *testing.T) {
	o := mysql.Observation{ServerUUID: "a"}
	o.Run = 1
	missing := &driver.MySQLError{Number: mysql.ErNoSuchTable, Message: "Table 'performance_schema.clone_status' doesn't exist"}
	completed := &mysql.CloneProgress{State: mysql.CloneCompleted, Began: "1"}
	for name, row := range map[string]struct {
		shown   *mysql.CloneProgress
		runs    bool
		runsErr error
		want    string
	}{
		"never cloned, and none runs":    {nil, false, nil, ""},
		"never cloned, and one may run":  {nil, false, errors.New("no answer"), mysql.CloneUnread},
		"cloned, and none runs":          {completed, false, nil, mysql.CloneCompleted},
		"cloned, and one may run":        {completed, false, errors.New("no answer"), mysql.CloneUnread},
		"cloned, and one runs":           {completed, true, nil, mysql.CloneInProgress},
		"the one that ran does no more":  {&mysql.CloneProgress{State: mysql.CloneInProgress}, false, nil, mysql.CloneUnread},
		"the one that ran may still run": {&mysql.CloneProgress{State: mysql.CloneInProgress}, false, errors.New("no answer"), mysql.CloneUnread},
	} {
		var last lastClone
		last.keep(o, row.shown)
		state := ""
		if progress := last.refused(o, missing, row.runs, row.runsErr); progress != nil {
			state = progress.State
		}
		if state != row.want {
			t.Errorf("%s: %q, want %q", name, state, row.want)
		}
	}
}

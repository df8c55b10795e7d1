package pitr

import (
	"errors"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// TestAReplayNamesWhatTheDumpDoesNotCarry, where a transaction needs it, and says what to do.
func TestAReplayNamesWhatTheDumpDoesNotCarry(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY); CREATE TABLE mysql.mine (id INT PRIMARY KEY); CREATE USER ''@'10.1.2.3'; CREATE FUNCTION service_get_read_locks RETURNS INT SONAME 'locking_service.so'")
	c.dump(c.primary, "before")
	stop := c.archiver(t.TempDir(), nil)
	sql(t, c.primary, "INSERT INTO mysql.mine VALUES (1)")
	last := c.write(c.primary, 1)
	c.write(c.primary, 2)
	c.archived()
	stop()
	plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: last.at})
	must(t, err)
	to := c.server()
	const advice = ": restore to a point before that transaction, or from a dump that was taken after it"
	if err := c.restore(plan, to); !errors.Is(err, ErrReplay) || !strings.HasSuffix(err.Error(), "; the dump does not carry table mysql.mine"+advice) {
		t.Errorf("the replay ended with %v", err)
	}
	v, err := c.place(to, "nairobi_operator").Connect(t.Context())
	must(t, err)
	defer v.Close()
	session, err := v.OpenReplay(t.Context())
	must(t, err)
	defer session.Close()
	for statement, want := range map[string]string{
		"DROP USER ''@'10.1.2.3'":              "; the dump does not carry account ''@'10.1.2.3'" + advice,
		"DROP FUNCTION service_get_read_locks": "; the dump does not carry loadable function service_get_read_locks" + advice,
		"DROP TABLE mysql.mine":                "; the dump does not carry table mysql.mine" + advice,
		"DROP TABLE mysql.mine2":               "",
		"DROP USER ''@'10.1.2.33'":             "",
	} {
		err := session.Replay(t.Context(), statement)
		if !podclient.IsRefusal(err) || plan.leftOut.explain(err) != want {
			t.Errorf("%s: %v%s", statement, err, plan.leftOut.explain(err))
		}
	}
	if got := plan.leftOut.explain(errors.New("no answer about mysql.mine")); got != "" {
		t.Errorf("an error that is no answer of the server is explained by %s", got)
	}
}

package pitr

import "testing"

// ofAccounts are a REVOKE IF EXISTS of what was never granted, which changes nothing with partial_revokes and without, and statements that a server
// refuses to all accounts but root.
var ofAccounts = []string{
	"CREATE USER partly, stand, app; GRANT SELECT, INSERT ON *.* TO partly; REVOKE IF EXISTS UPDATE ON `sh_p`.* FROM partly; REVOKE IF EXISTS SELECT ON shop.* FROM stand, nobody IGNORE UNKNOWN USER; REVOKE IF EXISTS app FROM stand",
	"GRANT PROXY ON app TO partly WITH GRANT OPTION; GRANT PROXY ON app@localhost TO stand; GRANT PROXY ON app TO stand; REVOKE PROXY ON app FROM stand",
}

// TestAccountsOfAHistory are replayed as the source has them.
func TestAccountsOfAHistory(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.primary, "before")
	stop := c.archiver(t.TempDir(), nil)
	for _, statements := range ofAccounts {
		sql(t, c.primary, statements)
	}
	still := c.write(c.primary, 1)
	c.write(c.primary, 2)
	sql(t, c.primary, "SET GLOBAL partial_revokes = ON; REVOKE IF EXISTS INSERT ON shop.* FROM partly")
	last := c.write(c.primary, 3)
	c.write(c.primary, 4)
	c.archived()
	stop()
	for _, point := range []struct {
		at      mark
		partial string
	}{{still, "0"}, {last, "1"}} {
		plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: point.at.at})
		must(t, err)
		to := c.server()
		must(t, c.restore(plan, to))
		if got := sql(t, to, "SELECT @@GLOBAL.partial_revokes"); got != point.partial {
			t.Errorf("partial_revokes is %s instead of %s", got, point.partial)
		}
		asks := []string{
			"SHOW GRANTS FOR stand", "SHOW GRANTS FOR nairobi_operator", "SELECT User, Host, Proxied_host, Proxied_user, With_grant FROM mysql.proxies_priv ORDER BY 1, 2, 3, 4",
		}
		if point.partial == "1" {
			asks = append(asks, "SHOW GRANTS FOR partly")
		}
		for _, ask := range asks {
			if got, want := sql(t, to, ask), sql(t, c.primary, ask); got != want {
				t.Errorf("%s: replayed is\n%s\nof\n%s", ask, got, want)
			}
		}
	}
}

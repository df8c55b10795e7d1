package pitr

import (
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// ofAccounts are a REVOKE IF EXISTS of what was never granted, which changes nothing with partial_revokes and without, and statements that a server
// refuses to all accounts but root.
var ofAccounts = []string{
	"CREATE USER partly, stand, app; GRANT SELECT, INSERT ON *.* TO partly; REVOKE IF EXISTS UPDATE ON `sh_p`.* FROM partly; REVOKE IF EXISTS SELECT ON shop.* FROM stand, nobody IGNORE UNKNOWN USER; REVOKE IF EXISTS app FROM stand",
	"GRANT PROXY ON app TO partly WITH GRANT OPTION; GRANT PROXY ON app@localhost TO stand; GRANT PROXY ON app TO stand; REVOKE PROXY ON app FROM stand",
}

// events are as their owners have them: on, altered while they are on, off.
const events = "CREATE DEFINER = app EVENT shop.tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.diary VALUES (-1); SET sql_mode = 'ANSI_QUOTES', time_zone = '+05:30', collation_connection = latin1_german2_ci; " +
	"CREATE EVENT shop.later ON SCHEDULE AT '2030-01-01 00:00:00' DO INSERT INTO \"shop\".\"diary\" VALUES (-2); SET sql_mode = '', time_zone = '+00:00'; ALTER DEFINER = app EVENT shop.tick COMMENT 'x'; CREATE EVENT shop.never ON SCHEDULE EVERY 1 DAY DISABLE DO DO 1"

// TestAccountsAndEventsOfAHistory are replayed as the source has them, but for events, which are off as on a replica.
func TestAccountsAndEventsOfAHistory(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "SET GLOBAL event_scheduler = OFF; CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.primary, "before")
	stop := c.archiver(t.TempDir(), nil)
	for _, statements := range append(ofAccounts, events) {
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
			"SHOW CREATE EVENT shop.tick", "SHOW CREATE EVENT shop.later", "SHOW CREATE EVENT shop.never",
			"SELECT EVENT_NAME, DEFINER, EXECUTE_AT, STARTS, LAST_ALTERED FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'shop' ORDER BY 1",
		}
		if point.partial == "1" {
			asks = append(asks, "SHOW GRANTS FOR partly")
		}
		for _, ask := range asks {
			if got, want := sql(t, to, ask), strings.ReplaceAll(sql(t, c.primary, ask), " ENABLE ", " DISABLE ON REPLICA "); got != want {
				t.Errorf("%s: replayed is\n%s\nof\n%s", ask, got, want)
			}
		}
	}
}

// TestDefinersMadeForAWhile: a program whose definer is gone is altered under one that is made for it. No such account stays, not even one that
// an earlier attempt left when its pod died.
func TestDefinersMadeForAWhile(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "SET GLOBAL event_scheduler = OFF; CREATE DATABASE shop; CREATE USER gone, stays; CREATE DEFINER = gone EVENT shop.of_gone ON SCHEDULE EVERY 1 DAY DO DO 1; DROP USER gone")
	const enable, accounts = "SET sql_log_bin = 0; ALTER DEFINER = gone EVENT shop.of_gone ENABLE", "SELECT User, Host FROM mysql.user ORDER BY 1, 2"
	end := func() {
		t.Helper()
		v, err := c.place(c.primary, mysql.OperatorUser).Connect(t.Context())
		must(t, err)
		defer v.Close()
		must(t, v.EndReplay(t.Context()))
		if got := sql(t, c.primary, "SHOW CREATE EVENT shop.of_gone"); !strings.Contains(got, "DISABLE ON REPLICA") {
			t.Error(got)
		}
	}
	before := sql(t, c.primary, accounts)
	end()
	sql(t, c.primary, enable)
	sql(t, c.primary, "SET sql_log_bin = 0; CREATE USER gone ACCOUNT LOCK ATTRIBUTE '{\"nairobi_mysql_for_a_while\": true}'; GRANT ALL ON *.* TO gone")
	end()
	if after := sql(t, c.primary, accounts); after != before {
		t.Errorf("the accounts are\n%s\ninstead of\n%s", after, before)
	}
}

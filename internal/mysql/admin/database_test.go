package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestChangedPasswordLeavesTheOldOneForAWhile: clients that have not read the Secret again go on; then only the new one counts.
func TestChangedPasswordLeavesTheOldOneForAWhile(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	ensure := func(what, password string, retain time.Duration, want admin.DatabaseOutcome) {
		t.Helper()
		got, err := m[0].EnsureDatabase(ctx, admin.Database{Name: "shop", Owner: "shop", Password: password, Retain: retain})
		mysqltest.Must(t, err)
		if got.Changed != want.Changed || want.Retained-got.Retained > time.Minute || got.Retained > want.Retained {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	opens := func(what string, want map[string]bool) {
		t.Helper()
		for password, is := range want {
			if err := m[0].Handle().Login(ctx, "shop", password); (err == nil) != is {
				t.Errorf("%s: login with %s: %v", what, password, err)
			}
		}
	}
	const day = 24 * time.Hour
	ensure("made", "first", day, admin.DatabaseOutcome{Changed: true})
	ensure("changed", "second", day, admin.DatabaseOutcome{Changed: true, Retained: day})
	opens("changed", map[string]bool{"first": true, "second": true})
	ensure("looked at again", "second", day, admin.DatabaseOutcome{Retained: day})

	// Back to the password of before, which still logs in as the account's second one: it has to become the first again.
	ensure("changed back", "first", day, admin.DatabaseOutcome{Changed: true, Retained: day})
	ensure("looked at again", "first", 0, admin.DatabaseOutcome{Changed: true})
	opens("changed back, and the time of the second one over", map[string]bool{"first": true, "second": false})

	ensure("changed again", "third", day, admin.DatabaseOutcome{Changed: true, Retained: day})
	mysqltest.Exec(t, db, "UPDATE mysql.user SET password_last_changed = NOW() - INTERVAL 25 HOUR WHERE User = 'shop'")
	ensure("after a day", "third", day, admin.DatabaseOutcome{Changed: true})
	opens("after a day", map[string]bool{"first": false, "third": true})
	ensure("settled", "third", day, admin.DatabaseOutcome{})

	// An account whose password is empty has none to retain.
	mysqltest.Exec(t, db, "ALTER USER shop DISCARD OLD PASSWORD")
	mysqltest.Exec(t, db, "ALTER USER shop IDENTIFIED BY ''")
	ensure("emptied by somebody", "third", day, admin.DatabaseOutcome{Changed: true})

	ensure("changed because it leaked", "fourth", 0, admin.DatabaseOutcome{Changed: true})
	opens("changed because it leaked", map[string]bool{"third": false, "fourth": true})

	ensure("changed before the time is over", "fifth", day, admin.DatabaseOutcome{Changed: true, Retained: day})
	ensure("and no time is given any more", "sixth", 0, admin.DatabaseOutcome{Changed: true})
	opens("and no time is given any more", map[string]bool{"fourth": false, "fifth": false, "sixth": true})
}

// TestAnOwnerThatCannotLogInIsMended: its password expired, or somebody locked it, while no operator looked. What it had as second password stays that.
func TestAnOwnerThatCannotLogInIsMended(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "DROP USER IF EXISTS keeper")
	ensure := func(what, password string, changed bool) {
		t.Helper()
		out, err := m[0].EnsureDatabase(ctx, admin.Database{Name: "kept", Owner: "keeper", Password: password, Retain: time.Hour})
		mysqltest.Must(t, err)
		if out.Changed != changed {
			t.Errorf("%s: %+v", what, out)
		}
		mysqltest.Must(t, m[0].Handle().Login(ctx, "keeper", password))
	}
	ensure("made", "first", true)
	ensure("changed", "second", true)
	for what, statement := range map[string]string{
		"expired": "ALTER USER keeper PASSWORD EXPIRE",
		"locked":  "ALTER USER keeper ACCOUNT LOCK",
	} {
		m = w.Members(mysqltest.NewPool(t, nil)) // an operator that has not seen it log in before
		mysqltest.Exec(t, db, statement)
		if err := m[0].Handle().Login(ctx, "keeper", "second"); err == nil {
			t.Fatalf("%s, and it logs in", what)
		}
		ensure(what, "second", true)
		mysqltest.Must(t, m[0].Handle().Login(ctx, "keeper", "first"))
		ensure("after it was "+what, "second", false)
	}
	mysqltest.Exec(t, db, "SET GLOBAL default_password_lifetime = 1")
	defer mysqltest.Exec(t, db, "SET GLOBAL default_password_lifetime = DEFAULT")
	mysqltest.Exec(t, db, "UPDATE mysql.user SET password_last_changed = NOW() - INTERVAL 30 MINUTE - INTERVAL 2 DAY WHERE User = 'keeper'")
	mysqltest.Exec(t, db, "FLUSH PRIVILEGES")
	mysqltest.Must(t, m[0].Handle().Login(ctx, "keeper", "second"))
}

// TestAPasswordThatIsRefused is told apart from what passes: only another password helps.
func TestAPasswordThatIsRefused(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "DROP USER IF EXISTS historian")
	mysqltest.Exec(t, db, "SET GLOBAL password_history = 2")
	defer mysqltest.Exec(t, db, "SET GLOBAL password_history = DEFAULT")
	ensure := func(password string) error {
		_, err := m[0].EnsureDatabase(ctx, admin.Database{Name: "told", Owner: "historian", Password: password, Retain: 0})
		return err
	}
	mysqltest.Must(t, ensure("first-of-them"))
	mysqltest.Must(t, ensure("second-of-them"))
	err := ensure("first-of-them")
	mysqltest.WantError(t, err, mysql.ErrPasswordRefused)
	if strings.Contains(err.Error(), "first-of-them") {
		t.Errorf("the error shows the password: %v", err)
	}
	mysqltest.Must(t, ensure("third-of-them"))
}

// TestPasswordsThatNoClientCanUse: MySQL takes no password of more than 256 bytes, and what clients drop on the way is no part of one.
func TestPasswordsThatNoClientCanUse(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	ensure := func(password string) error {
		_, err := m[0].EnsureDatabase(ctx, admin.Database{Name: "shop", Owner: "shop", Password: password})
		return err
	}
	if _, err := mysqltest.Root(t, w.Servers[0]).ExecContext(ctx, "CREATE USER too_long IDENTIFIED BY '"+strings.Repeat("p", admin.MaxPassword+1)+"'"); !conn.IsServerError(err, 1396) {
		t.Errorf("MySQL says of a password of %d bytes: %v", admin.MaxPassword+1, err)
	}
	for name, password := range map[string]string{
		"too long": strings.Repeat("p", admin.MaxPassword+1), "too long in bytes": strings.Repeat("é", admin.MaxPassword/2) + "x",
		"a line break at its end": "secret\n", "a space at its end": "secret ", "a zero byte": "sec\x00ret", "a tabulator at its beginning": "\tsecret",
	} {
		err := ensure(password)
		mysqltest.WantError(t, err, mysql.ErrPasswordRefused)
		if strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
	}
	for _, password := range []string{strings.Repeat("p", admin.MaxPassword), strings.Repeat("é", admin.MaxPassword/2), `a 'b' "c" \d %s $e`, "パスワード", "sec\tret\x01"} {
		mysqltest.Must(t, ensure(password))
		mysqltest.Must(t, m[0].Handle().Login(ctx, "shop", password))
	}
}

// TestDatabaseInLowerCase: where MySQL writes the names of databases in lower case, what was granted is found again.
func TestDatabaseInLowerCase(t *testing.T) {
	w := mysqltest.TheWorld(t)
	s, err := w.Farm.Start(t.Context(), mysqld.Options{Settings: map[string]string{"lower_case_table_names": "1"}})
	mysqltest.Must(t, err)
	m := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity())
	mysqltest.Must(t, m.Promote(t.Context(), mysql.PromoteSpec{}))
	for _, changed := range []bool{true, false} {
		outcome, err := m.EnsureDatabase(t.Context(), admin.Database{Name: "Web_Shop", Owner: "shop", Password: "first"})
		mysqltest.Must(t, err)
		if outcome.Changed != changed {
			t.Errorf("changed: %t, want %t", outcome.Changed, changed)
		}
	}
	mysqltest.Must(t, w.Farm.Discard(s))
}

// TestAnAccountOfSomebodyElse: it keeps its password and stays locked, until a person hands it over. One whose password is known is the
// cluster's own, and so is one that its operator made.
func TestAnAccountOfSomebodyElse(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	account := func() string {
		return mysqltest.Value(t, db, "SELECT CONCAT(authentication_string, account_locked, COALESCE(User_attributes, '')) FROM mysql.user WHERE User = 'legacy' AND Host = '%'")
	}
	ensure := func(of admin.Database) error {
		m = w.Members(mysqltest.NewPool(t, nil))
		of.Name, of.Owner = "old_shop", "legacy"
		_, err := m[0].EnsureDatabase(ctx, of)
		return err
	}
	for _, statement := range []string{"DROP USER IF EXISTS legacy", "DROP DATABASE IF EXISTS old_shop", `CREATE USER legacy IDENTIFIED BY 'theirs' ACCOUNT LOCK ATTRIBUTE '{"team": "blue"}'`} {
		mysqltest.Exec(t, db, statement)
	}
	before := account()
	mysqltest.WantError(t, ensure(admin.Database{Password: "ours", Cluster: "a"}), mysql.ErrAccountNotOurs)
	if after := account(); after != before || mysqltest.Value(t, db, "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'old_shop'") != "0" {
		t.Errorf("%s, and it was %s", after, before)
	}
	mysqltest.Must(t, ensure(admin.Database{Password: "ours", Cluster: "a", TakeOver: true}))
	mysqltest.Must(t, m[0].Handle().Login(ctx, "legacy", "ours"))
	if !strings.Contains(account(), `"team": "blue"`) {
		t.Errorf("its other attributes are gone: %s", account())
	}
	mysqltest.Must(t, ensure(admin.Database{Password: "changed", Cluster: "a"}))
	mysqltest.WantError(t, ensure(admin.Database{Password: "again", Cluster: "b"}), mysql.ErrAccountNotOurs)
	mysqltest.Must(t, ensure(admin.Database{Password: "changed", Cluster: "b"}))
	mysqltest.Must(t, ensure(admin.Database{Password: "again", Cluster: "b"}))

	mysqltest.Exec(t, db, "DROP USER legacy")
	mysqltest.Must(t, ensure(admin.Database{Password: "made", Cluster: "c"}))
	mysqltest.Must(t, ensure(admin.Database{Password: "changed", Cluster: "c"}))
}

// TestPartialRevokes: with it MySQL takes names in privileges literally, and without it as patterns. The owner reaches the database, and no
// other whose name the pattern would match, whichever is in force.
func TestPartialRevokes(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	defer mysqltest.Exec(t, db, "SET GLOBAL partial_revokes = OFF")
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shopX1")
	literally := false
	ensure := func(changed bool) {
		t.Helper()
		out, err := m[0].EnsureDatabase(ctx, admin.Database{Name: "shop_1", Owner: "partial", Password: "first", GrantedLiterally: literally})
		mysqltest.Must(t, err)
		if out.Changed != changed {
			t.Errorf("changed: %t, want %t", out.Changed, changed)
		}
		literally = out.Literal
		mysqltest.Exec(t, db, "ALTER USER partial REQUIRE NONE") // it comes by the socket
		owner := mysqltest.Local(t, w.Servers[0], "partial", "first")
		var reached string
		mysqltest.Must(t, owner.QueryRowContext(ctx, "SELECT COALESCE(GROUP_CONCAT(SCHEMA_NAME), '') FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE 'shop%1'").Scan(&reached))
		if reached != "shop_1" {
			t.Errorf("the owner reaches %q", reached)
		}
	}
	ensure(true)
	for _, value := range []string{"ON", "OFF", "ON"} {
		mysqltest.Exec(t, db, "SET GLOBAL partial_revokes = "+value)
		ensure(true)
		ensure(false)
	}
}

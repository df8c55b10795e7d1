package settings_test

import (
	"bufio"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// shown asks a server about its variables: name, scope, type, smallest and largest value.
const shown = `SELECT VARIABLE_NAME, VARIABLE_SCOPE, DATA_TYPE, COALESCE(MIN_VALUE, ''), COALESCE(MAX_VALUE, '')
FROM performance_schema.variables_metadata ORDER BY VARIABLE_NAME`

// fact is a row of the table as a server shows it.
type fact struct {
	name, scope, kind, lowest, highest string
	option, variable                   bool
	dynamic, persistable               bool
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (f fact) String() string {
	return strings.Join([]string{f.name, yes(f.variable), yes(f.option), f.scope, yes(f.dynamic), yes(f.persistable), f.kind, f.lowest, f.highest}, "\t")
}

// TestTableIsTheServers compares the table of the series that the tests' server is of with that server.
func TestTableIsTheServers(t *testing.T) {
	ctx := t.Context()
	farm, err := mysqld.NewFarm(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer farm.Close()
	s, err := farm.Start(ctx, mysqld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, s)
	var version string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	facts := map[string]fact{}
	variables(t, db, facts)
	options(t, s, facts)
	var lines []string
	for _, f := range facts {
		lines = append(lines, f.String())
	}
	slices.Sort(lines)
	parts := strings.Split(version, ".")
	path := filepath.Join("data", parts[0]+"."+parts[1]+".tsv")
	text := "# MySQL " + version + "\nname\tvariable\toption\tscope\tdynamic\tpersisted\ttype\tmin\tmax\n" + strings.Join(lines, "\n") + "\n"
	if *settings.Update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	generated, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := func(text string) string { _, rows, _ := strings.Cut(text, "\n"); return rows } // without the version
	if rows(string(generated)) != rows(text) {
		t.Errorf("%s is not what the server says: run this test with -update and look at the difference", path)
	}
	inForce(t, db)
}

// inForce compares the values that are accepted of an operator's setting with those that a member has.
func inForce(t *testing.T, db *sql.DB) {
	t.Helper()
	found := 0
	for name := range settings.InForceValues() {
		var value string
		err := db.QueryRowContext(t.Context(), "SELECT VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME = ?", name).Scan(&value)
		switch {
		case errors.Is(err, sql.ErrNoRows): // of another series
		case err != nil:
			t.Fatal(err)
		case !settings.InForce(name, value):
			t.Errorf("%s is %s on a member, which is not among the values that are accepted: %q", name, value, settings.InForceValues()[name])
		default:
			found++
		}
	}
	if found < len(settings.InForceValues())-3 {
		t.Errorf("the server has %d of %d variables", found, len(settings.InForceValues()))
	}
}

func variables(t *testing.T, db *sql.DB, facts map[string]fact) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), shown)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		f := fact{variable: true}
		if err := rows.Scan(&f.name, &f.scope, &f.kind, &f.lowest, &f.highest); err != nil {
			t.Fatal(err)
		}
		facts[f.name] = f
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for name, f := range facts {
		if f.scope != "SESSION_ONLY" {
			f.dynamic = takes(t, db, "SET GLOBAL "+name+" = @@GLOBAL."+name)
			f.persistable = takes(t, db, "SET PERSIST_ONLY "+name+" = @@GLOBAL."+name)
		}
		f.scope, f.kind = strings.ToLower(f.scope), strings.ToLower(f.kind)
		facts[name] = f
	}
}

// takes says whether a server lets a variable be set so at all. That it refuses the value, which for some variables it does not take
// back, is no matter.
func takes(t *testing.T, db *sql.DB, statement string) bool {
	t.Helper()
	const readOnly, notGlobal, unknown = 1238, 1228, 1193
	_, err := db.ExecContext(t.Context(), statement)
	var refused *driver.MySQLError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%s: %v", statement, err)
	}
	return err == nil || !slices.Contains([]uint16{readOnly, notGlobal, unknown}, refused.Number)
}

func options(t *testing.T, s *mysqld.Server, facts map[string]fact) {
	t.Helper()
	out, err := s.Program(t.Context(), "/usr/sbin/mysqld", "--no-defaults", "--verbose", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(out), "\n------")
	for scanner := bufio.NewScanner(strings.NewReader(list)); scanner.Scan() && scanner.Text() != ""; {
		name, _, _ := strings.Cut(scanner.Text(), " ")
		if strings.HasPrefix(name, "-") {
			continue
		}
		name = strings.ReplaceAll(name, "-", "_")
		f := facts[name]
		f.name, f.option = name, true
		facts[name] = f
	}
}

// open is a session as root@localhost.
func open(t *testing.T, s *mysqld.Server) *sql.DB {
	t.Helper()
	c := driver.NewConfig()
	c.User, c.Net, c.Addr, c.Logger = "root", "unix", s.Socket(), &driver.NopLogger{}
	connector, err := driver.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

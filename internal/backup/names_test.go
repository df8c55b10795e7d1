package backup

import (
	"errors"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestCheckNames: a server with another lower_case_table_names takes what it does not change.
func TestCheckNames(t *testing.T) {
	program := func(kind podclient.ProgramKind, name string) definitions {
		return definitions{Definitions: podclient.Definitions{Programs: []podclient.Program{{Kind: kind, Database: "d", Name: name}}}}
	}
	for name, row := range map[string]struct {
		of             definitions
		source, target string
		refused        string
	}{
		"the same":                         {definitions{Tables: []tableDefinition{{"d", "T", ""}}}, "0", "0", ""},
		"nobody knows":                     {definitions{Tables: []tableDefinition{{"d", "T", ""}}}, "", "1", ""},
		"small letters":                    {definitions{Tables: []tableDefinition{{"d", "t", ""}}}, "0", "1", ""},
		"small letters, from the other":    {definitions{Tables: []tableDefinition{{"d", "t", ""}}}, "1", "0", ""},
		"a table":                          {definitions{Tables: []tableDefinition{{"d", "Tä", ""}}}, "0", "1", "table d.Tä"},
		"a database":                       {definitions{Definitions: podclient.Definitions{Databases: []podclient.DatabaseOptions{{Name: "D"}}}}, "0", "1", "database D"},
		"a view":                           {program(podclient.KindView, "V"), "0", "1", "view d.V"},
		"a trigger":                        {program(podclient.KindTrigger, "T"), "0", "1", "trigger d.T"},
		"a routine":                        {program(podclient.KindProcedure, "P"), "0", "1", ""},
		"a routine, from the other":        {program(podclient.KindProcedure, "p"), "1", "0", "procedure d.p"},
		"a view and a library, from there": {program(podclient.KindView, "v"), "1", "0", ""},
	} {
		err := row.of.checkNames(row.source, row.target)
		if (err == nil) != (row.refused == "") || err != nil && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), row.refused)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLettersOfNames: a backup goes into a server with another lower_case_table_names while all names fit, and is refused with nothing
// loaded otherwise.
func TestLettersOfNames(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, nil)
	into := func() (*mysqld.Server, error) {
		o := w.options(t, from)
		_, err := patiently(t, o)
		must(t, err)
		target, err := w.farm.Start(t.Context(), mysqld.Options{Settings: map[string]string{"lower_case_table_names": "1"}})
		must(t, err)
		t.Cleanup(func() { must(t, w.farm.Discard(target)) })
		_, err = Restore(t.Context(), w.restore(t, o, target))
		return target, err
	}
	sql(t, from, "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY); INSERT INTO shop.orders VALUES (1)")
	target, err := into()
	must(t, err)
	if got := sql(t, target, "SELECT id FROM shop.Orders"); got != "1" {
		t.Errorf("restored is %q", got)
	}
	sql(t, from, "CREATE TABLE shop.Orders (id INT PRIMARY KEY)")
	if target, err = into(); !errors.Is(err, ErrSettings) {
		t.Errorf("it ended with %v", err)
	}
	if got := sql(t, target, "SHOW DATABASES LIKE 'shop'"); got != "" {
		t.Errorf("it has %s", got)
	}
}

// TestCheckGrants: what partial_revokes changes in privileges on databases is refused, and nothing else.
func TestCheckGrants(t *testing.T) {
	literal, pattern, revoke := "GRANT SELECT ON `app_1`.* TO `a`@`%`", "GRANT SELECT ON `app\\_1`.* TO `a`@`%`", "REVOKE SELECT ON `mysql`.* FROM `a`@`%`"
	for name, row := range map[string]struct {
		accounts       []string
		source, target string
		refused        string
	}{
		"the same":                       {[]string{literal}, "1", "1", ""},
		"nobody knows":                   {[]string{literal}, "", "0", ""},
		"a name that becomes a pattern":  {[]string{literal}, "1", "0", "`app_1`"},
		"a pattern that becomes a name":  {[]string{pattern}, "0", "1", "`app\\_1`"},
		"a percent sign in awkward name": {[]string{"GRANT SELECT ON `a``%`.* TO `a`@`%`"}, "0", "1", "`a``%`"},
		"a partial revoke":               {[]string{literal, revoke}, "1", "0", ""},
		"privileges on other things":     {[]string{"GRANT SELECT ON *.* TO `a_`@`%`", "GRANT SELECT ON `app`.* TO `a_b`@`%`", "GRANT SELECT ON `a_b`.`t` TO `a`@`%`", "GRANT `r_1`@`%` TO `a`@`%`"}, "1", "0", ""},
	} {
		err := checkGrants(row.accounts, row.source, row.target)
		if (err == nil) != (row.refused == "") || err != nil && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), row.refused)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrivilegesKeepTheirMeaning: a server without partial_revokes would give privileges on other databases too. It is refused with nothing loaded.
func TestPrivilegesKeepTheirMeaning(t *testing.T) {
	w := theWorld(t)
	from := w.source(t, map[string]string{"partial_revokes": "ON"})
	sql(t, from, "CREATE DATABASE app_1; CREATE USER a; GRANT SELECT ON app_1.* TO a")
	o := w.options(t, from)
	_, err := patiently(t, o)
	must(t, err)
	target := w.fresh(t)
	if _, err = Restore(t.Context(), w.restore(t, o, target)); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), `set partial_revokes: "ON"`) {
		t.Errorf("it ended with %v", err)
	}
	if got := sql(t, target, "SHOW DATABASES LIKE 'app%'"); got != "" {
		t.Errorf("it has %s", got)
	}
	sql(t, target, "SET GLOBAL partial_revokes = ON")
	_, err = Restore(t.Context(), w.restore(t, o, target))
	must(t, err)
}

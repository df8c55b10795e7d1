package backup

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrSettings: the server has a setting by which it understands the backup in another way than the one that was dumped.
var ErrSettings = errors.New("the backup is of a server with other settings")

// checkNames refuses a backup with names that a server would change, or would not find by other letters any more: MySQL fixes
// lower_case_table_names when its data are made.
func (d definitions) checkNames(source, target string) error {
	if source == "" || source == target { // older backups do not say it
		return nil
	}
	name, found := d.unfit(target)
	if !found {
		return nil
	}
	return fmt.Errorf("%w: lower_case_table_names was %s there and is %s here, which does not fit %s; make the new cluster with lower_case_table_names: %q in spec.mysqld", ErrSettings, source, target, name, source)
}

// unfit is the first thing that a server with another lower_case_table_names has not as it was.
func (d definitions) unfit(target string) (what string, found bool) {
	capital := func(name string) bool { return name != strings.ToLower(name) }
	for _, one := range d.Databases {
		if capital(one.Name) {
			return "database " + one.Name, true
		}
	}
	for _, t := range d.Tables {
		if capital(t.Table) {
			return "table " + t.Database + "." + t.Table, true
		}
	}
	for _, p := range d.Programs {
		switch p.Kind {
		case podclient.KindView, podclient.KindTrigger:
			if capital(p.Name) {
				return p.Title(), true
			}
		case podclient.KindLibrary:
			continue
		case podclient.KindFunction, podclient.KindProcedure, podclient.KindEvent:
		}
		if target == "0" && p.Kind != podclient.KindView { // whose names the server has written itself
			return p.Title() + ", whose statements may write names in any letters", true
		}
	}
	return "", false
}

// wildcardGrant is a privilege on a database whose name is a pattern unless partial_revokes is ON.
var wildcardGrant = regexp.MustCompile("^GRANT .* ON (`(?:[^`]|``)*[_%](?:[^`]|``)*`)\\.\\* TO ")

// checkGrants refuses accounts with privileges on databases that a server would understand in another way: with partial_revokes the names of
// these are names, without it they are patterns.
func checkGrants(accounts []string, source, target string) error {
	if source == "" || source == target { // older backups do not say it
		return nil
	}
	isRevoke := func(s string) bool { return strings.HasPrefix(s, "REVOKE ") }
	if source == "1" && slices.ContainsFunc(accounts, isRevoke) {
		return nil // the load switches it on
	}
	for _, statement := range accounts {
		if found := wildcardGrant.FindStringSubmatch(statement); found != nil {
			value := map[string]string{"0": "OFF", "1": "ON"}[source]
			return fmt.Errorf("%w: partial_revokes was %s there, and makes another database of %s in a privilege here; set partial_revokes: %q in spec.mysqld of the new cluster", ErrSettings, value, found[1], value)
		}
	}
	return nil
}

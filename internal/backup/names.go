package backup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrNames: the server treats names of databases and tables in another way than the one that was dumped.
var ErrNames = errors.New("the backup is of a server with another lower_case_table_names")

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
	return fmt.Errorf("%w: it had %s there and has %s here, which does not fit %s; make the new cluster with lower_case_table_names: %q in spec.mysqld", ErrNames, source, target, name, source)
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

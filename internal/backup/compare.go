package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrDiffers: what was restored is not what the manifest says.
var ErrDiffers = errors.New("what was restored is not what was backed up")

// ErrRejected is an ErrLoad that says something of the backup: a server rejects a statement of it, and will do so again.
var ErrRejected = errors.New("the server rejects a statement of the backup")

// Compared is how many tables' rows, contents of tables, definitions and accounts were compared.
type Compared struct{ Tables, Checksums, Definitions, Accounts int }

// Compare holds a server against a manifest: the GTIDs, the rows of every table, and the contents of the samples where
// both servers are of one series. Its error wraps ErrDiffers.
func Compare(ctx context.Context, v *podclient.Visit, m Manifest) (Compared, error) {
	var done Compared
	state, err := v.State(ctx)
	if err != nil {
		return done, err
	}
	want, err := gtid.Parse(m.GTIDSet)
	if err != nil {
		return done, fmt.Errorf("%w: its GTID set: %w", ErrCorrupt, err)
	}
	have, err := gtid.Parse(state.Executed)
	if err != nil {
		return done, err
	}
	if !have.Equal(want) {
		return done, fmt.Errorf("%w: it has the GTIDs %s instead of %s", ErrDiffers, have, want)
	}
	for _, t := range m.Tables {
		rows, err := v.Count(ctx, podclient.Table{Database: t.Database, Name: t.Table})
		if err != nil {
			return done, fmt.Errorf("%w: count %s.%s: %w", ErrDiffers, t.Database, t.Table, err)
		}
		if rows != t.Rows {
			return done, fmt.Errorf("%w: %s.%s has %d rows instead of %d", ErrDiffers, t.Database, t.Table, rows, t.Rows)
		}
		done.Tables++
	}
	if !mysql.SameSeries(m.Version, state.Version) {
		return done, nil
	}
	for _, s := range m.Samples {
		if s.Checksum == nil {
			continue
		}
		sum, err := v.Checksum(ctx, podclient.Table{Database: s.Database, Name: s.Table})
		if err != nil {
			return done, fmt.Errorf("%w: read %s.%s: %w", ErrDiffers, s.Database, s.Table, err)
		}
		if sum != *s.Checksum {
			return done, fmt.Errorf("%w: the contents of %s.%s are others", ErrDiffers, s.Database, s.Table)
		}
		done.Checksums++
	}
	return done, nil
}

// differ collects what differs between a backup and the server that it was restored into. What was left out differs.
type differ struct {
	left        map[string]bool
	differences []string
	compared    int
}

// differencesShown bounds how many differences an error names.
const differencesShown = 10

func newDiffer(left ...podclient.LeftOut) *differ {
	d := &differ{left: map[string]bool{}}
	for _, l := range left {
		d.left[l.What] = true
	}
	return d
}

func (d *differ) err() error {
	n := len(d.differences)
	if n == 0 {
		return nil
	}
	shown := strings.Join(d.differences[:min(n, differencesShown)], "; ")
	return fmt.Errorf("%w: %d definitions are others: %s", ErrDiffers, n, shown)
}

// same compares things by their names.
func same[T any](d *differ, want, have []T, name func(T) string) {
	found := map[string]T{}
	for _, one := range have {
		found[name(one)] = one
	}
	for _, one := range want {
		title := name(one)
		is, there := found[title]
		delete(found, title)
		d.compared++
		switch {
		case d.left[title]:
		case !there:
			d.differences = append(d.differences, title+" is missing")
		case !reflect.DeepEqual(one, is):
			d.differences = append(d.differences, title+" is another")
		}
	}
	for _, title := range slices.Sorted(maps.Keys(found)) {
		d.differences = append(d.differences, title+" was not in the backup")
	}
}

// definitions compares what Definitions reads of both servers.
func (d *differ) definitions(want, have podclient.Definitions) {
	if want.BuiltInReferenceSystems != "" {
		have.ReferenceSystems = have.OwnReferenceSystems() // the others are the new server's
	}
	same(d, want.ReferenceSystems, have.ReferenceSystems, func(r podclient.ReferenceSystem) string { return fmt.Sprintf("spatial reference system %d", r.ID) })
	same(d, relative(want.Tablespaces), relative(have.Tablespaces), func(t podclient.Tablespace) string { return "tablespace " + t.Name })
	brought := func(r podclient.SystemRows) bool {
		return !slices.ContainsFunc(want.SystemRows, func(w podclient.SystemRows) bool { return w.Table == r.Table })
	}
	same(d, want.SystemRows, slices.DeleteFunc(slices.Clone(have.SystemRows), brought), podclient.SystemRows.Title)
	same(d, writable(want.Databases), writable(have.Databases), func(o podclient.DatabaseOptions) string { return "database " + o.Name })
	same(d, made(want.Programs), made(have.Programs), podclient.Program.Title)
}

// writable leaves out which databases are read-only: they become that in the end. The operator's own is made by every restore.
func writable(databases []podclient.DatabaseOptions) []podclient.DatabaseOptions {
	all := slices.DeleteFunc(slices.Clone(databases), func(o podclient.DatabaseOptions) bool { return o.Name == ownDatabase })
	for i := range all {
		all[i].ReadOnly, all[i].Definition = false, strings.TrimSuffix(all[i].Definition, " /* READ ONLY = 1 */")
	}
	return all
}

// relative leaves out where the files are: one outside of the data directory is restored inside of it.
func relative(tablespaces []podclient.Tablespace) []podclient.Tablespace {
	all := slices.Clone(tablespaces)
	for i := range all {
		all[i].File = ""
	}
	return all
}

// made leaves out of programs what is not part of how they are made.
func made(programs []podclient.Program) []podclient.Program {
	all := slices.Clone(programs)
	for i := range all {
		all[i].AlteredAt, all[i].Broken = 0, ""
	}
	return all
}

// compareDefinitions holds a server's definitions against the backup's, and returns how many.
func compareDefinitions(ctx context.Context, v *podclient.Visit, want definitions, named, left []podclient.LeftOut) (int, error) {
	have, err := v.Inventory().Definitions(ctx)
	if err != nil {
		return 0, err
	}
	d := newDiffer(left...)
	d.definitions(want.Definitions, have)
	sums := map[podclient.Table]string{}
	var tables []podclient.Table
	for _, t := range want.Tables {
		substituted := fmt.Sprintf("table %s.%s (", t.Database, t.Table)
		if slices.ContainsFunc(named, func(l podclient.LeftOut) bool { return strings.HasPrefix(l.What, substituted) }) {
			continue
		}
		table := podclient.Table{Database: t.Database, Name: t.Table}
		sums[table], tables = t.Sum, append(tables, table)
	}
	err = v.Inventory().ShowTables(ctx, tables, func(t podclient.Table, create string, err error) error {
		if err != nil {
			return fmt.Errorf("%w: read how %s.%s is made: %w", ErrDiffers, t.Database, t.Name, err)
		}
		if d.compared++; definitionSum(create) != sums[t] && quotedSum(create) != sums[t] {
			d.differences = append(d.differences, fmt.Sprintf("table %s.%s is another", t.Database, t.Name))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return d.compared, d.err()
}

// compareAccounts holds a server's accounts against the backup's, and returns how many.
func compareAccounts(ctx context.Context, v *podclient.Visit, want []string, left []podclient.LeftOut) (int, error) {
	have, err := v.Accounts(ctx)
	if err != nil {
		return 0, err
	}
	d := differ{differences: podclient.AccountDifferences(want, have, left)}
	return podclient.CountAccounts(want), d.err()
}

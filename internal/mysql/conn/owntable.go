package conn

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// OwnTable is a table of the operator's own database, as this release makes it.
//
// Several releases write to the same table. So a column that a release adds accepts NULL or has a default, and no release needs a column
// of a later one: see optional.
type OwnTable struct {
	// Name is the table's name in the database.
	Name string
	// Columns defines its columns, its primary key and its constraints, as CREATE TABLE takes them. MySQL gives a constraint without a name
	// one of the table's, which a database has once, and another one when somebody renames the table.
	Columns string
	// Kept follows the table's name in the SELECT of the rows that Restore keeps. Without it, Restore keeps none.
	Kept string
	// Missing has SQL for the values of columns that somebody dropped. The rows of a table that lacks another column are of no use.
	Missing map[string]string
}

// Heartbeat is the table that the prober writes to. Its next write makes the row.
var Heartbeat = OwnTable{
	Name:    "heartbeat",
	Columns: "id TINYINT UNSIGNED NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, CHECK (id = 1)",
}

const (
	// ownOptions name the character set: the server's default is the users' to choose.
	ownOptions = " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
	// The endings of the names of the table that is to take the place of a changed one, and of the changed one after that.
	restoring, replaced = "_restoring", "_replaced"
	// ownPattern is the name of a temporary table.
	ownPattern = "pattern"
)

var (
	// checkName matches how SHOW CREATE TABLE begins the line of a CHECK constraint, whose name says nothing.
	checkName = regexp.MustCompile("^CONSTRAINT `(?:[^`]|``)*` CHECK ")
	// ofDefaults matches what SHOW CREATE TABLE prints that comes from the defaults of the server or the database, which are the users' to
	// choose: whether the table is encrypted, and character sets. Each of them can write what the operator does.
	ofDefaults = regexp.MustCompile(`(?: /\*!\d+)? ENCRYPTION='\w*'(?: \*/)?|(?: DEFAULT)? (?:CHARSET=|CHARACTER SET )\w+| COLLATE[= ]\w+`)
)

// plainLine is a line of SHOW CREATE TABLE without what makes no difference.
func plainLine(line string) string {
	return ofDefaults.ReplaceAllString(checkName.ReplaceAllString(line, "CHECK "), "")
}

// HoldsNothing says whether the error of a SELECT means that an own table is gone, or something else has its name that has no such rows.
func HoldsNothing(err error) bool {
	return IsServerError(err, mysql.ErNoSuchTable, mysql.ErBadDB, mysql.ErBadField, mysql.ErViewInvalid)
}

// Restore makes the table, or makes it again as it was when somebody changed it. It compares the whole definition with the one that the
// server makes of ours. A table that differs is replaced at once by a new one with the same rows: whoever reads it, here or on a replica,
// finds them at any time. None of the statements that reach the binary log depends on how the table was changed, because a replica may
// have it as it was. They do reach it: a replica applies no row to a table that only its source has restored. A table that nobody changed
// stays as it is.
//
// Call it for an error of a write only when that RefusesForGood: other errors say nothing about the table.
func (t OwnTable) Restore(ctx context.Context, s *Session) error {
	if err := reclaimDatabase(ctx, s); err != nil {
		return err
	}
	if err := t.restore(ctx, s); err != nil {
		return fmt.Errorf("restore the table %s: %w", ownName(t.Name), err)
	}
	return nil
}

func (t OwnTable) restore(ctx context.Context, s *Session) error {
	kind, err := ownKind(ctx, s, t.Name)
	if err != nil {
		return err
	}
	if kind == "" {
		return s.Change(ctx, "own/create-table", "CREATE TABLE IF NOT EXISTS "+ownName(t.Name)+t.body())
	}
	wanted, err := t.wanted(ctx, s)
	if err != nil {
		return err
	}
	found, err := readDefinition(ctx, s, t.Name, kind)
	if err != nil || found.same(wanted) {
		return err
	}
	return t.replace(ctx, s, found, wanted)
}

// replace puts a new table in the place of one that differs. A copy of the rows is committed and acknowledged before that.
func (t OwnTable) replace(ctx context.Context, s *Session, found, wanted definition) error {
	var more []string
	added := found.added(wanted)
	for _, name := range added {
		more = append(more, found.columns[name].line)
	}
	name, next, former := ownName(t.Name), ownName(t.Name+restoring), ownName(t.Name+replaced)
	steps := append(dropOwn(next), dropOwn(former)...) // of an attempt that was cut off
	steps = append(steps, ownStep{"own/create-table", "CREATE TABLE " + next + t.body(more...)})
	if columns, values := t.keptColumns(found, wanted, added); t.Kept != "" && len(columns) > 0 {
		steps = append(steps, ownStep{"own/keep-rows",
			"REPLACE INTO " + next + " (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", ") + " FROM " + name + " " + t.Kept})
	}
	steps = append(steps, ownStep{"own/replace-table", "RENAME TABLE " + name + " TO " + former + ", " + next + " TO " + name})
	for _, step := range append(steps, dropOwn(former)...) {
		if err := refuseUnacknowledged(ctx, s); err != nil {
			return err
		}
		if err := s.Change(ctx, step.op, step.query); err != nil {
			return err
		}
	}
	return nil
}

// keptColumns are the columns of rows that are kept, and SQL for their values. There are none when no row is of use.
func (t OwnTable) keptColumns(found, wanted definition, added []string) (columns, values []string) {
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(wanted.columns)), added) {
		_, is := found.columns[name]
		value, known := t.Missing[name]
		switch {
		case is:
			value = QuoteName(name)
		case known:
		case wanted.columns[name].optional:
			continue
		default:
			return nil, nil
		}
		columns, values = append(columns, QuoteName(name)), append(values, value)
	}
	return columns, values
}

// body is what follows the name in CREATE TABLE; more are the definitions of columns beside ours.
func (t OwnTable) body(more ...string) string {
	return " (" + strings.Join(append([]string{t.Columns}, more...), ", ") + ")" + ownOptions
}

// wanted is the definition that this server makes of ours, read from a temporary table, which the binary log does not take.
func (t OwnTable) wanted(ctx context.Context, s *Session) (wanted definition, err error) {
	if err := s.Change(ctx, "own/create-pattern", "CREATE TEMPORARY TABLE "+ownName(ownPattern)+t.body()); err != nil {
		return definition{}, err
	}
	wanted, err = readDefinition(ctx, s, ownPattern, baseTable)
	if e := s.Change(ctx, "own/drop-pattern", "DROP TEMPORARY TABLE "+ownName(ownPattern)); err == nil {
		err = e
	}
	return wanted, err
}

// definition is that of a table: its columns by their names, and the other lines that SHOW CREATE TABLE prints, in order. Of a view it has
// only the names of the columns.
type definition struct {
	kind    string
	columns map[string]column
	other   []string
}

// column is one of a table. A release that does not know an optional column writes rows all the same.
type column struct {
	line     string
	optional bool
}

// readDefinition reads that of a table or a view in the operator's database.
func readDefinition(ctx context.Context, s *Session, name, kind string) (definition, error) {
	found := definition{kind: kind, columns: map[string]column{}}
	var fields []columnField
	err := s.Rows(ctx, "SHOW COLUMNS FROM "+ownName(name), nil,
		Append(&fields, func(f *columnField) []any { return []any{&f.name, &f.kind, &f.null, &f.key, &f.value, &f.extra} }))
	if HoldsNothing(err) {
		return found, nil
	}
	if err != nil {
		return definition{}, err
	}
	lines := map[string]string{}
	if kind == baseTable {
		var printed string
		if err := s.Row(ctx, "SHOW CREATE TABLE "+ownName(name), nil, new(string), &printed); err != nil {
			return definition{}, err
		}
		for _, line := range strings.Split(printed, "\n")[1:] {
			line = strings.TrimSuffix(strings.TrimSpace(line), ",")
			if column, is := columnOf(line); is {
				lines[column] = line
			} else {
				found.other = append(found.other, plainLine(line))
			}
		}
		slices.Sort(found.other)
	}
	for _, f := range fields {
		found.columns[f.name] = column{line: lines[f.name], optional: f.optional()}
	}
	return found, nil
}

// columnField is what SHOW COLUMNS prints of a column.
type columnField struct {
	name, kind, null  string
	key, value, extra sql.NullString
}

// optional says whether a row may leave the column out, whatever the others have. A default is an expression where extra has
// DEFAULT_GENERATED, and names of other columns are quoted there.
func (f columnField) optional() bool {
	extra := f.extra.String
	computed := strings.Contains(extra, "VIRTUAL GENERATED") || strings.Contains(extra, "STORED GENERATED") || strings.Contains(extra, "auto_increment")
	depends := strings.Contains(extra, "DEFAULT_GENERATED") && strings.Contains(f.value.String, "`")
	return !computed && !depends && (f.null == "YES" || f.value.Valid)
}

// columnOf returns the name of the column that a line of SHOW CREATE TABLE defines: it alone begins with a name.
func columnOf(line string) (name string, is bool) {
	if !strings.HasPrefix(line, "`") {
		return "", false
	}
	name, _, is = strings.Cut(strings.ReplaceAll(line[1:], "``", "\x00"), "`")
	return strings.ReplaceAll(name, "\x00", "`"), is
}

// same says whether two tables differ at most in optional columns that one of them lacks.
func (d definition) same(other definition) bool {
	return d.kind == other.kind && slices.Equal(d.other, other.other) && d.fits(other) && other.fits(d)
}

// fits says whether each column is the same in the other table, or is missing there and optional.
func (d definition) fits(other definition) bool {
	for name, c := range d.columns {
		there, is := other.columns[name]
		if is && (plainLine(there.line) != plainLine(c.line) || there.optional != c.optional) || !is && !c.optional {
			return false
		}
	}
	return true
}

// added are the columns of a table that a later release may have added to it.
func (d definition) added(wanted definition) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(d.columns)) {
		if _, is := wanted.columns[name]; !is && d.columns[name].optional && d.columns[name].line != "" {
			names = append(names, name)
		}
	}
	return names
}

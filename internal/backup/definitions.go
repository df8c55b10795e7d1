package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrMoved: the server was changed, so that what was read does not belong together. Another dump helps.
var ErrMoved = errors.New("what was dumped is not of one moment")

// definitions are what a backup holds beside the dump and the accounts.
type definitions struct {
	podclient.Definitions
	// Tables are the tables as the dump makes them.
	Tables []tableDefinition `json:"tables"`
}

// tableDefinition is a checksum of what makes a table.
type tableDefinition struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	Sum      string `json:"sum"`
}

// tableSums are checksums of what SHOW CREATE TABLE prints of tables; empty of a table that is locked.
type tableSums map[podclient.Table]string

// sumTables reads how tables are made, but for those that are gone.
func sumTables(ctx context.Context, v *podclient.Visit, tables []podclient.Table) (tableSums, error) {
	all := tableSums{}
	err := v.Inventory().ShowTables(ctx, tables, func(t podclient.Table, create string, err error) error {
		switch {
		case errors.Is(err, podclient.ErrTableGone):
			return nil
		case err != nil && !errors.Is(err, podclient.ErrTooLong):
			return fmt.Errorf("read how %s.%s is made: %w", t.Database, t.Name, err)
		}
		sum := ""
		if err == nil {
			sum = definitionSum(create)
		}
		all[podclient.Table{Database: t.Database, Name: t.Name}] = sum
		return nil
	})
	return all, err
}

// look reads how the tables of the moment are made, which no snapshot shows: they are the same as in the moment when they were the same
// before it. It is read soon after that; mysqldump comes to the last table hours later.
func (s *tableSums) look(ctx context.Context, moment map[podclient.Table]bool, v *podclient.Visit) error {
	before := *s
	now, err := sumTables(ctx, v, slices.Collect(maps.Keys(moment)))
	for t, sum := range now {
		switch was := before[t]; {
		case was == "": // it was locked, or made just now, or nothing could be read
		case sum == "":
			now[t] = was
		case was != sum:
			return fmt.Errorf("%w: %s.%s was altered while the dump began", ErrMoved, t.Database, t.Name)
		}
	}
	*s = now
	return err
}

// autoIncrement is the counter of a table: a load raises it to the highest value, which an UPDATE does not.
var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=[0-9]+`)

// introducer is the character set of a literal in an expression. A server that is given back what it printed may convert the literal to
// the column's character set, and then prints that.
var introducer = regexp.MustCompile(`\b_[a-z0-9]+'`)

// characterSet comes before a collation, which says it too, once a column's was given by itself.
var characterSet = regexp.MustCompile(` CHARACTER SET [a-z0-9]+ COLLATE `)

// definitionSum is a checksum of what SHOW CREATE TABLE prints, whatever the order of keys and constraints. Names count without their quotes:
// in an expression they have them only when sql_quote_show_create was ON where the table was made.
func definitionSum(create string) string {
	return quotedSum(strings.ReplaceAll(strings.ReplaceAll(create, "\n  `", "\n "), "`", "")) // a line that begins with two spaces is a key or a constraint
}

// quotedSum is the checksum in backups of older releases.
func quotedSum(create string) string {
	plain := introducer.ReplaceAllString(autoIncrement.ReplaceAllString(create, ""), "'")
	plain = characterSet.ReplaceAllString(plain, " COLLATE ")
	lines := strings.Split(plain, "\n")
	var ordered, keys []string
	for _, line := range lines {
		line = strings.TrimSuffix(line, ",")
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "  `") {
			keys = append(keys, line)
			continue
		}
		ordered = append(ordered, line)
	}
	slices.Sort(keys)
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(ordered, keys), "\n")))
	return hex.EncodeToString(sum[:16])
}

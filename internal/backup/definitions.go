package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

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

// autoIncrement is the counter of a table: a load raises it to the highest value, which an UPDATE does not.
var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=[0-9]+`)

// introducer is the character set of a literal in an expression. A server that is given back what it printed may convert the literal to
// the column's character set, and then prints that.
var introducer = regexp.MustCompile(`\b_[a-z0-9]+'`)

// characterSet comes before a collation, which says it too, once a column's was given by itself.
var characterSet = regexp.MustCompile(` CHARACTER SET [a-z0-9]+ COLLATE `)

// definitionSum is a checksum of what SHOW CREATE TABLE prints, whatever the order of keys and constraints.
func definitionSum(create string) string {
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

package load

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// name matches one in backquotes, in which a backquote is doubled.
const name = "`(?:[^`\n]|``)+`"

// part is a column of a key, or the beginning of its value.
const part = name + `(?:\(\d+\))?(?: DESC)?`

var (
	// plainKey is a key of columns alone that is not unique.
	plainKey = regexp.MustCompile(`^  KEY ` + name + ` \(` + part + `(?:,` + part + `)*\)(?: USING BTREE)?(?: COMMENT '(?:[^'\\]|''|\\.)*')?(?: /\*!80000 INVISIBLE \*/)?$`)
	// counted is a column that has to be the first of a key.
	counted = regexp.MustCompile(`^  (` + name + `) .* AUTO_INCREMENT`)
	// referenced is a table that a foreign key refers to.
	referenced = regexp.MustCompile(` REFERENCES (?:` + name + `\.)?(` + name + `) `)
)

// Identifier reads a name in backquotes at the beginning of b. It is not ok where the name does not end in b for sure.
func Identifier(b []byte) (name string, rest []byte, ok bool) {
	var s strings.Builder
	for i := 1; i < len(b); i++ {
		if b[i] != '`' {
			s.WriteByte(b[i])
			continue
		}
		if i+1 < len(b) && b[i+1] == '`' {
			s.WriteByte('`')
			i++
			continue
		}
		if i+1 == len(b) {
			return "", nil, false // the next byte decides
		}
		return s.String(), b[i+1:], true
	}
	return "", nil, false
}

// splitKeys returns how a table is made without the keys that are built faster once its rows are there, and these keys. It understands
// what SHOW CREATE TABLE prints, and leaves a table as it is whose foreign keys or awkward names need more understanding.
func splitKeys(create string) (without string, keys []string) {
	lines := strings.Split(create, "\n")
	end := 0
	for end < len(lines) && !strings.HasPrefix(lines[end], ")") {
		end++
	}
	if end == len(lines) || !strings.HasPrefix(lines[end], ") ENGINE=InnoDB") || strings.Contains(create, "FOREIGN KEY") || breaksLineInQuotes(create) {
		return create, nil
	}
	made := slices.Clone(lines[1:end])
	column := ""
	for i, line := range made {
		made[i] = strings.TrimSuffix(line, ",")
		if found := counted.FindStringSubmatch(line); found != nil {
			column = found[1]
		}
	}
	// From the last on: a key that is added comes after those which are there.
	for i := len(made) - 1; i >= 0; i-- {
		line := made[i]
		if !strings.HasPrefix(line, "  KEY ") {
			continue
		}
		if !plainKey.MatchString(line) || column != "" && strings.Contains(line, column) {
			break
		}
		keys = append(keys, strings.TrimSpace(line))
		made = slices.Delete(made, i, i+1)
	}
	slices.Reverse(keys)
	return lines[0] + "\n" + strings.Join(made, ",\n") + "\n" + strings.Join(lines[end:], "\n"), keys
}

// breaksLineInQuotes says whether a name or a text holds a line break, so that lines are not what they seem.
func breaksLineInQuotes(statement string) bool {
	var quote byte
	skip := false
	for i := range len(statement) {
		switch c := statement[i]; {
		case skip:
			skip = false
		case quote == 0 && bytes.IndexByte([]byte("'`\""), c) >= 0:
			quote = c
		case quote == 0:
		case c == '\n':
			return true
		case c == '\\' && quote != '`':
			skip = true
		case c == quote:
			quote = 0
		}
	}
	return false
}

package backup

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/load"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrIncomplete: mysqldump ended before it had said everything.
var ErrIncomplete = errors.New("the dump is not complete")

const (
	// headLimit is how far into a dump the GTID set and the position may be, in bytes.
	headLimit = 32 << 20
	// tailLength holds the last line of a dump.
	tailLength = 256
	// nameLimit is how much of a statement is looked at to find the table: a quoted name of 64 characters of up to 3
	// bytes, each of them possibly a doubled backquote.
	nameLimit = 1024
	// definitionLimit bounds a CREATE TABLE, in bytes: thousands of columns and partitions.
	definitionLimit = 32 << 20
	// lookAhead is how far the end of a quoted value is looked for at a time, in bytes.
	lookAhead = 256
)

// dumpReader reads what mysqldump says as it passes: where the server was, how many rows each table has, and whether the
// end is an end. It understands no SQL but the few forms that mysqldump has (client/mysqldump.cc), quotes apart.
type dumpReader struct {
	head  []byte // until the position was found
	tail  []byte
	state lexState
	line  []byte // the beginning of the present line, while it is not clear what it is

	making statement // of the table that the dump is about to make
	row    insertion // of the rows that are being read

	database string
	current  *TableRows
	index    map[string]int
	tables   []TableRows
	created  []createdTable // the tables that the dump makes

	found    bool
	gtidSet  string
	file     string
	position int64
	failure  error
}

// statement is one that is being read.
type statement struct {
	text  []byte
	quote byte // in which quotes it is, 0 outside
	skip  bool // the next byte is after a backslash
}

// insertion is an INSERT that is being read.
type insertion struct {
	columns columnList
	length  longRows
	depth   int // of parentheses
}

// columnList is what is between the table's name and the rows of an INSERT. mysqldump names all columns of a table that has a generated or
// an invisible one: up to 4096 names of 64 characters.
type columnList struct {
	quoted, inside bool   // in backquotes, in parentheses
	verb           []byte // what is outside of the parentheses
}

// longRows finds the statements that no server takes.
type longRows struct {
	limit int64 // of a statement, in bytes
	bytes int64 // of the present INSERT, up to what was read
	found []longRow
}

// longRow is a statement of a table that is too long.
type longRow struct {
	database, table string
	bytes           int64
}

// count adds what was read of an INSERT, and ends it.
func (l *longRows) count(of *TableRows, n int, ends bool) {
	if l.bytes += int64(n); ends && l.bytes > l.limit {
		l.found = append(l.found, longRow{of.Database, of.Table, l.bytes})
	}
}

// createdTable is a table that the dump makes, with a checksum of how, and the plug-in that its FULLTEXT keys need.
type createdTable struct{ Database, Table, sum, parser string }

// parser finds the plug-in of a FULLTEXT key. MySQL itself has ngram.
var parser = regexp.MustCompile("/\\*!50100 WITH PARSER `([^`]+)` \\*/")

func parserOf(create []byte) string {
	for _, found := range parser.FindAllSubmatch(create, -1) {
		if name := string(found[1]); name != "ngram" {
			return name
		}
	}
	return ""
}

type lexState int

const (
	lineStart lexState = iota // collecting a line's beginning
	skipLine                  // to the end of the line
	inColumns                 // after INSERT INTO and the table's name, up to VALUES
	values                    // after INSERT INTO … VALUES, outside of quotes
	inQuotes                  // inside '…'
	escaped                   // after a backslash inside '…'
	inTable                   // inside CREATE TABLE
)

var (
	insertInto = []byte("INSERT INTO `")
	useStart   = []byte("USE `")
	makesTable = []byte("CREATE TABLE `")
	complete   = regexp.MustCompile(`(?m)^-- Dump completed( on .*)?\s*\z`)
	purged     = regexp.MustCompile(`(?s)SET @@GLOBAL\.GTID_PURGED=/\*!80000 '\+'\*/ '([^']*)';`)
	sourcePos  = regexp.MustCompile(`(?m)^-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='([^']*)', SOURCE_LOG_POS=([0-9]+);`)
)

func newDumpReader() *dumpReader {
	return &dumpReader{index: map[string]int{}, row: insertion{length: longRows{limit: podclient.MaxStatement}}}
}

func (d *dumpReader) Write(b []byte) (int, error) {
	if d.failure != nil {
		return 0, d.failure
	}
	d.readHead(b)
	d.keepTail(b)
	for rest := b; len(rest) > 0 && d.failure == nil; {
		state := d.state
		next := d.step(rest)
		if state >= inColumns && state <= escaped {
			d.row.length.count(d.current, len(rest)-len(next), d.state == skipLine)
		}
		rest = next
	}
	return len(b), d.failure
}

// readHead looks for the GTID set and the position until both were seen.
func (d *dumpReader) readHead(b []byte) {
	if d.found {
		return
	}
	d.head = append(d.head, b...)
	if position := sourcePos.FindSubmatch(d.head); position != nil {
		set := purged.FindSubmatch(d.head)
		if set == nil {
			// An empty set is not printed at all.
			set = [][]byte{nil, nil}
		}
		parsed, err := gtid.Parse(string(set[1]))
		if err != nil {
			d.failure = fmt.Errorf("the GTID set of the dump: %w", err)
			return
		}
		d.gtidSet, d.file = parsed.String(), string(position[1])
		d.position, _ = strconv.ParseInt(string(position[2]), 10, 64) // digits alone; too many of them are no position
		d.found, d.head = true, nil
	} else if len(d.head) > headLimit {
		d.failure = fmt.Errorf("%w: it does not say where the server was", ErrIncomplete)
	}
}

func (d *dumpReader) keepTail(b []byte) {
	if len(b) >= tailLength {
		d.tail = append(d.tail[:0], b[len(b)-tailLength:]...)
		return
	}
	d.tail = append(d.tail, b...)
	if len(d.tail) > tailLength {
		d.tail = append(d.tail[:0], d.tail[len(d.tail)-tailLength:]...)
	}
}

// step consumes some of b and returns the rest.
func (d *dumpReader) step(b []byte) []byte {
	switch d.state {
	case lineStart:
		return d.beginLine(b)
	case skipLine:
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			d.state = lineStart
			return b[i+1:]
		}
		return nil
	case escaped:
		d.state = inQuotes
		return b[1:]
	case inQuotes:
		return d.quoted(b)
	case inColumns:
		return d.columns(b)
	case values:
		return d.tuples(b)
	case inTable:
		return d.table(b)
	}
	return nil
}

// table goes on to the end of a CREATE TABLE.
func (d *dumpReader) table(b []byte) []byte {
	for i, c := range b {
		switch {
		case d.making.skip:
			d.making.skip = false
		case d.making.quote == '\'' && c == '\\':
			d.making.skip = true
		case d.making.quote != 0 && c == d.making.quote: // a doubled one is the end and the beginning
			d.making.quote = 0
		case d.making.quote != 0:
		case c == '\'', c == '`':
			d.making.quote = c
		case c == ';':
			d.making.text = append(d.making.text, b[:i]...)
			made := &d.created[len(d.created)-1]
			made.sum, made.parser = definitionSum(string(d.making.text)), parserOf(d.making.text)
			d.state = skipLine
			return b[i+1:]
		}
	}
	if d.making.text = append(d.making.text, b...); len(d.making.text) > definitionLimit {
		d.failure = fmt.Errorf("%w: a CREATE TABLE of the dump does not end", ErrIncomplete)
	}
	return nil
}

// quoted goes on to the end of a quoted value or to a backslash in it, whichever comes first. It looks a little ahead at a
// time: for the end of a long value that is full of backslashes it would look as often as there are any.
func (d *dumpReader) quoted(b []byte) []byte {
	ahead := b[:min(len(b), lookAhead)]
	end := bytes.IndexByte(ahead, '\'')
	if end < 0 {
		end = len(ahead)
	}
	if i := bytes.IndexByte(ahead[:end], '\\'); i >= 0 {
		d.state = escaped
		return b[i+1:]
	}
	if end < len(ahead) {
		d.state = values
		end++
	}
	return b[end:]
}

// tuples counts the rows of an INSERT outside of quotes.
func (d *dumpReader) tuples(b []byte) []byte {
	for i, c := range b {
		switch c {
		case '\'':
			d.state = inQuotes
			return b[i+1:]
		case '(':
			if d.row.depth == 0 {
				d.current.Rows++
			}
			d.row.depth++
		case ')':
			d.row.depth--
		case ';':
			if d.row.depth == 0 {
				d.state = skipLine
				return b[i+1:]
			}
		}
	}
	return nil
}

// beginLine collects a line until it is clear what it is.
func (d *dumpReader) beginLine(b []byte) []byte {
	i := bytes.IndexByte(b, '\n')
	take := b
	if i >= 0 {
		take = b[:i]
	}
	room := nameLimit - len(d.line)
	took := min(len(take), room)
	d.line = append(d.line, take[:took]...)
	whole := i >= 0 && took == len(take)
	if bytes.HasPrefix(d.line, insertInto) {
		return d.beginInsert(b, took, whole)
	}
	if !whole && len(d.line) < nameLimit && couldMatter(d.line) {
		return nil
	}
	line := d.line
	for _, verb := range [][]byte{useStart, makesTable} {
		if !whole || !bytes.HasPrefix(line, verb) || len(line) >= nameLimit {
			continue
		}
		name, _, ok := load.Identifier(line[len(verb)-1:])
		if !ok { // the name holds a line break
			d.line = append(d.line, '\n')
			return b[took+1:]
		}
		if &verb[0] == &useStart[0] {
			d.database = name
			continue
		}
		d.created = append(d.created, createdTable{Database: d.database, Table: name})
		d.making = statement{text: append(append(d.making.text[:0], line...), '\n')}
		d.line, d.state = d.line[:0], inTable
		return b[took+1:]
	}
	d.line = d.line[:0]
	if whole {
		return b[took+1:]
	}
	d.state = skipLine
	return b[took:]
}

// couldMatter says whether the beginning of a line may still become one of those that are looked at.
func couldMatter(line []byte) bool {
	for _, known := range [][]byte{insertInto, useStart, makesTable} {
		n := min(len(line), len(known))
		if bytes.Equal(line[:n], known[:n]) {
			return true
		}
	}
	return false
}

// beginInsert finds the table of an INSERT. Names may hold line breaks.
func (d *dumpReader) beginInsert(b []byte, took int, whole bool) []byte {
	name, rest, ok := load.Identifier(d.line[len(insertInto)-1:])
	switch {
	case ok:
		key := d.database + "\x00" + name
		n, known := d.index[key]
		if !known {
			n = len(d.tables)
			d.index[key] = n
			d.tables = append(d.tables, TableRows{Database: d.database, Table: name})
		}
		d.current, d.row.depth, d.state = &d.tables[n], 0, inColumns
		d.row.columns = columnList{verb: d.row.columns.verb[:0]}
		d.row.length.bytes = int64(len(d.line) - len(rest))
		d.line = d.line[:0]
		return b[took-len(rest):] // what was collected beyond the name is read again
	case len(d.line) >= nameLimit:
		d.failure = errInsert
		return nil
	case whole:
		d.line = append(d.line, '\n')
		return b[took+1:]
	}
	return nil
}

var errInsert = fmt.Errorf("%w: an INSERT of the dump is not understood", ErrIncomplete)

// columns reads up to the rows of an INSERT. Between the table's name and VALUES is nothing, or a list of columns.
func (d *dumpReader) columns(b []byte) []byte {
	const verb = "VALUES "
	l := &d.row.columns
	for i, c := range b {
		switch {
		case l.inside && c == '`': // a doubled one is the end and the beginning
			l.quoted = !l.quoted
		case l.quoted:
		case c == '(':
			l.inside = true
		case c == ')':
			l.inside = false
		case !l.inside:
			if l.verb = append(l.verb, c); string(bytes.TrimLeft(l.verb, " ")) == verb {
				d.state = values
				return b[i+1:]
			}
			if len(l.verb) > 2*len(verb) {
				d.failure = errInsert
				return nil
			}
		}
	}
	return nil
}

// end says whether what was read is a whole dump.
func (d *dumpReader) end() error {
	switch {
	case d.failure != nil:
		return d.failure
	case !d.found:
		return fmt.Errorf("%w: it does not say where the server was", ErrIncomplete)
	case d.state == inTable:
		return fmt.Errorf("%w: it ends in the middle of a CREATE TABLE", ErrIncomplete)
	case d.state != lineStart && d.state != skipLine:
		return fmt.Errorf("%w: it ends in the middle of %s.%s", ErrIncomplete, d.current.Database, d.current.Table)
	case !complete.Match(d.tail):
		return fmt.Errorf("%w: its last line is missing", ErrIncomplete)
	}
	return nil
}

// at names the table that is being read.
func (d *dumpReader) at() string {
	if d.current == nil {
		return ""
	}
	return d.current.Database + "." + d.current.Table
}

package load

import "bytes"

// zeros reads an INSERT, in pieces of any length, and gives each back with -0 among its values as -0e0. mysqldump writes the negative
// zero of a DOUBLE or FLOAT as -0, which is the integer 0 for the server that loads it.
type zeros struct {
	quote byte // in which quotes the text is, 0 outside
	skip  bool // the next byte is after a backslash
	zero  zeroState
}

// zeroState is how much of a -0 was read that is a value by itself.
type zeroState int

const (
	noZero zeroState = iota
	afterBorder
	afterMinus
	afterZero
)

// exactZeros is a whole INSERT with exact zeros.
func exactZeros(statement []byte) string {
	if !bytes.Contains(statement, []byte("-0,")) && !bytes.Contains(statement, []byte("-0)")) {
		return string(statement)
	}
	return string(new(zeros).exact(statement))
}

// exact returns the next piece of the INSERT with exact zeros: text itself where nothing is to change.
func (z *zeros) exact(text []byte) []byte {
	var changed []byte
	written := 0
	for at, c := range text {
		if z.quoted(c) {
			continue
		}
		if z.zero == afterZero && (c == ',' || c == ')') {
			changed = append(append(changed, text[written:at]...), "e0"...)
			written = at
		}
		z.follow(c)
	}
	if changed == nil {
		return text
	}
	return append(changed, text[written:]...)
}

// quoted says whether a byte is in quotes, or begins or ends them.
func (z *zeros) quoted(c byte) bool {
	switch {
	case z.skip:
		z.skip = false
	case z.quote == 0 && (c == '\'' || c == '`'):
		z.quote, z.zero = c, noZero
	case z.quote == 0:
		return false
	case c == z.quote: // a doubled one is the end and the beginning
		z.quote = 0
	case c == '\\' && z.quote != '`':
		z.skip = true
	}
	return true
}

// follow goes on by a byte outside of quotes.
func (z *zeros) follow(c byte) {
	switch {
	case c == '(' || c == ',':
		z.zero = afterBorder
	case c == '-' && z.zero == afterBorder:
		z.zero = afterMinus
	case c == '0' && z.zero == afterMinus:
		z.zero = afterZero
	default:
		z.zero = noZero
	}
}

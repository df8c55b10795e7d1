package load

import (
	"bytes"
	"strings"
)

// exactZeros returns an INSERT with -0 among its values as -0e0. mysqldump writes the negative zero of a DOUBLE or FLOAT as -0, which is the
// integer 0 for the server that loads it.
func exactZeros(statement []byte) string {
	const zero = "-0"
	if !bytes.Contains(statement, []byte(zero+",")) && !bytes.Contains(statement, []byte(zero+")")) {
		return string(statement)
	}
	var b strings.Builder
	written := 0
	for at := 0; at < len(statement); at++ {
		switch c := statement[at]; {
		case c == '\'' || c == '`':
			at = pastQuotes(statement, at)
		case c == '-' && bytes.HasPrefix(statement[at:], []byte(zero)) && isBorder(statement, at-1, "(,") && isBorder(statement, at+len(zero), ",)"):
			b.Write(statement[written : at+len(zero)])
			b.WriteString("e0")
			written = at + len(zero)
		}
	}
	b.Write(statement[written:])
	return b.String()
}

// pastQuotes returns where what is in quotes from at ends.
func pastQuotes(statement []byte, at int) int {
	quote := statement[at]
	for at++; at < len(statement) && statement[at] != quote; at++ { // a doubled one is the end and the beginning
		if statement[at] == '\\' && quote != '`' {
			at++
		}
	}
	return at
}

func isBorder(statement []byte, at int, borders string) bool {
	return at >= 0 && at < len(statement) && strings.IndexByte(borders, statement[at]) >= 0
}

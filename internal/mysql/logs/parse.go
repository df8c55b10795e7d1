package logs

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// adminCommand begins the line of an entry that has no statement.
const adminCommand = "# administrator command: "

// entryLimit bounds what is kept of one entry, in bytes.
const entryLimit = 64 << 10

var (
	// slowStart begins an entry of the slow query log.
	slowStart = regexp.MustCompile(`(?m)^# Time: `)
	// generalStart begins an entry of the general query log: time, connection, command.
	generalStart = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d)\t`)

	generalLine = regexp.MustCompile(`^(\S+)\t\s*(\d+) ([A-Z][A-Za-z ]*?)(?:\t((?s).*))?$`)
	slowUser    = regexp.MustCompile(`^# User@Host: (\S*)\[[^\]]*\] @\s*(\S*)\s*\[([^\]]*)\]\s*Id:\s*(\d+)`)
	slowFigure  = regexp.MustCompile(`([A-Z][A-Za-z_]+): (\d+(?:\.\d+)?)(?:\s|$)`)
	slowUse     = regexp.MustCompile("^use `?(.*?)`?;$")

	// serverHead is what a server writes into a log that it opens.
	serverHead = regexp.MustCompile(`(?m)^\S*mysqld\S*, Version: .*\nTcp port: .*\nTime\s+Id Command\s+Argument\n`)
)

// split cuts text into entries by what each begins with. The last one is left, unless the text is whole. What comes before the first is
// the end of an entry whose beginning was not read, and is dropped.
func split(text []byte, start *regexp.Regexp, whole bool) (entries [][]byte, left []byte) {
	text = serverHead.ReplaceAll(text, nil)
	at := start.FindAllIndex(text, -1)
	for i, found := range at[:max(0, len(at)-1)] {
		entries = append(entries, text[found[0]:at[i+1][0]])
	}
	switch {
	case len(at) == 0:
		return nil, lastLine(text)
	case whole:
		return append(entries, text[at[len(at)-1][0]:]), nil
	}
	left = text[at[len(at)-1][0]:]
	if len(left) > entryLimit+1 {
		// Of one that is too long only the beginning counts, and that it was longer. The next may begin in its last line.
		left = slices.Concat(left[:entryLimit+1], []byte("\n"), lastLine(left))
	}
	return entries, left
}

// lineLimit is longer than what begins an entry.
const lineLimit = 512

// lastLine returns the last line, which may not be whole; empty when it is too long to begin an entry.
func lastLine(text []byte) []byte {
	if line := text[bytes.LastIndexByte(text, '\n')+1:]; len(line) <= lineLimit {
		return line
	}
	return nil
}

// slowEntries reads the slow query log (reference manual, "The Slow Query Log").
func slowEntries(text []byte, whole bool) (entries []Entry, left []byte) {
	found, left := split(text, slowStart, whole)
	for _, one := range found {
		one, truncated := cut(one)
		e := Entry{OfQueryLog: OfQueryLog{Truncated: truncated, Figures: map[string]float64{}}}
		var statement []string
		for line := range strings.Lines(string(one)) {
			line = strings.TrimRight(line, "\n")
			switch {
			case statement != nil:
				statement = append(statement, line)
			case strings.HasPrefix(line, "# Time: "):
				e.Time = strings.TrimSpace(line[len("# Time: "):])
			case strings.HasPrefix(line, "# User@Host: "):
				if user := slowUser.FindStringSubmatch(line); user != nil {
					e.User, e.Host = user[1], cmp.Or(user[3], user[2])
					e.Connection, _ = strconv.ParseInt(user[4], 10, 64)
				}
			case strings.HasPrefix(line, adminCommand):
				e.Command = strings.TrimSuffix(line[len(adminCommand):], ";")
			case strings.HasPrefix(line, "# "):
				for _, figure := range slowFigure.FindAllStringSubmatch(line, -1) {
					e.Figures[figure[1]], _ = strconv.ParseFloat(figure[2], 64)
				}
			case strings.HasPrefix(line, "SET timestamp="):
			case slowUse.MatchString(line):
				e.Database = slowUse.FindStringSubmatch(line)[1]
			default:
				statement = append(statement, line)
			}
		}
		e.Statement = strings.TrimSuffix(strings.TrimSpace(strings.Join(statement, "\n")), ";") // the server adds one
		entries = append(entries, e)
	}
	return entries, left
}

// generalEntries reads the general query log.
func generalEntries(text []byte, whole bool) (entries []Entry, left []byte) {
	found, left := split(text, generalStart, whole)
	for _, one := range found {
		one, truncated := cut(one)
		fields := generalLine.FindStringSubmatch(string(bytes.TrimRight(one, "\n")))
		if fields == nil {
			continue
		}
		e := Entry{Time: fields[1], OfQueryLog: OfQueryLog{Command: fields[3], Statement: fields[4], Truncated: truncated}}
		e.Connection, _ = strconv.ParseInt(fields[2], 10, 64)
		entries = append(entries, e)
	}
	return entries, left
}

// cut bounds an entry.
func cut(entry []byte) (bounded []byte, truncated bool) {
	if len(entry) <= entryLimit {
		return entry, false
	}
	return entry[:entryLimit], true
}

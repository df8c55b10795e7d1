package logs

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// entryLimit bounds what is kept of one entry, in bytes.
	entryLimit = 64 << 10
	// startLimit is longer than what begins an entry.
	startLimit = 512
	// adminCommand begins the line of an entry that has no statement.
	adminCommand = "# administrator command: "
	// userLine begins the line with who ran a statement.
	userLine = "# User@Host: "
)

// format is how a log is written.
type format struct {
	// start begins an entry. It spans startLines lines.
	start      *regexp.Regexp
	startLines int
	// entry reads one.
	entry func(text string) (Entry, bool)
}

var (
	// slowFormat is the slow query log's (reference manual, "The Slow Query Log").
	slowFormat = format{regexp.MustCompile(`(?m)^# Time: \d{4}-\S+\n# User@Host: `), 2, slowEntry}
	// generalFormat is the general query log's: time, connection, command.
	generalFormat = format{regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d)\t`), 1, generalEntry}

	generalLine = regexp.MustCompile(`^(\S+)\t\s*(\d+) ([A-Z][A-Za-z ]*?)(?:\t((?s).*))?$`)
	slowUser    = regexp.MustCompile(`^# User@Host: (.*)\[[^\]]*\] @\s*(\S*)\s*\[([^\]]*)\]\s*Id:\s*(\d+)`)
	slowFigure  = regexp.MustCompile(`([A-Z][A-Za-z_]+): (\d+(?:\.\d+)?)(?:\s|$)`)
	slowUse     = regexp.MustCompile("^use `?(.*?)`?;$")
	// slowSet ends what the server writes before the statement.
	slowSet = regexp.MustCompile(`^SET (?:[a-z_]+=\d+,)*timestamp=\d+;$`)

	// serverHead is what a server writes into a log that it opens.
	serverHead = regexp.MustCompile(`(?m)^\S*mysqld\S*, Version: .*\nTcp port: .*\nTime\s+Id Command\s+Argument\n`)
)

// entries emits those in text. The last one is left, unless the text is whole. What comes before the first is the end of one whose beginning
// was not read, and is dropped.
func (f format) entries(text []byte, whole bool, emit func(Entry)) (left []byte) {
	text = serverHead.ReplaceAll(text, nil)
	at := f.start.FindIndex(text)
	if at == nil {
		return f.lastLines(text)
	}
	for text = text[at[0]:]; ; {
		next := f.start.FindIndex(text[1:])
		if next == nil {
			break
		}
		f.emit(text[:next[0]+1], emit)
		text = text[next[0]+1:]
	}
	switch {
	case whole:
		f.emit(text, emit)
		return nil
	case len(text) > entryLimit+1:
		// Of one that is too long only the beginning counts, and that it was longer. The next may begin in its last lines.
		return slices.Concat(text[:entryLimit+1], []byte("\n"), f.lastLines(text))
	}
	return text
}

// emit emits the entry of a text.
func (f format) emit(text []byte, emit func(Entry)) {
	truncated := len(text) > entryLimit
	if truncated {
		text = wholeRunes(text[:entryLimit])
	}
	if e, ok := f.entry(string(text)); ok {
		e.Truncated, e.Statement = truncated, withoutSecrets(e.Statement)
		emit(e)
	}
}

// wholeRunes leaves out the part of a character at the end.
func wholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}

// lastLines returns the lines at the end in which an entry may begin, the last of which may not be whole; none where they are too long for
// that.
func (f format) lastLines(text []byte) []byte {
	from := len(text)
	for range f.startLines {
		from = bytes.LastIndexByte(text[:max(0, from)], '\n')
	}
	if lines := text[from+1:]; len(lines) <= startLimit {
		return lines
	}
	return nil
}

// slowEntry reads an entry of the slow query log.
func slowEntry(text string) (Entry, bool) {
	var e Entry
	statement := ""
	for line := range strings.Lines(text) {
		if text = text[len(line):]; slowSet.MatchString(strings.TrimRight(line, "\n")) {
			statement = text
			break
		}
		e.header(strings.TrimRight(line, "\n"))
	}
	statement = strings.TrimSuffix(strings.TrimSpace(statement), ";") // the server adds one
	if command, is := strings.CutPrefix(statement, adminCommand); is {
		e.Command = command
	} else {
		e.Statement = statement
	}
	return e, true
}

// header reads a line that the server writes before the statement.
func (e *Entry) header(line string) {
	switch user := slowUser.FindStringSubmatch(line); {
	case strings.HasPrefix(line, "# Time: "):
		e.Time = strings.TrimSpace(line[len("# Time: "):])
	case user != nil:
		e.User, e.Host = user[1], cmp.Or(user[3], user[2])
		e.Connection, _ = strconv.ParseInt(user[4], 10, 64)
	case strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, userLine):
		for _, figure := range slowFigure.FindAllStringSubmatch(line, -1) {
			if e.Figures == nil {
				e.Figures = map[string]float64{}
			}
			e.Figures[figure[1]], _ = strconv.ParseFloat(figure[2], 64)
		}
	case slowUse.MatchString(line):
		e.Database = slowUse.FindStringSubmatch(line)[1]
	}
}

// generalEntry reads an entry of the general query log.
func generalEntry(text string) (Entry, bool) {
	fields := generalLine.FindStringSubmatch(strings.TrimRight(text, "\n"))
	if fields == nil {
		return Entry{}, false
	}
	e := Entry{Time: fields[1], OfQueryLog: OfQueryLog{Command: fields[3], Statement: fields[4]}}
	e.Connection, _ = strconv.ParseInt(fields[2], 10, 64)
	return e, true
}

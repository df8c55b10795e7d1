package mysql

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// LoggedTransaction is a transaction as the binary log of a server shows it.
type LoggedTransaction struct {
	// GTID is its identifier, uuid:number.
	GTID string
	// Statements are the texts of its query events, in order.
	Statements []string
	// Others counts its events that are neither its GTID nor a query: rows, among others.
	Others int
}

// failedTransaction finds the GTID in an applier's error.
var failedTransaction = regexp.MustCompile(`failed executing transaction '([0-9A-Fa-f-]{36}(?::[a-z_][a-z0-9_]*)?:[0-9]+)'`)

// FailedTransaction returns the GTID of the transaction at which an applier stopped, by its error; empty when that names none.
func FailedTransaction(applierError string) string {
	if found := failedTransaction.FindStringSubmatch(applierError); found != nil {
		return found[1]
	}
	return ""
}

// Empty says whether it has no statements and no rows.
func (t LoggedTransaction) Empty() bool {
	return t.Others == 0 && slices.Equal(t.Statements, []string{"BEGIN", "COMMIT"})
}

// ChangesNothing says whether a transaction certainly changes no data: it is empty, or it is a FLUSH or an ANALYZE TABLE of
// maintenanceStatement. It returns what it is, for people.
func (t LoggedTransaction) ChangesNothing() (what string, certain bool) {
	switch {
	case t.Others > 0:
		return "", false
	case t.Empty():
		return "an empty transaction", true
	case len(t.Statements) == 1:
		return maintenanceStatement(t.Statements[0])
	}
	return "", false
}

// flushed are the options of FLUSH that the server writes to its binary log, and that change no data.
var flushed = []string{"STATUS", "PRIVILEGES", "USER_RESOURCES", "OPTIMIZER_COSTS", "ENGINE LOGS", "ERROR LOGS", "SLOW LOGS", "GENERAL LOGS"}

// maintenanceStatement returns a FLUSH of flushed or of tables, or an ANALYZE TABLE without histograms, in words that are parted by
// single spaces. Comments, quotes and whatever else the statements may contain leave a doubt.
func maintenanceStatement(logged string) (statement string, certain bool) {
	tokens, ok := tokensOf(withoutSchema(logged))
	if !ok || len(tokens) < 2 {
		return "", false
	}
	switch kind, rest := tokens[0].keyword(), tokens[1:]; {
	case kind == "FLUSH" && rest[0].isTable():
		certain = len(rest) == 1 || namesTables(rest[1:])
	case kind == "FLUSH":
		certain = flushesOnly(rest)
	case kind == "ANALYZE" && rest[0].isTable():
		certain = namesTables(rest[1:])
	}
	if !certain {
		return "", false
	}
	return strings.Join(strings.Fields(withoutSchema(logged)), " "), true
}

// withoutSchema takes away the default schema that SHOW BINLOG EVENTS writes before a statement.
func withoutSchema(logged string) string {
	const before, after = "use `", "`; "
	if rest, found := strings.CutPrefix(logged, before); found {
		if name, statement, found := strings.Cut(rest, after); found && !strings.Contains(name, "`") {
			return statement
		}
	}
	return logged
}

// token is a word, a name in backticks, a comma or a dot.
type token struct {
	text   string
	quoted bool
}

// keyword is a word in capital letters; empty for anything else.
func (t token) keyword() string {
	if t.quoted {
		return ""
	}
	return strings.ToUpper(t.text)
}

func (t token) isTable() bool { return t.keyword() == "TABLE" || t.keyword() == "TABLES" }

func (t token) isName() bool { return t.quoted || t.text != "," && t.text != "." }

// tokensOf takes a statement apart; ok is false when it holds anything but words, names in backticks, commas and dots.
func tokensOf(statement string) (tokens []token, ok bool) {
	for i := 0; i < len(statement); {
		switch c := statement[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == ',' || c == '.':
			tokens = append(tokens, token{text: string(c)})
			i++
		case c == '`':
			end := strings.IndexByte(statement[i+1:], '`')
			if end <= 0 || strings.ContainsFunc(statement[i+1:i+1+end], unicode.IsControl) {
				return nil, false
			}
			tokens = append(tokens, token{text: statement[i+1 : i+1+end], quoted: true})
			i += end + 2
		case isWordByte(c):
			end := i
			for end < len(statement) && isWordByte(statement[end]) {
				end++
			}
			tokens = append(tokens, token{text: statement[i:end]})
			i = end
		default:
			return nil, false
		}
	}
	return tokens, true
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// flushesOnly says whether tokens are options of flushed, parted by commas.
func flushesOnly(tokens []token) bool {
	var option []string
	for _, t := range append(tokens, token{text: ","}) {
		if t.text != "," || t.quoted {
			option = append(option, t.keyword())
			continue
		}
		if !slices.Contains(flushed, strings.Join(option, " ")) {
			return false
		}
		option = nil
	}
	return true
}

// namesTables says whether tokens are names of tables, parted by commas, and nothing after them: no lock, and no histogram.
func namesTables(tokens []token) bool {
	parts := 0 // of the name that is being read
	for i := 0; i < len(tokens); i++ {
		switch t := tokens[i]; {
		case t.isName() && parts == 0:
			parts = 1
		case !t.isName() && t.text == "." && parts == 1 && i+1 < len(tokens) && tokens[i+1].isName():
			parts, i = 2, i+1
		case !t.isName() && t.text == "," && parts > 0:
			parts = 0
		default:
			return false
		}
	}
	return parts > 0
}

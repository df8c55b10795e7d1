package logs

import (
	"regexp"
	"slices"
	"strings"
)

const (
	// secret stands for a password, as in what MySQL itself leaves out.
	secret = "<secret>"
	// deepest is how many literals deep statements are looked for: one that is prepared, in a statement that makes a procedure.
	deepest = 4
	// literal and masked stand for a string literal among the tokens before another.
	literal, masked = "'", "\x00"
	// lookBack is how many tokens decide about a literal: IDENTIFIED WITH plugin BY, and more than that.
	lookBack = 6
)

// sensitive finds the words without which no statement holds a password. Most statements are not looked at further.
var sensitive = regexp.MustCompile(`(?i)password|identified`)

// withoutSecrets returns a statement without the passwords in it. MySQL leaves out those of statements that clients send, but not those of
// statements in stored programs, of their definitions, and of the text that is prepared.
func withoutSecrets(statement string) string {
	text, _ := mask(statement, 0)
	return text
}

// mask replaces passwords in the text of a statement, also in statements that its literals hold. open is true when the text ends where a
// password is to follow, as in CONCAT('… IDENTIFIED BY ', QUOTE(p)): then the rest of the statement is left out.
func mask(text string, depth int) (result string, open bool) {
	if !sensitive.MatchString(text) {
		return text, false
	}
	m := masker{depth: depth}
	for len(text) > 0 && !m.open {
		token, kind := nextToken(text)
		text = text[len(token):]
		m.take(token, kind)
	}
	return m.out.String(), m.open || m.secretIsOpen()
}

// masker writes a statement token by token.
type masker struct {
	depth int
	out   strings.Builder
	// before are the last tokens that mean something, words in capitals.
	before []string
	// setsPassword and hasPassword are true after SET PASSWORD, and after any word of a password, in the same statement.
	setsPassword, hasPassword bool
	// cut is true after a password that does not end, open once the rest is left out.
	cut, open bool
}

func (m *masker) take(token string, kind tokenKind) {
	follows := (kind == stringToken || kind == hexToken) && m.secretFollows()
	switch {
	case kind == spaceToken:
		m.out.WriteString(token)
		return
	case follows:
		m.out.WriteString(secret)
		m.cut = kind == stringToken && !quoted.MatchString(token)
		token = masked
	case kind == stringToken:
		m.takeLiteral(token)
		token = literal
	default:
		m.out.WriteString(token)
		token = strings.ToUpper(token)
	}
	m.learn(token)
}

// learn remembers a token.
func (m *masker) learn(token string) {
	switch {
	case token == ";":
		m.setsPassword, m.hasPassword = false, false
	case token == "PASSWORD" && m.last(1) == "SET":
		m.setsPassword, m.hasPassword = true, true
	case token == "IDENTIFIED" || strings.HasSuffix(token, "PASSWORD"):
		m.hasPassword = true
	}
	if m.before = append(m.before, token); len(m.before) > lookBack {
		m.before = m.before[1:]
	}
}

// takeLiteral writes a literal that is no password itself. What it holds may be a statement.
func (m *masker) takeLiteral(token string) {
	quote := token[:1]
	content := unquote(token)
	inner, open := content, false
	switch {
	case m.depth < deepest:
		inner, open = mask(content, m.depth+1)
	case sensitive.MatchString(content):
		inner = secret
	}
	switch {
	case open:
		m.out.WriteString(quote + requote(inner, quote) + secret)
		m.open = true
	case inner != content:
		m.out.WriteString(quote + requote(inner, quote) + quote)
	default:
		m.out.WriteString(token)
	}
}

// last returns the nth token from the end, "" for none.
func (m *masker) last(n int) string {
	if n > len(m.before) {
		return ""
	}
	return m.before[len(m.before)-n]
}

// secretFollows says whether a literal is a password at this place.
func (m *masker) secretFollows() bool {
	word, assigned := m.last(1), false
	if word == "=" || word == "(" || word == ":=" {
		word, assigned = m.last(2), true
	}
	switch {
	case m.last(1) == masked, strings.HasSuffix(word, "PASSWORD"):
		return true
	case word == "BY", word == "AS":
		return slices.Contains(m.before, "IDENTIFIED")
	case word == "REPLACE":
		return m.hasPassword
	}
	return m.setsPassword && (assigned || word == "TO")
}

// secretIsOpen says whether the text ends where a password is to follow, or goes on.
func (m *masker) secretIsOpen() bool {
	switch m.last(1) {
	case "BY", "AS", "=", "(", ":=":
		return m.secretFollows()
	}
	return m.cut
}

// tokenKind is what a token is, as far as passwords are concerned.
type tokenKind int

const (
	otherToken tokenKind = iota
	// spaceToken is what means nothing: white space, comments, the character set of a literal.
	spaceToken
	stringToken
	hexToken
)

var (
	// space begins with white space or a comment. Of a comment that MySQL executes (/*!80000 … */) only the marks mean nothing.
	space = regexp.MustCompile(`^(?:\s+|/\*!\d*|\*/|/\*(?s:[^!].*?|)\*/|--(?:\s|$)[^\n]*|#[^\n]*)`)
	// introducer is before a literal: its character set, or that it is a national or a hexadecimal one.
	introducer = regexp.MustCompile(`^(?i:_[a-z0-9]+\s*|[nxb])['"]`)
	hexNumber  = regexp.MustCompile(`^0[xX][0-9a-fA-F]+`)
	word       = regexp.MustCompile(`^(?:[\p{L}\p{N}_$]+|:=|` + "`[^`]*`" + `)`)
	// quoted is a literal with its end.
	quoted = regexp.MustCompile(`^(?s:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")`)
)

// nextToken returns the token at the beginning of a text. A literal that does not end goes to the end of the text.
func nextToken(text string) (token string, kind tokenKind) {
	if found := introducer.FindString(text); found != "" {
		return found[:len(found)-1], spaceToken
	}
	for _, row := range []struct {
		pattern *regexp.Regexp
		kind    tokenKind
	}{{space, spaceToken}, {quoted, stringToken}, {hexNumber, hexToken}, {word, otherToken}} {
		if found := row.pattern.FindString(text); found != "" {
			return found, row.kind
		}
	}
	if text[0] == '\'' || text[0] == '"' {
		return text, stringToken
	}
	return text[:1], otherToken
}

// unquote returns what a literal holds.
func unquote(token string) string {
	quote, content := token[0], token[1:]
	var out strings.Builder
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case c == '\\' && i+1 < len(content):
			if i++; content[i] == 'n' {
				out.WriteByte('\n')
			} else {
				out.WriteByte(content[i])
			}
		case c == quote && i+1 < len(content):
			i++
			out.WriteByte(c)
		case c != quote:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// requote writes what a literal holds, without its quotes.
func requote(content, quote string) string {
	return strings.NewReplacer(`\`, `\\`, quote, quote+quote).Replace(content)
}

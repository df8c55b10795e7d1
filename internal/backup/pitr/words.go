package pitr

import (
	"strings"
	"unicode/utf8"
)

// withAccount is a statement with an account where it says CURRENT_USER or CURRENT_USER(). The server writes some statements about accounts
// to the binary log as they were sent: GRANT and REVOKE of roles, REVOKE, RENAME USER, DROP USER, and ALTER USER with DEFAULT ROLE (tried on
// 9.7.4). In strings a backslash may quote what follows.
func withAccount(text, account string, backslashes bool) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		next := token(text, at, backslashes)
		word := text[at:next]
		if strings.EqualFold(word, "CURRENT_USER") && !strings.HasSuffix(strings.TrimRight(text[:at], " \t\r\n"), ".") && !strings.HasSuffix(text[:at], "@") {
			word = account
			if open := skipBlank(text, next); strings.HasPrefix(text[open:], "(") {
				if end := skipBlank(text, open+1); strings.HasPrefix(text[end:], ")") {
					next = end + 1
				}
			}
		}
		b.WriteString(word)
		at = next
	}
	return b.String()
}

// token returns where a token ends that begins at a place: white space with comments, something in quotes, a word, or one byte.
func token(text string, at int, backslashes bool) int {
	if end := skipBlank(text, at); end > at {
		return end
	}
	switch quote := text[at]; {
	case strings.IndexByte("'\"`", quote) >= 0:
		for at++; at < len(text) && text[at] != quote; at++ { // a doubled one is the end and the beginning
			if text[at] == '\\' && quote != '`' && backslashes {
				at++
			}
		}
		return min(at+1, len(text))
	case !isWord(quote):
		return at + 1
	}
	for at < len(text) && isWord(text[at]) {
		at++
	}
	return at
}

func isWord(c byte) bool {
	return c >= utf8.RuneSelf || c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// withoutIfExists is a REVOKE without IF EXISTS, with which the server only warns. Other statements are as they are.
func withoutIfExists(text string) (strict string, lenient bool) {
	at := skipBlank(text, 0)
	for _, word := range []string{"REVOKE", "IF", "EXISTS"} {
		if !hasWord(text[at:], word) {
			return text, false
		}
		if word == "IF" {
			strict = text[:at]
		}
		at = skipBlank(text, at+len(word))
	}
	return strict + text[at:], true
}

// hasWord says whether a statement continues with a word.
func hasWord(text, word string) bool {
	return len(text) > len(word) && strings.EqualFold(text[:len(word)], word) && strings.ContainsRune(" \t\r\n/#-`", rune(text[len(word)]))
}

// skipBlank returns where a statement goes on after white space and comments.
func skipBlank(text string, at int) int {
	for at < len(text) {
		rest, end := text[at:], ""
		switch {
		case strings.ContainsRune(" \t\r\n", rune(text[at])):
			at++
			continue
		case strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*!") && !strings.HasPrefix(rest, "/*+"):
			end = "*/"
		case strings.HasPrefix(rest, "#"), strings.HasPrefix(rest, "-- "):
			end = "\n"
		default:
			return at
		}
		length := strings.Index(rest, end)
		if length < 0 {
			return len(text)
		}
		at += length + len(end)
	}
	return at
}

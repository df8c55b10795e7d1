// Package text bounds the length of texts for people.
package text

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Shorten returns at most limit bytes of a text. One that is cut ends with an ellipsis, and is cut between two characters. Bytes that
// are no UTF-8 are replaced, because the API server takes none. The limit is at least that of an ellipsis.
func Shorten(text string, limit int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	for name, row := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"empty":                              {"", 10, ""},
		"as long as it may be":               {"0123456789", 10, "0123456789"},
		"a byte too long":                    {"0123456789a", 10, "0123456…"},
		"as long as it may be, in bytes":     {"üüüüü", 10, "üüüüü"},
		"cut between characters of 2 bytes":  {"üüüüüü", 11, "üüüü…"},
		"cut within a character of 2 bytes":  {"üüüüüü", 10, "üüü…"},
		"cut within a character of 4 bytes":  {"a😀😀😀", 11, "a😀…"},
		"cut between characters of 4 bytes":  {"😀😀😀", 11, "😀😀…"},
		"nothing fits but the ellipsis":      {"😀😀", 6, "…"},
		"half a character, as of a cut text": {"ab\xf0\x9f\x98", 10, "ab\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Shorten(row.text, row.limit); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestNoLimitIsExceededAndNoCharacterIsCut(t *testing.T) {
	long := strings.Repeat("aü€😀", 50)
	for limit := len(ellipsis); limit <= len(long); limit++ {
		if got := Shorten(long, limit); len(got) > limit || len(got) < limit-3 || !utf8.ValidString(got) {
			t.Fatalf("of %d bytes: %d bytes, %q", limit, len(got), got)
		}
	}
}

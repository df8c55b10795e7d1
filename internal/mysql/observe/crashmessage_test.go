package observe

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCrashMessage(t *testing.T) {
	for line, want := range map[string]string{
		"": "",
		"2026-11-26T21:40:26.123456Z 12 [ERROR] [MY-013183] [InnoDB] Assertion failure: buf0buf.cc:5678:false thread 140123\n": "[MY-013183] [InnoDB] Assertion failure: buf0buf.cc:5678:false",
		"MY-012153 Database page corruption on disk.":       "MY-012153 Database page corruption on disk",
		"2026-11-26T21:40:26Z UTC - mysqld got signal 11 ;": "2026-11-26T21:40:26Z UTC - mysqld got signal 11 ;",
		"MY-1 two\nlines\x00and a \xff byte":                "MY-1 two lines and a byte",
	} {
		if got := crashMessage(line); got != want {
			t.Errorf("%q gives %q, want %q", line, got, want)
		}
	}
	if got := crashMessage(strings.Repeat("ä", 1000)); utf8.RuneCountInString(got) != longestCrashError {
		t.Errorf("a long message has %d characters", utf8.RuneCountInString(got))
	}
}

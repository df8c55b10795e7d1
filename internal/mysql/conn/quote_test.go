package conn

import "testing"

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"a": "`a`", "a`; DROP": "`a``; DROP`"} {
		if got := QuoteName(name); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if Compact("a:1-2,\n b:3 ") != "a:1-2,b:3" {
		t.Error("white space is left")
	}
}

package mysql

import "testing"

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{"9.7.4": {9, 7, 4}, "8.4.10": {8, 4, 10}, "9.7.4-commercial": {9, 7, 4}, "9.7.4-2.1": {9, 7, 4}} {
		if got, err := ParseVersion(text); got != want || err != nil {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "9.7", "9.7.4.1", "9.7.x", "9..4", "latest"} {
		if got, err := ParseVersion(text); got != (Version{}) || err == nil {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

func TestVersionsCompare(t *testing.T) {
	for _, row := range []struct {
		a, b        string
		older, same bool
	}{
		{"9.7.4", "9.7.4", false, true},
		{"9.7.4", "9.7.10", true, true},
		{"9.7.10", "9.7.4", false, true},
		{"8.4.10", "9.7.4", true, false},
		{"9.7.4", "9.10.0", true, false},
		{"9.10.0", "9.7.4", false, false},
		{"", "9.7.4", true, false},
		{"9.7.4", "", false, false},
	} {
		if older, same := OlderVersion(row.a, row.b), SameSeries(row.a, row.b); older != row.older || same != row.same {
			t.Errorf("%q and %q: older %t, of one series %t", row.a, row.b, older, same)
		}
	}
}

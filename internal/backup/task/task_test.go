package task

import "testing"

func TestValueOf(t *testing.T) {
	for _, row := range []struct{ content, value string }{
		{"AKIA", "AKIA"}, {"AKIA\n", "AKIA"}, {"AKIA\r\n", "AKIA"}, {"AKIA\n\n", "AKIA"}, {" s3cr\"et'/+= ", " s3cr\"et'/+= "}, {"two\nlines\n", "two\nlines"}, {"", ""}, {"\n", ""}, {"\r\n", ""},
	} {
		if got := ValueOf([]byte(row.content)); got != row.value {
			t.Errorf("%q says %q, not %q", row.content, got, row.value)
		}
	}
}

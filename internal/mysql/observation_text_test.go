package mysql

import "testing"

// TestACloneTellsHowFarItIs: it may take hours.
func TestACloneTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]CloneProgress{
		"file copy, 25% of 4096 MiB": {Stage: "FILE COPY", BytesDone: 1 << 30, BytesTotal: 4 << 30},
		"drop data":                  {Stage: "DROP DATA"},
		"the donor went away":        {Stage: "PAGE COPY", BytesDone: 1, BytesTotal: 2, Error: "the donor went away"},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package dump

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// TestRows: every run has the same rows, in pieces that are whole rows, as many bytes as were asked for, and each row has a
// value for every column.
func TestRows(t *testing.T) {
	for _, table := range tables {
		const size = 200 << 10
		var all [2][]byte
		for run, pieceSize := range []int64{10 << 10, 1 << 30} {
			for source := newRows(table, size); source.left > 0; {
				piece, err := io.ReadAll(source.piece(pieceSize).reader())
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.HasSuffix(piece, []byte("\n")) {
					t.Fatalf("%s: a piece ends with %q", table.name, piece[max(0, len(piece)-20):])
				}
				all[run] = append(all[run], piece...)
			}
		}
		if len(all[0]) < size || len(all[0]) > size+1000 || len(all[1]) < size || len(all[1]) > size+1000 {
			t.Errorf("%s: %d and %d bytes instead of %d", table.name, len(all[0]), len(all[1]), size)
		}
		if n := min(len(all[0]), len(all[1])); !bytes.Equal(all[0][:n], all[1][:n]) {
			t.Errorf("%s: two runs differ", table.name)
		}
		for row := range strings.Lines(string(all[0])) {
			if got := strings.Count(row, "\t") + 1; got != valuesOf[table.name] {
				t.Fatalf("%s: %q has %d values instead of %d", table.name, row, got, valuesOf[table.name])
			}
			if strings.Contains(strings.ReplaceAll(row, `\N`, ""), `\`) {
				t.Fatalf("%s: %q needs a backslash", table.name, row)
			}
		}
	}
}

// valuesOf is how many columns each table has.
var valuesOf = map[string]int{"customers": 6, "orders": 7, "items": 6, "events": 5}

// TestMemory: the kernel's own mark, and only once the process is ours.
func TestMemory(t *testing.T) {
	const status = "Name:\tmanager\nVmPeak:\t  999999 kB\nVmHWM:\t   1024 kB\nVmRSS:\t    900 kB\nRssAnon:\t    512 kB\n"
	if got, want := parseMemory(status), (memory{resident: 1 << 20, anonymous: 512 << 10}); got != want {
		t.Errorf("got %+v instead of %+v", got, want)
	}
	for _, other := range []string{strings.Replace(status, "manager", "env", 1), "Name:\tmanager\nState:\tZ (zombie)\n", ""} {
		if got := parseMemory(other); got != (memory{}) {
			t.Errorf("%q: got %+v", other, got)
		}
	}
}

// TestPipeSaysWhoFailed, also when it is not the last one.
func TestPipeSaysWhoFailed(t *testing.T) {
	sh := func(script string) *exec.Cmd { return exec.CommandContext(t.Context(), "sh", "-c", script) }
	if err := pipe(sh("echo a"), sh("test $(cat) = a")); err != nil {
		t.Error(err)
	}
	for _, commands := range [][]*exec.Cmd{
		{sh("echo first >&2; exit 3"), sh("cat >/dev/null")},
		{sh("echo a"), sh("echo second >&2; exit 3")},
		{sh("echo a"), sh("cat"), exec.CommandContext(t.Context(), "/no/such/program")},
	} {
		err := pipe(commands...)
		if err == nil {
			t.Error("nothing failed")
			continue
		}
		if text := err.Error(); !strings.Contains(text, "first") && !strings.Contains(text, "second") && !strings.Contains(text, "/no/such/program") {
			t.Errorf("it says %v", err)
		}
	}
}

package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var ten []time.Duration
	for i := range 10 {
		ten = append(ten, time.Duration(i+1))
	}
	for _, c := range []struct {
		share float64
		want  time.Duration
	}{{.5, 5}, {.95, 10}, {.9, 9}, {0, 1}, {1, 10}} {
		if got := Quantile(ten, c.share); got != c.want {
			t.Errorf("quantile %v is %v, want %v", c.share, got, c.want)
		}
	}
	if Quantile(nil, .5) != 0 {
		t.Error("there is a quantile of nothing")
	}
}

// TestAimsAreJudged: a figure that misses its aim must not look like one that meets it.
func TestAimsAreJudged(t *testing.T) {
	table := &Table{Title: "Title"}
	table.Add("met", "1", "< 2", true)
	table.Add("missed", "3", "< 2", false)
	table.Note("plain", "%d", 4)
	table.Counts(map[string]int{"seldom": 1, "often": 5})
	var out bytes.Buffer
	table.Print(&out)
	for line, want := range map[string]string{"  met ": "< 2: met", "  missed ": "< 2: MISSED", "  plain ": "4"} {
		at := strings.Index(out.String(), line)
		if at < 0 || !strings.Contains(strings.SplitN(out.String()[at:], "\n", 2)[0], want) {
			t.Errorf("no %q with %q in %s", line, want, out.String())
		}
	}
	if strings.Index(out.String(), "often") > strings.Index(out.String(), "seldom") {
		t.Error("the most frequent is not first")
	}
}

// TestGridIsMarkdown: every line has all columns, and the columns are below each other.
func TestGridIsMarkdown(t *testing.T) {
	g := &Grid{Title: "Title", Header: []string{"a", "second"}}
	g.Add("longer µs", "1")
	g.Add("x")
	var out bytes.Buffer
	g.Print(&out)
	want := "\nTitle\n\n| a         | second |\n| --------- | ------ |\n| longer µs | 1      |\n| x         |        |\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// Package report prints what the benchmarks measured: tables of figures, some with an aim beside them.
package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is a table of figures.
type Table struct {
	Title string
	rows  [][3]string
}

// Add appends a figure, with its aim and whether that is met; an empty aim is none.
func (t *Table) Add(name, value, aim string, met bool) {
	switch {
	case aim == "":
	case met:
		aim += ": met"
	default:
		aim += ": MISSED"
	}
	t.rows = append(t.rows, [3]string{name, value, aim})
}

// Note appends a figure without an aim.
func (t *Table) Note(name, format string, args ...any) {
	t.Add(name, fmt.Sprintf(format, args...), "", false)
}

// Counts appends one line for each name, the most frequent first.
func (t *Table) Counts(counts map[string]int) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		t.Note("    "+name, "%d", counts[name])
	}
}

// Print writes the table.
func (t *Table) Print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s\n", t.Title)
	for _, row := range t.rows {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", row[0], row[1], row[2])
	}
	_ = w.Flush() // a terminal that is gone reads nothing
}

// Quantile is the value that a share of the durations does not exceed. They must be sorted.
func Quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(share*float64(len(sorted))))-1))]
}

// Round makes a duration fit to be read.
func Round(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d < time.Second:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

// Load is the machine's load average of the last minute: figures of a busy machine are worse than what was measured.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// Mebibytes prints a number of bytes.
func Mebibytes(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

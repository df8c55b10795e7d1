package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// report is a table of figures.
type report struct {
	title string
	rows  [][3]string
}

// add appends a figure, with its aim and whether that is met; an empty aim is none.
func (r *report) add(name, value, aim string, met bool) {
	switch {
	case aim == "":
	case met:
		aim += ": met"
	default:
		aim += ": MISSED"
	}
	r.rows = append(r.rows, [3]string{name, value, aim})
}

// note appends a figure without an aim.
func (r *report) note(name, format string, args ...any) {
	r.add(name, fmt.Sprintf(format, args...), "", false)
}

// places appends one line for each place that something was done from, the most frequent first.
func (r *report) places(counts map[string]int) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		r.note("    "+name, "%d", counts[name])
	}
}

func (r *report) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s\n", r.title)
	for _, row := range r.rows {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", row[0], row[1], row[2])
	}
	_ = w.Flush() // a terminal that is gone reads nothing
}

// quantile is the value that a share of the durations does not exceed. They must be sorted.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(share*float64(len(sorted))))-1))]
}

// durations are the lengths of laps, sorted.
func durations(laps []lap) []time.Duration {
	all := make([]time.Duration, len(laps))
	for i, l := range laps {
		all[i] = l.ended.Sub(l.began)
	}
	slices.Sort(all)
	return all
}

// round makes a duration fit to be read.
func round(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d < time.Second:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

// cpuTime is what this process has used so far, stubs included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// load is the machine's load average of the last minute: figures of a busy machine are worse than the operator.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// heaps are the live bytes of this process as the heap profile estimates them: those that the stub members allocated,
// and all others.
func heaps() (operator, stubs float64) {
	runtime.GC()
	runtime.GC() // the profile shows the state of the last complete cycle
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, false); !ok; n, ok = runtime.MemProfile(records, false) {
		records = make([]runtime.MemProfileRecord, n+64)
		if n, ok = runtime.MemProfile(records, false); ok {
			records = records[:n]
			break
		}
	}
	for _, record := range records {
		objects, bytes := float64(record.InUseObjects()), float64(record.InUseBytes())
		if objects == 0 {
			continue
		}
		// One in MemProfileRate bytes is sampled; this undoes it, as pprof does.
		bytes /= 1 - math.Exp(-bytes/objects/float64(runtime.MemProfileRate))
		if ofStub(record.Stack()) {
			stubs += bytes
		} else {
			operator += bytes
		}
	}
	return operator, stubs
}

// ofStub says whether a stub member did an allocation.
func ofStub(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/test/bench.(*member).") || strings.Contains(frame.Function, "/test/bench.(*world).add") {
			return true
		}
		if !more {
			return false
		}
	}
}

func mebibytes(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

package writes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// TestLag: what the replica lacks is as old as the first commit that it lacks, wherever between two looks that was.
func TestLag(t *testing.T) {
	series := func(replica uint64) []point {
		return []point{{0, 100, 100}, {time.Second, 200, 110}, {2 * time.Second, 300, 120}, {3 * time.Second, 400, replica}}
	}
	for _, c := range []struct {
		name   string
		series []point
		want   time.Duration
	}{
		{"nobody looked", nil, 0},
		{"it lacks nothing", series(400), 0},
		{"it is ahead of what was read at the primary", series(410), 0},
		{"all since the beginning", series(100), 3 * time.Second},
		{"half way between two looks", series(250), 1500 * time.Millisecond},
		{"less than at the first look", series(50), 3 * time.Second},
	} {
		if got := lag(c.series); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRates(t *testing.T) {
	series := []point{{0, 0, 0}, {time.Second, 1000, 1000}, {2 * time.Second, 1500, 1300}, {3 * time.Second, 2000, 1600}, {4 * time.Second, 9000, 9000}}
	committed, applied, growth := rates(between(series, time.Second, 3*time.Second))
	if committed != 500 || applied != 300 || growth != 200 {
		t.Errorf("%v committed, %v applied, grows by %v a second; want 500, 300, 200", committed, applied, growth)
	}
	if _, _, growth := rates([]point{{0, 1000, 0}, {time.Second, 1000, 400}}); growth != -400 {
		t.Errorf("a backlog that shrinks by 400 a second grows by %v", growth)
	}
	if committed, _, _ := rates(series[:1]); committed != 0 {
		t.Errorf("one look shows a rate of %v", committed)
	}
}

func TestProcessorTimes(t *testing.T) {
	machine, err := machineTime("cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8\n")
	if want := 171 * tick; err != nil || machine != want {
		t.Errorf("the machine was busy for %s, %v; want %s", machine, err, want)
	}
	process, err := processTime("42 (my (sq) ld) S 1 42 42 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 40 0 1 2 3")
	if want := 300 * tick; err != nil || process != want {
		t.Errorf("the process used %s, %v; want %s", process, err, want)
	}
	for _, text := range []string{"", "intr 1 2 3 4 5 6 7 8 9", "cpu 1 2 x 4 5 6 7 8"} {
		if _, err := machineTime(text); err == nil {
			t.Errorf("%q has a time", text)
		}
	}
	for _, text := range []string{"", "42 (x) S 1", "42 (x) S 1 42 42 0 -1 4194560 1 2 3 4 a 50 7"} {
		if _, err := processTime(text); err == nil {
			t.Errorf("%q has a time", text)
		}
	}
	u := usage{at: 3 * time.Second, machine: 10 * time.Second, primary: 5 * time.Second, replica: time.Second, clients: time.Second}
	u = u.since(usage{at: time.Second, machine: 4 * time.Second, primary: 3 * time.Second})
	if u.per(u.machine) != 3 || u.per(u.primary) != 1 || u.others() != 2*time.Second {
		t.Errorf("between two looks: %+v, of which others used %s", u, u.others())
	}
}

// filled are results of one number of clients, with a rate for each round.
func filled(clients int, rates map[string][]float64) results {
	var r results
	for _, v := range variants {
		f := &figures{variant: v, clients: clients}
		for _, rate := range rates[v.name] {
			f.turns = append(f.turns, turn{rate: rate, latencies: []time.Duration{time.Millisecond, 9 * time.Millisecond}, used: usage{at: time.Second}})
		}
		r = append(r, f)
	}
	return r
}

// TestRatiosCompareWithinARound: a round in which the machine was busy slows both, and changes no ratio.
func TestRatiosCompareWithinARound(t *testing.T) {
	r := filled(aimedAt, map[string][]float64{plain.name: {1000, 100, 400}, memory.name: {950, 95, 380}, standalone.name: {1900, 190, 0}})
	if ratio, known := r.of(memory, aimedAt).ratio(r.of(plain, aimedAt), rate); !known || ratio != .95 {
		t.Errorf("Memory through plain is %v, %v; want 0.95", ratio, known)
	}
	if ratio, known := r.of(memory, aimedAt).ratio(r.of(standalone, aimedAt), rate); !known || ratio != .5 {
		t.Errorf("Memory through standalone is %v, %v; want 0.5 without the round that has none", ratio, known)
	}
	if _, known := r.of(memory, 1).ratio(r.of(plain, 1), rate); known {
		t.Error("a number of clients that was not measured has a ratio")
	}
}

// TestAims: one is met, one is missed, and without 64 clients none is judged.
func TestAims(t *testing.T) {
	rates := map[string][]float64{plain.name: {1000}, memory.name: {950}, standalone.name: {1900}}
	for clients, want := range map[int][]string{aimedAt: {"0.95", "met", "0.50", "MISSED"}, 8: nil} {
		table := &report.Table{}
		filled(clients, rates).judge(table)
		var out bytes.Buffer
		table.Print(&out)
		for _, word := range want {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%d clients: no %q in %q", clients, word, out.String())
			}
		}
		if want == nil && strings.TrimSpace(out.String()) != "" {
			t.Errorf("%d clients are judged: %q", clients, out.String())
		}
	}
}

// TestTables: every variant has its row, with as many cells as there are columns, and a server without replicas no backlog.
func TestTables(t *testing.T) {
	rates := map[string][]float64{}
	for i, v := range variants {
		rates[v.name] = []float64{float64(100 * (i + 1)), float64(100 * (i + 1))}
	}
	r := append(filled(8, rates), filled(aimedAt, rates)...)
	g := r.table("Title")
	if len(g.Rows) != 2*len(variants) {
		t.Fatalf("%d rows, want two for each of %d variants", len(g.Rows), len(variants))
	}
	for i, row := range g.Rows {
		if len(row) != len(g.Header) {
			t.Errorf("row %d has %d cells below %d columns", i, len(row), len(g.Header))
		}
		if alone := row[1] == standalone.name; alone != (row[6] == "") {
			t.Errorf("%s has a backlog of %q", row[1], row[6])
		}
	}
	if row := strings.Join(g.Rows[1][:6], " "); row != "8 plain semi-sync 200 1ms 9ms 9ms" {
		t.Errorf("the second row begins %q", row)
	}
	ratios := r.ratios()
	if len(ratios.Rows) != 2 || ratios.Rows[1][0] != fmt.Sprint(aimedAt) || ratios.Rows[1][1] != "1.50" || len(ratios.Rows[0]) != len(ratios.Header) {
		t.Errorf("ratios are %q below %q", ratios.Rows, ratios.Header)
	}
	a := appliersTable("Title", []*appliers{{threads: 4, turns: []applied{{turn: turn{committed: 200, applied: 150}, catchUp: 900}}}})
	if len(a.Rows) != 1 || len(a.Rows[0]) != len(a.Header) || a.Rows[0][3] != "0.75" || a.Rows[0][8] != "900/s" {
		t.Errorf("appliers are %q below %q", a.Rows, a.Header)
	}
}

// TestLimit: the smallest number of clients that keeps the processors busy is named, or that there is none.
func TestLimit(t *testing.T) {
	busy := func(clients int, share float64) *figures {
		all := time.Duration(runtime.NumCPU()) * time.Second
		used := usage{at: time.Second, machine: time.Duration(share * float64(all)), primary: time.Duration(.15 * float64(all))}
		return &figures{variant: plain, clients: clients, turns: []turn{{used: used}}}
	}
	r := results{busy(1, .2), busy(8, .95), busy(64, 1)}
	if got := r.limit(plain); !strings.Contains(got, "from 8 clients on: 95 % busy, 80 % with other work") {
		t.Errorf("with 8 clients busy: %q", got)
	}
	if got := r[:1].limit(plain); got != "the processors are not the limit" {
		t.Errorf("with none busy: %q", got)
	}
}

// TestDrainedIsBounded: a time that is only known to be longer does not pass for one that was measured.
func TestDrainedIsBounded(t *testing.T) {
	if got := drained(1.26); got != "1.3 s" {
		t.Errorf("1.26 s are %q", got)
	}
	if got := drained(drainLimit.Seconds()); !strings.HasPrefix(got, "> ") {
		t.Errorf("the limit is %q", got)
	}
}

// TestRowsFitTheirColumns: as long as sysbench's.
func TestRowsFitTheirColumns(t *testing.T) {
	for _, c := range []struct{ groups, want int }{{11, 120}, {5, 54}} {
		if got := len(digits(c.groups)); got != c.want {
			t.Errorf("%d groups have %d characters, want %d", c.groups, got, c.want)
		}
	}
}

// TestOnlyLocksAreRetried: anything else ends the benchmark.
func TestOnlyLocksAreRetried(t *testing.T) {
	for number, want := range map[uint16]bool{erLockDeadlock: true, erLockWaitTimeout: true, 1062: false} {
		if got := retryable(fmt.Errorf("update: %w", &driver.MySQLError{Number: number})); got != want {
			t.Errorf("error %d is retried: %v", number, got)
		}
	}
	if retryable(errors.New("invalid connection")) {
		t.Error("a broken connection is retried")
	}
}

// TestFilesOnADiskAreRefused: they would be measured with that disk's latency.
func TestFilesOnADiskAreRefused(t *testing.T) {
	if err := checkInMemory("/proc"); err == nil || !strings.Contains(err.Error(), "hack/in-memory.sh") {
		t.Errorf("a folder that is not in memory: %v", err)
	}
	if err := checkInMemory("/dev/shm"); err != nil {
		t.Error(err)
	}
}

// TestLibraryIsMissed: without it memory's own speed would be measured.
func TestLibraryIsMissed(t *testing.T) {
	if err := checkPreloaded(os.Getpid()); err == nil {
		t.Error("this process passes for one with the library")
	}
}

// TestVariantIsChecked: a source that waits for nobody is not measured as one that does, nor the other way round.
func TestVariantIsChecked(t *testing.T) {
	for _, c := range []struct {
		v      variant
		during semiSync
		good   bool
	}{
		{memory, semiSync{acknowledged: 10}, true},
		{memory, semiSync{acknowledged: 10, gaveUp: 1}, false},
		{memory, semiSync{}, false},
		{async, semiSync{}, true},
		{async, semiSync{gaveUp: 10}, true},
		{standalone, semiSync{acknowledged: 1}, false},
	} {
		if err := c.v.check(c.during); (err == nil) != c.good {
			t.Errorf("%s with %+v: %v", c.v.name, c.during, err)
		}
	}
}

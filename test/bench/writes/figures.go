package writes

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// cpuBound is the share of the machine's processors from which on they, and not the disks, are taken to be the limit.
const cpuBound = 0.9

// figures are the turns of one variant with one number of clients, in the order of the rounds.
type figures struct {
	variant variant
	clients int
	turns   []turn
}

// median is that of a figure of all turns.
func (f *figures) median(of func(turn) float64) float64 {
	var all []float64
	for _, t := range f.turns {
		all = append(all, of(t))
	}
	return median(all)
}

// median is the middle value, or the mean of the two in the middle; 0 of nothing. It sorts the values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// latency is a quantile of the commits of all turns.
func (f *figures) latency(share float64) time.Duration {
	var all []time.Duration
	for _, t := range f.turns {
		all = append(all, t.latencies...)
	}
	slices.Sort(all)
	return report.Quantile(all, share)
}

// busy is the share of the machine's processors that did something, of anybody.
func (f *figures) busy() float64 {
	return f.median(func(t turn) float64 { return t.used.per(t.used.machine) }) / float64(runtime.NumCPU())
}

// ratio is the median over the rounds of a figure of this variant through the same of another in the same round. It is not
// known without rounds, or where the other's is 0.
func (f *figures) ratio(other *figures, of func(turn) float64) (float64, bool) {
	var all []float64
	for i := range min(len(f.turns), len(other.turns)) {
		if base := of(other.turns[i]); base > 0 {
			all = append(all, of(f.turns[i])/base)
		}
	}
	return median(all), len(all) > 0
}

func rate(t turn) float64 { return t.rate }

// results are all figures of a run.
type results []*figures

func (r results) of(v variant, clients int) *figures {
	for _, f := range r {
		if f.variant.name == v.name && f.clients == clients {
			return f
		}
	}
	return &figures{variant: v, clients: clients}
}

// counts are the numbers of clients, in the order of the run.
func (r results) counts() []int {
	var all []int
	for _, f := range r {
		if !slices.Contains(all, f.clients) {
			all = append(all, f.clients)
		}
	}
	return all
}

// table has a row for each variant and number of clients.
func (r results) table(title string) *report.Grid {
	g := &report.Grid{Title: title, Header: []string{
		"clients", "variant", "commits/s", "p50", "p95", "p99", "backlog", "of the last", "drained in", "CPUs: all", "primary", "replicas", "generator", "others", "load",
	}}
	for _, f := range r {
		cpus := func(of func(usage) time.Duration) string {
			return fmt.Sprintf("%.2f", f.median(func(t turn) float64 { return t.used.per(of(t.used)) }))
		}
		backlog, behind, drain := "", "", ""
		if !f.variant.alone {
			backlog = fmt.Sprintf("%.0f", f.median(func(t turn) float64 { return t.backlog }))
			behind = fmt.Sprintf("%.1f s", f.median(func(t turn) float64 { return t.lag.Seconds() }))
			drain = drained(f.median(func(t turn) float64 { return t.drain.Seconds() }))
		}
		g.Add(fmt.Sprint(f.clients), f.variant.name, fmt.Sprintf("%.0f", f.median(rate)),
			report.Round(f.latency(.5)).String(), report.Round(f.latency(.95)).String(), report.Round(f.latency(.99)).String(), backlog, behind, drain,
			cpus(func(u usage) time.Duration { return u.machine }), cpus(func(u usage) time.Duration { return u.primary }),
			cpus(func(u usage) time.Duration { return u.replica }), cpus(func(u usage) time.Duration { return u.clients }), cpus(usage.others),
			fmt.Sprintf("%.1f", f.median(func(t turn) float64 { return t.load })))
	}
	return g
}

// drained prints a time in seconds, which is bounded by drainLimit.
func drained(seconds float64) string {
	if seconds >= drainLimit.Seconds() {
		return fmt.Sprintf("> %.0f s", drainLimit.Seconds())
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// comparisons are the ratios of throughput that are printed.
var comparisons = []struct {
	name   string
	of, to variant
	aim    float64 // at aimedAt clients; 0: none
}{
	{"Memory / plain semi-sync", memory, plain, 0.9},
	{"Memory / standalone", memory, standalone, 0.8},
	{"Disk / Memory", onDisk, memory, 0},
	{"Async / standalone", async, standalone, 0},
}

// aimedAt is the number of clients that the aims are for.
const aimedAt = 64

// ratios has a row for each number of clients.
func (r results) ratios() *report.Grid {
	g := &report.Grid{Title: "Ratios of throughput, within a round, median of the rounds", Header: []string{"clients"}}
	for _, c := range comparisons {
		g.Header = append(g.Header, c.name)
	}
	for _, clients := range r.counts() {
		row := []string{fmt.Sprint(clients)}
		for _, c := range comparisons {
			text := ""
			if ratio, known := r.of(c.of, clients).ratio(r.of(c.to, clients), rate); known {
				text = fmt.Sprintf("%.2f", ratio)
			}
			row = append(row, text)
		}
		g.Add(row...)
	}
	return g
}

// judge adds the aims that the run says something about.
func (r results) judge(t *report.Table) {
	for _, c := range comparisons {
		ratio, known := r.of(c.of, aimedAt).ratio(r.of(c.to, aimedAt), rate)
		if known && c.aim > 0 {
			t.Add(fmt.Sprintf("%s, %d clients", c.name, aimedAt), fmt.Sprintf("%.2f", ratio), fmt.Sprintf(">= %.1f", c.aim), ratio >= c.aim)
		}
	}
}

// limit says from how many clients on the processors are busy while a variant is measured, and how much of that is other work.
func (r results) limit(v variant) string {
	for _, clients := range r.counts() {
		f := r.of(v, clients)
		if busy := f.busy(); busy >= cpuBound {
			others := f.median(func(t turn) float64 { return t.used.per(t.used.others()) }) / float64(runtime.NumCPU())
			return fmt.Sprintf("the processors are the limit from %d clients on: %.0f %% busy, %.0f %% with other work", clients, 100*busy, 100*others)
		}
	}
	return "the processors are not the limit"
}

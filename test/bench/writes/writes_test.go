package writes

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/disk"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// Environment of the benchmarks, with what `make` uses when it is not set.
const (
	// Numbers of clients, of which only the largest up to 64 counts for the appliers.
	clientsVariable, clientsDefault = "BENCH_WRITES_CLIENTS", "1,8,64,256"
	// How often each variant has its turn, and for how many seconds.
	roundsVariable, roundsDefault   = "BENCH_WRITES_ROUNDS", 3.0
	secondsVariable, secondsDefault = "BENCH_WRITES_SECONDS", 10.0
	// What a volume does: microseconds of an fsync, and how many it takes at a time.
	latencyVariable, latencyDefault = "BENCH_WRITES_FSYNC_US", 1000.0
	depthVariable, depthDefault     = "BENCH_WRITES_DEPTH", 3.0
	// Numbers of applier threads.
	threadsVariable, threadsDefault = "BENCH_APPLIER_THREADS", "1,2,4,8,16"
)

// setting is how a benchmark runs.
type setting struct {
	clients []int
	rounds  int
	length  time.Duration
	disk    disk.Disk
}

func settingOf(b *testing.B) setting {
	b.Helper()
	return setting{
		clients: numbers(b, clientsVariable, clientsDefault), rounds: int(positive(b, roundsVariable, roundsDefault)),
		length: time.Duration(positive(b, secondsVariable, secondsDefault) * float64(time.Second)),
		disk: disk.Disk{
			Latency: time.Duration(positive(b, latencyVariable, latencyDefault)) * time.Microsecond,
			Depth:   int(positive(b, depthVariable, depthDefault)),
		},
	}
}

// BenchmarkWrites compares what can be promised of a commit.
func BenchmarkWrites(b *testing.B) {
	s := settingOf(b)
	w := started(b, s)
	all, failure := w.compare(b.Context(), s)
	all.table(fmt.Sprintf("Commits, %d rounds of %s", s.rounds, s.length)).Print(os.Stdout)
	all.ratios().Print(os.Stdout)
	r := machine(s)
	for _, v := range variants {
		r.Note(v.name, "%s", all.limit(v))
	}
	all.judge(r)
	r.Print(os.Stdout)
	if failure != nil {
		b.Fatal(failure) // what was measured until then is shown
	}
	if ratio, known := all.of(memory, aimedAt).ratio(all.of(plain, aimedAt), rate); known {
		b.ReportMetric(ratio, "of-plain-semi-sync")
	}
}

// compare has the variants take turns. With an error come the figures of the turns before.
func (w *world) compare(ctx context.Context, s setting) (results, error) {
	var all results
	for _, clients := range s.clients {
		var these results
		for _, v := range variants {
			these = append(these, &figures{variant: v, clients: clients})
		}
		all = append(all, these...)
		for round := range s.rounds {
			order := slices.Clone(these)
			if round%2 == 1 {
				slices.Reverse(order) // who comes first has no advantage
			}
			for _, f := range order {
				t, err := w.turn(ctx, f.variant, clients, s.length)
				if err != nil {
					return all, err
				}
				f.turns = append(f.turns, t)
				fmt.Printf("%d clients, round %d, %s: %.0f commits/s, backlog %.0f, %d rolled back; load average %.1f\n", clients, round+1, f.variant.name, t.rate, t.backlog, t.refused, t.load)
			}
		}
	}
	return all, nil
}

// turn puts the cluster into the state of a variant, measures, and makes room.
func (w *world) turn(ctx context.Context, v variant, clients int, length time.Duration) (turn, error) {
	if err := w.become(ctx, v); err != nil {
		return turn{}, fmt.Errorf("%s: %w", v.name, err)
	}
	t, err := w.measure(ctx, v, clients, length)
	if err != nil {
		return t, err
	}
	return t, w.purge(ctx)
}

// BenchmarkAppliers compares numbers of applier threads.
func BenchmarkAppliers(b *testing.B) {
	s := settingOf(b)
	w := started(b, s)
	var product int
	if err := w.replicas()[0].root.QueryRowContext(b.Context(), "SELECT @@GLOBAL.replica_parallel_workers").Scan(&product); err != nil {
		b.Fatal(err)
	}
	tracking, err := w.tracking(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	clients := appliersClients(s.clients)
	var all []*appliers
	for _, threads := range numbers(b, threadsVariable, threadsDefault) {
		all = append(all, &appliers{threads: threads})
	}
	for round := range s.rounds {
		order := slices.Clone(all)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, a := range order {
			t, err := w.measureAppliers(b.Context(), a.threads, clients, s.length)
			if err != nil {
				b.Fatal(err)
			}
			if err := w.purge(b.Context()); err != nil {
				b.Fatal(err)
			}
			a.turns = append(a.turns, t)
			fmt.Printf("%d threads, round %d: %.0f commits/s, %.0f applied/s, alone %.0f/s; load average %.1f\n", a.threads, round+1, t.committed, t.applied, t.catchUp, t.load)
		}
	}
	appliersTable(fmt.Sprintf("Appliers, %d clients, acknowledged from memory, commit order kept, %d rounds of %s", clients, s.rounds, s.length), all).Print(os.Stdout)
	r := machine(s)
	r.Note("threads with the product's settings", "%d", product)
	r.Note("binlog_transaction_dependency_tracking", "%s", tracking)
	r.Print(os.Stdout)
}

// tracking says how the server finds out what may be applied side by side.
func (w *world) tracking(ctx context.Context) (text string, err error) {
	err = w.cluster[0].root.QueryRowContext(ctx, `SELECT COALESCE(MAX(VARIABLE_VALUE), CONCAT(VERSION(), ' has no such variable: by write sets'))
		FROM performance_schema.global_variables WHERE VARIABLE_NAME = 'binlog_transaction_dependency_tracking'`).Scan(&text)
	return text, err
}

// started is a world that the benchmark closes. It ends with the process that started this one: nobody would read its figures.
func started(b *testing.B, s setting) *world {
	b.Helper()
	ctrl.SetLogger(logr.Discard())
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		b.Fatal(err)
	}
	w, err := newWorld(b.Context(), b.TempDir(), s.disk)
	b.Cleanup(func() {
		if err := w.close(); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// machine begins the table of what a run was made on.
func machine(s setting) *report.Table {
	r := &report.Table{Title: "What it was measured on"}
	r.Note("machine", "%d CPUs for %d servers and the clients; load average %s", runtime.NumCPU(), members, report.Load())
	r.Note("volume of each server", "an fsync takes %s, %d at a time (%.0f a second)", s.disk.Latency, s.disk.Depth, float64(s.disk.Depth)/s.disk.Latency.Seconds())
	return r
}

// appliersClients are those that the appliers are measured with.
func appliersClients(counts []int) int {
	best := counts[0]
	for _, n := range counts {
		if n <= aimedAt && n > best {
			best = n
		}
	}
	return best
}

func positive(b *testing.B, name string, fallback float64) float64 {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		b.Fatalf("%s=%q is not a positive number", name, text)
	}
	return n
}

func numbers(b *testing.B, name, fallback string) []int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		text = fallback
	}
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			b.Fatalf("%s=%q is not a list of positive numbers", name, text)
		}
		all = append(all, n)
	}
	return all
}

package bench

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// Environment of the benchmark of many clusters, with what `make bench` uses when it is not set.
const (
	scaleVariable, scaleDefault = "BENCH_SCALE", 1000
	// How long the operator runs before it is measured, and is measured, in seconds: one and three of its sweeps of that many machines.
	restVariable, restDefault               = "BENCH_REST", 90
	scaleSecondsVariable, scaleSecondsPlain = "BENCH_SCALE_SECONDS", 180
	// A folder for profiles of the operator, taken after it was measured.
	profilesVariable = "BENCH_PROFILES"
)

// What is aimed for with 1,000 clusters.
const (
	aimMemory = 256 << 20 // bytes
	aimCPU    = 0.2       // cores
)

// sweepInterval and pageSize are the operator's: how often it lists all that it has in EC2 at most, and how much it gets at once.
const (
	sweepInterval = 30 * time.Second
	pageSize      = 1000
)

// BenchmarkScale measures what an operator process of its own uses for many Ready clusters, undisturbed: nothing is
// forced, the operator looks after its clusters in its own time.
func BenchmarkScale(b *testing.B) {
	prepare(b)
	size := number(b, scaleVariable, scaleDefault)
	began := time.Now()
	w, err := newWorld(b.Context(), size, true)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.close(); err != nil {
			b.Error(err)
		}
	})
	server := httptest.NewServer(w.cloud)
	b.Cleanup(server.Close)
	r := &report.Table{Title: fmt.Sprintf("%d Ready clusters of %d members, and an operator in a process of its own", size, membersEach)}
	r.Note("made in", "%s", report.Round(time.Since(began)))
	began = time.Now()
	c := w.scaledOperator(b, server.URL)
	w.awaitReadyOnce(b)
	r.Note("from the operator's start until all were Ready", "%s", report.Round(time.Since(began)))
	r.Print(os.Stdout)
	w.measureScale(b, c)
	if folder := os.Getenv(profilesVariable); folder != "" {
		if err := c.profile(b.Context(), folder); err != nil {
			b.Error(err)
		}
	}
}

// scaledOperator starts the operator's process; it ends with the benchmark.
func (w *world) scaledOperator(b *testing.B, ec2 string) *process {
	b.Helper()
	path := filepath.Join(b.TempDir(), "operator.log")
	log, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	program, err := buildOperator(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	c, err := w.startChild(context.WithoutCancel(b.Context()), program, ec2, log)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		err := c.stop()
		_ = log.Close() // written by another process
		if text, readErr := os.ReadFile(path); err != nil || b.Failed() || readErr != nil {
			b.Errorf("the operator ended with %v; the end of its log: %s", err, text[max(0, len(text)-4000):])
		}
	})
	return c
}

// measureScale lets the operator run in peace, and prints what it used and did.
func (w *world) measureScale(b *testing.B, c *process) {
	pid := c.command.Process.Pid
	time.Sleep(time.Duration(number(b, restVariable, restDefault)) * time.Second)
	if _, err := c.read(b.Context()); err != nil { // forgets the reconciles until now
		b.Fatal(err)
	}
	before, calls, tally := w.mustUse(b, pid), w.cloud.answered(), w.fleet.read()
	versions := w.versions(b)
	began := time.Now()
	var resident []int64
	for time.Since(began) < time.Duration(number(b, scaleSecondsVariable, scaleSecondsPlain))*time.Second {
		time.Sleep(time.Second)
		if err := c.alive(); err != nil {
			b.Fatal(err)
		}
		resident = append(resident, w.mustUse(b, pid).resident)
	}
	took := time.Since(began)
	after, done := w.mustUse(b, pid), w.fleet.read().since(tally)
	made := w.cloud.answered()
	maps.DeleteFunc(made, func(action string, n int) bool { made[action] = n - calls[action]; return made[action] == 0 })
	f, err := c.read(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	r := &report.Table{Title: fmt.Sprintf("Undisturbed for %s: %d Ready clusters", report.Round(took), w.size)}
	slices.Sort(resident)
	largest, cores := resident[len(resident)-1], (after.cpu-before.cpu).Seconds()/took.Seconds()
	r.Add("memory of the operator's process, largest", report.Mebibytes(float64(largest)), "<= "+report.Mebibytes(aimMemory), largest <= aimMemory)
	r.Note("  of it the program's own file / everything else", "%s / %s", report.Mebibytes(float64(after.resident-after.anonymous)), report.Mebibytes(float64(after.anonymous)))
	r.Note("  live heap / held by the Go runtime", "%s / %s", report.Mebibytes(float64(f.Live)), report.Mebibytes(float64(f.Held)))
	r.Note("    of that stacks / gaps between objects / not yet given back", "%s / %s / %s", report.Mebibytes(float64(f.Stacks)), report.Mebibytes(float64(f.Gaps)), report.Mebibytes(float64(f.Idle)))
	r.Note("  goroutines", "%d", f.Goroutines)
	r.Add("CPU of the operator's process, cores", fmt.Sprintf("%.3f", cores), fmt.Sprintf("<= %.1f", aimCPU), cores <= aimCPU)
	r.Note("reconciles", "%d, %.1f a second", len(f.Laps), float64(len(f.Laps))/took.Seconds())
	r.Note("a reconcile, p50 / p99 / longest", "%s / %s / %s", report.Round(report.Quantile(f.Laps, .5)), report.Round(report.Quantile(f.Laps, .99)), report.Round(report.Quantile(f.Laps, 1)))
	r.Add("a reconcile, p95", report.Round(report.Quantile(f.Laps, .95)).String(), "< "+aimReconcile.String(), report.Quantile(f.Laps, .95) < aimReconcile)
	minute := float64(total(made)) / took.Minutes()
	most := w.sweepCalls() * (1 + int(took/sweepInterval))
	r.Add("AWS calls a minute, all clusters together", fmt.Sprintf("%.1f", minute),
		fmt.Sprintf("<= %d a sweep of %d machines", w.sweepCalls(), w.size*membersEach), total(made) <= most)
	r.Counts(made)
	r.Add("clusters whose status was written meanwhile", strconv.Itoa(w.changed(b, versions)), "0", w.changed(b, versions) == 0)
	r.Note("clusters that are Ready at the end", "%d", w.size-len(w.waiting(b)))
	r.Note("connections to members", "%d", w.fleet.open())
	r.Note("SQL statements: reading / changing / of the probe", "%.0f / %.0f / %.0f a second", done.reads/took.Seconds(), done.changes/took.Seconds(), done.heartbeats/took.Seconds())
	r.Add("statements that the stub did not know", fmt.Sprintf("%.0f", done.unknown), "0", done.unknown == 0)
	r.Note("load average", "%s", report.Load())
	r.Print(os.Stdout)
	b.ReportMetric(cores, "cores")
	b.ReportMetric(float64(largest)/(1<<20), "MiB")
}

func (w *world) mustUse(b *testing.B, pid int) usage {
	b.Helper()
	u, err := usageOf(pid)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// sweepCalls is how many calls a sweep takes at least: each kind's pages.
func (w *world) sweepCalls() int {
	pages := func(n int) int { return max(1, (n+pageSize-1)/pageSize) }
	const statusAndSnapshots = 4 + 1 // four questions about checks and events, one about snapshots: nothing is listed there in a steady state
	machines := w.size * membersEach
	return 2*pages(machines) + pages(w.size) + statusAndSnapshots
}

// versions returns the resource version of each cluster.
func (w *world) versions(b *testing.B) map[string]string {
	b.Helper()
	var list v1alpha1.MySQLClusterList
	if err := w.client.List(b.Context(), &list, client.InNamespace(namespace)); err != nil {
		b.Fatal(err)
	}
	versions := make(map[string]string, len(list.Items))
	for _, c := range list.Items {
		versions[c.Name] = c.ResourceVersion
	}
	return versions
}

// changed counts the clusters that have another version now.
func (w *world) changed(b *testing.B, before map[string]string) int {
	b.Helper()
	n := 0
	for name, version := range w.versions(b) {
		if before[name] != version {
			n++
		}
	}
	return n
}

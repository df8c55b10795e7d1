package dump

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// Environment of the benchmark, with what `make bench-backup` uses when it is not set.
const (
	// How often it is dumped each way.
	roundsVariable, roundsDefault = "BENCH_BACKUP_ROUNDS", 3
	// The level of the zstd program; its own default is 3. Ours is the fastest of its library, about the program's 1.
	levelVariable, levelDefault = "BENCH_BACKUP_LEVEL", 3
)

// What is aimed for.
const (
	aimThroughput = 0.9
	aimMemory     = 100 << 20
)

// BenchmarkBackup dumps by hand and by the operator's binary in turns, and restores the last dump.
func BenchmarkBackup(b *testing.B) {
	ctx := b.Context()
	n := int(positive(b, roundsVariable, roundsDefault))
	size := int64(positive(b, sizeVariable, sizeDefault) * (1 << 30))
	w := startWorld(b, size)
	began := time.Now()
	source, err := w.source(ctx, size, tables)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("%.1f GiB of rows loaded in %s\n", float64(size)/(1<<30), report.Round(time.Since(began)))
	f := figures{level: int(positive(b, levelVariable, levelDefault))}
	f.dumps(ctx, b, w, source, n)
	f.printDumps(b)
	if err := w.farm.Discard(source.server); err != nil {
		b.Fatal(err)
	}
	target, err := w.target(ctx)
	if err != nil {
		b.Fatal(err)
	}
	restored, err := w.restore(ctx, target, f.taken)
	if err != nil {
		b.Fatal(err)
	}
	r := &report.Table{Title: "The restore of it"}
	r.Note("into an empty server, counted and compared", "%s", f.rate(restored.took))
	addMemory(r, restored.memory, aimMemory)
	r.Note("load average", "%s", report.Load())
	r.Print(os.Stdout)
}

// startWorld starts everything but the servers, where there is room for size bytes of rows.
func startWorld(b *testing.B, size int64) *world {
	b.Helper()
	ctrl.SetLogger(logr.Discard())
	if err := checkRoom(size); err != nil {
		b.Fatal(err)
	}
	w, err := newWorld(b.Context())
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

// figures are what was measured of dumps.
type figures struct {
	level        int
	byHand, ours []time.Duration
	storedByHand int64
	most         memory // of all rounds
	taken        taken  // the last one
}

// dumps dumps n times each way. The last of our backups is kept; the others are deleted, because S3 is on this machine too.
func (f *figures) dumps(ctx context.Context, b *testing.B, w *world, source *machine, n int) {
	b.Helper()
	for i := range n {
		took, stored, err := w.byHand(ctx, source, f.level)
		if err != nil {
			b.Fatal(err)
		}
		f.byHand, f.storedByHand = append(f.byHand, took), stored
		if i > 0 {
			if err := w.place.Remove(ctx, filepath.Base(f.taken.path)); err != nil {
				b.Fatal(err)
			}
		}
		s, t, err := w.backUp(ctx, source, fmt.Sprintf("round-%d", i+1))
		if err != nil {
			b.Fatal(err)
		}
		f.taken, f.ours = t, append(f.ours, s.took)
		f.most = memory{max(f.most.resident, s.resident), max(f.most.anonymous, s.anonymous)}
		fmt.Printf("round %d: by hand %s, ours %s with %s at most; load average %s\n", i+1, report.Round(took), report.Round(s.took), report.Mebibytes(float64(s.resident)), report.Load())
	}
}

// rate is a time for all of the dump.
func (f *figures) rate(took time.Duration) string {
	return fmt.Sprintf("%s, %s/s", report.Round(took), report.Mebibytes(float64(f.taken.manifest.Dump.Bytes)/took.Seconds()))
}

func (f *figures) printDumps(b *testing.B) {
	b.Helper()
	slices.Sort(f.byHand)
	slices.Sort(f.ours)
	hand, ours := report.Quantile(f.byHand, .5), report.Quantile(f.ours, .5)
	dump := f.taken.manifest.Dump
	r := &report.Table{Title: "A dump beside the same by hand"}
	r.Note("machine", "%d CPUs for everything: mysqld, mysqldump, zstd, S3 (moto); load average %s", runtime.NumCPU(), report.Load())
	r.Note("data set", "%s as mysqldump writes it", report.Mebibytes(float64(dump.Bytes)))
	r.Note("stored", "by hand %s, ours %s", report.Mebibytes(float64(f.storedByHand)), report.Mebibytes(float64(dump.Stored())))
	r.Note(fmt.Sprintf("mysqldump | zstd -%d | upload, median of %d", f.level, len(f.byHand)), "%s", f.rate(hand))
	r.Note(fmt.Sprintf("ours, median of %d", len(f.ours)), "%s", f.rate(ours))
	ratio := hand.Seconds() / ours.Seconds()
	r.Add("throughput beside by hand", fmt.Sprintf("%.0f %%", 100*ratio), fmt.Sprintf(">= %.0f %%", 100*aimThroughput), ratio >= aimThroughput)
	addMemory(r, f.most, aimMemory)
	r.Print(os.Stdout)
	b.ReportMetric(ratio, "of-by-hand")
}

func addMemory(r *report.Table, m memory, aim int64) {
	value := fmt.Sprintf("%s resident, of which %s are not the program itself", report.Mebibytes(float64(m.resident)), report.Mebibytes(float64(m.anonymous)))
	r.Add("memory of our process, peak", value, "<= "+report.Mebibytes(float64(aim)), m.resident <= aim)
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

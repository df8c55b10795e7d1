package simulation

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The schedules of an ordinary run, which are known to pass: always the same ones, so that a change which breaks one is
// seen as that. `make simulate` looks for new ones.
const (
	defaultSchedules = 20_000
	defaultSeed      = 1
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// repeat is the command that plays a schedule again.
func repeat(seed, schedule uint64) string {
	return fmt.Sprintf("NAIROBI_SEED=%d NAIROBI_SCHEDULE=%d go test ./internal/simulation -run TestSchedule$ -v", seed, schedule)
}

// TestSchedules plays random schedules: those of an ordinary run, or NAIROBI_SCHEDULES of NAIROBI_SEED from NAIROBI_FIRST on.
func TestSchedules(t *testing.T) {
	seed, schedules, first := uint64(defaultSeed), number(t, "NAIROBI_SCHEDULES", defaultSchedules), number(t, "NAIROBI_FIRST", 0)
	if os.Getenv("NAIROBI_SCHEDULES") != "" {
		seed = number(t, "NAIROBI_SEED", defaultSeed)
	}
	stopAfter := number(t, "NAIROBI_FAILURES", 3)
	began := time.Now()
	var next, events, acknowledged, failures, hash atomic.Uint64
	next.Store(first)
	var mu sync.Mutex
	var longest Result
	broken := map[string]int{}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < first+schedules && failures.Load() < stopAfter; n = next.Add(1) - 1 {
				r := Run(seed, n, false, asAsked()...)
				events.Add(uint64(r.Events))
				hash.Add(r.Hash) // in whatever order they end
				acknowledged.Add(uint64(r.Acknowledged))
				mu.Lock()
				if r.HealTime > longest.HealTime {
					longest = r
				}
				if r.Invariant != "" {
					failures.Add(1)
					broken[r.Invariant]++
					t.Errorf("schedule %d: %s: %s\n%s", n, r.Invariant, r.Message, repeat(seed, n))
				}
				mu.Unlock()
			}
		})
	}
	stop := tellEvery(time.Minute, func() {
		t.Logf("%d of %d schedules in %s", min(next.Load()-first, schedules), schedules, time.Since(began).Round(time.Second))
	})
	wg.Wait()
	stop()
	took, played := time.Since(began), min(next.Load()-first, schedules)
	t.Logf("seed %d: %d schedules in %s (%s each), %d events, %d commits acknowledged; hash of the traces %016x; broken: %v; the longest recovery took %s in schedule %d",
		seed, played, took.Round(time.Millisecond), (took / time.Duration(max(played, 1))).Round(time.Microsecond), events.Load(), acknowledged.Load(), hash.Load(), broken,
		longest.HealTime, longest.Schedule)
}

// TestSchedulesWithoutSnapshots plays schedules in which EC2 answers every list but that of snapshots until the faults stop: everything
// else goes on. Each second cluster is deleted meanwhile, and leaves no snapshot behind that an earlier operator took.
func TestSchedulesWithoutSnapshots(t *testing.T) {
	const schedules = 1000
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < schedules && !t.Failed(); n = next.Add(1) - 1 {
				r := Run(defaultSeed, n, false, func(w *world) {
					w.shape.weather.withoutSnapshots = true
					if n%2 == 0 {
						taken := topology.Snapshot{ID: "snap-earlier", Member: "orders-0", VolumeID: "vol-earlier", State: completed, Purpose: "quarantine-1", StartedAt: w.time()}
						w.cloud.snapshots = append(w.cloud.snapshots, &snapshot{taken, []staleRead[topology.Snapshot]{{0, taken}}})
						w.shape.deleteAt = max(w.shape.span/2, 1)
					}
				})
				if r.Invariant != "" {
					t.Errorf("schedule %d: %s: %s", n, r.Invariant, r.Message)
				}
			}
		})
	}
	wg.Wait()
}

// tellEvery tells again and again how far a long run is, until it is stopped.
func tellEvery(interval time.Duration, tell func()) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				tell()
			}
		}
	}()
	return func() {
		close(done)
		<-over
	}
}

// TestSchedule plays one schedule, NAIROBI_SCHEDULE of NAIROBI_SEED, and tells its story. Twice the same schedule must
// be twice the same story: else no failure could be repeated.
func TestSchedule(t *testing.T) {
	seed, schedule := number(t, "NAIROBI_SEED", defaultSeed), number(t, "NAIROBI_SCHEDULE", 7)
	first, second := Run(seed, schedule, true, asAsked()...), Run(seed, schedule, true, asAsked()...)
	if first.Trace != second.Trace || first.Hash != second.Hash {
		t.Error("the same schedule went two different ways")
	}
	if first.Invariant != "" {
		t.Errorf("%s: %s", first.Invariant, first.Message)
	}
	if os.Getenv("NAIROBI_SCHEDULE") != "" {
		t.Log("\n" + first.Trace)
	}
}

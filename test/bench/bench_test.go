package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// Environment of the benchmark, with what `make bench` uses when it is not set.
// patience bounds every wait for something that must come; nothing is judged by it.
const patience = 3 * time.Minute

const (
	clustersVariable, clustersDefault = "BENCH_CLUSTERS", 100
	// How long the steady state is measured, in seconds.
	secondsVariable, secondsDefault = "BENCH_SECONDS", 60
	// How many reconciles are forced in a second, evenly over the clusters. By itself each cluster is looked at every 30 s.
	rateVariable, rateDefault = "BENCH_RATE", 50
	// How many hand-overs are measured.
	roundsVariable, roundsDefault = "BENCH_ROUNDS", 6
)

// What is aimed for.
const (
	aimReconcile = 10 * time.Millisecond
	aimCached    = 0.998
	aimHandOver  = 5 * time.Second
)

const (
	// readyPoll is how often all clusters are read while they are waited for, tellEvery how often whoever watches is told.
	readyPoll, tellEvery = 500 * time.Millisecond, 20 * time.Second
	// quiet is for how long nothing may be written before the state counts as steady.
	quiet = 5 * time.Second
	// bursts is how often all clusters are forced at the same moment.
	bursts = 5
	// followerPause is about how long a follower waits between two looks at the lease.
	followerPause = 2 * time.Second
)

// prepare gives the AWS SDK credentials that no AWS knows, and keeps the log quiet.
func prepare(b *testing.B) {
	b.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_EC2_METADATA_DISABLED": "true"} {
		b.Setenv(name, value)
	}
	ctrl.SetLogger(logr.Discard())
}

func BenchmarkOperator(b *testing.B) {
	prepare(b)
	began := time.Now()
	w, err := newWorld(b.Context(), number(b, clustersVariable, clustersDefault), false)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.close(); err != nil {
			b.Error(err)
		}
	})
	r := &report.Table{Title: "The bench"}
	r.Note("clusters", "%d, %d members each; made in %s", w.size, membersEach, report.Round(time.Since(began)))
	r.Note("machine", "%d CPUs for everything: operator, stubs, API server; load average %s", runtime.NumCPU(), report.Load())
	r.Note("real", "API server and etcd, manager, caches, watches, lease, TLS on both sides, AWS SDK")
	r.Note("stubs, for scale only", "members (MySQL protocol) and EC2 (answers of the describe calls), both in this process")
	r.Print(os.Stdout)
	b.Run("steady", w.steady)
	b.Run("hand-over", w.handOver)
}

// number reads a setting from the environment.
func number(b *testing.B, variable string, fallback int) int {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%q is not a positive number", variable, text)
	}
	return n
}

// steady measures what Ready clusters cost.
func (w *world) steady(b *testing.B) {
	began := time.Now()
	o, err := w.start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := o.stop(); err != nil {
			b.Error(err)
		}
	}()
	w.awaitReady(b)
	r := &report.Table{Title: "A start with nothing in memory, until every cluster is Ready"}
	o.meter.read(func() {
		r.Note("until all are Ready", "%s, %d reconciles", report.Round(time.Since(began)), len(o.meter.laps))
		r.Note("Kubernetes writes", "%d", total(o.meter.writes))
		r.Counts(o.meter.writes)
		r.Note("AWS calls by reconciles", "%d", total(o.meter.calls))
		r.Counts(o.meter.calls)
		r.Note("reads from Kubernetes past the caches", "%d of %d", total(o.meter.live), o.meter.reads)
		r.Counts(o.meter.live)
	})
	r.Print(os.Stdout)
	o.settle(b)
	w.measurePaced(b, o)
	w.measureBursts(b, o)
}

// measurePaced forces reconciles evenly over time and counts what they do.
func (w *world) measurePaced(b *testing.B, o *operator) {
	seconds, rate := number(b, secondsVariable, secondsDefault), number(b, rateVariable, rateDefault)
	heartbeats, unknown, statements := w.fleet.heartbeats.Load(), w.fleet.unknown.Load(), w.fleet.reads.Load()
	locks, changes, cpu, began := w.fleet.locks.Load(), w.fleet.changes.Load(), cpuTime(), time.Now()
	o.meter.reset()
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for i := 0; time.Since(began) < time.Duration(seconds)*time.Second; i++ {
		<-ticker.C
		o.force(namespace, clusterName(i%w.size))
	}
	took := time.Since(began)
	used := cpuTime() - cpu
	r := &report.Table{Title: fmt.Sprintf("Steady state: %d Ready clusters, %d reconciles forced in a second, for %s", w.size, rate, report.Round(took))}
	o.meter.read(func() {
		m := o.meter
		all := durations(m.laps)
		if len(all) == 0 {
			b.Error("no reconcile was seen")
			return
		}
		b.ReportMetric(float64(report.Quantile(all, .95).Microseconds())/1000, "p95-ms")
		r.Note("reconciles", "%d, %.1f a second", len(all), float64(len(all))/took.Seconds())
		r.Note("a reconcile, p50", "%s", report.Round(report.Quantile(all, .5)))
		r.Add("a reconcile, p95", report.Round(report.Quantile(all, .95)).String(), "< "+aimReconcile.String(), report.Quantile(all, .95) < aimReconcile)
		r.Note("a reconcile, p99 / longest", "%s / %s", report.Round(report.Quantile(all, .99)), report.Round(all[len(all)-1]))
		r.Add("Kubernetes writes by reconciles", strconv.Itoa(total(m.writes)), "0", total(m.writes) == 0)
		r.Counts(m.writes)
		r.Add("AWS calls by reconciles", strconv.Itoa(total(m.calls)), "0", total(m.calls) == 0)
		r.Counts(m.calls)
		r.Add("changing SQL statements by reconciles", strconv.Itoa(total(m.changes)), "0", total(m.changes) == 0)
		r.Counts(m.changes)
		r.Note("  as the stubs saw it", "%d changes, %d locks taken, %d unknown", w.fleet.changes.Load()-changes, w.fleet.locks.Load()-locks, w.fleet.unknown.Load()-unknown)
		cached := 1 - float64(total(m.live))/float64(m.reads)
		r.Add("reads from Kubernetes served by caches", fmt.Sprintf("%.3f %% of %d", 100*cached, m.reads), fmt.Sprintf(">= %.1f %%", 100*aimCached), cached >= aimCached)
		r.Counts(m.live)
		r.Note("beside: AWS calls of the background sweep", "%d", total(m.besideAWS))
		r.Counts(m.besideAWS)
		r.Note("beside: requests to Kubernetes", "%d", total(m.besideKubernetes))
		r.Counts(m.besideKubernetes)
	})
	r.Note("reading SQL statements", "%d", w.fleet.reads.Load()-statements)
	r.Note("writes of the availability probe", "%d, %.1f a second", w.fleet.heartbeats.Load()-heartbeats, float64(w.fleet.heartbeats.Load()-heartbeats)/took.Seconds())
	r.Note("CPU, stubs included", "%.0f %% of one", 100*used.Seconds()/took.Seconds())
	w.footprint(r)
	r.Note("load average", "%s", report.Load())
	r.Print(os.Stdout)
}

// footprint adds what the process holds.
func (w *world) footprint(r *report.Table) {
	operator, stubs := heaps()
	ofStubs := int(w.fleet.goroutines.Load())
	r.Note("goroutines, without the stubs' / all", "%d / %d", runtime.NumGoroutine()-ofStubs, runtime.NumGoroutine())
	r.Note("live heap, without the stubs' / all", "%s / %s", report.Mebibytes(operator), report.Mebibytes(operator+stubs))
}

// measureBursts forces all clusters at once: what a takeover or a new policy does.
func (w *world) measureBursts(b *testing.B, o *operator) {
	var all []time.Duration
	var rounds []time.Duration
	for range bursts {
		o.meter.reset()
		began := time.Now()
		for i := range w.size {
			o.force(namespace, clusterName(i))
		}
		o.await(b, func(m *meter) bool { return len(m.laps) >= w.size })
		o.meter.read(func() {
			all = append(all, durations(o.meter.laps)...)
			rounds = append(rounds, o.meter.laps[w.size-1].ended.Sub(began))
		})
		time.Sleep(time.Second)
	}
	slices.Sort(all)
	slices.Sort(rounds)
	r := &report.Table{Title: fmt.Sprintf("All %d clusters at the same moment, %d times, %d workers", w.size, bursts, child.Workers)}
	r.Note("a reconcile, p50 / p95 / longest", "%s / %s / %s", report.Round(report.Quantile(all, .5)), report.Round(report.Quantile(all, .95)), report.Round(all[len(all)-1]))
	r.Note("until the last cluster is done, p50 / longest", "%s / %s", report.Round(report.Quantile(rounds, .5)), report.Round(rounds[len(rounds)-1]))
	r.Print(os.Stdout)
}

// handOver measures how long the place is empty when a leader ends cleanly.
func (w *world) handOver(b *testing.B) {
	leads, err := w.start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := leads.stop(); err != nil {
			b.Error(err)
		}
	}()
	leads.await(b, func(m *meter) bool { return len(m.first) == w.size })
	r := &report.Table{Title: "Hand-over on a clean exit, from the end's beginning on"}
	var firsts, passes []time.Duration
	writes, flaps := map[string]int{}, 0
	rounds := number(b, roundsVariable, roundsDefault)
	for n := range rounds {
		w.awaitReady(b)
		waits, err := w.start(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		// The follower tries at moments of its own; where in its pause the leader ends is left to chance.
		time.Sleep(followerPause + time.Duration(rand.Int64N(int64(3*followerPause))))
		began := time.Now()
		if err := leads.stop(); err != nil {
			b.Error(err)
		}
		released := time.Since(began)
		leads = waits
		leads.await(b, func(m *meter) bool { return len(m.first) == w.size && len(m.laps) >= w.size })
		leads.meter.read(func() {
			begins := slices.SortedFunc(maps.Values(leads.meter.first), time.Time.Compare)
			first := begins[0].Sub(began)
			firsts = append(firsts, first)
			passes = append(passes, durations(leads.meter.laps[:w.size])...)
			r.Note(fmt.Sprintf("round %d", n+1), "leader gone after %s; first reconcile begins after %s, ends after %s; all %d clusters taken up after %s",
				report.Round(released), report.Round(first), report.Round(leads.meter.laps[0].ended.Sub(began)), w.size, report.Round(begins[len(begins)-1].Sub(began)))
		})
		leads.settle(b)
		leads.meter.read(func() {
			for what, count := range leads.meter.writes {
				writes[what] += count
			}
		})
		flaps += w.flapped(b, began)
	}
	slices.Sort(firsts)
	r.Note("until the first reconcile, p50", "%s", report.Round(report.Quantile(firsts, .5)))
	longest := firsts[len(firsts)-1]
	r.Add("until the first reconcile, longest", report.Round(longest).String(), "< "+aimHandOver.String(), longest < aimHandOver)
	slices.Sort(passes)
	r.Note("a reconcile of the new leader's first ones, p50 / p95", "%s / %s", report.Round(report.Quantile(passes, .5)), report.Round(report.Quantile(passes, .95)))
	r.Note("Kubernetes writes by the new leader, all rounds", "%d (%.1f for each cluster and round)", total(writes), float64(total(writes))/float64(w.size*rounds))
	r.Counts(writes)
	r.Add("clusters that were shown as not Available meanwhile, all rounds", strconv.Itoa(flaps), "0", flaps == 0)
	r.Print(os.Stdout)
	b.ReportMetric(longest.Seconds(), "longest-s")
}

// awaitReady waits until every cluster's condition Ready is true at the same time.
func (w *world) awaitReady(b *testing.B) {
	b.Helper()
	w.await(b, func(waiting []v1alpha1.MySQLCluster) int { return len(waiting) })
}

// awaitReadyOnce waits until every cluster's condition Ready was true: on a machine that has more to do than it can, one or
// the other of many does not get its write through in time now and then.
func (w *world) awaitReadyOnce(b *testing.B) {
	b.Helper()
	never := map[string]bool{}
	for i := range w.size {
		never[clusterName(i)] = true
	}
	w.await(b, func(waiting []v1alpha1.MySQLCluster) int {
		now := map[string]bool{}
		for _, c := range waiting {
			now[c.Name] = true
		}
		maps.DeleteFunc(never, func(name string, _ bool) bool { return !now[name] })
		return len(never)
	})
}

// await reads all clusters until none is left to be waited for, by those that are not Ready. patience runs anew whenever
// there are fewer.
func (w *world) await(b *testing.B, left func(waiting []v1alpha1.MySQLCluster) int) {
	b.Helper()
	fewest, since, told := w.size+1, time.Now(), time.Now()
	for {
		waiting := w.waiting(b)
		n := left(waiting)
		switch {
		case n == 0:
			return
		case n < fewest:
			fewest, since = n, time.Now()
		case time.Since(since) > patience:
			b.Fatalf("%d clusters are not Ready within %s: %s", n, patience, describe(waiting[0]))
		}
		if time.Since(told) > tellEvery {
			fmt.Fprintf(os.Stderr, "waiting for %d of %d clusters\n", n, w.size)
			told = time.Now()
		}
		time.Sleep(readyPoll)
	}
}

// waiting returns the clusters that are not Ready.
func (w *world) waiting(b *testing.B) []v1alpha1.MySQLCluster {
	b.Helper()
	var list v1alpha1.MySQLClusterList
	if err := w.client.List(b.Context(), &list, client.InNamespace(namespace)); err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, isReady)
}

// flapped counts the clusters whose condition Available turned since a moment. It is true now and was before, so it was
// false in between.
func (w *world) flapped(b *testing.B, since time.Time) int {
	b.Helper()
	var list v1alpha1.MySQLClusterList
	if err := w.client.List(b.Context(), &list, client.InNamespace(namespace)); err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, c := range list.Items {
		cond := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAvailable)
		if cond != nil && !cond.LastTransitionTime.Time.Before(since.Truncate(time.Second)) {
			n++
		}
	}
	return n
}

func isReady(c v1alpha1.MySQLCluster) bool {
	return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
}

func describe(c v1alpha1.MySQLCluster) string {
	text := c.Name + " is " + string(c.Status.Phase)
	for _, cond := range c.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", cond.Type, cond.Status, cond.Reason, cond.Message)
	}
	for _, m := range c.Status.Members {
		text += fmt.Sprintf("\n  %s %s %s %s", m.Name, m.Phase, m.Address, m.Message)
	}
	return text
}

// await waits until the meter shows something.
func (o *operator) await(b *testing.B, done func(*meter) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for {
		ok := false
		o.meter.read(func() { ok = done(o.meter) })
		if ok {
			return
		}
		select {
		case err := <-o.ended:
			o.ended <- err
			b.Fatalf("the operator ended: %v", err)
		case <-ctx.Done():
			b.Fatal("waited for too long")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settle waits until nothing was written for a while.
func (o *operator) settle(b *testing.B) {
	b.Helper()
	last, since := -1, time.Now()
	o.await(b, func(m *meter) bool {
		if n := total(m.writes) + total(m.changes); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quiet
	})
}

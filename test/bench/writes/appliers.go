package writes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// applied is what was seen of a number of applier threads in one turn.
type applied struct {
	turn
	// catchUp is how many transactions a second a replica applies while nobody writes.
	catchUp float64
}

// appliers are the turns of one number of threads.
type appliers struct {
	threads int
	turns   []applied
}

func (a *appliers) median(of func(applied) float64) float64 {
	var all []float64
	for _, t := range a.turns {
		all = append(all, of(t))
	}
	return median(all)
}

// setAppliers has the replicas apply with some threads.
func (w *world) setAppliers(ctx context.Context, threads int) error {
	for _, n := range w.replicas() {
		if err := n.exec(ctx, "STOP REPLICA SQL_THREAD", fmt.Sprintf("SET GLOBAL replica_parallel_workers = %d", threads), "START REPLICA SQL_THREAD"); err != nil {
			return err
		}
	}
	return nil
}

// measureAppliers has clients write while replicas apply, and once more while those only receive, and apply afterwards.
func (w *world) measureAppliers(ctx context.Context, threads, clients int, length time.Duration) (applied, error) {
	var a applied
	if err := w.setAppliers(ctx, threads); err != nil {
		return a, err
	}
	if err := w.become(ctx, memory); err != nil {
		return a, err
	}
	var err error
	if a.turn, err = w.measure(ctx, memory, clients, length); err != nil {
		return a, err
	}
	a.catchUp, err = w.catchUp(ctx, clients, length)
	return a, err
}

// catchUp lets both replicas receive without applying, and then measures how fast the first applies that, alone.
func (w *world) catchUp(ctx context.Context, clients int, length time.Duration) (float64, error) {
	for _, n := range w.replicas() {
		if err := n.exec(ctx, "STOP REPLICA SQL_THREAD"); err != nil {
			return 0, err
		}
	}
	w.prober.Forget(cluster)
	if _, err := w.write(ctx, memory, clients, length); err != nil {
		return 0, err
	}
	first := w.replicas()[0]
	before, err := first.executed(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	var took time.Duration
	for i, n := range w.replicas() {
		if err := n.exec(ctx, "START REPLICA SQL_THREAD"); err != nil {
			return 0, err
		}
		if err := w.caughtUp(ctx, []*node{n}); err != nil {
			return 0, err
		}
		if i == 0 {
			took = time.Since(began)
		}
	}
	after, err := first.executed(ctx)
	if err == nil && after == before {
		err = errors.New("there was nothing to catch up with")
	}
	return float64(after-before) / took.Seconds(), err
}

// appliersTable has a row for each number of threads.
func appliersTable(title string, all []*appliers) *report.Grid {
	g := &report.Grid{Title: title, Header: []string{
		"threads", "commits/s", "applied/s", "applied / committed", "backlog grows by", "backlog at the end", "of the last", "drained in", "alone, without writers", "CPUs: all", "primary", "replicas", "load",
	}}
	for _, a := range all {
		number := func(format string, of func(applied) float64) string { return fmt.Sprintf(format, a.median(of)) }
		cpus := func(of func(usage) time.Duration) string {
			return number("%.2f", func(t applied) float64 { return t.used.per(of(t.used)) })
		}
		g.Add(fmt.Sprint(a.threads), number("%.0f", func(t applied) float64 { return t.committed }), number("%.0f", func(t applied) float64 { return t.applied }),
			number("%.2f", func(t applied) float64 { return t.applied / max(t.committed, 1) }), number("%.0f/s", func(t applied) float64 { return t.growth }),
			number("%.0f", func(t applied) float64 { return t.backlog }), number("%.1f s", func(t applied) float64 { return t.lag.Seconds() }),
			drained(a.median(func(t applied) float64 { return t.drain.Seconds() })), number("%.0f/s", func(t applied) float64 { return t.catchUp }),
			cpus(func(u usage) time.Duration { return u.machine }), cpus(func(u usage) time.Duration { return u.primary }),
			cpus(func(u usage) time.Duration { return u.replica }), number("%.1f", func(t applied) float64 { return t.load }))
	}
	return g
}

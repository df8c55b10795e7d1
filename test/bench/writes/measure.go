package writes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

const (
	// warmUp is how long clients write before it is measured.
	warmUp = time.Second
	// drainLimit bounds the wait for replicas that are slow because they sync what they receive.
	drainLimit = 20 * time.Second
)

// turn is what was seen of a variant in one turn.
type turn struct {
	rate                       float64         // commits a second
	latencies                  []time.Duration // of the commits, sorted
	refused                    int64           // transactions
	backlog                    float64         // transactions that the slower replica lacked at the end
	lag                        time.Duration   // since when the oldest of them was committed
	drain                      time.Duration   // until it had them; drainLimit means longer
	committed, applied, growth float64         // transactions a second
	used                       usage
	load                       float64 // average of the last minute
}

// measure has clients write to a variant's server for some time, and waits until the replicas have everything.
func (w *world) measure(ctx context.Context, v variant, clients int, length time.Duration) (turn, error) {
	t, err := w.write(ctx, v, clients, length)
	if err != nil {
		return t, fmt.Errorf("%s, %d clients: %w", v.name, clients, err)
	}
	if v.alone {
		return t, nil
	}
	if t.drain, err = w.drain(ctx); err != nil {
		return t, fmt.Errorf("%s, %d clients: %w", v.name, clients, err)
	}
	return t, nil
}

// drain is how long it takes until the replicas have everything, at most drainLimit. After that they need not sync what they
// receive, so that the next turn can begin.
func (w *world) drain(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	caughtUp, err := w.reached(ctx, w.replicas())
	if err != nil {
		return 0, err
	}
	err = waitFor(ctx, drainLimit, "replicas to apply what they received", caughtUp)
	if !errors.Is(err, errInVain) {
		return time.Since(began), err
	}
	for _, n := range w.replicas() {
		if err := n.exec(ctx, "SET GLOBAL sync_relay_log = "+syncDefault); err != nil {
			return 0, err
		}
	}
	return drainLimit, w.caughtUp(ctx, w.replicas())
}

func (w *world) write(ctx context.Context, v variant, clients int, length time.Duration) (turn, error) {
	var t turn
	primary, replicas := w.node(v), w.replicas()
	if v.alone {
		replicas = nil
	}
	before, err := primary.semiSync(ctx)
	if err != nil {
		return t, err
	}
	all, err := newCrowd(ctx, primary, clients)
	defer all.close()
	if err != nil {
		return t, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	started := time.Now()
	var series []point
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return all.write(running, started.Add(warmUp), started.Add(warmUp+length)) })
	group.Go(func() (err error) {
		if !v.alone {
			series, err = w.watch(watching, started)
		}
		return err
	})
	group.Go(func() (err error) {
		defer stop()
		t.used, err = usedMeanwhile(running, started, length, primary, replicas)
		return err
	})
	if err := group.Wait(); err != nil {
		return t, err
	}
	t.count(all, length, series)
	after, err := primary.semiSync(ctx)
	return t, errors.Join(err, v.check(semiSync{after.acknowledged - before.acknowledged, after.gaveUp - before.gaveUp}))
}

// usedMeanwhile is the processor time between the beginning and the end of what is measured.
func usedMeanwhile(ctx context.Context, started time.Time, length time.Duration, primary *node, replicas []*node) (usage, error) {
	sleep(ctx, time.Until(started.Add(warmUp)))
	before, err := used(started, primary, replicas)
	if err != nil {
		return usage{}, err
	}
	sleep(ctx, time.Until(started.Add(warmUp+length)))
	after, err := used(started, primary, replicas)
	return after.since(before), err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// count takes over what was seen.
func (t *turn) count(all *crowd, length time.Duration, series []point) {
	t.latencies, t.refused = all.latencies(), all.refused.Load()
	t.rate = float64(len(t.latencies)) / length.Seconds()
	t.load, _ = strconv.ParseFloat(report.Load(), 64) // one that is unknown is 0
	if len(series) == 0 {
		return
	}
	t.backlog, t.lag = float64(series[len(series)-1].backlog()), lag(series)
	t.committed, t.applied, t.growth = rates(between(series, warmUp, warmUp+length))
}

// semiSync counts commits that were answered after an acknowledgement, by the leaders of their groups (fact 34), and those that
// were answered without.
type semiSync struct{ acknowledged, gaveUp int }

func (n *node) semiSync(ctx context.Context) (s semiSync, err error) {
	if s.acknowledged, err = n.status(ctx, "Rpl_semi_sync_source_yes_tx"); err != nil {
		return s, err
	}
	s.gaveUp, err = n.status(ctx, "Rpl_semi_sync_source_no_tx")
	return s, err
}

// check makes sure that what was measured is the variant: a source that gives up waiting is as fast as one that never waits.
func (v variant) check(during semiSync) error {
	switch {
	case v.semiSync && during.gaveUp > 0:
		return fmt.Errorf("%d commits were answered without an acknowledgement; rpl_semi_sync_source_timeout is too short for this machine", during.gaveUp)
	case v.semiSync != (during.acknowledged > 0):
		return fmt.Errorf("%d commits waited for an acknowledgement", during.acknowledged)
	}
	return nil
}

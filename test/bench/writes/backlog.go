package writes

import (
	"context"
	"time"
)

// sampleEvery is how often servers are asked what they have executed.
const sampleEvery = 100 * time.Millisecond

// point is how many transactions the primary, and the replica that is furthest behind, had executed at a time.
type point struct {
	at               time.Duration
	primary, replica uint64
}

// backlog is how many transactions the replica lacks.
func (p point) backlog() uint64 {
	if p.replica >= p.primary {
		return 0
	}
	return p.primary - p.replica
}

// look asks the servers. The primary comes first: what it commits meanwhile is nobody's backlog.
func (w *world) look(ctx context.Context, started time.Time) (p point, err error) {
	p.at = time.Since(started)
	if p.primary, err = w.cluster[0].executed(ctx); err != nil {
		return p, err
	}
	for i, n := range w.replicas() {
		has, err := n.executed(ctx)
		if err != nil {
			return p, err
		}
		if i == 0 || has < p.replica {
			p.replica = has
		}
	}
	return p, nil
}

// watch looks at the servers again and again until the context ends.
func (w *world) watch(ctx context.Context, started time.Time) ([]point, error) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	var series []point
	for {
		p, err := w.look(ctx, started)
		if ctx.Err() != nil {
			return series, nil
		}
		if err != nil {
			return series, err
		}
		series = append(series, p)
		select {
		case <-ctx.Done():
			return series, nil
		case <-ticker.C:
		}
	}
}

// lag is for how long the oldest transaction that the replica lacks at the last point has been committed at the primary.
func lag(series []point) time.Duration {
	if len(series) == 0 {
		return 0
	}
	last := series[len(series)-1]
	if last.backlog() == 0 {
		return 0
	}
	for i, p := range series {
		if p.primary <= last.replica {
			continue
		}
		if i == 0 {
			return last.at - p.at
		}
		// Between two looks the primary is taken to have committed evenly.
		before := series[i-1]
		share := float64(last.replica-before.primary) / float64(p.primary-before.primary)
		return last.at - before.at - time.Duration(share*float64(p.at-before.at))
	}
	return 0
}

// between are the points from one time to another.
func between(series []point, begin, end time.Duration) []point {
	var some []point
	for _, p := range series {
		if p.at >= begin && p.at <= end {
			some = append(some, p)
		}
	}
	return some
}

// rates are what the primary committed and the replica applied a second, and how the backlog grew.
func rates(series []point) (committed, applied, growth float64) {
	if len(series) < 2 {
		return 0, 0, 0
	}
	first, last := series[0], series[len(series)-1]
	seconds := (last.at - first.at).Seconds()
	committed = float64(last.primary-first.primary) / seconds
	applied = float64(last.replica-first.replica) / seconds
	return committed, applied, (float64(last.backlog()) - float64(first.backlog())) / seconds
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// warmUp is how long clients write to a Ready cluster before something happens to it.
	warmUp = 1500 * time.Millisecond
	// readyTimeout bounds the way back to Ready after a fault was healed. A member may have to be made anew, and a machine
	// that only hangs is given minutes before it is taken for lost.
	readyTimeout = 12 * time.Minute
	// lookEvery is how often the cluster is asked whether it is Ready.
	lookEvery = 250 * time.Millisecond
	// tellEvery is how often a long wait says what it waits for.
	tellEvery = 15 * time.Second
)

// Result is what one fault did.
type Result struct {
	Number int
	Fault  string
	// Held is how long it lasted until it was healed.
	Held time.Duration
	// Detect is when the operator first let be seen that it noticed, from the fault on; 0 when it never did.
	Detect time.Duration
	// Gap is the longest time in which no client of the Service had a write acknowledged; Ready is when the cluster was
	// Ready again and all members equal, from the fault on.
	Gap, Ready time.Duration
	// What clients were told, and what was found to be lost.
	Acknowledged, Unknown, Refused, Lost int
	// Promotions, Rebuilt and Snapshots count what the operator did.
	Promotions, Rebuilt, Snapshots int
}

// Run makes one fault happen to a cluster that is Ready, heals it, and compares everything afterwards.
func (w *World) Run(ctx context.Context, f Fault) (Result, error) {
	r := Result{Number: w.round, Fault: f.Name}
	if err := pause(ctx, warmUp); err != nil {
		return r, err
	}
	s, err := w.scene(ctx)
	if err != nil {
		return r, err
	}
	hold := between(w.random, f.Least, f.Most)
	if w.holdAtMost > 0 {
		hold = min(hold, w.holdAtMost)
	}
	w.say("%3d  %-44s primary %s, healed after %.0fs", r.Number, f.Name, s.Primary.Name, hold.Seconds())
	began, at := time.Now(), w.ledger.now()
	done := f.Do(ctx, s)
	if done == nil {
		done = pause(ctx, time.Until(began.Add(hold)))
	}
	healed := s.heal(context.WithoutCancel(ctx))
	if err := errors.Join(done, healed); err != nil {
		return r, fmt.Errorf("%s: %w", f.Name, err)
	}
	r.Held = time.Since(began)
	err = w.settle(ctx, began)
	w.measure(&r, began, at)
	w.say("%s", r.line())
	var loss *Loss
	if errors.As(err, &loss) {
		r.Lost = len(loss.Difference.Lost)
	}
	return r, errors.Join(err, w.ledger.sync())
}

// settle waits until the cluster is Ready and its members hold what the ledger says. The round is over then: what is
// written from now on belongs to the next.
func (w *World) settle(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	told := time.Now()
	for {
		var waiting string
		c, err := w.cluster(ctx)
		switch {
		case err != nil:
			waiting = err.Error()
		case !deploy.IsReady(c):
			waiting = statusLine(c)
		case w.ledger.lastAck() < w.ledger.now()-2*time.Second:
			waiting = "a write through the Service"
		default:
			w.load.follow(ctx, w.members(c))
			err := w.compare(ctx, c)
			if err == nil || !errors.Is(err, errNotComparable) {
				return err
			}
			waiting = err.Error()
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			w.say("     %4.0fs  waiting for %s", time.Since(since).Seconds(), waiting)
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("the cluster is not Ready and equal after %s: %s: %w", readyTimeout, waiting, err)
		}
	}
}

// compare holds the ledger against the members of a Ready cluster, while nobody writes.
func (w *World) compare(ctx context.Context, c *v1alpha1.MySQLCluster) error {
	members := w.members(c)
	primary := -1
	for ordinal := range maps.Keys(members) {
		if fmt.Sprintf("%s-%d", c.Name, ordinal) == c.Status.Primary {
			primary = ordinal
		}
	}
	if primary < 0 {
		return fmt.Errorf("%w: no primary", errNotComparable)
	}
	if err := w.level(ctx, primary, members); err != nil {
		return err
	}
	resume := w.load.Pause()
	defer resume()
	if a, b, found := Rivals(w.ledger.round(w.round)); found {
		return fmt.Errorf("two members acknowledged side by side: server %d write %d, server %d write %d", a.Server, a.ID, b.Server, b.ID)
	}
	if err := w.verify(ctx, primary, members); err != nil {
		return err
	}
	w.round++
	w.load.round.Store(int64(w.round))
	return nil
}

// measure takes the figures of a fault from the ledger and from what was seen.
func (w *World) measure(r *Result, began time.Time, at time.Duration) {
	r.Ready = time.Since(began)
	entries := w.ledger.round(r.Number)
	r.Gap = Gap(entries, w.ledger.pausesSince(at), at)
	for _, e := range entries {
		switch e.Outcome {
		case Acknowledged:
			r.Acknowledged++
		case Unknown:
			r.Unknown++
		case Refused:
			r.Refused++
		}
	}
	for _, sight := range w.watch.since(began) {
		if r.Detect == 0 {
			r.Detect = sight.At.Sub(began)
		}
		switch sight.Reason {
		case "Promote":
			r.Promotions++
		case "Clone":
			r.Rebuilt++
		case "TakeSnapshot":
			r.Snapshots++
		}
	}
}

// Story is what was seen since a time, line by line, with the seconds since.
func (w *World) Story(since time.Time) string {
	var text strings.Builder
	for _, s := range w.watch.since(since) {
		fmt.Fprintf(&text, "%8.3f  %-9s  %s\n", s.At.Sub(since).Seconds(), s.Kind, s.Text)
	}
	return text.String()
}

// Explain writes what a person needs to look into a failure to files, and says where they are.
func (w *World) Explain(ctx context.Context, since time.Time) {
	if err := w.ledger.sync(); err != nil {
		w.say("the ledger is not complete: %v", err)
	}
	path := filepath.Join(w.dir, fmt.Sprintf("failure-%d.txt", w.round))
	file, err := os.Create(path)
	if err != nil {
		w.say("nothing is kept of the failure: %v", err)
		return
	}
	defer func() { _ = file.Close() }()
	_, _ = fmt.Fprintln(file, w.Story(since))
	w.lab.Diagnose(ctx, file, w.key)
	const logLines = 4000
	logs, err := w.lab.OperatorLogs(ctx, logLines)
	if err != nil {
		logs += err.Error()
	}
	_, _ = fmt.Fprintln(file, logs)
	w.say("what was seen is in %s, the ledger in %s", path, w.dir)
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// warmUp is how long clients write to a Ready cluster before something happens to it.
	warmUp = 1500 * time.Millisecond
	// readyTimeout bounds the way back to Ready after a fault was healed. A member may have to be made anew, and an instance
	// that only hangs is given minutes before it is taken for lost.
	readyTimeout = 12 * time.Minute
	// quiesceAfter is how long members may differ under load before the load is paused for them to become equal.
	quiesceAfter = 20 * time.Second
	// lookEvery is how often the cluster is asked whether it is Ready.
	lookEvery = 250 * time.Millisecond
	// tellEvery is how often a long wait says what it waits for.
	tellEvery = 15 * time.Second
)

// ErrNotReady says that a cluster did not become Ready and equal in the time that it has. Nothing that was acknowledged is
// known to be lost.
var ErrNotReady = errors.New("the cluster is not Ready and equal")

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
	// Promoting is how long the longest promotion took by the operator's account, from the last write that succeeded until
	// the new primary was published; 0 without any.
	Promoting time.Duration
	// Steps are the times of its steps.
	Steps string
	// What clients were told, and what was found to be lost.
	Acknowledged, Unknown, Refused, Lost int
	// Uncovered counts the acknowledged writes that are missing and of which the operator said that nobody knows what was kept.
	// Lies counts the claims of the status that the ledger disproved, since the fault before.
	Uncovered, Lies int
	// Promotions, Rebuilt and Snapshots count what the operator did.
	Promotions, Rebuilt, Snapshots int
	// SoonAfter is true when a member was promoted less than a minute before.
	SoonAfter bool
	// Incomplete says what of the fault could not be done; empty when all of it was.
	Incomplete string
	// Stuck is true when the cluster did not become Ready in its time.
	Stuck bool
	// Load is the instance's load average of the last minute, at the end.
	Load float64
}

// Run makes one fault happen to a cluster that is Ready, heals it, and compares everything afterwards. ErrNotReady in an
// error says that the round could not be ended, and that the primary holds everything that was acknowledged; any other error
// is a finding, or an end of ctx.
func (w *World) Run(ctx context.Context, f Fault) (Result, error) {
	r := Result{Number: w.round, Fault: f.Name, SoonAfter: time.Since(w.promoted()) < soonAfter}
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
	s.begins()
	w.faultBegan = s.began
	done := f.Do(ctx, s)
	if done == nil {
		done = pause(ctx, time.Until(s.began.Add(hold)))
	}
	began, at := s.began, s.since
	healed := s.heal(context.WithoutCancel(ctx))
	if ctx.Err() != nil {
		return r, errors.Join(ctx.Err(), healed)
	}
	// What could not be done is no finding about the operator. The members are compared all the same.
	if err := errors.Join(done, healed); err != nil {
		r.Incomplete = err.Error()
		w.say("     not all of it was done: %v", err)
	}
	r.Held = time.Since(began)
	err = w.settle(ctx, began)
	if errors.Is(err, ErrNotReady) && ctx.Err() == nil {
		r.Stuck = true
		if found := w.salvage(ctx); found != nil {
			err = fmt.Errorf("%w; %v", found, err) //nolint:errorlint // what was found is the error
		}
	}
	w.measure(&r, began, at)
	lies := w.judge.found(w.judged)
	w.judged += len(lies)
	r.Lies = len(lies)
	w.say("%s", r.line())
	err = verdict(err, lies, s.findings)
	var loss *Loss
	if errors.As(err, &loss) {
		r.Lost = len(loss.Difference.Lost)
	}
	return r, errors.Join(err, w.ledger.sync())
}

// verdict is the error of a round. Lies of the status and broken promises end the run as a lost row does, also when the
// cluster is not Ready: such a round is no ErrNotReady.
func verdict(err error, lies []Lie, findings []error) error {
	var found []error
	for _, l := range lies {
		found = append(found, errors.New(l.String()))
	}
	found = append(found, findings...)
	switch {
	case len(found) == 0:
		return err
	case errors.Is(err, ErrNotReady):
		return fmt.Errorf("%w; %v", errors.Join(found...), err) //nolint:errorlint // what was found is the error
	default:
		return errors.Join(append([]error{err}, found...)...)
	}
}

// settle waits until the cluster is Ready and its members hold what the ledger says. The round is over then: what is
// written from now on belongs to the next.
func (w *World) settle(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	told := time.Now()
	var ready time.Time // since when it is, in a row
	for {
		var waiting string
		c, err := w.cluster(ctx)
		switch {
		case err != nil:
			waiting, ready = err.Error(), time.Time{}
		case !deploy.IsReady(c):
			waiting, ready = statusLine(c), time.Time{}
		case w.ledger.lastAck() < w.ledger.now()-2*time.Second:
			waiting = "a write through the Service"
		default:
			if ready.IsZero() {
				ready = time.Now()
			}
			w.load.follow(ctx, w.members(c))
			err := w.compare(ctx, c, time.Since(ready) > quiesceAfter)
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
			return fmt.Errorf("%w after %s: %s: %w", ErrNotReady, readyTimeout, waiting, err)
		}
	}
}

// primaryOf returns the ordinal of a status' primary, or -1.
func primaryOf(c *v1alpha1.MySQLCluster, members map[int]target) int {
	for ordinal := range maps.Keys(members) {
		if fmt.Sprintf("%s-%d", c.Name, ordinal) == c.Status.Primary {
			return ordinal
		}
	}
	return -1
}

// compare holds the ledger against the members of a Ready cluster, while nobody writes. Quietly: nobody writes already
// while the replicas catch up.
func (w *World) compare(ctx context.Context, c *v1alpha1.MySQLCluster, quietly bool) error {
	members := w.members(c)
	primary := primaryOf(c, members)
	if primary < 0 {
		return fmt.Errorf("%w: no primary", errNotComparable)
	}
	if !quietly {
		if err := w.level(ctx, primary, members); err != nil {
			return err
		}
	}
	resume := w.load.Pause()
	defer resume()
	if quietly {
		if err := w.level(ctx, primary, members); err != nil {
			return err
		}
	}
	if err := w.rivals(); err != nil {
		return err
	}
	if err := w.verify(ctx, primary, members); err != nil {
		return err
	}
	w.round++
	w.load.round.Store(int64(w.round))
	return nil
}

// rivals fails when two members acknowledged side by side.
func (w *World) rivals() error {
	if a, b, found := Rivals(w.ledger.round(w.round)); found {
		return fmt.Errorf("two members acknowledged side by side: server %d write %d, server %d write %d", a.Server, a.ID, b.Server, b.ID)
	}
	return nil
}

// salvage looks whether the primary of a cluster that does not become Ready holds what was acknowledged. It fails when it
// does not, and also when nobody can tell.
func (w *World) salvage(ctx context.Context) error {
	c, err := w.cluster(ctx)
	if err != nil {
		return fmt.Errorf("nobody knows whether writes were lost: %w", err)
	}
	members := w.members(c)
	primary := primaryOf(c, members)
	if primary < 0 {
		return errors.New("nobody knows whether writes were lost: there is no primary")
	}
	resume := w.load.Pause()
	defer resume()
	if err := w.rivals(); err != nil {
		return err
	}
	if err := w.verify(ctx, primary, map[int]target{primary: members[primary]}); err != nil {
		return fmt.Errorf("the primary of a cluster that is not Ready: %w", err)
	}
	return nil
}

// measure takes the figures of a fault from the ledger and from what was seen.
func (w *World) measure(r *Result, began time.Time, at time.Duration) {
	r.Ready, r.Load = time.Since(began), loadAverage()
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
		case Uncovered:
			r.Acknowledged++
			r.Uncovered++
		}
	}
	for _, sight := range w.watch.since(began) {
		if r.Detect == 0 && sight.Kind != kindCondition { // whose texts also change while all is well
			r.Detect = sight.At.Sub(began)
		}
		if sight.Took > r.Promoting {
			r.Promoting, r.Steps = sight.Took, sight.Steps
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

// promoted is when a member was last promoted, as far as it was seen.
func (w *World) promoted() time.Time {
	var last time.Time
	for _, sight := range w.watch.since(time.Now().Add(-soonAfter)) {
		if sight.Reason == "Promote" {
			last = sight.At
		}
	}
	return last
}

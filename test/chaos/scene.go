package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// Scene is a Ready cluster as a fault finds it.
type Scene struct {
	*World
	// Primary and Replicas are the members by role.
	Primary  v1alpha1.MemberStatus
	Replicas []v1alpha1.MemberStatus
	Random   *rand.Rand
	// began and since are when the fault began, by the clock and by the ledger.
	began time.Time
	since time.Duration
	// findings are promises that the operator broke. They end the run.
	findings []error
	// heals undo what the fault did, in the order in which it was done.
	heals []func(context.Context) error
	// tidies remove what the fault left in the cluster, after it was healed.
	tidies []func(context.Context) error
}

// scene waits for a cluster that is Ready, which it may just have ceased to be for reasons of its own, and reads who is who.
func (w *World) scene(ctx context.Context) (*Scene, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c, err := w.cluster(ctx)
	for err != nil || !deploy.IsReady(c) {
		if pause(ctx, lookEvery) != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		c, err = w.cluster(ctx)
	}
	s := &Scene{World: w, Random: w.random}
	for _, m := range c.Status.Members {
		if m.Name == c.Status.Primary {
			s.Primary = m
		} else {
			s.Replicas = append(s.Replicas, m)
		}
	}
	if s.Primary.InstanceID == "" || len(s.Replicas) == 0 {
		return nil, fmt.Errorf("the cluster has no primary, or no replicas: %s", statusLine(c))
	}
	s.Random.Shuffle(len(s.Replicas), func(a, b int) { s.Replicas[a], s.Replicas[b] = s.Replicas[b], s.Replicas[a] })
	return s, nil
}

// begins sets the time from which the fault is measured. A fault that needs preparations calls it again after them.
func (s *Scene) begins() { s.began, s.since = time.Now(), s.ledger.now() }

// find records that the operator broke a promise.
func (s *Scene) find(format string, args ...any) {
	s.findings = append(s.findings, fmt.Errorf(format, args...))
	s.say("     %v", s.findings[len(s.findings)-1])
}

// length draws how long a part of a fault lasts, at most as long as the run allows.
func (s *Scene) length(least, most time.Duration) time.Duration {
	drawn := between(s.Random, least, most)
	if s.holdAtMost > 0 {
		return min(drawn, s.holdAtMost)
	}
	return drawn
}

// later notes how to undo what was done.
func (s *Scene) later(heal func(context.Context) error) { s.heals = append(s.heals, heal) }

// tidy records what to remove from the cluster after it was healed: that may need a primary.
func (s *Scene) tidy(remove func(context.Context) error) { s.tidies = append(s.tidies, remove) }

// heal undoes everything. It goes on after an error. What cannot be healed because it is not broken any more (an instance
// that lost its power was stopped and started by the operator meanwhile) is well.
func (s *Scene) heal(ctx context.Context) error {
	var errs []error
	for _, one := range append(s.heals, s.tidies...) {
		errs = append(errs, one(ctx))
	}
	s.heals, s.tidies = nil, nil
	return errors.Join(errs...)
}

// undo does a fault of the control API later. The instance may be off, or gone for another: then there is nothing to undo.
func (s *Scene) undo(fault string, parties ...string) {
	s.later(func(ctx context.Context) error {
		err := s.do(ctx, fault, parties...)
		if powerless(err) {
			return nil
		}
		return err
	})
}

// powerless says that the lab could not do a fault to an instance because there is nothing left to do it to.
func powerless(err error) bool {
	if err == nil {
		return false
	}
	for _, told := range []string{"has no power", "no instance", "no volume mounted", "does not run in", "No such file or directory", "no such file or directory"} {
		if strings.Contains(err.Error(), told) {
			return true
		}
	}
	return false
}

// Pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// between draws a time.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

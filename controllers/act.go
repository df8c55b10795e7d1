package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// actTimeout bounds what one target's actions may take in a pass.
const actTimeout = 60 * time.Second

// act takes the planned actions: first those of the cluster as a whole, then those of the members side by side. An
// action that fails ends its target's turn and nobody else's.
func (r *MySQLClusterReconciler) act(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	switch wait, err := r.endArchive(ctx, s); {
	case err != nil:
		s.tellBackup("archive: ", err) // which holds no deletion up
	case wait:
		s.plan.RequeueAfter, s.archiveEnds = archiveEndsLook, true
		return nil
	}
	for _, u := range s.untagged {
		if err := s.cloud.RestoreTags(ctx, s.uid(), u.id, u.tags); err != nil {
			s.outcome = append(s.outcome, cloudError(err))
			continue
		}
		r.announceTags(s, u)
	}
	r.noteVersions(ctx, s)
	turns := map[string][]topology.Action{}
	for _, a := range s.plan.Actions {
		turns[a.Target()] = append(turns[a.Target()], a)
	}
	var mu sync.Mutex
	turn := func(actions []topology.Action) {
		for _, a := range actions {
			if err := r.take(ctx, s, a); err != nil {
				p := asProblem(err)
				news := r.memory.fail(s.notes, a.String(), p, r.Clock.Now())
				mu.Lock()
				r.logFailure(s, a, p, news)
				s.outcome = append(s.outcome, &problem{reason: p.reason, message: a.String() + ": " + p.message, after: p.after, cause: p})
				mu.Unlock()
				return
			}
			r.memory.succeed(s.notes, a.String())
			r.announce(s, a)
			if _, upkeep := a.(topology.EnsureSecurityGroup); !upkeep {
				mu.Lock()
				s.acted++
				mu.Unlock()
			}
		}
	}
	turn(turns[""])
	delete(turns, "")
	var wg sync.WaitGroup
	for _, actions := range turns {
		wg.Go(func() { turn(actions) })
	}
	wg.Wait()
	return nil
}

// noteVersions tags volumes with the version that opened them. Nothing waits for it: least of all a failover.
func (r *MySQLClusterReconciler) noteVersions(ctx context.Context, s *scope) {
	if s.plan.Failing {
		return
	}
	for id, version := range s.outdated {
		key, now := "note the version on "+id, r.Clock.Now()
		p := r.memory.refusal(s.notes, key, now)
		if p == nil {
			err := r.detachCall(ctx, s, key, func(ctx context.Context) error { return s.cloud.NoteVersion(ctx, s.uid(), id, version) })
			if err == nil {
				r.memory.succeed(s.notes, key)
				continue
			}
			p = cloudError(err)
			p.pause = versionPause
			r.memory.fail(s.notes, key, p, now)
		}
		s.outcome = append(s.outcome, p)
	}
}

const (
	// versionPause is how long a volume's version is not noted again after that failed.
	versionPause = 5 * time.Minute
	// callWait is how long a pass waits for EC2 to take a request that it does not depend on, callLimit how long that may take.
	callWait  = 300 * time.Millisecond
	callLimit = 15 * time.Second
	// promotionSettles is how long after a promotion its voters are still being pointed at the new primary.
	promotionSettles = 10 * time.Second
)

// powerOff powers a machine off, or shuts it down. It may be a fence, and nothing that follows from it may wait for an EC2
// that answers slowly.
func (r *MySQLClusterReconciler) powerOff(ctx context.Context, s *scope, instanceID string, gracefully bool) error {
	return r.detachCall(ctx, s, instanceID, func(ctx context.Context) error { return s.cloud.StopInstance(ctx, s.uid(), instanceID, !gracefully) })
}

// unhurried makes a call to EC2 for a member's machine. While the cluster has no primary, and just after it got one, the
// voters wait to be pointed at it: then no pass waits for EC2 for long.
func (r *MySQLClusterReconciler) unhurried(ctx context.Context, s *scope, a topology.Action, call func(context.Context) error) error {
	promoted := time.Unix(s.plan.Records.PromotedAt, 0)
	if !s.plan.Failing && r.Clock.Since(promoted) > promotionSettles {
		return call(ctx)
	}
	if _, makes := a.(topology.LaunchInstance); !makes {
		return r.detachCall(ctx, s, a.String(), call)
	}
	r.memory.doubt(s.notes, r.Clock.Now()) // perhaps no pass is there any more to hear what came of it
	return r.detachCall(ctx, s, a.String(), func(ctx context.Context) error {
		err := call(ctx)
		r.memory.doubtAfter(s.notes, err, r.Clock.Now())
		return err
	})
}

// detachCall makes a call to EC2 that goes on by itself after a moment, and not twice at a time.
func (r *MySQLClusterReconciler) detachCall(ctx context.Context, s *scope, key string, call func(context.Context) error) error {
	if r.memory.begin(s.notes.underWay, key) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	outcome := make(chan error, 1)
	go func() {
		defer cancel()
		outcome <- call(ctx)
		r.memory.end(s.notes.underWay, key)
	}()
	timer := time.NewTimer(callWait)
	defer timer.Stop()
	select {
	case err := <-outcome:
		return err
	case <-timer.C:
		return nil
	}
}

// logFailure logs an action that failed, once for the same failure: the next passes may well meet it again.
func (r *MySQLClusterReconciler) logFailure(s *scope, a topology.Action, p *problem, news bool) {
	level := 0
	if !news {
		level = 1
	}
	s.log.V(level).Info("an action failed and is tried again", "action", a.String(), "reason", p.reason, "problem", p.message)
}

// take gives one action its effect. EC2 is not asked again for what it has just refused, however soon the next pass
// comes; only the fence is.
func (r *MySQLClusterReconciler) take(ctx context.Context, s *scope, action topology.Action) error {
	if s.cloud != nil {
		if p := r.memory.refusal(s.notes, action.String(), r.Clock.Now()); p != nil {
			return p
		}
		if handled, err := r.takeInCloud(ctx, s, action); handled {
			return err
		}
	}
	handled, err := r.takeInSQL(ctx, s, action)
	if !handled {
		return fmt.Errorf("nobody knows how to %s", action)
	}
	return err
}

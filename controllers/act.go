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
	for _, u := range s.untagged {
		if err := s.cloud.RestoreTags(ctx, u.id, u.tags); err != nil {
			s.outcome = append(s.outcome, cloudError(err))
			continue
		}
		r.announceTags(s, u)
	}
	turns := map[string][]topology.Action{}
	for _, a := range s.plan.Actions {
		turns[a.Target()] = append(turns[a.Target()], a)
	}
	var mu sync.Mutex
	turn := func(actions []topology.Action) {
		for _, a := range actions {
			if err := r.take(ctx, s, a); err != nil {
				p := asProblem(err)
				s.log.V(1).Info("action failed", "action", a.String(), "reason", p.reason, "message", p.message)
				mu.Lock()
				s.outcome = append(s.outcome, &problem{reason: p.reason, message: a.String() + ": " + p.message, after: p.after, cause: p})
				mu.Unlock()
				return
			}
			r.announce(s, a)
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

// take gives one action its effect.
func (r *MySQLClusterReconciler) take(ctx context.Context, s *scope, action topology.Action) error {
	if s.cloud != nil {
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

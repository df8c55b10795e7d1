package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// executor gives the actions of a plan their effect.
type executor struct {
	*Ports
	announcer     *announcer
	recordKeeper  *recordKeeper
	attempts      *attempts
	mysqlObserver *mysqlObserver
	archive       *archive
	restorer      *restorer
}

// actTimeout bounds what one target's actions may take in a pass.
const actTimeout = 60 * time.Second

// act takes the planned actions: first those of the cluster as a whole, then those of the members side by side. An
// action that fails ends its target's turn and nobody else's.
func (r *executor) act(ctx context.Context, s *pass) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	r.attempts.takeAnswers(ctx, s)
	switch wait, err := r.archive.endArchive(ctx, s); {
	case err != nil:
		s.tellBackup("archive: ", err) // which holds no deletion up
	case wait:
		s.plan.RequeueAfter, s.backup.archiveEnds = archiveEndsLook, true
		return nil
	}
	r.restoreTags(ctx, s)
	r.noteVersions(ctx, s)
	turns := map[string][]topology.Action{}
	for _, a := range s.plan.Actions {
		turns[a.Target()] = append(turns[a.Target()], a)
	}
	var mu sync.Mutex
	before := len(s.result.problems)
	turn := func(actions []topology.Action) {
		for _, a := range actions {
			err := r.take(ctx, s, a)
			mu.Lock()
			switch p := asProblem(err); {
			case p == nil:
				r.attempts.settle(s, a)
			case !errors.Is(err, errUnderWay):
				r.attempts.refuse(s, a, p)
			default:
				if last := s.cache.requests.lastFailure(topology.Identity(a)); last != nil {
					s.suffer(a, last) // it stands until there is an answer
				}
			}
			mu.Unlock()
			if err != nil && !errors.Is(err, errUnderWay) {
				return
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
	// The first is what conditions begin with: the order in which members fail must not change them.
	slices.SortStableFunc(s.result.problems[before:], func(a, b *problem) int { return strings.Compare(a.message, b.message) })
	return nil
}

// restoreTags puts back what somebody took off the members' resources. Nothing waits for it: least of all a failover, or a deletion.
func (r *executor) restoreTags(ctx context.Context, s *pass) {
	if s.plan.Failing || s.deleting() {
		return
	}
	for _, u := range s.seen.untagged {
		cloud, uid := s.access.cloud, s.uid()
		tell := func(_ context.Context, s *pass, err error) error {
			if err == nil {
				r.announcer.announceTags(s, u)
			}
			return err
		}
		r.attempts.tag(ctx, s, errand{tagsErrand, u.id}, tell, func(ctx context.Context) error { return cloud.RestoreTags(ctx, uid, u.id, u.tags) })
	}
}

// noteVersions tags volumes with the version that opened them. Nothing waits for it: least of all a failover.
func (r *executor) noteVersions(ctx context.Context, s *pass) {
	if s.plan.Failing {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.seen.outdated)) {
		version := s.seen.outdated[id]
		cloud, uid := s.access.cloud, s.uid()
		r.attempts.tag(ctx, s, errand{versionErrand, id}, asItIs, func(ctx context.Context) error { return cloud.NoteVersion(ctx, uid, id, version) })
	}
}

// upkeepPause is for how long at the most what upkeep asked for is not asked for again.
const upkeepPause = time.Minute

// versionPause is how long a volume's version is not noted again after that failed.
const versionPause = 5 * time.Minute

// suffer has a problem told that an action met.
func (s *pass) suffer(a topology.Action, p *problem) {
	s.result.problems = append(s.result.problems, &problem{reason: p.reason, message: a.String() + ": " + p.message, after: p.after, cause: p})
}

// decisionFresh is how old what a pass has decided may be before it is asked whether this process still leads. Nobody else can have
// become leader sooner: the lease is held for longer after its last renewal.
const decisionFresh = 5 * time.Second

// stillLeads fails when a pass stood still for so long that another may lead by now, and one does: EC2 knows no lease.
func (r *executor) stillLeads(ctx context.Context, s *pass) error {
	if r.Config.Lease == nil || r.Clock.Since(s.observed.Now) < decisionFresh {
		return nil
	}
	if err := r.Config.Lease(ctx); err != nil {
		return fmt.Errorf("what was decided a while ago is not done any more: %w", err)
	}
	return nil
}

// take gives one action its effect. Nobody is asked again for what was just refused, however soon the next pass comes.
func (r *executor) take(ctx context.Context, s *pass, action topology.Action) error {
	if p := s.cache.requests.refusal(topology.Identity(action), r.Clock.Now()); p != nil {
		return p
	}
	if err := r.stillLeads(ctx, s); err != nil {
		return err
	}
	if s.access.cloud != nil {
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

package controllers

import (
	"context"
	"sync"

	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// executor gives the actions of a plan their effect: it is where the ports of internal/engine are made.
type executor struct {
	*Ports
	announcer     *announcer
	mysqlObserver *mysqlObserver
	archive       *archive
	restorer      *restorer
}

// actTimeout bounds what one target's actions may take in a pass.
const actTimeout = 60 * time.Second

// act takes the planned actions. Before the instances of a cluster that goes are stopped its archive ends.
func (r *executor) act(ctx context.Context, s *pass) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	x := r.execution(s)
	x.TakeAnswers(ctx)
	wait, err := r.archive.endArchive(ctx, s)
	if wait {
		s.plan.RequeueAfter, s.backup.archiveEnds = archiveEndsLook, true
	} else {
		x.Run(ctx)
	}
	s.result.problems, s.result.acted, s.result.promoted = append(s.result.problems, x.Problems...), x.Acted, x.Promoted
	if err != nil {
		s.tellBackup("archive: ", err) // which holds no deletion up
	}
	return nil
}

// execution is the execution of a pass's plan.
func (r *executor) execution(s *pass) *engine.Execution {
	name := client.ObjectKeyFromObject(s.cluster)
	x := &engine.Execution{
		Ports: engine.Ports{
			Database: sqlPort{r, s}, Records: &s.stored, Threads: goroutines{}, Reporter: reportPort{r, s},
			Clock: r.Clock, Lease: r.lease(), Wake: func() { r.wake(name) },
		},
		Desired: s.desired, Observed: s.observed, Plan: s.plan, Requests: s.cache.requests, LostTags: s.seen.untagged, Outdated: s.seen.outdated,
	}
	if s.access.cloud != nil {
		x.Cloud = cloudPort{r, s, s.access.cloud, s.uid()}
	}
	return x
}

// lease takes a fresh look at the leader's lease; nil without an election.
func (p *Ports) lease() func(context.Context) error {
	if p.Config.Lease == nil {
		return nil
	}
	return func(ctx context.Context) error { return ofKubernetes(p.Config.Lease(ctx)) }
}

// wake has a cluster looked at now. When so many wait there that there is no room, a look is due anyway.
func (p *Ports) wake(name types.NamespacedName) {
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = name.Namespace, name.Name
	select {
	case p.Wake <- event.GenericEvent{Object: cluster}:
	default:
	}
}

// goroutines are the threads of the operator.
type goroutines struct{}

// All implements engine.Threads.
func (goroutines) All(ctx context.Context, tasks []func(context.Context)) {
	var wg sync.WaitGroup
	for _, task := range tasks {
		wg.Go(func() { task(ctx) })
	}
	wg.Wait()
}

// Start implements engine.Threads.
func (goroutines) Start(ctx context.Context, limit time.Duration, task func(context.Context)) engine.Task {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	over := make(chan struct{})
	go func() {
		defer cancel()
		defer close(over)
		task(detached)
	}()
	return goroutine(over)
}

// goroutine is closed when its task is over.
type goroutine chan struct{}

// Await implements engine.Task.
func (g goroutine) Await(_ context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-g:
		return true
	case <-timer.C:
		return false
	}
}

// reportPort tells of actions in events, in the log and in the timeline of a promotion.
type reportPort struct {
	r *executor
	s *pass
}

// Begins implements engine.Reporter.
func (p reportPort) Begins(a topology.Action) { p.s.log.V(1).Info("acting", "action", a.String()) }

// Succeeded implements engine.Reporter.
func (p reportPort) Succeeded(a topology.Action) { p.r.announcer.announce(p.s, a) }

// Failed logs an action that failed, once for the same failure: the next passes may well meet it again.
func (p reportPort) Failed(a topology.Action, problem *engine.Problem, news bool) {
	level := 0
	if !news {
		level = 1
	}
	p.s.log.V(level).Info("an action failed and is tried again", "action", a.String(), "reason", problem.Reason, "problem", problem.Message)
}

// TagsRestored implements engine.Reporter.
func (p reportPort) TagsRestored(id string) { p.r.announcer.announceTags(p.s, id) }

// PromotionBegins implements engine.Reporter.
func (p reportPort) PromotionBegins() { p.s.cache.told.timeline.fence(p.r.Clock.Now()) }

// Promoted implements engine.Reporter.
func (p reportPort) Promoted() { p.s.cache.told.timeline.open(p.r.Clock.Now()) }

// SwitchedOver implements engine.Reporter.
func (p reportPort) SwitchedOver(a topology.Switchover, closed time.Time) {
	p.s.cache.told.timeline = timeline{kind: promotionPlanned, from: a.Member, lastWrite: closed, noticed: closed, fenced: closed, opened: p.r.Clock.Now(), unseen: true}
}

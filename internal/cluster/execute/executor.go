package execute

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// actTimeout bounds what one target's actions may take in a pass.
const actTimeout = 60 * time.Second

// Act takes the planned actions. Before the instances of a cluster that goes are stopped its archive ends.
func (r *Executor) Act(ctx context.Context, s *pass.Pass) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	x := r.Execution(s)
	x.TakeAnswers(ctx)
	wait, err := r.Archive.End(ctx, s)
	if wait {
		s.Plan.RequeueAfter, s.Backup.ArchiveEnds = backups.ArchiveEndsLook, true
	} else {
		x.Run(ctx)
	}
	s.Result.Problems, s.Result.Acted, s.Result.Promoted = append(s.Result.Problems, x.Problems...), x.Acted, x.Promoted
	if err != nil {
		s.ReportBackup("archive: ", err) // which holds no deletion up
	}
	return nil
}

// Execution is the execution of a pass's plan.
func (r *Executor) Execution(s *pass.Pass) *engine.Execution {
	name := client.ObjectKeyFromObject(s.Cluster)
	x := &engine.Execution{
		Ports: engine.Ports{
			Database: sqlPort{r, s}, Records: &s.Stored, Threads: pass.Goroutines{}, Reporter: reportPort{r, s},
			Clock: r.Clock, Lease: r.Lease(), Wake: func() { r.LookNow(name) },
		},
		Desired: s.Desired, Observed: s.Observed, Plan: s.Plan, Requests: s.Cache.Requests, LostTags: s.Seen.Untagged, Outdated: s.Seen.Outdated,
	}
	if s.Access.Cloud != nil {
		x.Cloud = cloudPort{r, s, s.Access.Cloud, s.UID()}
	}
	return x
}

// reportPort tells of actions in events, in the log and in the timeline of a promotion.
type reportPort struct {
	r *Executor
	s *pass.Pass
}

func (p reportPort) Begins(a topology.Action) { p.s.Log.V(1).Info("acting", "action", a.String()) }

func (p reportPort) Succeeded(a topology.Action) { p.r.Announcer.Action(p.s, a) }

// Failed logs an action that failed, once for the same failure: the next passes may well meet it again.
func (p reportPort) Failed(a topology.Action, problem *engine.Problem, news bool) {
	level := 0
	if !news {
		level = 1
	}
	p.s.Log.V(level).Info("an action failed and is tried again", "action", a.String(), "reason", problem.Reason, "problem", problem.Message)
}

func (p reportPort) TagsRestored(id string) { p.r.Announcer.TagsRestored(p.s, id) }

func (p reportPort) PromotionBegins() { p.s.Cache.Told.Timeline.Fence(p.r.Clock.Now()) }

func (p reportPort) Promoted() { p.s.Cache.Told.Timeline.Open(p.r.Clock.Now()) }

func (p reportPort) SwitchedOver(a topology.Switchover, closed time.Time) {
	p.s.Cache.Told.Timeline = pass.Timeline{Kind: pass.PromotionPlanned, From: a.Member, LastWrite: closed, Noticed: closed, Fenced: closed, Opened: p.r.Clock.Now(), Unseen: true}
}

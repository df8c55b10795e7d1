// Package engine executes plans. The operator and the simulation run the same execution over ports of their own: EC2, mysqld, the
// records, threads, the clock.
package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Run takes the planned actions: first those of the cluster as a whole, then those of the members side by side. An action that
// fails ends its target's turn, unless nothing waits for it, and nobody else's. No member waits for the cluster's during a failover.
func (x *Execution) Run(ctx context.Context) {
	x.restoreTags(ctx)
	x.recordVersions(ctx)
	turns, targets := map[string][]topology.Action{}, []string{}
	for _, a := range x.Plan.Actions {
		if _, known := turns[a.Target()]; !known && a.Target() != "" {
			targets = append(targets, a.Target())
		}
		turns[a.Target()] = append(turns[a.Target()], a)
	}
	before := len(x.Problems)
	if !x.Plan.Failing {
		x.turn(ctx, turns[""])
	}
	tasks := make([]func(context.Context), 0, len(targets))
	for _, target := range targets {
		tasks = append(tasks, func(ctx context.Context) { x.turn(ctx, turns[target]) })
	}
	x.Threads.All(ctx, tasks)
	if x.Plan.Failing {
		x.turn(ctx, turns[""])
	}
	// The first is what conditions begin with: the order in which members fail must not change them.
	slices.SortStableFunc(x.Problems[before:], func(a, b *Problem) int { return strings.Compare(a.Message, b.Message) })
}

// turn takes the actions of one target.
func (x *Execution) turn(ctx context.Context, actions []topology.Action) {
	for _, a := range actions {
		err := x.take(ctx, a)
		switch p := AsProblem(err); {
		case p == nil:
			x.succeeded(a)
		case !errors.Is(err, ErrUnderWay):
			if x.failed(a, p); !topology.Aside(x.Observed, a) {
				return
			}
		default:
			if last := x.Requests.lastFailure(topology.Identity(a)); last != nil {
				x.report(a, last) // it stands until there is an answer
			}
		}
	}
}

// take gives one action its effect. Nobody is asked again for what was just refused, however soon the next pass comes.
func (x *Execution) take(ctx context.Context, a topology.Action) error {
	if p := x.Requests.Refusal(topology.Identity(a), x.Clock.Now()); p != nil {
		return p
	}
	if err := x.stillLeads(ctx); err != nil {
		return err
	}
	x.Reporter.Begins(a)
	if x.Cloud != nil {
		if handled, err := x.takeInCloud(ctx, a); handled {
			return err
		}
	}
	handled, err := x.takeInSQL(ctx, a)
	switch {
	case handled:
		return err
	case x.Cloud == nil:
		return &Problem{Message: "the cluster's AWS account cannot be used at the moment", After: AfterWaiting, Pause: longestPause}
	}
	return fmt.Errorf("nobody knows how to %s", a)
}

// restoreTags puts back what somebody took off the members' resources. Nothing waits for it: least of all a failover, or a deletion.
func (x *Execution) restoreTags(ctx context.Context) {
	if x.Plan.Failing || x.Desired.Deleting {
		return
	}
	for _, lost := range x.LostTags {
		finish := func(_ context.Context, x *Execution, err error) error {
			if err == nil {
				x.Reporter.TagsRestored(lost.ID)
			}
			return err
		}
		cloud := x.Cloud
		x.tag(ctx, Errand{TagsErrand, lost.ID}, finish, func(ctx context.Context) error { return cloud.RestoreTags(ctx, lost.ID, lost.Tags) })
	}
}

// recordVersions tags volumes with the version that opened them. Nothing waits for it: least of all a failover.
func (x *Execution) recordVersions(ctx context.Context) {
	if x.Plan.Failing {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(x.Outdated)) {
		cloud, version := x.Cloud, x.Outdated[id]
		x.tag(ctx, Errand{VersionErrand, id}, asItIs, func(ctx context.Context) error { return cloud.TagVersion(ctx, id, version) })
	}
}

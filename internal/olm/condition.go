// Package olm tells the Operator Lifecycle Manager, by the condition Upgradeable of the operator's OperatorCondition, when it
// may replace the operator and when it had better wait: while a failover, a rolling change or a restore runs. OLM names the
// object in a variable of the environment; where that is missing there is no OLM, and nothing happens.
package olm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ConditionNameVariable names the OperatorCondition in the operator's environment.
const ConditionNameVariable = "OPERATOR_CONDITION_NAME"

// ReasonIdle is the condition's reason while the operator may be replaced.
const ReasonIdle = "NothingUnfinished"

const (
	// settle is how long after its start a leader waits before it calls itself idle: every cluster has been looked at then.
	settle = 15 * time.Second
	// again is when a write that failed is tried again.
	again = 5 * time.Second
	// refresh is when the condition is compared again although nothing changed: somebody else may have changed it.
	refresh = 10 * time.Minute
	// named is how many clusters the message names.
	named = 5
	// stalls is how long work holds an upgrade back without progress: longer than a failover or the restart of a member takes. What
	// takes longer waits for a person, or for AWS, and another release of the operator may be what helps.
	stalls = 30 * time.Minute
	// unreported is how long work holds an upgrade back whose cluster no pass has reported on: several times the longest pause
	// between two passes. Such passes come to no plan, so that a hand-over interrupts none.
	unreported = 5 * time.Minute
	// longest is how long a cluster holds an upgrade back in all, whatever advances: longer than replacing nine members takes. Without it
	// whoever may annotate a cluster could hold every upgrade back for good.
	longest = 6 * time.Hour
	// rest is how long a cluster must have nothing unfinished until it may hold an upgrade back for another longest.
	rest = 30 * time.Minute
)

// Unfinished is work that a hand-over of the operator had better not interrupt.
type Unfinished struct {
	// Reason is a CamelCase word for the condition, Message what runs, in words that do not change while it does.
	Reason, Message string
	// Progress changes when the work advances, and at no other time.
	Progress string
}

// running is what was last reported of a cluster.
type running struct {
	Unfinished
	// began is when it first held an upgrade back, without a rest since; ended is when nothing was unfinished any more, zero while
	// something is.
	began, reported, advanced, ended time.Time
}

// rested says whether a cluster has had nothing unfinished for long enough that what held an upgrade back earlier no longer counts.
func (r running) rested(now time.Time) bool { return !r.ended.IsZero() && now.Sub(r.ended) >= rest }

// until is when the work holds an upgrade back no longer, unless something is reported by then. It is zero for none.
func (r running) until() time.Time {
	if !r.ended.IsZero() {
		return time.Time{}
	}
	end := r.began.Add(longest)
	for _, other := range []time.Time{r.advanced.Add(stalls), r.reported.Add(unreported)} {
		if other.Before(end) {
			end = other
		}
	}
	return end
}

// followedBy is what is running once work is reported, nil for none.
func (r running) followedBy(work *Unfinished, now time.Time) running {
	switch {
	case work == nil && r.ended.IsZero():
		r.ended = now
		return r
	case work == nil:
		return r
	}
	next := running{Unfinished: *work, began: r.began, reported: now, advanced: now}
	if r.ended.IsZero() && r.Progress == work.Progress {
		next.advanced = r.advanced
	}
	return next
}

// inherited is since when the stored condition had held upgrades back when this process began, zero for not at all. What is reported
// first is taken for what held it back: otherwise an operator that crashes again and again in a failover would hold back the release
// that helps.
type inherited struct {
	read  bool
	since time.Time
	// until is when what is reported for the first time counts as new.
	until time.Time
}

// Condition keeps the OperatorCondition. Its methods may be called on nil, which stands for an operator without OLM.
type Condition struct {
	client client.Client
	reader client.Reader
	key    types.NamespacedName
	clock  clock.Clock
	log    logr.Logger

	mu      sync.Mutex
	running map[types.NamespacedName]running
	stored  inherited
	wake    chan struct{}
}

var (
	_ manager.Runnable               = (*Condition)(nil)
	_ manager.LeaderElectionRunnable = (*Condition)(nil)
)

// New returns the keeper of the OperatorCondition key. reader must read past the manager's cache: OLM lets the operator read
// this one object, not list them.
func New(c client.Client, reader client.Reader, key types.NamespacedName, clk clock.Clock, log logr.Logger) *Condition {
	return &Condition{
		client: c, reader: reader, key: key, clock: clk, log: log,
		running: map[types.NamespacedName]running{}, wake: make(chan struct{}, 1),
	}
}

// NeedLeaderElection is true: who leads knows what is unfinished.
func (c *Condition) NeedLeaderElection() bool { return true }

// Set reports what is unfinished at a cluster; nil for nothing.
func (c *Condition) Set(cluster types.NamespacedName, work *Unfinished) {
	if c == nil {
		return
	}
	c.mu.Lock()
	now := c.clock.Now()
	last, known := c.running[cluster]
	known = known && !last.rested(now)
	var next running
	switch {
	case known:
		next = last.followedBy(work, now)
		c.running[cluster] = next
	case work != nil:
		next = c.first(*work, now)
		c.running[cluster] = next
	default:
		next = running{ended: now}
		delete(c.running, cluster)
	}
	before, counts := known && now.Before(last.until()), now.Before(next.until())
	changed := before != counts || counts && last.Unfinished != next.Unfinished
	c.mu.Unlock()
	if changed {
		select {
		case c.wake <- struct{}{}:
		default: // a look is due anyway
		}
	}
}

// first is work of a cluster of which nothing was known. The caller holds mu.
func (c *Condition) first(work Unfinished, now time.Time) running {
	since := now
	if !c.stored.since.IsZero() && now.Before(c.stored.until) {
		since = c.stored.since
	}
	return running{Unfinished: work, began: since, reported: now, advanced: since}
}

// inherit reads the stored condition, once, and says whether it has held upgrades back for longer than work without progress may.
func (c *Condition) inherit(ctx context.Context) (stale bool, err error) {
	var object operatorsv2.OperatorCondition
	if err := c.reader.Get(ctx, c.key, &object); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.stored = inherited{read: true, until: now.Add(unreported)}
	stored := meta.FindStatusCondition(object.Spec.Conditions, operatorsv2.Upgradeable)
	if stored == nil || stored.Status != metav1.ConditionFalse {
		return false, nil
	}
	c.stored.since = stored.LastTransitionTime.Time
	for cluster, work := range c.running {
		if c.stored.since.Before(work.began) {
			work.began, work.advanced = c.stored.since, c.stored.since
			c.running[cluster] = work
		}
	}
	return now.Sub(c.stored.since) >= stalls, nil
}

// Start writes the condition whenever it changes, until ctx ends.
func (c *Condition) Start(ctx context.Context) error {
	settled := c.clock.Now().Add(settle)
	for {
		wait, err := c.keep(ctx, &settled)
		if err != nil {
			c.log.V(1).Info("write the OperatorCondition again later", "error", err.Error())
			wait = again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-c.clock.After(wait):
		}
	}
}

// keep writes the condition as it should be, and returns for how long it is right. Until settled nothing is called idle, but for what is
// stored that is stale: a process that ends soon again must not leave it as it is.
func (c *Condition) keep(ctx context.Context, settled *time.Time) (time.Duration, error) {
	if !c.stored.read {
		stale, err := c.inherit(ctx)
		if err != nil {
			return 0, err
		}
		if stale {
			*settled = c.clock.Now()
		}
	}
	c.forget()
	wanted, idle, wait := c.wanted()
	if early := settled.Sub(c.clock.Now()); idle && early > 0 {
		return early, nil
	}
	return wait, c.write(ctx, wanted)
}

// forget drops the clusters that have rested: of one that is deleted nothing is reported any more.
func (c *Condition) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	maps.DeleteFunc(c.running, func(_ types.NamespacedName, work running) bool { return work.rested(now) })
}

// wanted is the condition as it should be, whether it says that the operator may be replaced, and for how long it is right unless
// something is reported.
func (c *Condition) wanted() (condition metav1.Condition, idle bool, lasts time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	condition = metav1.Condition{
		Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue, Reason: ReasonIdle, Message: "No failover, rolling change or restore runs.",
	}
	now := c.clock.Now()
	lasts = refresh
	var clusters []types.NamespacedName
	for cluster, work := range c.running {
		if left := work.until().Sub(now); left > 0 {
			clusters = append(clusters, cluster)
			lasts = min(lasts, left)
		}
	}
	if len(clusters) == 0 {
		return condition, true, lasts
	}
	slices.SortFunc(clusters, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	condition.Status, condition.Reason = metav1.ConditionFalse, c.running[clusters[0]].Reason
	var lines []string
	for _, cluster := range clusters[:min(named, len(clusters))] {
		lines = append(lines, cluster.String()+": "+c.running[cluster].Message)
	}
	if more := len(clusters) - named; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	condition.Message = strings.Join(lines, "; ")
	return condition, false, lasts
}

// write puts the condition into the object, unless it is there already.
func (c *Condition) write(ctx context.Context, wanted metav1.Condition) error {
	wanted.LastTransitionTime = metav1.NewTime(c.clock.Now()) // is used when the status changes
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var object operatorsv2.OperatorCondition
		if err := c.reader.Get(ctx, c.key, &object); err != nil {
			return err
		}
		if !meta.SetStatusCondition(&object.Spec.Conditions, wanted) {
			return nil
		}
		return c.client.Update(ctx, &object)
	})
}

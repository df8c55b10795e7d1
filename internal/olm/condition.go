// Package olm tells the Operator Lifecycle Manager, by the condition Upgradeable of the operator's OperatorCondition, when it
// may replace the operator and when it had better wait: while a failover, a rolling change or a restore runs. OLM names the
// object in a variable of the environment; where that is missing there is no OLM, and nothing happens.
package olm

import (
	"context"
	"errors"
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

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// ConditionNameVariable names the OperatorCondition in the operator's environment.
const ConditionNameVariable = "OPERATOR_CONDITION_NAME"

// ReasonIdle is the condition's reason while the operator may be replaced.
const ReasonIdle = "NothingUnfinished"

const (
	// again is when a write that failed is tried again.
	again = 5 * time.Second
	// refresh is when the condition is compared again although nothing changed: somebody else may have changed it.
	refresh = 10 * time.Minute
	// named is how many clusters the message names.
	named = 5
)

var (
	// start is among the clusters what a leader begins with: until every cluster has been reported once, nobody knows what is unfinished.
	start = types.NamespacedName{}
	// starting is the work of start.
	starting = Unfinished{Reason: ReasonStarting, Message: "the operator has started and has not observed every cluster yet"}
)

// firstLook is the report of every cluster that a leader begins with.
type firstLook struct {
	// ends is when it is over even if some cluster is never reported.
	ends time.Time
	over bool
	// reported are the clusters that have been, awaited those that the cache holds beside them.
	reported, awaited map[types.NamespacedName]bool
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
	look    firstLook
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
		look: firstLook{reported: map[types.NamespacedName]bool{}},
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
		next = begun(*work, now)
		c.running[cluster] = next
	default:
		next = running{times: times{Ended: now}}
		delete(c.running, cluster)
	}
	before, counts := known && now.Before(last.until()), now.Before(next.until())
	completed := c.look.completedBy(cluster)
	changed := completed || before != counts || counts && last.Unfinished != next.Unfinished
	c.mu.Unlock()
	if changed {
		select {
		case c.wake <- struct{}{}:
		default: // a look is due anyway
		}
	}
}

// completedBy takes the report of a cluster, and says whether it was the last one awaited.
func (l *firstLook) completedBy(cluster types.NamespacedName) bool {
	if l.over || cluster == start {
		return false
	}
	l.reported[cluster] = true
	awaited := len(l.awaited)
	delete(l.awaited, cluster)
	return awaited > 0 && len(l.awaited) == 0
}

// Start writes the condition whenever it changes, until ctx ends.
func (c *Condition) Start(ctx context.Context) error {
	for {
		wait, err := c.keep(ctx)
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

// keep writes the condition as it should be, and returns for how long it is right.
func (c *Condition) keep(ctx context.Context) (time.Duration, error) {
	if c.look.ends.IsZero() {
		if err := c.begin(ctx); err != nil {
			return 0, err
		}
	}
	unobserved := c.observe(ctx)
	c.forget()
	wanted, wait := c.wanted()
	return wait, errors.Join(unobserved, c.write(ctx, wanted))
}

// begin takes over, once, what the process before has stored, and begins the first look.
func (c *Condition) begin(ctx context.Context) error {
	var object operatorsv2.OperatorCondition
	if err := c.reader.Get(ctx, c.key, &object); err != nil {
		return err
	}
	c.mu.Lock()
	now := c.clock.Now()
	stored, err := read(object.Annotations[Annotation], now)
	if err != nil {
		c.log.Info("the annotation of the OperatorCondition cannot be read: what was unfinished counts as new", "annotation", Annotation, "error", err.Error())
	}
	for cluster, was := range stored {
		switch reported, known := c.running[cluster]; {
		case known:
			was = was.followedBy(&reported.Unfinished, reported.reported)
			was.Ended = reported.Ended
		case c.look.reported[cluster]:
			was = was.followedBy(nil, now)
		}
		if !was.rested(now) {
			c.running[cluster] = was
		}
	}
	c.look.ends = now.Add(unreported)
	c.mu.Unlock()
	c.Set(start, &starting)
	return nil
}

// observe ends the first look when every cluster that the cache holds has been reported, or when it has lasted for long enough.
func (c *Condition) observe(ctx context.Context) error {
	if c.look.over {
		return nil
	}
	var clusters v1alpha1.MySQLClusterList
	if err := c.client.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	c.mu.Lock()
	c.look.awaited = map[types.NamespacedName]bool{}
	for i := range clusters.Items {
		if cluster := client.ObjectKeyFromObject(&clusters.Items[i]); !c.look.reported[cluster] {
			c.look.awaited[cluster] = true
		}
	}
	over := len(c.look.awaited) == 0 || !c.clock.Now().Before(c.look.ends)
	if over {
		maps.DeleteFunc(c.running, func(cluster types.NamespacedName, r running) bool {
			return r.Ended.IsZero() && !r.inherited.IsZero() && !c.look.awaited[cluster] // it was deleted while nobody led
		})
		c.look = firstLook{ends: c.look.ends, over: true}
	}
	c.mu.Unlock()
	if over {
		c.Set(start, nil)
	}
	return nil
}

// forget drops the clusters that have rested: of one that is deleted nothing is reported any more.
func (c *Condition) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	maps.DeleteFunc(c.running, func(_ types.NamespacedName, work running) bool { return work.rested(now) })
}

// wanted is the condition as it should be, and for how long it is right unless something is reported.
func (c *Condition) wanted() (condition metav1.Condition, lasts time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	condition = metav1.Condition{
		Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue, Reason: ReasonIdle, Message: "No failover, rolling change or restore runs.",
	}
	now := c.clock.Now()
	lasts = refresh
	if left := c.look.ends.Sub(now); left > 0 && !c.look.over {
		lasts = min(lasts, left)
	}
	var clusters []types.NamespacedName
	for cluster, work := range c.running {
		if left := work.until().Sub(now); left > 0 {
			clusters = append(clusters, cluster)
			lasts = min(lasts, left)
		}
	}
	if len(clusters) == 0 {
		return condition, lasts
	}
	slices.SortFunc(clusters, func(a, b types.NamespacedName) int {
		switch start {
		case a:
			return 1 // what is known to run says more
		case b:
			return -1
		}
		return strings.Compare(a.String(), b.String())
	})
	condition.Status, condition.Reason = metav1.ConditionFalse, c.running[clusters[0]].Reason
	var lines []string
	for _, cluster := range clusters[:min(named, len(clusters))] {
		line := c.running[cluster].Message
		if cluster != start {
			line = cluster.String() + ": " + line
		}
		lines = append(lines, line)
	}
	if more := len(clusters) - named; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	condition.Message = strings.Join(lines, "; ")
	return condition, lasts
}

// write puts the condition, and what a successor needs, into the object, unless it is there already.
func (c *Condition) write(ctx context.Context, wanted metav1.Condition) error {
	c.mu.Lock()
	wanted.LastTransitionTime = metav1.NewTime(c.clock.Now()) // is used when the status changes
	kept := written(c.running)
	c.mu.Unlock()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var object operatorsv2.OperatorCondition
		if err := c.reader.Get(ctx, c.key, &object); err != nil {
			return err
		}
		if changed := meta.SetStatusCondition(&object.Spec.Conditions, wanted); !changed && object.Annotations[Annotation] == kept {
			return nil
		}
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, Annotation, kept)
		return c.client.Update(ctx, &object)
	})
}

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
)

// Unfinished is work that a hand-over of the operator had better not interrupt.
type Unfinished struct {
	// Reason is a CamelCase word for the condition, Message what runs, in words that do not change while it does.
	Reason, Message string
}

// Condition keeps the OperatorCondition. Its methods may be called on nil, which stands for an operator without OLM.
type Condition struct {
	client client.Client
	reader client.Reader
	key    types.NamespacedName
	clock  clock.Clock
	log    logr.Logger

	mu      sync.Mutex
	running map[types.NamespacedName]Unfinished
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
		running: map[types.NamespacedName]Unfinished{}, wake: make(chan struct{}, 1),
	}
}

// NeedLeaderElection is true: who leads knows what is unfinished.
func (c *Condition) NeedLeaderElection() bool { return true }

// Set notes what is unfinished at a cluster; nil for nothing.
func (c *Condition) Set(cluster types.NamespacedName, work *Unfinished) {
	if c == nil {
		return
	}
	c.mu.Lock()
	before, was := c.running[cluster]
	if work == nil {
		delete(c.running, cluster)
	} else {
		c.running[cluster] = *work
	}
	changed := was != (work != nil) || work != nil && before != *work
	c.mu.Unlock()
	if changed {
		select {
		case c.wake <- struct{}{}:
		default: // a look is due anyway
		}
	}
}

// Start writes the condition whenever it changes, until ctx ends.
func (c *Condition) Start(ctx context.Context) error {
	settled := c.clock.Now().Add(settle)
	for {
		wait := refresh
		wanted, idle := c.wanted()
		if early := settled.Sub(c.clock.Now()); idle && early > 0 {
			wait = early
		} else if err := c.write(ctx, wanted); err != nil {
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

// wanted is the condition as it should be, and whether it says that the operator may be replaced.
func (c *Condition) wanted() (metav1.Condition, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	condition := metav1.Condition{
		Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue, Reason: ReasonIdle, Message: "No failover, rolling change or restore runs.",
	}
	if len(c.running) == 0 {
		return condition, true
	}
	clusters := slices.SortedFunc(maps.Keys(c.running), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	condition.Status, condition.Reason = metav1.ConditionFalse, c.running[clusters[0]].Reason
	var lines []string
	for _, cluster := range clusters[:min(named, len(clusters))] {
		lines = append(lines, cluster.String()+": "+c.running[cluster].Message)
	}
	if more := len(clusters) - named; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	condition.Message = strings.Join(lines, "; ")
	return condition, false
}

// write puts the condition into the object, unless it is there already.
func (c *Condition) write(ctx context.Context, wanted metav1.Condition) error {
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

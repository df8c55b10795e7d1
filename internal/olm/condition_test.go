package olm

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	key    = types.NamespacedName{Namespace: "system", Name: "op.v1"}
	orders = types.NamespacedName{Namespace: "shop", Name: "orders"}
	bills  = types.NamespacedName{Namespace: "shop", Name: "bills"}
	moving = &Unfinished{Reason: "SwitchoverInProgress", Message: "the primary moves"}
)

// stage runs a Condition on a clock of its own. refuse, when it is not nil, is asked before each write. stored are conditions that an
// operator left.
func stage(t *testing.T, refuse func() error, stored ...metav1.Condition) (*Condition, *clocktesting.FakeClock, func() *metav1.Condition) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := operatorsv2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: operatorsv2.OperatorConditionSpec{Conditions: stored}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if refuse != nil {
				if err := refuse(); err != nil {
					return err
				}
			}
			return c.Update(ctx, o, options...)
		},
	}).Build()
	clock := clocktesting.NewFakeClock(time.Now())
	c := New(api, api, key, clock, logr.Discard())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, clock, func() *metav1.Condition {
		var now operatorsv2.OperatorCondition
		if err := api.Get(t.Context(), key, &now); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(now.Spec.Conditions, operatorsv2.Upgradeable)
	}
}

// eventually moves the clock on until the condition is as wanted.
func eventually(t *testing.T, clock *clocktesting.FakeClock, step time.Duration, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
		if clock.HasWaiters() {
			clock.Step(step)
		}
		time.Sleep(time.Millisecond)
	}
}

func is(c *metav1.Condition, status metav1.ConditionStatus, reason, message string) bool {
	return c != nil && c.Status == status && c.Reason == reason && c.Message == message
}

func TestUpgradeableFollowsWhatIsUnfinished(t *testing.T) {
	c, clock, read := stage(t, nil)
	c.Set(orders, moving)
	eventually(t, clock, 0, func() bool {
		return is(read(), metav1.ConditionFalse, "SwitchoverInProgress", "shop/orders: the primary moves")
	})
	c.Set(bills, &Unfinished{Reason: "FailoverInProgress", Message: "no primary"})
	eventually(t, clock, 0, func() bool {
		return is(read(), metav1.ConditionFalse, "FailoverInProgress", "shop/bills: no primary; shop/orders: the primary moves")
	})
	c.Set(orders, nil)
	c.Set(bills, nil)
	eventually(t, clock, time.Second, func() bool {
		return is(read(), metav1.ConditionTrue, ReasonIdle, "No failover, rolling change or restore runs.")
	})
}

func TestALeaderThatHasNotLookedYetDoesNotCallItselfIdle(t *testing.T) {
	_, clock, read := stage(t, nil)
	eventually(t, clock, 0, clock.HasWaiters)
	clock.Step(settle - time.Second)
	time.Sleep(20 * time.Millisecond)
	if now := read(); now != nil {
		t.Fatalf("it says %+v", now)
	}
	eventually(t, clock, time.Second, func() bool { return read() != nil })
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	tries := 0
	c, clock, read := stage(t, func() error {
		if tries++; tries < 3 {
			return errors.New("not now")
		}
		return nil
	})
	c.Set(orders, moving)
	eventually(t, clock, again, func() bool { return read() != nil })
}

func TestTheMessageStaysShort(t *testing.T) {
	c := New(nil, nil, key, clocktesting.NewFakeClock(time.Now()), logr.Discard())
	for i := range 8 {
		c.Set(types.NamespacedName{Namespace: "n", Name: fmt.Sprint(i)}, moving)
	}
	condition, idle, _ := c.wanted()
	const want = "n/0: the primary moves; n/1: the primary moves; n/2: the primary moves; n/3: the primary moves; n/4: the primary moves; and 3 more"
	if idle || condition.Message != want {
		t.Errorf("it says %q", condition.Message)
	}
}

// TestOnlyWorkThatAdvancesHoldsAnUpgradeBack: a failover that waits for a person must not, and a rollout of many members may for long.
func TestOnlyWorkThatAdvancesHoldsAnUpgradeBack(t *testing.T) {
	for name, row := range map[string]struct {
		progress func(minute int) string
		want     bool // after two hours
	}{
		"it waits for a person":         {func(int) string { return "epoch 7" }, false},
		"a member every twenty minutes": {func(minute int) string { return fmt.Sprint(minute / 20) }, true},
	} {
		clock := clocktesting.NewFakeClock(time.Now())
		c := New(nil, nil, key, clock, logr.Discard())
		for minute := range 120 {
			c.Set(orders, &Unfinished{Reason: "FailoverInProgress", Message: "no primary", Progress: row.progress(minute)})
			if _, idle, _ := c.wanted(); minute < 29 && idle {
				t.Errorf("%s: an upgrade is allowed after %d minutes", name, minute)
			}
			clock.Step(time.Minute)
		}
		if _, idle, _ := c.wanted(); idle == row.want {
			t.Errorf("%s: an upgrade is held back after two hours: %v", name, !idle)
		}
	}
}

// TestNobodyHoldsUpgradesBackForGood: whoever may annotate a cluster can have its members restarted again and again.
func TestNobodyHoldsUpgradesBackForGood(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	c := New(nil, nil, key, clock, logr.Discard())
	restart := func(minute int) {
		work := &Unfinished{Reason: "RollingChangeInProgress", Message: "members are being restarted", Progress: fmt.Sprint(minute / 20)}
		if minute%20 == 0 {
			work = nil // between two restarts
		}
		c.Set(orders, work)
		clock.Step(time.Minute)
	}
	holds := func() bool { _, idle, _ := c.wanted(); return !idle }
	minute := 1
	for ; minute < int(longest/time.Minute); minute++ {
		restart(minute)
	}
	if !holds() {
		t.Error("an upgrade is allowed too early")
	}
	for range 180 {
		if minute++; minute%20 != 1 && holds() {
			t.Fatalf("an upgrade is held back after %d minutes", minute)
		}
		restart(minute)
	}
	c.Set(bills, moving)
	if !holds() {
		t.Error("work of another cluster holds nothing back")
	}
	c.Set(bills, nil)
	c.Set(orders, nil)
	clock.Step(rest)
	c.Set(orders, moving)
	if !holds() {
		t.Error("after a rest, work holds nothing back")
	}
}

// TestACrashLoopHoldsNoUpgradeBack: what was stored before the start counts.
func TestACrashLoopHoldsNoUpgradeBack(t *testing.T) {
	stored := func(ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse, Reason: "FailoverInProgress", Message: "shop/orders: no primary",
			LastTransitionTime: metav1.NewTime(time.Now().Add(-ago))}
	}
	_, clock, read := stage(t, nil, stored(stalls+time.Minute))
	eventually(t, clock, 0, func() bool { return read().Status == metav1.ConditionTrue })

	work := &Unfinished{Reason: "FailoverInProgress", Message: "no primary", Progress: "epoch 7"}
	c, clock, read := stage(t, nil, stored(stalls-time.Minute))
	c.Set(orders, work)
	eventually(t, clock, 0, clock.HasWaiters)
	if read().Status != metav1.ConditionFalse {
		t.Error("an upgrade is allowed too early")
	}
	clock.Step(2 * time.Minute)
	c.Set(orders, work)
	eventually(t, clock, 0, func() bool { return read().Status == metav1.ConditionTrue })
	if at := read().LastTransitionTime; clock.Since(at.Time) > time.Second {
		t.Errorf("it changed at %s", at)
	}
	work.Progress = "epoch 8"
	c.Set(orders, work)
	eventually(t, clock, 0, func() bool { return read().Status == metav1.ConditionFalse })
}

// TestWhatNobodyReportsHoldsNoUpgradeBack: the passes of a cluster whose policy or records cannot be read come to no plan, for as long as that lasts.
func TestWhatNobodyReportsHoldsNoUpgradeBack(t *testing.T) {
	c, clock, read := stage(t, nil)
	c.Set(orders, moving)
	eventually(t, clock, 0, func() bool { now := read(); return now != nil && now.Status == metav1.ConditionFalse })
	began := clock.Now()
	eventually(t, clock, 30*time.Second, func() bool { return read().Status == metav1.ConditionTrue })
	if took := clock.Since(began); took < unreported || took > 2*unreported {
		t.Errorf("it is held back for %s", took)
	}
	c.Set(orders, moving)
	eventually(t, clock, 0, func() bool { return read().Status == metav1.ConditionFalse })
}

// TestADeletedClusterIsForgotten: nothing is reported of it any more.
func TestADeletedClusterIsForgotten(t *testing.T) {
	c, clock, read := stage(t, nil)
	known := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.running)
	}
	c.Set(orders, moving)
	eventually(t, clock, 0, func() bool { now := read(); return now != nil && now.Status == metav1.ConditionFalse })
	c.Set(orders, nil)
	began := clock.Now()
	eventually(t, clock, time.Minute, func() bool { return known() == 0 })
	if took := clock.Since(began); took < rest || took > rest+refresh+time.Minute {
		t.Errorf("it is forgotten after %s", took)
	}
}

func TestWithoutOLMNothingHappens(*testing.T) {
	var none *Condition
	none.Set(orders, moving)
}

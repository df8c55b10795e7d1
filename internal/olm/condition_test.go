package olm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

var (
	key    = types.NamespacedName{Namespace: "system", Name: "op.v1"}
	orders = types.NamespacedName{Namespace: "shop", Name: "orders"}
	bills  = types.NamespacedName{Namespace: "shop", Name: "bills"}
	moving = &Unfinished{Reason: "SwitchoverInProgress", Message: "the primary moves"}
)

// stage runs a Condition on a clock of its own. refuse, when it is not nil, is asked before each write. clusters are there.
func stage(t *testing.T, refuse func() error, clusters ...types.NamespacedName) (*Condition, *clocktesting.FakeClock, func() *metav1.Condition) {
	t.Helper()
	api := server(t, refuse, clusters...)
	clock := clocktesting.NewFakeClock(time.Now())
	c, _ := lead(t, api, clock)
	return c, clock, func() *metav1.Condition { return conditionIn(t, api) }
}

// server is an API server with clusters and an OperatorCondition that says nothing yet.
func server(t *testing.T, refuse func() error, clusters ...types.NamespacedName) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(operatorsv2.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}
	for _, cluster := range clusters {
		objects = append(objects, &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if refuse != nil {
				if err := refuse(); err != nil {
					return err
				}
			}
			return c.Update(ctx, o, options...)
		},
	}).Build()
}

// lead has an operator lead until the test ends, or it is stopped.
func lead(t *testing.T, api client.Client, clock *clocktesting.FakeClock) (c *Condition, stop func()) {
	t.Helper()
	c = New(api, api, key, clock, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

func conditionIn(t *testing.T, api client.Client) *metav1.Condition {
	t.Helper()
	var now operatorsv2.OperatorCondition
	if err := api.Get(t.Context(), key, &now); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(now.Spec.Conditions, operatorsv2.Upgradeable)
}

// tookOver says whether c has read what the leader before it stored.
func tookOver(c *Condition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.look.ends.IsZero()
}

// idle says whether c would allow an upgrade now.
func idle(c *Condition) bool {
	condition, _ := c.wanted()
	return condition.Status == metav1.ConditionTrue
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

// TestALeaderIsIdleOnceEveryClusterWasReported: with 1,000 clusters the first look takes a minute and a half.
func TestALeaderIsIdleOnceEveryClusterWasReported(t *testing.T) {
	c, clock, read := stage(t, nil, orders, bills)
	starts := func() bool {
		return is(read(), metav1.ConditionFalse, ReasonStarting, "the operator has started and has not observed every cluster yet")
	}
	eventually(t, clock, 0, func() bool { return clock.HasWaiters() && starts() })
	c.Set(orders, nil)
	clock.Step(99 * time.Second)
	time.Sleep(20 * time.Millisecond)
	if !starts() {
		t.Fatalf("after one of two clusters it says %+v", read())
	}
	c.Set(bills, moving)
	eventually(t, clock, 0, func() bool { return is(read(), metav1.ConditionFalse, moving.Reason, "shop/bills: the primary moves") })
	c.Set(bills, nil)
	eventually(t, clock, 0, func() bool { return read().Status == metav1.ConditionTrue })
}

// TestAClusterThatIsNeverReportedKeepsNoLeaderStarting: nobody may hold upgrades back by a cluster whose policy cannot be read.
func TestAClusterThatIsNeverReportedKeepsNoLeaderStarting(t *testing.T) {
	_, clock, read := stage(t, nil, orders)
	eventually(t, clock, 0, func() bool { return read() != nil && clock.HasWaiters() })
	began := clock.Now()
	eventually(t, clock, 10*time.Second, func() bool { return read().Status == metav1.ConditionTrue })
	if took := clock.Since(began); took < unreported || took > unreported+time.Minute {
		t.Errorf("it starts for %s", took)
	}
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
	condition, _ := c.wanted()
	const want = "n/0: the primary moves; n/1: the primary moves; n/2: the primary moves; n/3: the primary moves; n/4: the primary moves; and 3 more"
	if condition.Message != want {
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
			if minute < 29 && idle(c) {
				t.Errorf("%s: an upgrade is allowed after %d minutes", name, minute)
			}
			clock.Step(time.Minute)
		}
		if idle(c) == row.want {
			t.Errorf("%s: an upgrade is held back after two hours: %v", name, !row.want)
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
	holds := func() bool { return !idle(c) }
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

// TestASuccessorInheritsTheLastProgress: five members are replaced, one every 15 minutes, and the leader is drained after 35.
func TestASuccessorInheritsTheLastProgress(t *testing.T) {
	api, clock := server(t, nil, orders), clocktesting.NewFakeClock(time.Now())
	rolling := func(done int) *Unfinished {
		return &Unfinished{Reason: "RollingChangeInProgress", Message: "members are being replaced one after the other", Progress: fmt.Sprint(done)}
	}
	held := func() bool {
		now := conditionIn(t, api)
		return now != nil && now.Status == metav1.ConditionFalse && now.Reason == "RollingChangeInProgress"
	}
	c, stop := lead(t, api, clock)
	for minute := range 36 {
		c.Set(orders, rolling(minute/15))
		eventually(t, clock, 0, held)
		clock.Step(time.Minute)
	}
	waitWritten(t, api, c)
	stop()
	c, _ = lead(t, api, clock)
	eventually(t, clock, 0, func() bool { return tookOver(c) })
	if now := conditionIn(t, api); now.Status != metav1.ConditionFalse {
		t.Fatalf("the successor begins with %+v", now)
	}
	for minute := 36; minute < 75; minute++ {
		c.Set(orders, rolling(minute/15))
		eventually(t, clock, 0, held)
		clock.Step(time.Minute)
	}
	c.Set(orders, nil)
	eventually(t, clock, 0, func() bool { return conditionIn(t, api).Status == metav1.ConditionTrue })
}

// TestSuccessorsHoldNoUpgradeBackForLonger: an operator is replaced every 20 minutes, and work advances each time. The bound of hours
// counts from when it began, not from when the present leader did.
func TestSuccessorsHoldNoUpgradeBackForLonger(t *testing.T) {
	api, clock := server(t, nil, orders), clocktesting.NewFakeClock(time.Now())
	began := clock.Now()
	for leader := 0; clock.Since(began) < longest+20*time.Minute; leader++ {
		c, stop := lead(t, api, clock)
		eventually(t, clock, 0, func() bool { return tookOver(c) && conditionIn(t, api) != nil })
		work := *moving
		for minute := range 20 {
			work.Progress = fmt.Sprint(leader, minute)
			c.Set(orders, &work)
			clock.Step(time.Minute)
			held := clock.Since(began) < longest
			eventually(t, clock, 0, func() bool { return !idle(c) == held })
		}
		waitWritten(t, api, c)
		stop()
	}
}

// waitWritten waits until the object holds what c knows.
func waitWritten(t *testing.T, api client.Client, c *Condition) {
	t.Helper()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var object operatorsv2.OperatorCondition
		if err := api.Get(t.Context(), key, &object); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		kept := written(c.running)
		c.mu.Unlock()
		if object.Annotations[Annotation] == kept {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the object holds %s, not %s", object.Annotations[Annotation], kept)
		}
	}
}

// TestACrashLoopHoldsNoUpgradeBack: an operator that ends soon after each start may need the release that waits, whether it observed the
// clusters or not. What it reports first is no progress, also where its first pass does not see the failover yet.
func TestACrashLoopHoldsNoUpgradeBack(t *testing.T) {
	for name, report := range map[string]func(*Condition, int){
		"during its first look": func(*Condition, int) {},
		"in a failover": func(c *Condition, life int) {
			c.Set(orders, &Unfinished{Reason: "FailoverInProgress", Progress: fmt.Sprint(life)})
		},
		"in a failover, after a try": func(c *Condition, life int) {
			c.Set(orders, nil)
			c.Set(orders, &Unfinished{Reason: "FailoverInProgress", Progress: fmt.Sprint(life)})
		},
	} {
		api, clock := server(t, nil, orders, bills), clocktesting.NewFakeClock(time.Now())
		began := clock.Now()
		for life := 0; clock.Since(began) < stalls+5*time.Minute; life++ {
			c, stop := lead(t, api, clock)
			eventually(t, clock, 0, func() bool { return tookOver(c) && conditionIn(t, api) != nil })
			report(c, life)
			waitWritten(t, api, c)
			if held := !idle(c); held != (clock.Since(began) < stalls) {
				t.Fatalf("%s: held back after %s: %v", name, clock.Since(began), held)
			}
			stop()
			clock.Step(time.Minute)
		}
		if now := conditionIn(t, api); now.Status != metav1.ConditionTrue {
			t.Errorf("%s: it says %+v", name, now)
		}
	}
}

// TestAClusterThatVanishesWhileNobodyLeadsIsForgotten: nobody reports it any more, and another one may get its name.
func TestAClusterThatVanishesWhileNobodyLeadsIsForgotten(t *testing.T) {
	api, clock := server(t, nil), clocktesting.NewFakeClock(time.Now())
	c, stop := lead(t, api, clock)
	c.Set(orders, moving)
	eventually(t, clock, 0, func() bool { now := conditionIn(t, api); return now != nil && now.Status == metav1.ConditionFalse })
	waitWritten(t, api, c)
	stop()
	lead(t, api, clock)
	eventually(t, clock, 0, func() bool { return conditionIn(t, api).Status == metav1.ConditionTrue })
}

// TestTheAnnotationFitsAndIsReadBack: with names of every length, for more clusters than an operator has.
func TestTheAnnotationFitsAndIsReadBack(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	all := map[types.NamespacedName]running{}
	for i := range remembered + 500 {
		r := begun(*moving, now.Add(time.Duration(i)*-time.Second))
		r.Ended = now
		all[types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%040d", i)}] = r
	}
	text := written(all)
	if len(text) > 256<<10 {
		t.Errorf("it has %d bytes", len(text))
	}
	back, err := read(text, now)
	if err != nil || len(back) != remembered {
		t.Fatalf("%d clusters, %v", len(back), err)
	}
	for cluster, r := range back {
		if r.times != all[cluster].times {
			t.Fatalf("%+v was %+v", r.times, all[cluster].times)
		}
	}
	if back, err = read(`{"shop/orders":{"began":"2999-01-01T00:00:00Z","advanced":"2999-01-01T00:00:00Z"}}`, now); err != nil || back[orders].until() != now.Add(unreported) || !back[orders].Began.Equal(now) {
		t.Errorf("times to come: %+v, %v", back[orders], err)
	}
	if back, err = read("x", now); err == nil || back != nil {
		t.Errorf("rubbish: %v, %v", back, err)
	}
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

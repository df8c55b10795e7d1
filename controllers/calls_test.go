package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// slow is longer than a pass waits for EC2.
const slow = time.Second

// execute has actions executed as those of a pass's plan.
func (o *operator) execute(t *testing.T, s *pass.Pass, actions ...topology.Action) *engine.Execution {
	t.Helper()
	x := o.executor.Execution(s)
	x.Plan.Actions = actions
	x.Run(t.Context())
	return x
}

// told drains the events of an operator that begin with a word.
func (o *operator) told(word string) []string {
	var all []string
	recorder, _ := o.Events.(*events.FakeRecorder)
	for {
		select {
		case text := <-recorder.Events:
			if strings.Contains(text, word) {
				all = append(all, text)
			}
		default:
			return all
		}
	}
}

// EC2 takes its time to say that an instance may not be stopped. That is what the condition says in the end, pass for pass, and
// nobody is told that it was stopped.
func TestStopThatIsDeniedSlowlyIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	o.Wake = make(chan event.GenericEvent, 16)
	w.drive(o, patience, w.machinesUp)
	w.initialised()
	late, err := w.proxy.Add(proxy.Rule{Kind: proxy.Delay, Delay: slow, Actions: []string{"StopInstances"}})
	must(t, err)
	denied, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "UnauthorizedOperation", Actions: []string{"StopInstances"}})
	must(t, err)
	w.delete()
	w.drive(o, patience, func() bool { return w.changed("StopInstances") > 0 })
	// When the instance stands still, time-out and answer come together, and the answer may be taken by its own pass, which wakes
	// nobody: passes go on until one is outlasted.
	w.drive(o, patience, func() bool { return len(o.Wake) > 0 })
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "NotPermitted", "stop instance"))
	for range 10 {
		time.Sleep(slow / 10) // of EC2's time
		w.follow(o, 1)
		if text := w.condition(v1alpha1.ConditionDegraded); !strings.Contains(text, "stop instance") {
			t.Fatalf("while it is asked again the condition says %q", text)
		}
	}
	if said := o.told("Normal StopInstance"); len(said) > 0 {
		t.Errorf("nothing was stopped, and it was told: %v", said)
	}
	w.proxy.Remove(denied)
	w.drive(o, patience, w.gone)
	w.proxy.Remove(late)
	if said := o.told("Normal StopInstance"); len(said) < members {
		t.Errorf("of the instances that were stopped it was told: %v", said)
	}
}

// A launch that outlasts its pass works on what it was given, whatever is written into the cluster meanwhile; run it with the
// race detector.
func TestSlowLaunchSharesNothingWithThePass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.Tags = map[string]v1alpha1.PlainValue{"team": "shop"}
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"max_connections": "77"}
	})
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	rule, err := w.proxy.Add(proxy.Rule{Kind: proxy.Delay, Delay: slow, Actions: []string{"Describe*", "RunInstances"}})
	must(t, err)
	t.Cleanup(func() { w.proxy.Remove(rule) })
	s, err := o.open(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
	must(t, err)
	for _, step := range []func() error{
		func() error { return o.recordKeeper.Claim(t.Context(), s) }, func() error { return o.identities.Identify(t.Context(), s) },
		func() error { return o.access.Connect(t.Context(), s) }, func() error { return o.cloudObserver.Observe(t.Context(), s) },
	} {
		must(t, step())
	}
	s.Plan.Failing = true
	launch := topology.LaunchInstance{
		Member: "orders-1", Ordinal: 1, Incarnation: 7, VolumeIncarnation: 1, SubnetID: w.account.subnets[0], VolumeID: s.Observed.Members["orders-1"].Volumes[0].ID,
	}
	for range 2 { // the second time while it is under way
		if x := o.execute(t, s, launch); x.Acted != 0 || len(x.Problems) != 0 {
			t.Fatalf("acted %d times, %v", x.Acted, x.Problems)
		}
	}
	s.Cluster.Status.Selector = "another"
	_, err = o.reporter.Conclude(t.Context(), s, nil)
	must(t, err)
	for range 50 { // as a decoder does
		s.Cluster.Spec.AWS.Tags["team"], s.Cluster.Spec.MySQLD["max_connections"] = "other", "78"
		s.Cluster.Spec.AWS.SecurityGroupIDs = nil
		time.Sleep(slow / 10)
	}
	x := o.execute(t, s)
	for x.Acted == 0 && len(x.Problems) == 0 {
		x.TakeAnswers(t.Context())
	}
	if x.Acted != 1 || len(x.Problems) != 0 {
		t.Errorf("the launch that succeeded in the end counts %d times, with %v", x.Acted, x.Problems)
	}
	if !slices.ContainsFunc(w.left().instances, func(in thing) bool { return in.member == "orders-1" }) {
		t.Error("nothing was launched")
	}
}

// EC2 knows the client token of a launch, or of a volume's order, from a request that differed, and shows nothing of it. For a
// while it may still come, which is told after a minute; then it is long gone, and the next incarnation has another token.
func TestTokenOfWhatIsLongGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action  string
		zone    string              // which the preflight checks do not try
		before  func(w *world) bool // what has to be done before EC2 begins to answer so; nil: nothing
		ordered func(topology.MemberRecord) int
	}{
		{"RunInstances", "", func(w *world) bool { return len(w.left().volumes) > 0 }, func(rec topology.MemberRecord) int { return rec.Instance }},
		{"CreateVolume", "us-east-1b", nil, func(rec topology.MemberRecord) int { return rec.Volume }},
	} {
		t.Run(c.action, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			o := w.newOperator(nil)
			if c.before != nil {
				w.drive(o, patience, func() bool { return c.before(w) })
			}
			rule, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: awsapi.CodeTokenMismatch, Zone: c.zone, Actions: []string{c.action}})
			must(t, err)
			began, told := w.clock.Now(), time.Duration(0)
			w.drive(o, patience, func() bool {
				if told == 0 && w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonWaitingForDependency, "does not show it yet")() {
					told = w.clock.Now().Sub(began)
				}
				_, records := w.records()
				for _, rec := range records.Members {
					if c.ordered(rec) > 1 {
						return true
					}
				}
				return false
			})
			if took := w.clock.Now().Sub(began); took < 9*time.Minute {
				t.Errorf("it was given up after %s", took)
			}
			if told < time.Minute || told >= 10*time.Minute {
				t.Errorf("it was told after %s", told)
			}
			w.proxy.Remove(rule)
			w.drive(o, patience, w.machinesUp)
			w.oneOfEach(members)
		})
	}
}

// A preflight that EC2 does not answer costs many calls, and is not made in every pass.
func TestPreflightThatIsNotAnsweredIsPaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	rule, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "RequestLimitExceeded", Actions: []string{"RunInstances"}})
	must(t, err)
	w.drive(o, patience, func() bool { return w.proxy.Counts()["RunInstances"] > 0 })
	w.hammer(o, 40) // in less than a second
	if n := w.total(); n > 12 {
		t.Errorf("%d calls in 40 passes: %v", n, w.proxy.Counts())
	}
	w.proxy.Remove(rule)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
}

// TestNoPassWaitsForAPreflight that EC2 takes its time for: later passes take its outcome, and EC2 is asked once.
func TestNoPassWaitsForAPreflight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	o.Wake = make(chan event.GenericEvent, 16)
	const takes = 10 * slow
	rule, err := w.proxy.Add(proxy.Rule{Kind: proxy.Delay, Delay: takes, Actions: []string{"DescribeInstanceTypes"}})
	must(t, err)
	w.drive(o, patience, func() bool {
		began := time.Now()
		_, _ = w.pass(o)
		if took := time.Since(began); took >= takes {
			t.Fatalf("a pass took %s", took)
		}
		return len(o.Wake) > 0
	})
	if n := w.proxy.Counts()["DescribeInstanceTypes"]; n != 1 {
		t.Errorf("EC2 was asked %d times", n)
	}
	w.proxy.Remove(rule)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
}

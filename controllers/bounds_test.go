package controllers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	// silentCallsAMinute is the most that a silent EC2 is called within a minute, however often watches wake the operator: a
	// look every two seconds of two calls, later a sweep every five of five, each tried twice.
	silentCallsAMinute = 120
	// troubledCallsAMinute is the same for an EC2 that answers while the members do not: a look every two seconds of two calls,
	// a sweep now and then of up to seven, and the consoles.
	troubledCallsAMinute = 100
	// busyCallsAMinute is the same for a cluster that is made, mended and deleted within the minute.
	busyCallsAMinute = 150
	// silence is how long EC2 says nothing.
	silence = 10 * time.Minute
)

// total sums the calls that reached EC2's proxy.
func (w *world) total() int { return len(w.proxy.Calls()) }

// hammer runs passes far more often than any plan asks for.
func (w *world) hammer(o *operator, n int) {
	w.proxy.ResetCalls()
	w.passes(o, n)
}

// rehearse makes passes until the rehearsal of what may have to be done one day has begun, and waits until it is over: it goes on beside
// them, at the pace of a busy moto.
func (w *world) rehearse(o *operator) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		w.passes(o, 1)
		if calls := w.total(); w.proxy.Counts()["ModifyVolume"] > 0 {
			if time.Sleep(time.Second); calls == w.total() {
				return
			}
		}
	}
	w.t.Fatalf("the rehearsal does not end: %v", w.proxy.Counts())
}

// busiestMinute are the calls of the minute in which most reached EC2's proxy since its log was emptied.
func (w *world) busiestMinute() []proxy.Call {
	calls := w.proxy.Calls()
	slices.SortStableFunc(calls, func(a, b proxy.Call) int { return a.Time.Compare(b.Time) })
	var busiest []proxy.Call
	from := 0
	for to, c := range calls {
		for c.Time.Sub(calls[from].Time) > time.Minute {
			from++
		}
		if to-from >= len(busiest) {
			busiest = calls[from : to+1]
		}
	}
	return busiest
}

// bounded fails the test when AWS was called more often within a minute than limit.
func (w *world) bounded(limit int) {
	w.t.Helper()
	busiest := w.busiestMinute()
	if len(busiest) <= limit {
		return
	}
	text := ""
	for _, c := range busiest {
		text += fmt.Sprintf("\n%6.2fs %s %d %s", c.Time.Sub(busiest[0].Time).Seconds(), c.Action, c.Status, c.Fault)
	}
	w.t.Errorf("%d calls to AWS within a minute, at most %d were due:%s", len(busiest), limit, text)
}

// callsOfASweep is what a sweep of a small account costs: four lists and four looks at the status checks.
const callsOfASweep = 8

func TestSettledClusterCostsAFewCallsHoweverOftenItIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionProgressing, "waiting for mysqld"))
	w.wait(time.Minute)
	w.rehearse(o)
	w.hammer(o, 100) // in two seconds
	// While its members are silent EC2 is asked about their instances every two seconds, in two calls, and about each console
	// once; and a sweep is due, which nobody makes in the background here.
	if n := w.total(); n > 2+members+callsOfASweep {
		t.Errorf("%d calls in 100 passes: %v", n, w.proxy.Counts())
	}
	w.proxy.ResetCalls()
	for end := w.clock.Now().Add(time.Minute); w.clock.Now().Before(end); {
		w.follow(o, 1)
	}
	w.bounded(troubledCallsAMinute)
}

// hangLimit is when a call that hangs is given up: each of the many takes it in full.
const hangLimit = 500 * time.Millisecond

// hurry is a transport that gives calls up before their time-out while it is on, as that does. A time-out as short for all of
// them would also end calls that a busy moto answers.
type hurry struct {
	next http.RoundTripper
	on   atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (h *hurry) RoundTrip(r *http.Request) (*http.Response, error) {
	if !h.on.Load() {
		return h.next.RoundTrip(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), hangLimit)
	defer cancel()
	response, err := h.next.RoundTrip(r.WithContext(ctx))
	if err == nil {
		_ = response.Body.Close() // it came too late
	}
	return nil, &smithy.CanceledError{Err: context.DeadlineExceeded}
}

// muteness are the ways in which EC2 says nothing.
var muteness = map[string]proxy.Rule{
	"refuses connections": {Kind: proxy.Refuse, Service: "*"},
	"hangs":               {Kind: proxy.Hang, Service: "*"},
	"answers 503":         {Kind: proxy.Fail, Service: "*", Code: "Unavailable", Status: 503},
}

// TestEC2IsSilentForTenMinutes lets EC2 fall silent at different points of a cluster's life. Meanwhile nothing is believed
// to be gone, the condition says what is wrong, and EC2 is not hammered; afterwards everything goes on where it stood.
func TestEC2IsSilentForTenMinutes(t *testing.T) {
	t.Parallel()
	for _, stage := range []struct {
		name    string
		arrange func(*world, *operator)
		phase   v1alpha1.Phase
	}{
		{"before anything is made", func(*world, *operator) {}, v1alpha1.PhaseProvisioning},
		{"while instances come up", func(w *world, o *operator) {
			w.drive(o, patience, func() bool { return len(w.left().instances) > 0 })
		}, v1alpha1.PhaseProvisioning},
		{"when instances are up", func(w *world, o *operator) { w.drive(o, patience, w.machinesUp) }, v1alpha1.PhaseEC2Ready},
		{"while the cluster is deleted", func(w *world, o *operator) {
			w.drive(o, patience, w.machinesUp)
			w.initialised()
			w.delete()
			w.drive(o, patience, func() bool { return len(w.left().snapshots) > 0 })
		}, v1alpha1.PhaseDeleting},
	} {
		for how, rule := range muteness {
			if rule.Kind == proxy.Fail && stage.phase != v1alpha1.PhaseEC2Ready {
				continue // an answer that is none is the same to the operator as none
			}
			t.Run(stage.name+", it "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				hurry := &hurry{}
				o := w.newOperator(func(next http.RoundTripper) http.RoundTripper { hurry.next = next; return hurry })
				stage.arrange(w, o)
				volumes := w.dataVolumes()
				id, err := w.proxy.Add(rule)
				must(t, err)
				hurry.on.Store(rule.Kind == proxy.Hang)
				w.endure(o, stage.phase)
				hurry.on.Store(false)
				w.proxy.Remove(id)
				w.recover(o, volumes)
			})
		}
	}
}

// endure runs passes while EC2 is silent: for a minute as often as they ask for, then now and then as fast as watches can
// wake. The condition must say so as soon as what was read before is too old to be relied on, and in the same words until
// the end.
func (w *world) endure(o *operator, phase v1alpha1.Phase) {
	w.t.Helper()
	w.proxy.ResetCalls()
	began, said := w.clock.Now(), ""
	for passed := time.Duration(0); passed < silence; passed = w.clock.Now().Sub(began) {
		if passed < time.Minute {
			w.follow(o, 1)
		} else {
			w.passes(o, 3)
			w.wait(silence / 12)
		}
		says := w.condition(v1alpha1.ConditionCloudReachable)
		switch {
		case said != "" && says != said:
			w.t.Fatalf("EC2 is silent for %s, and the condition changed from %q to %q", passed, said, says)
		case strings.HasPrefix(says, "False/"+v1alpha1.ReasonCloudSilent):
			said = says
		case passed > observe.InventoryAge+silence/12:
			w.t.Fatalf("EC2 is silent for %s, the condition says %q", passed, says)
		}
		if !w.phaseIs(phase)() {
			w.t.Fatalf("the phase changed although EC2 says nothing:\n%s", w.describe())
		}
	}
	w.bounded(silentCallsAMinute)
}

// recover runs passes once EC2 answers again, until the cluster is what it was to become: nothing is there twice.
func (w *world) recover(o *operator, volumes []string) {
	w.t.Helper()
	c, _ := w.get()
	if !c.DeletionTimestamp.IsZero() {
		w.drive(o, patience, w.gone)
		w.promised(v1alpha1.DeletionPolicySnapshot, volumes)
		return
	}
	w.drive(o, patience, func() bool { return w.machinesUp() && w.conditionHas(v1alpha1.ConditionCloudReachable, "True/")() })
	w.oneOfEach(members)
	if now := w.dataVolumes(); len(volumes) == members && !slices.Equal(now, volumes) {
		w.t.Errorf("the members had the volumes %v, and have %v", volumes, now)
	}
}

// unknownFor is how long EC2 does not know an id that it has just handed out.
const unknownFor = 30 * time.Second

// TestFreshIDsAreUnknownForHalfAMinute leads clusters through their life in an EC2 that does not know what it has just
// made: neither by its id nor in any list. Nothing is made twice, nothing is forgotten.
func TestFreshIDsAreUnknownForHalfAMinute(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withPolicy(policy))
			began := w.clock.Now()
			_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Absent, For: unknownFor})
			must(t, err)
			w.live(&scissors{}, policy)
			if passed := w.clock.Now().Sub(began); passed < unknownFor {
				t.Errorf("all of it took %s: nothing was unknown", passed)
			}
			w.bounded(busyCallsAMinute)
		})
	}
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("for an operator that takes over after %d passes", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Absent, For: unknownFor})
			must(t, err)
			w.follow(w.newOperator(nil), n)
			w.drive(w.newOperator(nil), patience, w.machinesUp)
			w.oneOfEach(members)
			w.bounded(busyCallsAMinute)
		})
		t.Run(fmt.Sprintf("for an operator that takes over after %d passes and has to delete", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Absent, For: unknownFor})
			must(t, err)
			w.follow(w.newOperator(nil), n)
			w.delete()
			w.drive(w.newOperator(nil), patience, w.gone)
			w.wait(unknownFor)
			w.nothing(0)
			w.bounded(busyCallsAMinute)
		})
	}
}

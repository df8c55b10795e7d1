package controllers

import (
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// total sums the calls that reached EC2's proxy.
func (w *world) total() int {
	n := 0
	for _, calls := range w.proxy.Counts() {
		n += calls
	}
	return n
}

// hammer runs passes far more often than any plan asks for.
func (w *world) hammer(o *operator, passes int) {
	w.proxy.ResetCalls()
	for range passes {
		_, _ = w.pass(o)
	}
}

func TestPassesOverASettledClusterMakeNoCalls(t *testing.T) {
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionProgressing, "waiting for mysqld"))
	w.hammer(o, 100)
	// While its members are silent EC2 is swept every troubledAge: five describes.
	if n := w.total(); n > 15 {
		t.Errorf("%d calls in 100 passes: %v", n, w.proxy.Counts())
	}
}

func TestSilentEC2IsNotHammeredAndNothingIsMadeTwice(t *testing.T) {
	for name, rule := range map[string]proxy.Rule{
		"refuses connections": {Kind: proxy.Refuse, Service: "*"},
		"answers 503":         {Kind: proxy.Fail, Service: "*", Code: "Unavailable", Status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			_, err := w.proxy.Add(rule)
			must(t, err)
			o := w.newOperator(nil)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/CloudSilent"))
			started := time.Now()
			w.hammer(o, 200)
			// A failed sweep (five calls, each tried twice) is repeated after a sixth of the sweep interval at the soonest.
			sweeps := int(time.Since(started)/(time.Second/6)) + 2
			if n := w.total(); n > sweeps*10 {
				t.Errorf("%d calls in 200 passes, %d sweeps were due", n, sweeps)
			}
			w.proxy.Clear()
			w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			w.oneOfEach(3)
			if text := w.condition(v1alpha1.ConditionCloudReachable); text[:4] != "True" {
				t.Errorf("EC2 answers again, the condition says %s", text)
			}
		})
	}
}

func TestPhaseStaysWhenEC2FallsSilent(t *testing.T) {
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Refuse, Service: "*"})
	must(t, err)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/CloudSilent"))
	if !w.phaseIs(v1alpha1.PhaseEC2Ready)() {
		t.Errorf("the phase changed because EC2's API is silent:\n%s", w.describe())
	}
}

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestStopThatDoesNotGetOn is shown as stuck once a minute has passed since EC2 last took one, and with what was tried.
func TestStopThatDoesNotGetOn(t *testing.T) {
	w, q := newStage(), NewRequests()
	began := w.clock.Now()
	show := func(state string) topology.Instance {
		m := &topology.Member{Name: "a", Instances: []topology.Instance{{ID: "i-1", State: state}}}
		q.Show(m, w.clock.Now())
		return m.Instances[0]
	}
	stop := func(a topology.StopInstance) { w.execution(q, a).Run(t.Context()) }
	var stuck, cut []int
	for second := range 200 {
		w.clock.SetTime(began.Add(time.Duration(second) * time.Second))
		in := show("stopping")
		if in.StopStuck {
			stuck = append(stuck, second)
			stop(topology.StopInstance{Member: "a", InstanceID: "i-1"})
		}
		if in.PowerCut && len(cut) == 0 {
			cut = append(cut, second)
		}
	}
	if !slices.Equal(stuck, []int{60, 120, 180}) || !slices.Equal(cut, []int{61}) {
		t.Errorf("stuck in the seconds %v, its power cut from second %v on", stuck, cut)
	}
	if in := show("stopped"); in.StopStuck || in.PowerCut || len(q.stops) != 0 {
		t.Errorf("what is stopped is not stuck: %+v, %v", in, q.stops)
	}
	if in := show("stopping"); in.StopStuck || in.PowerCut {
		t.Errorf("the next stop begins from the start: %+v", in)
	}
}

// TestStopsAreKnownByWhatEC2Took: a graceful one cuts no power, nor does one that EC2 refused; what EC2's lists show late is no news.
func TestStopsAreKnownByWhatEC2Took(t *testing.T) {
	for name, row := range map[string]struct {
		stop    topology.StopInstance
		refused bool
		shown   string
		after   time.Duration
		cut     bool
	}{
		"a power cut":                    {stop: topology.StopInstance{}, cut: true},
		"a graceful one":                 {stop: topology.StopInstance{Gracefully: true}},
		"a refused one":                  {refused: true},
		"shown as running for a while":   {shown: "running", after: time.Second, cut: true},
		"shown as running much later":    {shown: "running", after: stopShows},
		"shown as pending after a start": {shown: "pending", after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w, q := newStage(), NewRequests()
			if row.refused {
				w.answers["stop"] = answer("StopInstances", "IncorrectInstanceState")
			}
			row.stop.Member, row.stop.InstanceID = "a", "i-1"
			w.execution(q, row.stop).Run(t.Context())
			w.clock.SetTime(w.clock.Now().Add(row.after))
			in := topology.Instance{ID: "i-1", State: row.shown}
			if row.shown != "" {
				q.showStop(&in, w.clock.Now())
			}
			in = topology.Instance{ID: "i-1", State: "stopping"}
			if q.showStop(&in, w.clock.Now()); in.PowerCut != row.cut {
				t.Errorf("its power is cut: %t", in.PowerCut)
			}
		})
	}
}

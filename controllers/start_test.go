package controllers

import (
	"errors"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// EC2 takes a start, and the machine stops again, as when its zone has no room or the key of its disk is disabled. The lab's EC2
// carries out what it takes, so that the reason is put into what the pass has seen.
func TestStartThatFailsAfterItWasTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	s := w.seen(o)
	member := s.observed.Members["orders-1"]
	in := member.CurrentInstance()
	action := topology.StartInstance{Member: "orders-1", InstanceID: in.ID}
	starts := func() int { return w.changed("StartInstances") }
	start := func(why string) *problem {
		t.Helper()
		member.CurrentInstance().StateReason = why
		err := o.executor.start(t.Context(), s, action)
		var p *problem
		if err != nil && !errors.As(err, &p) {
			t.Fatal(err)
		}
		return p
	}
	const why = "Server." + codeNoCapacity + ": there is none"
	pause := startPause
	for n := range 7 {
		before := starts()
		if p := start(why); p != nil {
			t.Fatalf("start %d was not asked for: %v", n, p)
		}
		if starts() != before+1 {
			t.Fatalf("start %d did not reach EC2", n)
		}
		w.clock.SetTime(w.clock.Now().Add(20 * time.Second))
		p := start(why)
		if p == nil || p.reason != v1alpha1.ReasonBootFailed || p.pause != min(pause, startPauseMax) || p.pauseFrom != p.pause {
			t.Fatalf("after failure %d: %+v", n+1, p)
		}
		if zone, _ := s.cache.requests.capacityRefused("orders-1", w.clock.Now()); zone != in.Zone {
			t.Errorf("capacity lacks in %q, want %q", zone, in.Zone)
		}
		pause *= 2
	}
	_, since := s.cache.requests.capacityRefused("orders-1", w.clock.Now())
	if lasting := w.clock.Now().Sub(since); lasting < time.Minute {
		t.Errorf("capacity lacks for %s, as if a start that was taken had ended that", lasting)
	}

	for _, c := range []struct {
		why   string
		after time.Duration
	}{
		{"Client.UserInitiatedShutdown: User initiated shutdown", time.Second},
		{"Client.InstanceInitiatedShutdown: Instance initiated shutdown", time.Second},
		{"", time.Second},
		{"Server.ScheduledStop: Stopped due to a scheduled retirement", startSettles + time.Second},
	} {
		if p := start(why); p != nil {
			t.Fatal(p)
		}
		w.clock.SetTime(w.clock.Now().Add(c.after))
		before := starts()
		if p := start(c.why); p != nil || starts() != before+1 {
			t.Errorf("%q after %s is taken for a start that failed: %v", c.why, c.after, p)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		if p := start(why); p == nil || p.pause != startPause {
			t.Errorf("after %q failures are counted on: %+v", c.why, p)
		}
	}
}

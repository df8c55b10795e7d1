package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func TestStopErrors(t *testing.T) {
	const lost, purged, duplicate = "error 2003 reconnecting to source", "error 1236", "error 1062"
	for name, row := range map[string]struct {
		state             string
		applies, retries  bool
		lastIO, lastSQL   string
		receiver, applier string
		broken            bool
	}{
		"both threads run":                                     {state: ioOn, applies: true},
		"the receiver reconnects":                              {state: ioConnecting, applies: true, retries: true, lastIO: lost},
		"the receiver was fenced while it reconnected":         {state: ioOff, applies: true, retries: true, lastIO: lost},
		"so was that of a replica whose applier was stopped":   {state: ioOff, retries: true, lastIO: lost},
		"an error stopped the receiver":                        {state: ioOff, applies: true, lastIO: purged, receiver: purged, broken: true},
		"an error stopped the applier":                         {state: ioOn, lastSQL: duplicate, applier: duplicate, broken: true},
		"the applier is broken, and the receiver was fenced":   {state: ioOff, retries: true, lastIO: lost, lastSQL: duplicate, applier: duplicate, broken: true},
		"errors of before are left on threads that run":        {state: ioOn, applies: true, lastIO: purged, lastSQL: duplicate},
		"STOP REPLICA stopped the applier while it reconnects": {state: ioConnecting, retries: true, lastIO: lost},
	} {
		t.Run(name, func(t *testing.T) {
			receiver, applier := StopErrors(row.state, row.applies, row.retries, row.lastIO, row.lastSQL)
			if receiver != row.receiver || applier != row.applier {
				t.Errorf("receiver %q, applier %q", receiver, applier)
			}
			r := &Replication{IOState: row.state, SQLRunning: row.applies, ReceiverError: receiver, ApplierError: applier}
			if r.Broken() != row.broken {
				t.Errorf("broken: %v", r.Broken())
			}
		})
	}
	if (*Replication)(nil).Broken() {
		t.Error("a member without a source is called broken")
	}
}

// TestReceiverErrorIsNotTheAppliers: what is said of a candidate whose receiver was stopped is not said of its applier.
func TestReceiverErrorIsNotTheAppliers(t *testing.T) {
	s := newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	for _, n := range []int{1, 2} {
		s.member(n).SQL.Replication.ReceiverError = "error 13121: relay log write failure"
		s.member(n).BrokenSince = s.observed.Now.Add(-time.Hour)
	}
	p, actions := s.plan()
	if !strings.Contains(actions, "promote orders-1") {
		t.Errorf("planned %q", actions)
	}
	for _, f := range p.Degraded {
		if f.Reason == v1alpha1.ReasonReplicationBroken {
			t.Errorf("told: %s", f.Message)
		}
	}
}

// TestFencedReplicasAreNotRebuilt: the primary is opened again after its replicas were fenced for longer than brokenPatience.
func TestFencedReplicasAreNotRebuilt(t *testing.T) {
	s := newScene()
	s.io(ioOff, 1, 2)
	for _, n := range []int{1, 2} {
		r := s.member(n).SQL.Replication
		r.ReceiverError, r.ApplierError = StopErrors(ioOff, true, true, "error 2003 reconnecting to source", "")
		s.member(n).DownSince = time.Time{}
	}
	p, actions := s.plan()
	if !strings.Contains(actions, "replicate orders-1 from orders-0") || !strings.Contains(actions, "replicate orders-2 from orders-0") {
		t.Errorf("planned %q", actions)
	}
	for _, f := range p.Degraded {
		t.Errorf("told: %s", f.Message)
	}
}

// TestHeadroom counts the voters that acknowledge beyond those that a commit waits for.
func TestHeadroom(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*scene)
		want   int
		known  bool
	}{
		"three of three":                 {func(*scene) {}, 1, true},
		"a replica does not receive":     {func(s *scene) { s.io(ioConnecting, 2) }, 0, true},
		"no replica receives":            {func(s *scene) { s.io(ioConnecting, 1, 2) }, -1, true},
		"a replica does not answer":      {func(s *scene) { s.lose(1) }, 0, true},
		"a replica acknowledges nothing": {func(s *scene) { s.member(1).SQL.SemiSync.ReplicaActive = false }, 0, true},
		"nothing waits for a replica": {func(s *scene) {
			s.member(0).SQL.SemiSync.SourceEnabled, s.member(1).SQL.SemiSync.ReplicaActive = false, false
		}, 2, true},
		"the primary does not answer": {func(s *scene) { s.lose(0) }, 0, false},
	} {
		s := newScene()
		row.change(s)
		plan := Plan{Primary: "orders-0", Membership: s.member(2).SQL.Membership}
		if got, known := plan.Headroom(s.observed); got != row.want || known != row.known {
			t.Errorf("%s: headroom %d, known %v", name, got, known)
		}
	}
	if _, known := (Plan{}).Headroom(newScene().observed); known {
		t.Error("a cluster without a primary has a headroom")
	}
}

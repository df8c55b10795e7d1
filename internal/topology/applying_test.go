package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestApplierThatFallsBehindIsReported: a backlog that grows is, once applying it takes longer than a replica may be behind; one that
// shrinks, or that is short, is not.
func TestApplierThatFallsBehindIsReported(t *testing.T) {
	const step = 10 * time.Second
	for name, row := range map[string]struct {
		received, executed func(i int) int // after i steps
		want               string
	}{
		"receives more than it applies": {func(i int) int { return 100 + 2000*i }, func(i int) int { return 100 + 500*i },
			"orders-1 applies 50 transactions a second and receives 200: a failover to it would wait about 4 min for its applier"},
		"applies nothing":           {func(i int) int { return 100 + 1000*i }, func(int) int { return 100 }, "would wait for as long as it applies nothing"},
		"applies a little less":     {func(i int) int { return 100 + 1000*i }, func(i int) int { return 100 + 990*i }, ""},
		"has much, which shrinks":   {func(i int) int { return 900000 + 1000*i }, func(i int) int { return 100 + 2000*i }, ""},
		"grows now and then":        {func(i int) int { return 100 + 1000*(i+i%2) }, func(i int) int { return 100 + 1000*((i-i%2)/2) }, ""},
		"is idle, with all applied": {func(int) int { return 100 }, func(int) int { return 100 }, ""},
	} {
		s := newScene()
		var h ApplyHistory
		var p Plan
		for i := range 9 {
			m := s.member(1)
			m.SQL.Executed, m.SQL.Replication.Retrieved = trx(0, row.executed(i)), trx(0, row.received(i))
			s.member(0).SQL.Executed = trx(0, row.received(i))
			h.Record(&s.observed)
			p, _ = s.plan()
			s.observed.Now = s.observed.Now.Add(step)
		}
		got := ""
		for _, f := range p.Degraded {
			if f.Reason == v1alpha1.ReasonApplierBehind {
				got = f.Message
			}
		}
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestWritesAreSlowed: once no voter could take over soon enough, all acknowledge from disk, until one needs less than half of that.
func TestWritesAreSlowed(t *testing.T) {
	const slowed, free = "set sync_relay_log of orders-1 to 1; set sync_relay_log of orders-2 to 1", "set sync_relay_log of orders-1 to 10000; set sync_relay_log of orders-2 to 10000"
	seconds := func(left uint64) Applier { return Applier{Backlog: left * 100, Applies: 100} }
	for name, row := range map[string]struct {
		limit  time.Duration
		left   [2]Applier
		synced bool
		want   string
	}{
		"nothing is asked for":             {0, [2]Applier{seconds(900), seconds(900)}, false, ""},
		"one of them applies fast":         {10 * time.Second, [2]Applier{seconds(900), seconds(10)}, false, ""},
		"nobody applies fast":              {10 * time.Second, [2]Applier{seconds(900), seconds(11)}, false, slowed},
		"nobody applies anything":          {10 * time.Second, [2]Applier{{Backlog: 1}, {Backlog: 1}}, false, slowed},
		"they are slowed, and not by half": {10 * time.Second, [2]Applier{seconds(900), seconds(6)}, true, ""},
		"they are slowed, and one is well": {10 * time.Second, [2]Applier{seconds(900), seconds(5)}, true, free},
		"there is nothing left to apply":   {10 * time.Second, [2]Applier{{}, {}}, true, free},
	} {
		s := newScene()
		s.desired.AckFromMemory, s.desired.MaxApplyLag = true, row.limit
		s.remember(0, 1, 2)
		for i, a := range row.left {
			m := s.member(i + 1)
			m.SQL.Replication.Applier, m.SQL.RelaySync = a, relayUnsynced
			if row.synced {
				m.SQL.RelaySync = relaySynced
			}
		}
		s.member(0).SQL.RelaySync = relayUnsynced
		plan, actions := s.plan()
		if !strings.Contains(actions, row.want) || row.want == "" && strings.Contains(actions, "sync_relay_log of orders-1") {
			t.Errorf("%s: planned %q", name, actions)
		}
		reported := slices.ContainsFunc(plan.Degraded, func(f Finding) bool {
			return f.Reason == v1alpha1.ReasonApplierBehind && strings.Contains(f.Message, "replication.maxApplyLag (10s)")
		})
		if braked := row.limit > 0 && (row.want == slowed || row.synced && row.want == ""); reported != braked {
			t.Errorf("%s: it is reported: %t", name, reported)
		}
	}
}

// TestApplierOfAnotherServerIsNotCompared: after a rebuild, or without an answer, there is no rate.
func TestApplierOfAnotherServerIsNotCompared(t *testing.T) {
	s := newScene()
	var h ApplyHistory
	look := func(executed, received int) Applier {
		m := s.member(1)
		m.SQL.Executed, m.SQL.Replication.Retrieved = trx(0, executed), trx(0, received)
		h.Record(&s.observed)
		s.observed.Now = s.observed.Now.Add(10 * time.Second)
		return m.SQL.Replication.Applier
	}
	look(100, 200)
	if a := look(200, 1200); a.Applies != 10 || a.Receives != 100 || a.Backlog != 1000 || a.GrowsSince.IsZero() {
		t.Errorf("%+v", a)
	}
	sql := s.member(1).SQL
	s.lose(1)
	h.Record(&s.observed)
	s.member(1).SQL, s.observed.Now = sql, s.observed.Now.Add(10*time.Second)
	if a := look(400, 3200); a.Applies != 10 || a.Backlog != 2800 {
		t.Errorf("after a look that came to nothing: %+v", a)
	}
	if a := look(50, 60); a.Applies != 0 || !a.GrowsSince.IsZero() || a.Backlog != 10 {
		t.Errorf("after its data was replaced: %+v", a)
	}
	s.member(1).SQL.ServerUUID = uuidOf(7)
	if a := look(5000, 9000); a.Applies != 0 || !a.GrowsSince.IsZero() {
		t.Errorf("another server: %+v", a)
	}
}

package topology

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// failoversAgo are records of failovers by mere silence.
func failoversAgo(now time.Time, ago ...time.Duration) (f Failovers) {
	for _, d := range ago {
		f.recordFailover(now.Add(-d), true)
	}
	return f
}

// TestFailoversAreLimited: two failovers by mere silence may follow each other at once; each is paid for a minute later.
func TestFailoversAreLimited(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		failovers []time.Duration
		spent     bool
	}{
		"the first":                          {nil, false},
		"the second":                         {[]time.Duration{5 * time.Second}, false},
		"the third":                          {[]time.Duration{10 * time.Second, 5 * time.Second}, true},
		"the third, when one is paid for":    {[]time.Duration{70 * time.Second, 10 * time.Second}, false},
		"the fourth, when one is paid for":   {[]time.Duration{70 * time.Second, 10 * time.Second, 5 * time.Second}, true},
		"the third of three, a minute apart": {[]time.Duration{121 * time.Second, 61 * time.Second}, false},
	} {
		if spent := failoversAgo(now, row.failovers...).failoversSpent(now); spent != row.spent {
			t.Errorf("%s: spent is %t", name, spent)
		}
	}
}

// TestThreeFailoversTakeAMinute: whenever silence comes, the third failover of any three that the limit allows is a minute after the first.
func TestThreeFailoversTakeAMinute(t *testing.T) {
	var f Failovers
	var allowed []time.Time
	rng := rand.New(rand.NewPCG(1, 1))
	now, end := time.Unix(1_000_000, 0), time.Unix(1_000_000, 0).Add(1000*failoverInterval)
	for ; now.Before(end); now = now.Add(time.Duration(1+rng.IntN(40)) * time.Second) {
		if f.failoversSpent(now) {
			f.recordFailover(now, false) // for another reason: it counts against nothing
			continue
		}
		f.recordFailover(now, true)
		allowed = append(allowed, now)
		if n := len(allowed); n > 2 && now.Sub(allowed[n-3]) < failoverInterval {
			t.Fatalf("three within %s", now.Sub(allowed[n-3]))
		}
	}
	if len(allowed) < 900 {
		t.Errorf("%d failovers were allowed in %s", len(allowed), 1000*failoverInterval)
	}
}

// TestFailoversAreReadFromOlderRecords: the limit is kept under the names that every release has written.
func TestFailoversAreReadFromOlderRecords(t *testing.T) {
	const text = `{"promotedAt":1000,"failoversPaidAt":1120}`
	var r ClusterRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if now := time.Unix(1000, 0); r.PromotedAt != 1000 || !r.failoversSpent(now) || r.failoversSpent(now.Add(time.Minute)) {
		t.Errorf("read %+v", r.Failovers)
	}
	if written, err := json.Marshal(r.Failovers); err != nil || string(written) != text {
		t.Errorf("written %s: %v", written, err)
	}
}

// TestASilentPrimaryIsGivenTimeOnceFailoversAreSpent: then silence has to last longer. An instance that is stopped is not waited for.
func TestASilentPrimaryIsGivenTimeOnceFailoversAreSpent(t *testing.T) {
	s := newScene()
	s.lose(0)
	s.io(ioConnecting, 1, 2)
	s.member(0).SilentSince = s.observed.Now.Add(-5 * time.Second)
	for _, spent := range []bool{false, true} {
		s.observed.Records.Failovers = Failovers{}
		if spent {
			s.observed.Records.Failovers = failoversAgo(s.observed.Now, 0, 0)
		}
		p, actions := s.plan()
		if cools := p.Waiting.Reason == v1alpha1.ReasonCoolDown; cools != spent || cools != (actions == "") {
			t.Errorf("spent %t: planned %q, waits for %v", spent, actions, p.Waiting)
		}
	}
	s.member(0).Instances[0].State = stateStopped
	if _, actions := s.plan(); !strings.Contains(actions, "stop acknowledgements of orders-1") {
		t.Errorf("with an instance that is stopped: planned %q", actions)
	}
}

// TestAFailoverIsSpentOnce: a promotion that is tried again, or that replaces a primary which EC2 stopped, does not count against the limit.
func TestAFailoverIsSpentOnce(t *testing.T) {
	s := newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	s.member(0).SilentSince = s.observed.Now.Add(-5 * time.Second)
	var first int64
	for range 3 {
		p, actions := s.plan()
		if !strings.Contains(actions, "promote") {
			t.Fatalf("planned %q", actions)
		}
		if first == 0 {
			first = p.Records.FailoversPaidAt
		}
		if p.Records.FailoversPaidAt != first || first == 0 || p.Records.PromotedAt != s.observed.Now.Unix() {
			t.Errorf("paid for at %d, at first at %d; promoted at %d", p.Records.FailoversPaidAt, first, p.Records.PromotedAt)
		}
		s.observed.Records = p.Records
		s.observed.Now = s.observed.Now.Add(time.Second)
	}
	s = newScene()
	s.lose(0)
	s.io(ioOff, 1, 2)
	s.member(0).Instances[0].State = stateStopped
	if p, actions := s.plan(); p.Records.FailoversPaidAt != 0 || p.Records.PromotedAt == 0 || !strings.Contains(actions, "promote") {
		t.Errorf("of a stopped primary: planned %q, records %+v", actions, p.Records.Failovers)
	}
}

// returnToFormer: orders-1 was promoted after orders-0, and does not answer the operator. Its row has reached nobody. orders-0 is back.
func returnToFormer(silent time.Duration) *scene {
	s := newScene()
	s.restart()
	s.lose(1)
	s.member(1).SilentSince = s.observed.Now.Add(-silent)
	s.io(ioOff, 2)
	s.observed.Records.Leader, s.observed.Records.LeaderServer, s.observed.Records.LeaderEpoch = "orders-1", uuidOf(1), 6
	return s
}

// TestThePrimaryWhoseRowNobodyHasIsWaitedFor: the records name it. It is given time, and its failover counts. It is not powered off: it may
// never have been opened, and hold in memory what it acknowledged.
func TestThePrimaryWhoseRowNobodyHasIsWaitedFor(t *testing.T) {
	for name, row := range map[string]struct {
		silent  time.Duration
		earlier []time.Duration
		doubted bool
		waits   string
	}{
		"silent for a moment":                  {silent: time.Second, waits: v1alpha1.ReasonNoPrimary},
		"silent for longer":                    {silent: 5 * time.Second},
		"silent for longer, the third of late": {silent: 5 * time.Second, earlier: []time.Duration{50 * time.Second, 14 * time.Second}, waits: v1alpha1.ReasonCoolDown},
		"another led on since":                 {silent: time.Second, doubted: true},
	} {
		s := returnToFormer(row.silent)
		s.observed.Records.Failovers, s.observed.Records.LeaderDoubted = failoversAgo(s.observed.Now, row.earlier...), row.doubted
		p, actions := s.plan()
		if row.waits != "" {
			if p.Waiting.Reason != row.waits || strings.Contains(actions, "promote") {
				t.Errorf("%s: planned %q, waits for %v", name, actions, p.Waiting)
			}
			continue
		}
		if !strings.Contains(actions, "promote orders-0") || strings.Contains(actions, "stop instance") || p.Records.FencedPrimary != "" {
			t.Errorf("%s: planned %q, waits for %v", name, actions, p.Waiting)
		}
		if r := p.Records; !row.doubted && (r.PromotedAt != s.observed.Now.Unix() || r.FailoversPaidAt != s.observed.Now.Add(failoverInterval).Unix()) || row.doubted && r.Failovers != (Failovers{}) {
			t.Errorf("%s: recorded %+v", name, r.Failovers)
		}
	}
}

// TestAWitnessKeepsASourceForAWhile: it is the source from which the replica receives that is waited for, whoever the row names. A row that
// the replica has received and not applied shows nowhere.
func TestAWitnessKeepsASourceForAWhile(t *testing.T) {
	for _, row := range []struct {
		silent time.Duration
		waits  bool
	}{{10 * time.Second, true}, {30 * time.Second, false}} {
		s := returnToFormer(row.silent)
		r := s.member(2).SQL.Replication
		r.SourceHost, r.IOState, r.SQLRunning = "10.0.0.1", ioOn, false
		p, actions := s.plan()
		if waits := strings.Contains(p.Waiting.Message, "orders-2 still receives"); waits != row.waits || waits == strings.Contains(actions, "stop acknowledgements of orders-2") {
			t.Errorf("silent for %s: planned %q, waits for %v", row.silent, actions, p.Waiting)
		}
	}
}

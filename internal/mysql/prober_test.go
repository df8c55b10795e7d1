package mysql

import (
	"sync"
	"testing"
	"time"
)

// TestProber follows a cluster's writes through health, a hang without acknowledgements, and recovery.
func TestProber(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	var mu sync.Mutex
	var flips int
	p := NewProber(ProberOptions{Interval: 200 * time.Millisecond, Timeout: time.Second, OnChange: func(key string) {
		mu.Lock()
		defer mu.Unlock()
		flips++
		if key != "uid" {
			t.Errorf("key %q", key)
		}
	}})
	defer p.Close()
	told := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return flips >= n }
	}
	failing := func() bool {
		r := p.Status("uid")
		return r.Err != "" && time.Since(r.LastSuccess) > ProbeFresh
	}
	succeeding := func() bool {
		r := p.Status("uid")
		return r.Err == "" && time.Since(r.LastSuccess) <= ProbeFresh
	}
	if p.Status("uid").Probed {
		t.Error("probed before it was set")
	}
	target := Target{Address: w.servers[0].Address(), ServerName: w.servers[0].DNSName(), Identity: w.identity()}
	p.Set("uid", target)
	p.Set("uid", target)
	waitFor(t, "a success", told(1))
	if r := p.Status("uid"); r.Err != "" || time.Since(r.LastSuccess) > 5*time.Second {
		t.Errorf("%+v", r)
	}

	must(t, m[1].StopIOThread(ctx))
	must(t, m[2].StopIOThread(ctx))
	waitFor(t, "a suspicion, before the time-out", told(2))
	if since := time.Since(p.Status("uid").LastSuccess); since > ProbeFresh {
		t.Errorf("told only %s after the last success", since)
	}
	waitFor(t, "writes fail", failing)
	waitFor(t, "somebody is told that writes cease to succeed", told(3))
	time.Sleep(3 * time.Second)
	if n := m[0].Observe(ctx).PendingCommits; n != 1 {
		t.Errorf("%d commits of the prober wait, want 1", n)
	}
	if n := value(t, root(t, w.servers[0]), "SELECT COUNT(*) FROM performance_schema.processlist WHERE USER = 'nairobi_operator'"); n > "5" {
		t.Errorf("%s sessions of the operator", n)
	}
	must(t, m[1].StartReplica(ctx))
	waitFor(t, "writes succeed again", succeeding)

	// The address leads to a member that is no primary, then to nobody.
	target.Address, target.ServerName = w.servers[1].Address(), w.servers[1].DNSName()
	p.Set("uid", target)
	waitFor(t, "a replica refuses", func() bool { return p.Status("uid").Err != "" })
	waitFor(t, "writes fail", failing)
	p.Forget("uid")
	if p.Status("uid").Probed {
		t.Error("a forgotten cluster has a status")
	}
}

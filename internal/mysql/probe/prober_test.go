package probe_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestProber follows a cluster's writes through health, a hang without acknowledgements, and recovery.
func TestProber(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	var mu sync.Mutex
	var p *probe.Prober
	var told []probe.ProbeResult // as it was whenever somebody was told
	var at []time.Time
	var dialled atomic.Int64
	// Of a write that hangs nothing is told before half a second. One that is slow for want of a processor may be told, too.
	p = probe.NewProber(probe.ProberOptions{Interval: 200 * time.Millisecond, Timeout: time.Second, OnChange: func(key string) {
		mu.Lock()
		defer mu.Unlock()
		told, at = append(told, p.Status("uid")), append(at, time.Now())
		if key != "uid" {
			t.Errorf("key %q", key)
		}
	}, Pool: conn.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}})
	defer p.Close()
	times := func() int { mu.Lock(); defer mu.Unlock(); return len(told) }
	// soFresh says how long after a success somebody was told for the nth time.
	soFresh := func(n int) time.Duration { mu.Lock(); defer mu.Unlock(); return at[n].Sub(told[n].LastSuccess) }
	failing := func() bool {
		r := p.Status("uid")
		return r.Err != "" && time.Since(r.LastSuccess) > probe.ProbeFresh
	}
	succeeding := func() bool {
		r := p.Status("uid")
		return r.Err == "" && time.Since(r.LastSuccess) <= probe.ProbeFresh
	}
	if p.Status("uid").Probed {
		t.Error("probed before it was set")
	}
	target := probe.Target{Address: w.Servers[0].Address(), ServerName: w.Servers[0].DNSName(), Identity: w.Identity()}
	p.Set("uid", target)
	p.Set("uid", target)
	mysqltest.WaitFor(t, "a success of which somebody is told", func() bool { return succeeding() && times() > 0 })

	before := times()
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	mysqltest.WaitFor(t, "a suspicion", func() bool { return times() > before })
	if since := soFresh(before); since > probe.ProbeFresh {
		t.Errorf("told only %s after the last success", since)
	}
	mysqltest.WaitFor(t, "another look, as the write goes on taking long", func() bool { return times() > before+1 })
	if since := soFresh(before + 1); since > probe.ProbeFresh {
		t.Errorf("told once more only %s after the last success", since)
	}
	mysqltest.WaitFor(t, "writes fail", failing)
	mysqltest.WaitFor(t, "somebody is told that writes cease to succeed", func() bool { return soFresh(times()-1) > probe.ProbeFresh })
	mysqltest.WaitFor(t, "a commit of the prober waits", func() bool { return m[0].Observe(ctx).PendingCommits > 0 })
	tries := dialled.Load()
	mysqltest.WaitFor(t, "more tries of the prober", func() bool { return dialled.Load() >= tries+10 })
	if n := m[0].Observe(ctx).PendingCommits; n != 1 {
		t.Errorf("%d commits of the prober wait, want 1", n)
	}
	// Those that have just ended may still be there.
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.WaitFor(t, "no more than five sessions of the operator", func() bool {
		return mysqltest.Value(t, db, "SELECT COUNT(*) <= 5 FROM performance_schema.processlist WHERE USER = 'nairobi_operator'") == "1"
	})
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.WaitFor(t, "writes succeed again", succeeding)

	tries = dialled.Load()
	p.Redial("uid")
	mysqltest.WaitFor(t, "a write over a new connection", func() bool { return dialled.Load() == tries+1 })
	mysqltest.WaitFor(t, "a success over it", func() bool { return succeeding() && time.Since(p.Status("uid").LastSuccess) < 150*time.Millisecond })
	if n := dialled.Load() - tries; n != 1 {
		t.Errorf("%d new connections, want 1", n)
	}

	// The address leads to a member that is no primary, then to nobody.
	target.Address, target.ServerName = w.Servers[1].Address(), w.Servers[1].DNSName()
	p.Set("uid", target)
	mysqltest.WaitFor(t, "a replica refuses", func() bool { return p.Status("uid").Err != "" })
	mysqltest.WaitFor(t, "writes fail", failing)
	p.Forget("uid")
	if p.Status("uid").Probed {
		t.Error("a forgotten cluster has a status")
	}
}

// slow is a connection over a network whose round trips take long.
type slow struct{ net.Conn }

func (s slow) Read(b []byte) (int, error) {
	time.Sleep(roundTrip)
	return s.Conn.Read(b)
}

// roundTrip is that to another continent: a write takes one, a new connection about ten.
const roundTrip = 70 * time.Millisecond

// TestADistantServerIsNotSuspected: a connection takes many round trips to be made, which is no write that takes long. Else each new one would
// have somebody look at the cluster.
func TestADistantServerIsNotSuspected(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	var told, dialled atomic.Int64
	p := probe.NewProber(probe.ProberOptions{Timeout: mysqltest.Patience, OnChange: func(string) { told.Add(1) },
		Pool: conn.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Add(1)
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return slow{c}, err
		}}})
	defer p.Close()
	p.Set("uid", probe.Target{Address: w.Servers[0].Address(), ServerName: w.Servers[0].DNSName(), Identity: w.Identity()})
	mysqltest.WaitFor(t, "a success", func() bool { return told.Load() > 0 && p.Status("uid").Err == "" })
	before, tries := told.Load(), dialled.Load()
	p.Redial("uid")
	again := time.Now()
	mysqltest.WaitFor(t, "a write over a new connection", func() bool {
		return dialled.Load() > tries && p.Status("uid").LastSuccess.Sub(again) > 2*probe.DefaultProbeInterval
	})
	if n := told.Load() - before; n != 0 {
		t.Errorf("somebody was told %d times", n)
	}
}

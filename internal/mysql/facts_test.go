package mysql

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestSourceSilence: a replica tells how long ago its source last gave a sign of life, long before its thread gives up,
// whatever time zone somebody set.
func TestSourceSilence(t *testing.T) {
	w, _ := settle(t, newPool(t, nil))
	ctx := t.Context()
	replica := root(t, w.servers[1])
	exec(t, replica, "SET GLOBAL time_zone = '+05:30'")
	t.Cleanup(func() { // a restart may have done it
		if _, err := replica.ExecContext(context.WithoutCancel(ctx), "SET GLOBAL time_zone = 'SYSTEM'"); err != nil {
			t.Error(err)
		}
	})
	// Both of these read through sessions made after the change.
	m := w.members(t, newPool(t, nil))
	silence := func() time.Duration { return m[1].Observe(ctx).Replication.SourceSilence }

	// A thread that has only just connected shows what came before, until the first heartbeat.
	waitFor(t, "a heartbeat", func() bool { return silence() < time.Second })
	var longest time.Duration
	for range 15 { // heartbeats alone, one a second
		longest = max(longest, silence())
		time.Sleep(200 * time.Millisecond)
	}
	if longest <= 200*time.Millisecond || longest > 2500*time.Millisecond {
		t.Errorf("an idle source was silent for up to %s", longest)
	}
	must(t, w.servers[0].Freeze())
	frozen := time.Now()
	waitFor(t, "the silence shows", func() bool { return silence() > 2500*time.Millisecond })
	if o := m[1].Observe(ctx); o.Replication.IOState != IOOn || time.Since(frozen) > 3900*time.Millisecond {
		t.Errorf("%s after %s of silence: the thread's state alone would have told it", o.Replication.IOState, time.Since(frozen))
	}
	must(t, w.servers[0].Thaw())
	waitFor(t, "the source is heard again", func() bool { return silence() < time.Second })

	// A transaction is a sign of life, too, though no heartbeat comes while there are others.
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		db := root(t, w.servers[0])
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := db.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("REPLACE INTO nairobi_mysql.heartbeat VALUES (1, NOW(6) + INTERVAL %d SECOND)", n)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	longest = 0
	for range 15 {
		time.Sleep(200 * time.Millisecond)
		longest = max(longest, silence())
	}
	close(stop)
	<-ended
	if longest > 2*time.Second {
		t.Errorf("a writing source was silent for up to %s", longest)
	}

	w.servers[1].Kill()
	must(t, w.servers[1].Boot(ctx))
	if got := silence(); got != never {
		t.Errorf("nothing has come since the start, and the silence is %s", got)
	}
	if o := m[0].Observe(ctx); o.Replication != nil {
		t.Errorf("the primary has a source: %+v", o.Replication)
	}
}

// TestDiskReport: what the machine wrote is believed while it is fresh and makes sense.
func TestDiskReport(t *testing.T) {
	w := theWorld(t)
	ctx := t.Context()
	s := w.servers[2]
	if !s.Running() {
		must(t, s.Boot(ctx))
	}
	m := newPool(t, nil).Member(ctx, endpointOf(s), w.identity())
	must(t, s.ReportDisk(100<<30, 7<<30, time.Now().Add(-time.Minute)))
	if d := m.Observe(ctx).Disk; d == nil || d.SizeBytes != 100<<30 || d.FreeBytes != 7<<30 || time.Since(d.At).Round(10*time.Second) != time.Minute {
		t.Errorf("got %+v", d)
	}
	for name, at := range map[string]time.Time{"an old report": time.Now().Add(-3 * time.Minute), "one of tomorrow": time.Now().Add(24 * time.Hour)} {
		must(t, s.ReportDisk(100<<30, 7<<30, at))
		if d := m.Observe(ctx).Disk; d != nil {
			t.Errorf("%s is believed: %+v", name, d)
		}
	}
	if o := m.Observe(ctx); o.Access != AccessVerified || o.ClockSkew > 2*time.Second || o.ClockSkew < -2*time.Second {
		t.Errorf("%s %s, clock skew %s", o.Access, o.Reason, o.ClockSkew)
	}
}

func TestDiskReportThatMakesNoSense(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for report, ok := range map[string]bool{
		"1000 10 1800000000\n":                true,
		"1000 0 1800000000\n":                 true,
		"18446744073709551615 1 1800000000\n": true,
		"1000 10 1800000000":                  false, // cut off
		"":                                    false,
		"1000 10\n":                           false,
		"0 0 1800000000\n":                    false,
		"10 1000 1800000000\n":                false,
		"1000 -1 1800000000\n":                false,
		"18446744073709551616 1 1800000000\n": false,
		"1000 10 9223372036854775807\n":       false,
		"a lot\n":                             false,
	} {
		if got := diskOf(report, now); (got != nil) != ok {
			t.Errorf("%q: %+v", report, got)
		}
	}
}

// TestClockSkew: the member's clock against the operator's, which is the one that is off here.
func TestClockSkew(t *testing.T) {
	w := theWorld(t)
	ctx := t.Context()
	s := w.servers[2]
	if !s.Running() {
		must(t, s.Boot(ctx))
	}
	for _, off := range []time.Duration{-time.Hour, -6 * time.Second, 0, 6 * time.Second, time.Hour} {
		p := newPool(t, func(o *Options) { o.Clock = offClock{off} })
		if got := p.Member(ctx, endpointOf(s), w.identity()).Observe(ctx).ClockSkew; (got + off).Abs() > time.Second {
			t.Errorf("the operator's clock is %s ahead, and the member's skew %s", off, got)
		}
	}
}

// offClock is a clock that goes right but shows another time.
type offClock struct{ by time.Duration }

func (c offClock) Now() time.Time                  { return time.Now().Add(c.by) }
func (c offClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

package observe_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestSourceSilence: a replica tells how long ago its source last gave a sign of life, long before its thread gives up,
// whatever time zone somebody set.
func TestSourceSilence(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	replica := mysqltest.Root(t, w.Servers[1])
	mysqltest.Exec(t, replica, "SET GLOBAL time_zone = '+05:30'")
	t.Cleanup(func() { // a restart may have done it
		if _, err := replica.ExecContext(context.WithoutCancel(ctx), "SET GLOBAL time_zone = 'SYSTEM'"); err != nil {
			t.Error(err)
		}
	})
	// Both of these read through sessions made after the change.
	m := w.Members(mysqltest.NewPool(t, nil))
	silence := func() time.Duration { return m[1].Observe(ctx).Replication.SourceSilence }

	// longest is the longest silence within three seconds.
	longest := func() (most time.Duration) {
		for range 15 {
			most = max(most, silence())
			time.Sleep(200 * time.Millisecond)
		}
		return most
	}

	// A thread that has only just connected shows what came before, until the first heartbeat.
	mysqltest.WaitFor(t, "a heartbeat", func() bool { return silence() < time.Second })
	// Heartbeats alone, one a second. On a busy machine one may come late, but not in every three seconds.
	mysqltest.WaitFor(t, "an idle source that is heard every other second", func() bool {
		most := longest()
		t.Logf("an idle source was silent for up to %s", most)
		return most > 200*time.Millisecond && most <= 2500*time.Millisecond
	})
	mysqltest.WaitFor(t, "a silence that shows before the thread's state alone would tell it", func() bool {
		mysqltest.Must(t, w.Servers[0].Freeze())
		frozen := time.Now()
		mysqltest.WaitFor(t, "the silence shows", func() bool { return silence() > 2500*time.Millisecond })
		o, since := m[1].Observe(ctx), time.Since(frozen)
		mysqltest.Must(t, w.Servers[0].Thaw())
		mysqltest.WaitFor(t, "the source is heard again", func() bool { return silence() < time.Second })
		t.Logf("%s after %s of silence", o.Replication.IOState, since)
		return o.Replication.IOState == mysql.IOOn && since <= 3900*time.Millisecond
	})

	// A transaction is a sign of life, too, though no heartbeat comes while there are others.
	writing, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop()
	db := mysqltest.Root(t, w.Servers[0])
	writer.Go(func() {
		for n := 0; writing.Err() == nil; n++ {
			_, err := db.ExecContext(writing, fmt.Sprintf("REPLACE INTO nairobi_mysql.heartbeat VALUES (1, NOW(6) + INTERVAL %d SECOND)", n))
			if err != nil && writing.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	time.Sleep(200 * time.Millisecond)
	mysqltest.WaitFor(t, "a writing source that is heard every other second", func() bool {
		most := longest()
		t.Logf("a writing source was silent for up to %s", most)
		return most <= 2*time.Second
	})
	stop()
	writer.Wait()

	w.Servers[1].Kill()
	mysqltest.Must(t, w.Servers[1].Boot(ctx))
	if got := silence(); got >= 0 {
		t.Errorf("nothing has come since the start, and the silence is %s", got)
	}
	if o := m[0].Observe(ctx); o.Replication != nil {
		t.Errorf("the primary has a source: %+v", o.Replication)
	}
}

// TestDiskReport: what the instance wrote is believed while it is fresh and makes sense.
func TestDiskReport(t *testing.T) {
	w := mysqltest.TheWorld(t)
	ctx := t.Context()
	s := w.Servers[2]
	mysqltest.Up(t, s)
	m := admin.Open(mysqltest.NewPool(t, nil), mysqltest.EndpointOf(s), w.Identity())
	recently := time.Now().Add(-time.Minute)
	mysqltest.Must(t, s.ReportDisk(100<<30, 7<<30, recently))
	if d := m.Observe(ctx).Disk; d == nil || d.SizeBytes != 100<<30 || d.FreeBytes != 7<<30 || d.At.Unix() != recently.Unix() {
		t.Errorf("got %+v", d)
	}
	for name, at := range map[string]time.Time{"an old report": time.Now().Add(-3 * time.Minute), "one of tomorrow": time.Now().Add(24 * time.Hour)} {
		mysqltest.Must(t, s.ReportDisk(100<<30, 7<<30, at))
		if o := m.Observe(ctx); o.Access != mysql.AccessVerified || o.Disk != nil {
			t.Errorf("%s (%s %s) is believed: %+v", name, o.Access, o.Reason, o.Disk)
		}
	}
}

// TestClockSkew: the member's clock against the operator's, which is the one that is off here.
func TestClockSkew(t *testing.T) {
	w := mysqltest.TheWorld(t)
	ctx := t.Context()
	s := w.Servers[2]
	mysqltest.Up(t, s)
	for _, off := range []time.Duration{-time.Hour, -6 * time.Second, 0, 6 * time.Second, time.Hour} {
		p := mysqltest.NewPool(t, func(o *conn.Options) { o.Clock = offClock{off} })
		m := admin.Open(p, mysqltest.EndpointOf(s), w.Identity())
		// While the answer is on its way to a busy machine, the clock goes on.
		mysqltest.WaitFor(t, fmt.Sprintf("a skew that tells that the operator's clock is %s ahead", off), func() bool {
			o := m.Observe(ctx)
			near := o.Access == mysql.AccessVerified && (o.ClockSkew+off).Abs() <= time.Second
			if !near {
				t.Logf("the operator's clock is %s ahead, and the member's skew %s (%s)", off, o.ClockSkew, o.Access)
			}
			return near
		})
	}
}

// TestRun: every answer of a run of mysqld has the same mark, for seconds and with a clock that is off, and the next run another.
func TestRun(t *testing.T) {
	w := mysqltest.TheWorld(t)
	ctx := t.Context()
	s := w.Servers[2]
	mysqltest.Up(t, s)
	clocks := []time.Duration{0, time.Hour, -time.Hour}
	var members []*admin.Member
	for _, off := range clocks {
		members = append(members, admin.Open(mysqltest.NewPool(t, func(o *conn.Options) { o.Clock = offClock{off} }), mysqltest.EndpointOf(s), w.Identity()))
	}
	run := func(m *admin.Member) (run int64) {
		mysqltest.WaitFor(t, "an answer", func() bool {
			o := m.Observe(ctx)
			run = o.Run
			return o.Access == mysql.AccessVerified
		})
		return run
	}
	first := run(members[0])
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		for i, m := range members {
			if got := run(m); got != first || got == 0 {
				t.Fatalf("with a clock that is off by %s the run is %d, not %d", clocks[i], got, first)
			}
		}
	}
	s.Kill()
	mysqltest.Up(t, s)
	if got := run(members[0]); got == first {
		t.Errorf("after a restart it is still %d", got)
	}
}

// offClock is a clock that goes right but shows another time.
type offClock struct{ by time.Duration }

func (c offClock) Now() time.Time                  { return time.Now().Add(c.by) }
func (c offClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

package pitr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
)

// TestATimeAheadHidesNothing: a client states that its commit is of next year. Points after it hold it and what follows it.
func TestATimeAheadHidesNothing(t *testing.T) {
	c := newCluster(t)
	c.bucket()
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	stop := c.archiver(t.TempDir(), nil)
	before := c.write(c.primary, 1)
	c.archived()
	wrong := time.Now().AddDate(1, 0, 0)
	sql(t, c.primary, fmt.Sprintf("SET original_commit_timestamp = %d; INSERT INTO shop.diary VALUES (2)", wrong.UnixMicro()))
	ahead := executed(t, c.primary).Subtract(before.set)
	c.archived()
	if r := c.reported(); !strings.Contains(r.Ahead, ahead.String()) {
		t.Errorf("the report of %s says %q", ahead, r.Ahead)
	}
	time.Sleep(2 * time.Millisecond)
	later := c.write(c.primary, 3)
	c.archived()
	last := c.write(c.primary, 4)
	c.write(c.primary, 5)
	c.archived()
	stop()
	for _, m := range []mark{before, later, last} {
		plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: m.at})
		must(t, err)
		if !plan.Result.Equal(m.set) {
			t.Errorf("after %d the plan leads to %s instead of %s", m.last, plan.Result, m.set)
		}
		if newest := m.set.String(); plan.Last.GTID == "" || !strings.HasSuffix(newest, plan.Last.GTID[strings.LastIndexByte(plan.Last.GTID, ':')+1:]) {
			t.Errorf("after %d the last transaction is %s, of %s", m.last, plan.Last, newest)
		}
	}
	head, _, err := c.folder.Head(t.Context(), 0)
	must(t, err)
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: time.Now().Add(time.Hour)}); !errors.Is(err, ErrBeyond) || head.Until().After(time.Now().Add(time.Minute)) {
		t.Errorf("a time that has not come: %v; the archive reaches until %s", err, head.Until())
	}
	c.t = t
	c.checkPoint(last, Point{Time: last.at})
}

// TestTimesThatContradictAreRefused: transactions wait in the binary log for hours until they are archived, so that nothing but their own
// times says when they were committed, and one claims to be later than those after it.
func TestTimesThatContradictAreRefused(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	begin := time.Now()
	stop := c.archiver(t.TempDir(), func(o *archive.Options) { o.SegmentAge, o.Clock = 100*time.Millisecond, fast{6 * time.Hour} })
	at := func(n int, after time.Duration) string {
		sql(t, c.primary, fmt.Sprintf("SET original_commit_timestamp = %d; INSERT INTO shop.diary VALUES (%d)", begin.Add(after).UnixMicro(), n))
		c.archived()
		return executed(t, c.primary).String()
	}
	at(1, time.Minute)
	at(2, 3*time.Hour) // the wrong one
	wrong := executed(t, c.primary).String()
	at(3, 10*time.Minute)
	at(4, 20*time.Minute)
	at(5, 4*time.Hour)
	stop()
	_, err := NewPlan(t.Context(), c.folder, "", Point{Time: begin.Add(30 * time.Minute)})
	name := wrong[strings.LastIndexByte(wrong, '-')+1:]
	if !errors.Is(err, ErrClock) || !strings.Contains(err.Error(), ":"+name+",") {
		t.Errorf("a time after the wrong one: %v; %s is not named", err, name)
	}
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: begin.Add(2 * time.Minute)}); err != nil {
		t.Errorf("a time before it: %v", err)
	}
	if _, err := NewPlan(t.Context(), c.folder, "", Point{GTID: sql(t, c.primary, "SELECT @@server_uuid") + ":" + name}); err != nil {
		t.Errorf("the transaction itself: %v", err)
	}
}

// fast is a clock that is ahead.
type fast struct{ ahead time.Duration }

func (f fast) Now() time.Time                   { return time.Now().Add(f.ahead) }
func (f fast) Since(at time.Time) time.Duration { return f.Now().Sub(at) }

package pitr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// busy writes rows as fast as it can until stop is called.
func (c *cluster) busy() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = c.primary.SQL(c.t.Context(), fmt.Sprintf("INSERT INTO shop.diary SELECT 1000000 + %d + seq.n FROM (SELECT ROW_NUMBER() OVER () AS n FROM information_schema.COLLATIONS LIMIT 50) seq", i*50))
		}
	})
	return func() { cancel(); group.Wait() }
}

// TestTheArchiveIsWholeWhereverItWasCutOff ends the archiver again and again in the middle of its work, with a bucket that
// fails at random and an answer that is lost now and then, two pods at once for a while, and a disk that was lost once.
func TestTheArchiveIsWholeWhereverItWasCutOff(t *testing.T) {
	c := newCluster(t)
	c.bucket()
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	before := executed(t, c.primary)
	random := rand.New(rand.NewSource(1)) //nolint:gosec // to be repeated
	plain := c.folder.Store
	c.folder.Store = &moody{Store: plain, random: rand.New(rand.NewSource(2))} //nolint:gosec // to be repeated
	stopWrites := c.busy()
	spool := t.TempDir()
	small := func(o *archive.Options) { o.SegmentAge = 30 * time.Millisecond }
	for i := range 12 {
		if i == 8 {
			spool = t.TempDir()
		}
		stop := c.archiver(spool, small)
		if i == 5 {
			another := c.archiver(t.TempDir(), small)
			time.Sleep(2 * time.Second)
			another()
		}
		time.Sleep(time.Duration(200+random.Intn(900)) * time.Millisecond)
		await(t, "there is work to be cut off in", func() bool {
			numbers, err := c.folder.Numbers(t.Context())
			return err == nil && len(numbers) > i
		})
		stop()
	}
	stopWrites()
	c.folder.Store = plain
	defer c.archiver(spool, nil)()
	c.archived()
	numbers, err := c.folder.Numbers(t.Context())
	must(t, err)
	if len(numbers) < 12 {
		t.Fatalf("only %d segments: this tries nothing", len(numbers))
	}
	have := before
	for i, number := range numbers {
		h, err := c.folder.Verify(t.Context(), number)
		must(t, err)
		if number != uint64(i)+1 || h.AnchorNumber != 1 || i > 0 && !h.Preceding().Equal(have) || !h.Own().Intersect(have).IsEmpty() {
			t.Fatalf("segment %d in place %d does not follow %s: %+v", number, i+1, have, h)
		}
		have = h.All()
	}
	if want := executed(t, c.primary); !have.Equal(want) {
		t.Errorf("the archive holds %s of %s", have, want)
	}
}

// moody is a store that fails now and then, before or after the work is done.
type moody struct {
	store.Store
	mu     sync.Mutex
	random *rand.Rand
}

func (m *moody) mood() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.Intn(10)
}

func (m *moody) Create(ctx context.Context, key string, r io.Reader) error {
	mood := m.mood()
	if mood == 0 {
		return store.ErrUnavailable
	}
	err := m.Store.Create(ctx, key, r)
	if mood == 1 && err == nil {
		return store.ErrUnavailable // it is stored, and the answer was lost
	}
	return err
}

// TestAGapIsSaid: the primary purged what was not archived. What precedes that can be restored, what follows only from a
// backup that was taken later; all else is refused by name.
func TestAGapIsSaid(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	spool := t.TempDir()
	stop := c.archiver(spool, nil)
	first := c.write(c.primary, 1)
	c.write(c.primary, 2)
	c.archived()
	stop()
	last := executed(t, c.primary)
	c.write(c.primary, 3)
	lost := executed(t, c.primary).Subtract(last)
	sql(t, c.primary, "FLUSH BINARY LOGS; SET @f = (SELECT SUBSTRING_INDEX(@@log_bin_basename, '/', -1))")
	c.purge()
	defer c.archiver(spool, nil)()
	c.write(c.primary, 4)
	c.archived()
	await(t, "the gap is told", func() bool { r := c.reported(); return r.Gap == lost.String() && r.BaseNeeded })
	after := c.write(c.primary, 5)
	c.write(c.primary, 6)
	c.archived()

	c.checkPoint(first, Point{Time: first.at})
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: after.at}); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("over the gap: %v; missing is %s", err, lost)
	}
	time.Sleep(1100 * time.Millisecond) // another second, another folder
	c.dump(c.replica, "after")
	bridged := c.write(c.primary, 7)
	c.write(c.primary, 8)
	c.archived()
	c.checkPoint(bridged, Point{Time: bridged.at})
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: after.at}); !errors.Is(err, ErrGap) && !errors.Is(err, ErrBefore) {
		t.Errorf("between the gap and its bridge: %v", err)
	}
}

// purge removes all but the newest binary log of the primary. One that is still being read stays at first: by a replica that has
// not got to the end of it, and by an archiver that has gone, which the primary notices some time later.
func (c *cluster) purge() {
	c.t.Helper()
	await(c.t, "the old binary logs are gone", func() bool {
		logs := strings.Split(sql(c.t, c.primary, "SHOW BINARY LOGS"), "\n")
		newest, _, _ := strings.Cut(logs[len(logs)-1], "\t")
		sql(c.t, c.primary, "PURGE BINARY LOGS TO '"+newest+"'")
		return len(logs) == 1
	})
}

// TestWhatTheClusterLostIsSaid: without acknowledgements a failover may lose what is archived already.
func TestWhatTheClusterLostIsSaid(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	must(t, c.member(c.primary).SetSourceWait(t.Context(), false, 0))
	c.dump(c.replica, "before")
	defer c.archiver(t.TempDir(), nil)()
	kept := c.write(c.primary, 1)
	c.archived()
	must(t, c.member(c.replica).WaitApplied(t.Context(), kept.set.String(), timeout))
	must(t, c.member(c.replica).StopIOThread(t.Context()))
	before := c.write(c.primary, 2)
	c.archived()
	lost := executed(t, c.primary).Subtract(kept.set)
	c.failover()
	after := c.write(c.replica, 3)
	c.write(c.replica, 4)
	await(t, "the loss is told", func() bool { r := c.reported(); return r.Lost == lost.String() && r.BaseNeeded })
	await(t, "it is archived", func() bool {
		h, _, err := c.folder.Head(t.Context(), 0)
		return err == nil && h.All().Equal(executed(t, c.replica))
	})
	if _, err := NewPlan(t.Context(), c.folder, "", Point{Time: after.at}); !errors.Is(err, ErrGap) {
		t.Errorf("after the loss, from a backup before it: %v", err)
	}
	c.checkPoint(kept, Point{Time: kept.at})
	c.checkPoint(before, Point{GTID: lost.String()}) // what was lost is restored by its name
}

// TestWhatIsMissingIsNamed takes out, cuts and flips segments: a restore is refused, and says what is missing.
func TestWhatIsMissingIsNamed(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	stop := c.archiver(t.TempDir(), func(o *archive.Options) { o.SegmentAge = time.Millisecond })
	var marks []mark
	for n := range 5 {
		marks = append(marks, c.write(c.primary, n+1))
		c.archived()
	}
	stop()
	folders, err := c.folder.Folders(t.Context())
	must(t, err)
	last := marks[3]
	plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: last.at})
	must(t, err)
	if len(plan.Segments) < 4 {
		t.Fatalf("%d segments: this tries too little", len(plan.Segments))
	}
	refused := func(what string, want error, names gtid.Set, point Point) {
		t.Helper()
		if _, err := NewPlan(t.Context(), c.folder, "", point); !errors.Is(err, want) || !names.IsEmpty() && !strings.Contains(err.Error(), names.String()) {
			t.Errorf("%s: %v; missing is %s", what, err, names)
		}
	}
	for _, number := range plan.Segments {
		h, err := c.folder.Header(t.Context(), number)
		must(t, err)
		key := fmt.Sprintf("%s/archive/%020d.seg", c.folder.Root, number)
		whole, err := store.ReadAll(t.Context(), c.folder.Store, key, 1<<30)
		must(t, err)
		put := func(content []byte) {
			_, err := c.folder.Store.Put(t.Context(), key, bytes.NewReader(content))
			must(t, err)
		}
		cut := number == plan.Segments[len(plan.Segments)-1]
		if !cut {
			must(t, c.folder.Store.Delete(t.Context(), key))
			refused(fmt.Sprintf("segment %d is not there", number), ErrGap, h.Own(), Point{Time: last.at})
		}
		put(whole[:len(whole)-7])
		want := ErrGap
		if cut {
			want = backup.ErrCorrupt
		}
		refused(fmt.Sprintf("segment %d is cut short", number), want, h.Own(), Point{Time: last.at})
		flipped := bytes.Clone(whole)
		flipped[len(flipped)-9] ^= 4
		put(flipped)
		refused(fmt.Sprintf("segment %d has a flipped bit", number), want, h.Own(), Point{Time: last.at})
		put(whole)
	}
	refused("a time that has not come", ErrBeyond, gtid.Set{}, Point{Time: time.Now().Add(time.Hour)})
	refused("a time before the backup", ErrBefore, gtid.Set{}, Point{Time: time.Now().Add(-time.Hour)})
	refused("a transaction that nobody has", ErrBeyond, gtid.Set{}, Point{GTID: "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"})
	if _, err := NewPlan(t.Context(), c.folder, folders[0], Point{Time: last.at}); err != nil {
		t.Errorf("all is back: %v", err)
	}
	c.resumes(plan, last)
}

// resumes cuts a replay off in the middle, more than once, and takes it up again.
func (c *cluster) resumes(plan *Plan, last mark) {
	c.t.Helper()
	to := c.server()
	target := c.place(to, mysql.OperatorUser)
	loads, newest := 0, "99.0.0"
	run := func(transactions int) error {
		ctx, cancel := context.WithCancelCause(c.t.Context())
		defer cancel(nil)
		_, err := backup.Restore(ctx, backup.RestoreOptions{
			Place: c.folder.Place, Folder: plan.Backup, Recovery: "uid", Target: target, User: mysql.OperatorUser,
			Credentials: credentials(c.t, to, c.operator), StallTimeout: timeout, Clock: clock.RealClock{}, NewestVersion: newest,
			Program: func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
				loads++
				return to.Program(ctx, name, arguments...)
			},
			Then: func(ctx context.Context, _ *podclient.Visit, _ backup.Manifest) error {
				return plan.Replay(ctx, target.Connect, func(Progress) {
					if transactions--; transactions == 0 {
						cancel(errStopped)
					}
				})
			},
		})
		return err
	}
	if err := run(-1); !errors.Is(err, backup.ErrVersion) || loads > 0 {
		c.t.Fatalf("binary logs of a newer server: %v", err)
	}
	m, err := c.folder.ReadManifest(c.t.Context(), plan.Backup)
	must(c.t, err)
	if newest = plan.Version; newest != m.Version {
		c.t.Errorf("the newest version is %q", newest)
	}
	for range 2 {
		if err := run(1); err == nil {
			c.t.Fatal("it was not cut off")
		}
	}
	if got := executed(c.t, to); got.Equal(plan.Result) || !plan.Result.Contains(got) {
		c.t.Fatalf("it was cut off at %s", got)
	}
	must(c.t, run(-1))
	if got := executed(c.t, to); !got.Equal(last.set) {
		c.t.Errorf("it has %s instead of %s", got, last.set)
	}
	if loads != 1 {
		c.t.Errorf("the backup was loaded %d times", loads)
	}
	must(c.t, run(-1)) // done is done
}

package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

// tidyNow looks through an archive to the end.
func tidyNow(t *testing.T, a *Archiver) {
	t.Helper()
	found := a.o.Folder.tidy(t.Context(), a.base.oldestFirst(), time.Now(), a.o.Log.Info)
	must(t, errors.Join(found.err, found.kept))
	a.recordTidied(found, time.Now())
}

// broken makes an archive of six segments with two transactions each. The cluster lost the last two of segment 3 at a failover
// whose new primary goes on in segment 4 under another UUID, an hour after the archive had begun.
func broken(t *testing.T) Folder {
	t.Helper()
	f, s := newFolder(t), newSpool(t)
	const kept, other = uuid + ":1-4", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	before := ""
	for n := range int64(3) {
		before = spoolSegment(t, s, Header{Number: uint64(n) + 1, Before: before, AnchorNumber: 1, AnchorTime: began}, 2*n+1, 2*n+2, began).Cumulative //nolint:gosec // small
	}
	h := Header{Number: 4, Before: kept, Lost: uuid + ":5-6", Anchor: kept, AnchorNumber: 4, AnchorTime: began.Add(time.Hour)}
	for n := range int64(3) {
		h.Before = spoolSegmentOf(t, s, other, h, 2*n+1, 2*n+2, began).Cumulative
		h.Number, h.Lost = h.Number+1, ""
	}
	storePending(t, s, f)
	return f
}

// TestPruningGoesOnAfterALoss: what the cluster lost is in no backup that was taken afterwards, and must not keep all that
// follows for ever.
func TestPruningGoesOnAfterALoss(t *testing.T) {
	const other = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	type taken struct {
		set   string
		after time.Duration
	}
	for name, row := range map[string]struct {
		backups []taken
		left    []uint64
	}{
		"a backup of before the loss":                    {[]taken{{uuid + ":1-2", time.Minute}}, []uint64{2, 3, 4, 5, 6}},
		"one that was taken right before it":             {[]taken{{uuid + ":1-4", time.Minute}}, []uint64{3, 4, 5, 6}},
		"one that was taken after it":                    {[]taken{{uuid + ":1-4", 2 * time.Hour}}, []uint64{4, 5, 6}},
		"one of a while after it":                        {[]taken{{uuid + ":1-4," + other + ":1-4", 2 * time.Hour}}, []uint64{6}},
		"one of after it that lacks what is presupposed": {[]taken{{uuid + ":1-3," + other + ":1-4", 2 * time.Hour}}, []uint64{2, 3, 4, 5, 6}},
		"the oldest counts":                              {[]taken{{uuid + ":1-2", time.Minute}, {uuid + ":1-4," + other + ":1-4", 2 * time.Hour}}, []uint64{2, 3, 4, 5, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			f := broken(t)
			a := New(Options{Folder: f})
			for _, b := range row.backups {
				at := began.Add(b.after)
				must(t, f.WriteManifest(t.Context(), backup.FolderOf(at, "b"), backup.Manifest{GTIDSet: b.set, TakenAt: at}))
			}
			must(t, a.base.look(t.Context()))
			tidyNow(t, a)
			numbers, err := f.Numbers(t.Context())
			must(t, err)
			if !slices.Equal(numbers, row.left) {
				t.Errorf("left are %v instead of %v", numbers, row.left)
			}
		})
	}
}

// TestPruningPassesOverWhatIsDamaged: a segment that cannot be read is deleted once all backups hold what follows it.
func TestPruningPassesOverWhatIsDamaged(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	before := ""
	for n := range int64(6) {
		before = spoolSegment(t, s, Header{Number: uint64(n) + 1, Before: before, AnchorNumber: 1}, 2*n+1, 2*n+2, began).Cumulative //nolint:gosec // small
	}
	storePending(t, s, f)
	for _, number := range []uint64{1, 3, 5} {
		_, err := f.Store.Put(t.Context(), f.key(number), bytes.NewReader([]byte("x")))
		must(t, err)
	}
	must(t, f.WriteManifest(t.Context(), backup.FolderOf(began, "b"), backup.Manifest{GTIDSet: uuid + ":1-8"}))
	a := New(Options{Folder: f})
	must(t, a.base.look(t.Context()))
	tidyNow(t, a)
	numbers, err := f.Numbers(t.Context())
	must(t, err)
	if !slices.Equal(numbers, []uint64{5, 6}) {
		t.Errorf("left are %v", numbers)
	}
}

// TestPruningReadsFewHeaders of a long archive.
func TestPruningReadsFewHeaders(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	const segments = 300
	before := ""
	for n := range int64(segments) {
		before = spoolSegment(t, s, Header{Number: uint64(n) + 1, Before: before, AnchorNumber: 1}, n+1, n+1, began).Cumulative //nolint:gosec // small
	}
	storePending(t, s, f)
	must(t, f.WriteManifest(t.Context(), backup.FolderOf(began, "b"), backup.Manifest{GTIDSet: uuid + ":1-200"}))
	a := New(Options{Folder: f})
	must(t, a.base.look(t.Context()))
	counted := &counting{Store: f.Store}
	a.o.Folder.Store = counted
	tidyNow(t, a)
	numbers, err := f.Numbers(t.Context())
	must(t, err)
	if len(numbers) != 100 || numbers[0] != 201 {
		t.Errorf("%d are left, from %d on", len(numbers), numbers[0])
	}
	if n := counted.gets.Load(); n > 20 {
		t.Errorf("it read %d objects", n)
	}
}

// counting counts what is read.
type counting struct {
	store.Store
	gets atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, key)
}

// TestTidyingUpHoldsNothingUp: a bucket that takes long to delete, or refuses it, is told of and waited for beside the work.
func TestTidyingUpHoldsNothingUp(t *testing.T) {
	f, s := newFolder(t), newSpool(t)
	before := ""
	for n := range int64(6) {
		before = spoolSegment(t, s, Header{Number: uint64(n) + 1, Before: before, AnchorNumber: 1}, 2*n+1, 2*n+2, began).Cumulative //nolint:gosec // small
	}
	storePending(t, s, f)
	must(t, f.WriteManifest(t.Context(), backup.FolderOf(began, "b"), backup.Manifest{GTIDSet: uuid + ":1-8"}))
	slow := &stuck{Store: f.Store, wait: make(chan struct{}), refuses: true}
	var told Report
	a := New(Options{Folder: Folder{backup.Place{Store: slow, Root: f.Root}}, Clock: clock.RealClock{}, Report: func(r Report) { told = r }})
	must(t, a.base.look(t.Context()))
	tidying := newTidier()
	for range 3 {
		a.tidy(t.Context(), tidying) // returns, though the bucket does not
	}
	close(slow.wait)
	tidying.group.Wait()
	a.tidy(t.Context(), tidying)
	if told.Kept == "" || a.tidied.IsZero() {
		t.Errorf("that segments were not deleted is not told: %+v", told)
	}
	if slow.deletes.Load() != 1 {
		t.Errorf("it was tried %d times at once", slow.deletes.Load())
	}
	a.tidyDue, slow.refuses = time.Time{}, false
	a.tidy(t.Context(), tidying)
	tidying.group.Wait()
	a.tidy(t.Context(), tidying)
	if told.Kept != "" {
		t.Errorf("it is told still: %s", told.Kept)
	}
	numbers, err := f.Numbers(t.Context())
	must(t, err)
	if !slices.Equal(numbers, []uint64{5, 6}) {
		t.Errorf("left are %v", numbers)
	}
}

// stuck is a store that takes long to refuse to delete.
type stuck struct {
	store.Store
	wait    chan struct{}
	deletes atomic.Int64
	refuses bool
}

func (s *stuck) Delete(ctx context.Context, keys ...string) error {
	s.deletes.Add(1)
	<-s.wait
	if s.refuses {
		return store.ErrDenied
	}
	return s.Store.Delete(ctx, keys...)
}

// TestAnArchiveThatCannotBeLookedThrough is told, since when and why, until it can be: nobody knows whether anything is missing.
func TestAnArchiveThatCannotBeLookedThrough(t *testing.T) {
	for name, refuses := range map[string]func(*closed){
		"a bucket that is not listed":  func(c *closed) { c.list = true },
		"segments that cannot be read": func(c *closed) { c.get = true },
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFolder(t), newSpool(t)
			spoolSegment(t, s, Header{Number: 1, AnchorNumber: 1}, 1, 2, began)
			storePending(t, s, f)
			bucket := &closed{Store: f.Store}
			var told Report
			a := New(Options{Folder: Folder{backup.Place{Store: bucket, Root: f.Root}}, Clock: clock.RealClock{}, Report: func(r Report) { told = r }})
			look := func() {
				tidying := newTidier()
				a.tidyDue = time.Time{}
				a.tidy(t.Context(), tidying)
				tidying.group.Wait()
				a.tidy(t.Context(), tidying)
			}
			refuses(bucket)
			look()
			since := told.UnreadSince
			if told.Unread == "" || since.IsZero() {
				t.Fatalf("told is %+v", told)
			}
			look()
			if !told.UnreadSince.Equal(since) {
				t.Errorf("since %s, and not %s", told.UnreadSince, since)
			}
			bucket.list, bucket.get = false, false
			look()
			if told.Unread != "" || !told.UnreadSince.IsZero() || a.tidied.IsZero() {
				t.Errorf("it was looked through, and told is %+v", told)
			}
		})
	}
}

// closed is a store that does not let itself be listed, or read.
type closed struct {
	store.Store
	list, get bool
}

func (c *closed) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	if c.list {
		return func(yield func(store.Object, error) bool) { yield(store.Object{}, store.ErrDenied) }
	}
	return c.Store.List(ctx, prefix)
}

func (c *closed) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if c.get {
		return nil, store.ErrDenied
	}
	return c.Store.Get(ctx, key)
}

// TestAnUnfinishedRestoreKeepsSegments that no backup needs any more.
func TestAnUnfinishedRestoreKeepsSegments(t *testing.T) {
	f := broken(t)
	a := New(Options{Folder: f})
	at := began.Add(2 * time.Hour)
	must(t, f.WriteManifest(t.Context(), backup.FolderOf(at, "b"), backup.Manifest{GTIDSet: uuid + ":1-4", TakenAt: at}))
	must(t, a.base.look(t.Context()))
	left := func() int {
		t.Helper()
		numbers, err := f.Numbers(t.Context())
		must(t, err)
		return len(numbers)
	}
	r := f.Reserve(t.Context(), "another-cluster", "")
	r.End(errors.New("it failed"))
	all := left()
	if found := f.tidy(t.Context(), a.base.oldestFirst(), time.Now(), a.o.Log.Info); !errors.Is(found.kept, backup.ErrInUse) || left() != all {
		t.Errorf("left are %d of %d: %v", left(), all, found.kept)
	}
	f.Reserve(t.Context(), "another-cluster", "").End(nil)
	tidyNow(t, a)
	if left() == all {
		t.Error("nothing was deleted: this tries nothing")
	}
}

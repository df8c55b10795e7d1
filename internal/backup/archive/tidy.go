package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// tidyAgain is when an attempt at tidying up is repeated that failed.
const tidyAgain = 5 * time.Minute

// tidied is what came of looking through the archive.
type tidied struct {
	hole hole
	// kept says why segments are still there that no backup needs.
	kept error
	err  error
}

// tidier looks through the archive beside what is stored meanwhile: an archive has many thousands of segments, and a bucket may
// take minutes to list and delete them.
type tidier struct {
	group  sync.WaitGroup
	result chan tidied
	busy   bool
}

func newTidier() *tidier { return &tidier{result: make(chan tidied, 1)} }

// tidy begins to look through the archive when that is due, and takes note of what was found.
func (a *Archiver) tidy(ctx context.Context, t *tidier) {
	now := a.o.Clock.Now()
	select {
	case found := <-t.result:
		t.busy = false
		a.tidyDue = now.Add(tidyAgain)
		if found.err != nil {
			a.o.Log.Error(found.err, "the archive was not looked through", "again after", tidyAgain)
			a.tell(func(r *Report) {
				r.Unread = found.err.Error()
				if r.UnreadSince.IsZero() {
					r.UnreadSince = now.UTC()
				}
			})
			break
		}
		a.recordTidied(found, now)
		if found.kept == nil {
			a.tidyDue = now.Add(tidyEvery)
		}
	default:
	}
	if t.busy || now.Before(a.tidyDue) {
		return
	}
	t.busy = true
	bases := a.base.oldestFirst()
	t.group.Go(func() { t.result <- a.o.Folder.tidy(ctx, bases, now, a.o.Log.Info) })
}

// recordTidied takes what was found into the report.
func (a *Archiver) recordTidied(found tidied, now time.Time) {
	a.hole, a.tidied = found.hole, now
	missing, kept := a.hole.missing.String(), ""
	if missing != "" {
		a.o.Log.Error(nil, "THE ARCHIVE HAS A HOLE: segments are no longer in the bucket, and a new backup is needed for what follows", "transactions", missing)
	}
	if found.kept != nil {
		kept = found.kept.Error()
		a.o.Log.Error(found.kept, "segments that no backup needs were not all deleted")
	}
	a.tell(func(r *Report) { r.Missing, r.Kept, r.Unread, r.UnreadSince = missing, kept, "", time.Time{} })
}

// tidy sees to it that no segment is missing, and deletes those that no backup needs.
func (f Folder) tidy(ctx context.Context, bases []base, now time.Time, log func(string, ...any)) tidied {
	numbers, err := f.Numbers(ctx)
	if err != nil {
		return tidied{err: err}
	}
	found := tidied{}
	if found.hole, found.err = f.findHole(ctx, numbers); found.err != nil {
		return found
	}
	needless, err := f.needless(ctx, numbers, bases)
	if err == nil && needless > 0 {
		err = f.Reserved(ctx, "", now)
	}
	if err == nil && needless > 0 {
		keys := make([]string, needless)
		for i, number := range numbers[:needless] {
			keys[i] = f.key(number)
		}
		if err = f.Store.Delete(ctx, keys...); err == nil {
			log("deleted segments that no backup needs", "segments", needless)
		}
	}
	if err != nil {
		found.kept = fmt.Errorf("delete segments that no backup needs: %w", err)
	}
	return found
}

// stretch is a run of segments without a break between them.
type stretch struct {
	// end is behind the last of them, an index of the archive's numbers.
	end int
	// next is a segment of the stretch after the break that ends it; nil for the newest stretch.
	next *Header
}

// needless says how many of the archive's segments, from the oldest on, are of no use for any backup. The newest always stays:
// it is what the archive remembers itself by. Without a backup all stay. It reads few headers: what a segment says of all
// before itself only grows within a stretch.
func (f Folder) needless(ctx context.Context, numbers []uint64, bases []base) (int, error) {
	if len(bases) == 0 || len(numbers) < 2 {
		return 0, nil
	}
	stretches, err := f.stretches(ctx, numbers)
	if err != nil {
		return 0, err
	}
	floor := bases[0].set
	for _, b := range bases {
		floor = floor.Intersect(b.set)
	}
	begin := 0
	for _, s := range stretches {
		if !s.outlived(bases) {
			n, err := f.contained(ctx, numbers[begin:s.end], floor)
			if err != nil || begin+n < s.end {
				return min(begin+n, len(numbers)-1), err
			}
		}
		begin = s.end
	}
	return len(numbers) - 1, nil
}

// outlived says whether all backups begin after the break that ends the stretch: what the cluster has lost in it, or never
// archived after it, no backup leads to any more.
func (s stretch) outlived(bases []base) bool {
	return s.next != nil && !slices.ContainsFunc(bases, func(b base) bool {
		return b.taken.Before(s.next.AnchorTime) || !b.set.Contains(s.next.Base())
	})
}

// Stretches divides the archive's segments at its breaks. The oldest come first.
func (f Folder) Stretches(ctx context.Context, numbers []uint64) ([][]uint64, error) {
	stretches, err := f.stretches(ctx, numbers)
	if err != nil {
		return nil, err
	}
	var parts [][]uint64
	begin := 0
	for _, s := range stretches {
		parts, begin = append(parts, numbers[begin:s.end]), s.end
	}
	return parts, nil
}

// stretches follows the archive's breaks back from its newest segment. The oldest stretch comes first.
func (f Folder) stretches(ctx context.Context, numbers []uint64) ([]stretch, error) {
	found := []stretch{{end: len(numbers)}}
	for {
		first := found[len(found)-1]
		head, err := f.newest(ctx, numbers[:first.end])
		if err != nil {
			return nil, err
		}
		if head == nil {
			break
		}
		begin, _ := slices.BinarySearch(numbers, head.AnchorNumber)
		if begin == 0 || begin >= first.end {
			break
		}
		found = append(found, stretch{end: begin, next: head})
	}
	slices.Reverse(found)
	return found, nil
}

// newest reads the header of the newest of some segments that can be read; nil when none can.
func (f Folder) newest(ctx context.Context, numbers []uint64) (*Header, error) {
	for _, number := range slices.Backward(numbers) {
		if h, err := f.readable(ctx, number); err != nil || h != nil {
			return h, err
		}
	}
	return nil, nil //nolint:nilnil // none can be read
}

// contained says how many of a stretch's segments, from the first on, hold nothing that is not in a set. One that cannot be
// read holds no more than the next one that can says of all before itself.
func (f Folder) contained(ctx context.Context, numbers []uint64, set gtid.Set) (int, error) {
	var failure error
	n := sort.Search(len(numbers), func(i int) bool {
		for _, number := range numbers[i:] {
			h, err := f.Header(ctx, number)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, backup.ErrCorrupt) {
				continue
			}
			if failure = errors.Join(failure, err); err != nil {
				return true
			}
			return !set.Contains(h.All())
		}
		return true
	})
	if failure != nil {
		return 0, failure
	}
	return n, nil
}

package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// hole is a break that came after the fact: segments were archived, and are no longer in the bucket.
type hole struct {
	// after is what a backup must hold to be a base in spite of it. Of an archive without a hole it is what had been
	// committed before the oldest segment.
	after gtid.Set
	// missing are the transactions of the segments that are gone, as far as those before them tell.
	missing gtid.Set
}

// Required returns what a backup must hold to be a base of the archive: its anchor, and what precedes a hole. found is false for an archive
// without a segment that can be read.
func (f Folder) Required(ctx context.Context) (required gtid.Set, found bool, err error) {
	numbers, err := f.Numbers(ctx)
	if err != nil {
		return gtid.Set{}, false, err
	}
	head, err := f.newest(ctx, numbers)
	if err != nil || head == nil {
		return gtid.Set{}, false, err
	}
	h, err := f.findHole(ctx, numbers)
	return head.Base().Union(h.after), true, err
}

// findHole looks for the newest hole. The archive itself deletes segments from the oldest on only, so that the numbers of
// those that are left follow one another. It reads a few headers, and of a segment no more: what is altered in its midst is
// found by a restore.
func (f Folder) findHole(ctx context.Context, numbers []uint64) (hole, error) {
	begin := len(numbers) - 1
	for begin > 0 && numbers[begin-1]+1 == numbers[begin] {
		begin--
	}
	var found hole
	for _, number := range numbers[max(begin, 0):] {
		h, err := f.readable(ctx, number)
		if err != nil {
			return hole{}, err
		}
		if h != nil {
			found.after = h.Preceding()
			found.missing = found.after.Subtract(gtid.MustParse(h.Gap))
			break
		}
	}
	if begin <= 0 {
		found.missing = gtid.Set{}
		return found, nil
	}
	before, err := f.readable(ctx, numbers[begin-1])
	if err != nil {
		return hole{}, err
	}
	if before != nil {
		found.missing = found.missing.Subtract(before.All())
	}
	return found, nil
}

// readable reads a segment's header, nil when it cannot be read for good.
func (f Folder) readable(ctx context.Context, number uint64) (*Header, error) {
	h, err := f.Header(ctx, number)
	if errors.Is(err, backup.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // it is no header
	}
	if err != nil {
		return nil, fmt.Errorf("look for holes in the archive: %w", err)
	}
	return h, nil
}

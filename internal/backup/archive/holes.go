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

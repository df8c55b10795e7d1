package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// bases are the backups that a cluster can be restored from, as far as they were read.
type bases struct {
	place backup.Place
	known map[string]base
	order []string
}

// base is a backup.
type base struct {
	folder string
	taken  time.Time
	set    gtid.Set
}

// look lists the backups, and reads those that are new. A backup never changes.
func (b *bases) look(ctx context.Context) error {
	folders, err := b.place.Folders(ctx)
	if err != nil {
		return err
	}
	known := map[string]base{}
	b.order = b.order[:0]
	for _, folder := range folders {
		found, ok := b.known[folder]
		if !ok {
			m, err := b.place.ReadManifest(ctx, folder)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, backup.ErrCorrupt) {
				continue
			}
			if err != nil {
				return err
			}
			set, err := gtid.Parse(m.GTIDSet)
			if err != nil {
				continue // it is damaged, and nobody's base
			}
			found = base{folder, m.TakenAt, set}
		}
		known[folder] = found
		b.order = append(b.order, folder)
	}
	b.known = known
	return nil
}

func (b *bases) newestFirst() []base {
	list := make([]base, 0, len(b.order))
	for _, folder := range slices.Backward(b.order) {
		list = append(list, b.known[folder])
	}
	return list
}

// firstRecoverable is when the oldest backup was taken from which the archive goes on without a gap.
func (b *bases) firstRecoverable(anchor gtid.Set) (time.Time, bool) {
	for _, folder := range b.order {
		found := b.known[folder]
		// One that was taken after the newest segment is fine too: the next segment will close up with it.
		if found.set.Contains(anchor) {
			return found.taken, true
		}
	}
	return time.Time{}, false
}

func (r *Report) sets() (archived, anchor gtid.Set, err error) {
	archived, errArchived := gtid.Parse(r.Archived)
	anchor, errAnchor := gtid.Parse(r.Anchor)
	return archived, anchor, errors.Join(errArchived, errAnchor)
}

// tidy sees to it that no segment is missing, and deletes those that no backup needs.
func (a *Archiver) tidy(ctx context.Context) error {
	numbers, err := a.o.Folder.Numbers(ctx)
	if err != nil {
		return err
	}
	if a.hole, err = a.o.Folder.findHole(ctx, numbers); err != nil {
		return err
	}
	missing := a.hole.missing.String()
	if missing != "" {
		a.o.Log.Error(nil, "THE ARCHIVE HAS A HOLE: segments are no longer in the bucket, and a new backup is needed for what follows", "transactions", missing)
	}
	a.tell(func(r *Report) { r.Missing = missing })
	return a.prune(ctx, numbers)
}

// prune deletes the segments from the oldest on that are wholly contained in the oldest backup, and so in all of them.
// The newest segment always stays: it is what the archive remembers itself by. Without a backup nothing is deleted.
func (a *Archiver) prune(ctx context.Context, numbers []uint64) error {
	if len(a.base.order) == 0 || len(numbers) == 0 {
		return nil
	}
	floor := a.base.known[a.base.order[0]].set
	for _, folder := range a.base.order {
		floor = floor.Intersect(a.base.known[folder].set)
	}
	var needless []string
	for _, number := range numbers[:len(numbers)-1] {
		h, err := a.o.Folder.Header(ctx, number)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, backup.ErrCorrupt) {
			break // a person may want to look at it
		}
		if err != nil {
			return err
		}
		if !floor.Contains(h.All()) {
			break
		}
		needless = append(needless, a.o.Folder.key(number))
	}
	if len(needless) == 0 {
		return nil
	}
	if err := a.o.Folder.Store.Delete(ctx, needless...); err != nil {
		return fmt.Errorf("delete segments that no backup needs: %w", err)
	}
	a.o.Log.Info("deleted segments that no backup needs", "segments", len(needless))
	return nil
}

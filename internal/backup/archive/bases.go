package archive

import (
	"context"
	"errors"
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

func (b *bases) oldestFirst() []base {
	list := b.newestFirst()
	slices.Reverse(list)
	return list
}

// baseSettles is how long after its dump a backup is looked for in what the primary has: what was heard of the primary may be
// a little older than the backup.
const baseSettles = time.Minute

// firstRecoverable is when the oldest backup was taken from which the archive goes on without a gap. One that holds what the
// cluster has lost since, at a failover, is no base: executed is what the primary had at a time.
func (b *bases) firstRecoverable(anchor, executed gtid.Set, at time.Time) (time.Time, bool) {
	for _, folder := range b.order {
		found := b.known[folder]
		if at.Sub(found.taken) > baseSettles && !executed.Contains(found.set) {
			continue
		}
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

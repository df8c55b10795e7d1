package archive

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// bases are the good backups of the cluster, by which the archive is judged.
type bases struct {
	stored *backup.Backups
	// newest holds them, the newest first.
	newest []base
}

// base is a backup.
type base struct {
	folder string
	taken  time.Time
	set    gtid.Set
	// unreplayable is what the backup lacks and a replay from it needs to go on beyond a change of that, by name.
	unreplayable []string
}

// look reads which backups there are now, and which of them are good.
func (b *bases) look(ctx context.Context) error {
	var newest []base
	for found, err := range b.stored.NewestFirst(ctx) {
		if err != nil {
			return err
		}
		set, err := gtid.Parse(found.Manifest.GTIDSet)
		if err != nil || !found.Standing.Good() {
			continue
		}
		newest = append(newest, base{found.Folder, found.Manifest.TakenAt, set, unreplayable(found.Manifest.LeftOut)})
	}
	b.newest = newest
	return nil
}

func unreplayable(left []podclient.LeftOut) (names []string) {
	for _, l := range left {
		if l.EndsReplay {
			names = append(names, l.What)
		}
	}
	return names
}

// unreplayable is what the newest backup says of a replay from it.
func (b *bases) unreplayable() []string {
	if len(b.newest) == 0 {
		return nil
	}
	return b.newest[0].unreplayable
}

func (b *bases) newestFirst() []base { return slices.Clone(b.newest) }

func (b *bases) oldestFirst() []base {
	list := b.newestFirst()
	slices.Reverse(list)
	return list
}

// baseSettles is how long after its dump a backup is looked for in what the primary has: what was heard of the primary may be
// a little older than the backup.
const baseSettles = time.Minute

// firstRecoverable is when the oldest backup was taken from which the archive goes on without a gap. One that holds what the
// cluster has lost since, at a failover, is no base: executed is what the primary had at a time, and lost
// knows also of what was lost under GTIDs that the primary has by now.
func (b *bases) firstRecoverable(anchor, executed gtid.Set, at time.Time, lost Losses) (time.Time, bool) {
	for _, found := range slices.Backward(b.newest) {
		if at.Sub(found.taken) > baseSettles && !executed.Contains(found.set) {
			continue
		}
		if !lost.in(found.set, found.taken).IsEmpty() {
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

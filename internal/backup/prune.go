package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

// Retention says what is kept of a schedule's backups. Zero values are no limit.
type Retention struct {
	Count  int
	MaxAge time.Duration
}

// Remove deletes what is in a folder: the manifest first, so that at no moment a backup seems to be there that is not.
// What an upload left behind that was cut off goes too. A folder that is not there is a success.
func (p Place) Remove(ctx context.Context, folder string) error {
	if folder == "" {
		return errors.New("remove a backup: it has no folder")
	}
	prefix := p.Folder(folder) + "/"
	if err := p.Store.Delete(ctx, prefix+manifestName); err != nil {
		return fmt.Errorf("remove the manifest of %s: %w", folder, err)
	}
	var keys []string
	for object, err := range p.Store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("remove %s: %w", folder, err)
		}
		if object.Key != prefix+removingName {
			keys = append(keys, object.Key)
		}
	}
	if err := p.Store.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("remove %s: %w", folder, err)
	}
	if _, err := p.Store.Sweep(ctx, prefix); err != nil {
		return fmt.Errorf("remove what uploads left of %s: %w", folder, err)
	}
	if err := p.Store.Delete(ctx, prefix+removingName); err != nil {
		return fmt.Errorf("remove %s: %w", folder, err)
	}
	return nil
}

// FinishRemovals removes what is left of backups whose removal was begun by RemoveUnused and cut off. One that began a moment ago goes
// on by itself, and may yet find that somebody uses the backup; one that somebody uses is left for another time.
func (p Place) FinishRemovals(ctx context.Context, now time.Time) error {
	prefix := p.Root + "/backups/"
	cutOff, whole := map[string]bool{}, map[string]bool{}
	for object, err := range p.Store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("list the backups: %w", err)
		}
		switch folder, name, _ := strings.Cut(strings.TrimPrefix(object.Key, prefix), "/"); name {
		case removingName:
			cutOff[folder] = now.Sub(object.Modified) >= usedFor
		case manifestName:
			whole[folder] = true
		}
	}
	var failures []error
	for _, folder := range slices.Sorted(maps.Keys(cutOff)) {
		if !cutOff[folder] || whole[folder] {
			continue
		}
		err := p.Unused(ctx, folder, now)
		if err == nil {
			err = p.Remove(ctx, folder)
		}
		if !errors.Is(err, ErrInUse) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// Surplus is a backup that a schedule's retention no longer keeps.
type Surplus struct {
	// Folder is where it is, Backup the name of its MySQLBackup.
	Folder, Backup string
}

// Pruning is one application of a schedule's retention.
type Pruning struct {
	// Schedule is the schedule, a backup of which has just succeeded.
	Schedule string
	Retention
	// Bases is true for the one schedule that also deletes the archive's bases that were taken while the cluster had no schedule of dumps.
	Bases bool
	// Required is what a backup must hold to be a base of the archive; nil without an archive.
	Required *gtid.Set
	Now      time.Time
}

// Surplus lists what the retention of a schedule no longer keeps, the newest first. A base of the archive takes nobody's place: it goes
// once it is older than all that the schedule keeps, and so does what a verification refuted. What another schedule made stays, also when
// that schedule was renamed or removed: somebody may have meant to keep it for longer. Whatever the retention says, three good backups of
// the cluster stay: the newest, the newest that was verified, and the newest that is a base of the archive. A damaged one counts for
// nothing and is left alone, so that a person can look at it.
func (p Place) Surplus(ctx context.Context, pruning Pruning) ([]Surplus, error) {
	if pruning.Schedule == "" {
		return nil, nil
	}
	var surplus []Surplus
	var stay indispensable
	kept := 0
	for b, err := range p.Backups().NewestFirst(ctx) {
		if err != nil {
			return nil, err
		}
		if b.Standing == Damaged {
			continue
		}
		stays := stay.holds(b, pruning.Required)
		if !pruning.owns(b.Manifest) {
			continue
		}
		counts := b.Standing.Good() && !b.Manifest.Base
		if counts {
			kept++
		}
		if !stays && (pruning.tooOld(b.Manifest) || pruning.tooMany(kept, counts)) {
			surplus = append(surplus, Surplus{Folder: b.Folder, Backup: b.Manifest.Backup})
		}
	}
	return surplus, nil
}

// owns says whether a backup is the schedule's to delete.
func (p Pruning) owns(m Manifest) bool {
	return m.Schedule == p.Schedule || p.Bases && m.Base && m.Schedule == ""
}

func (p Pruning) tooOld(m Manifest) bool { return p.MaxAge > 0 && p.Now.Sub(m.CompletedAt) > p.MaxAge }

// tooMany says whether there is one too many, when so many are kept of those that count; of those that do not, none is kept beyond them.
func (p Pruning) tooMany(kept int, counts bool) bool {
	return p.Count > 0 && (kept > p.Count || !counts && kept == p.Count)
}

// indispensable finds the backups that stay whatever a retention says, in a list with the newest first.
type indispensable struct{ newest, verified, base bool }

// holds says whether the next backup is one of them.
func (i *indispensable) holds(b Stored, required *gtid.Set) bool {
	is := indispensable{newest: b.Standing.Good(), verified: b.Standing == Passed}
	if required != nil && is.newest {
		set, err := gtid.Parse(b.Manifest.GTIDSet)
		is.base = err == nil && set.Contains(*required)
	}
	stays := is.newest && !i.newest || is.verified && !i.verified || is.base && !i.base
	*i = indispensable{i.newest || is.newest, i.verified || is.verified, i.base || is.base}
	return stays
}

// Latest returns the folder of the newest backup that was finished, whether its manifest can be read or not: ErrCorrupt says
// that it cannot, and store.ErrNotFound that there is none.
func (p Place) Latest(ctx context.Context) (string, error) {
	folders, err := p.Folders(ctx)
	if err != nil {
		return "", err
	}
	for _, folder := range slices.Backward(folders) {
		switch _, err := p.ReadManifest(ctx, folder); {
		case err == nil:
			return folder, nil
		case !errors.Is(err, store.ErrNotFound):
			return folder, fmt.Errorf("%s: %w", p.Folder(folder), err)
		}
	}
	return "", fmt.Errorf("look for a backup in %s: %w", p.Store.URL(p.Root), store.ErrNotFound)
}

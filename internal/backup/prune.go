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

// Surplus lists what the retention of a schedule no longer keeps, the newest first. It is asked after a backup of that
// schedule succeeded. A base of the archive takes nobody's place: it goes once it is older than all that the schedule keeps.
// Whatever the retention says, two backups of the cluster stay: the newest, and the newest of those that passed says were
// restored and found whole. A folder whose manifest cannot be read, or whose objects are not as large as its manifest says,
// counts for nothing and is left alone, so that a person can look at it.
func (p Place) Surplus(ctx context.Context, schedule string, r Retention, now time.Time, passed func(context.Context, Surplus) (bool, error)) ([]Surplus, error) {
	folders, err := p.Folders(ctx)
	if err != nil {
		return nil, err
	}
	slices.Reverse(folders) // the newest first
	var surplus []Surplus
	newest, found, kept := true, false, 0
	for _, folder := range folders {
		m, err := p.Finished(ctx, folder)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		this := Surplus{Folder: folder, Backup: m.Backup}
		stays := newest
		newest = false
		if !found {
			if found, err = passed(ctx, this); err != nil {
				return nil, err
			}
			stays = stays || found
		}
		if m.Schedule != schedule || schedule == "" {
			continue
		}
		if !m.Base {
			kept++
		}
		old := r.MaxAge > 0 && now.Sub(m.CompletedAt) > r.MaxAge
		tooMany := r.Count > 0 && (kept > r.Count || m.Base && kept == r.Count)
		if !stays && (old || tooMany) {
			surplus = append(surplus, this)
		}
	}
	return surplus, nil
}

// Finished returns the manifest of a folder that is a backup, with everything in it as large as that says. Otherwise its
// error wraps store.ErrNotFound or ErrCorrupt.
func (p Place) Finished(ctx context.Context, folder string) (Manifest, error) {
	m, err := p.ReadManifest(ctx, folder)
	if err != nil {
		return Manifest{}, err
	}
	prefix, sizes := p.Folder(folder)+"/", map[string]int64{}
	for object, err := range p.Store.List(ctx, prefix) {
		if err != nil {
			return Manifest{}, fmt.Errorf("list %s: %w", folder, err)
		}
		sizes[object.Key] = object.Size
	}
	for _, o := range slices.Concat(m.Dump.Objects, m.Accounts.Objects, m.Definitions.Objects) {
		if size, there := sizes[prefix+o.Name]; !there || size != o.Bytes {
			return Manifest{}, fmt.Errorf("%w: %s is not there, or has not the %d bytes that the manifest says", ErrCorrupt, o.Name, o.Bytes)
		}
	}
	return m, nil
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

// Newest returns the folder of the newest backup whose manifest can be read. store.ErrNotFound says that there is none.
func (p Place) Newest(ctx context.Context) (string, error) {
	folders, err := p.Folders(ctx)
	if err != nil {
		return "", err
	}
	slices.Reverse(folders)
	for _, folder := range folders {
		_, err := p.ReadManifest(ctx, folder)
		if err == nil {
			return folder, nil
		}
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, ErrCorrupt) {
			return "", err
		}
	}
	return "", fmt.Errorf("look for a backup in %s: %w", p.Store.URL(p.Root), store.ErrNotFound)
}

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		keys = append(keys, object.Key)
	}
	if err := p.Store.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("remove %s: %w", folder, err)
	}
	if _, err := p.Store.Sweep(ctx, prefix); err != nil {
		return fmt.Errorf("remove what uploads left of %s: %w", folder, err)
	}
	return nil
}

// Prune deletes what the retention of a schedule no longer keeps, and returns the names of those backups. It is called
// after a backup of that schedule succeeded. The newest good backup of the cluster stays whatever the retention says, and
// a backup whose manifest cannot be read counts for nothing and is left alone, so that a person can look at it.
func (p Place) Prune(ctx context.Context, schedule string, r Retention, now time.Time) ([]string, error) {
	folders, err := p.Folders(ctx)
	if err != nil {
		return nil, err
	}
	slices.Reverse(folders) // the newest first
	var pruned []string
	newest, kept := true, 0
	for _, folder := range folders {
		m, err := p.ReadManifest(ctx, folder)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrCorrupt) {
			continue
		}
		if err != nil {
			return pruned, err
		}
		isNewest := newest
		newest = false
		if m.Schedule != schedule || schedule == "" {
			continue
		}
		kept++
		old := r.MaxAge > 0 && now.Sub(m.CompletedAt) > r.MaxAge
		surplus := r.Count > 0 && kept > r.Count
		if isNewest || !old && !surplus {
			continue
		}
		if err := p.Remove(ctx, folder); err != nil {
			return pruned, err
		}
		pruned = append(pruned, m.Backup)
	}
	return pruned, nil
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

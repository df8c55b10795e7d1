package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

const (
	// usedFolder holds the marks of those who use a backup, below the backup's own folder.
	usedFolder = "used-by"
	// usedEvery is how often a mark is written anew, usedFor how long it holds: it outlives the pause after a pod that was lost,
	// of six minutes at most, and some minutes between two clocks.
	usedEvery = 5 * time.Minute
	usedFor   = 30 * time.Minute
)

// use marks a backup as in use until the function is called that it returns. Given an error that leaves the mark, which ends by
// itself: most likely another pod goes on. Where a bucket may only be read there is no mark, and nothing keeps the backup there.
func (p Place) use(ctx context.Context, folder, by string) (end func(error)) {
	key := p.Folder(folder) + "/" + usedFolder + "/" + by
	mark := func() {
		ctx, cancel := context.WithTimeout(ctx, usedTimeout)
		defer cancel()
		_, _ = p.Store.Put(ctx, key, strings.NewReader(by))
	}
	mark()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, usedEvery, false, func(context.Context) (bool, error) { mark(); return false, nil })
	})
	return func(err error) {
		cancel()
		group.Wait()
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = p.Store.Delete(ctx, key)
	}
}

// Unused fails with ErrInUse while somebody restores from a backup, or verifies it, or a restore is not finished that may need it.
func (p Place) Unused(ctx context.Context, folder string, now time.Time) error {
	for object, err := range p.Store.List(ctx, p.Folder(folder)+"/"+usedFolder+"/") {
		if err != nil {
			return fmt.Errorf("look who uses %s: %w", folder, err)
		}
		if now.Sub(object.Modified) < usedFor {
			return fmt.Errorf("%s: %w", folder, ErrInUse)
		}
	}
	return p.Reserved(ctx, folder, now)
}

// RemoveUnused is Remove for a backup that nobody uses, and fails with ErrInUse otherwise. Who uses one marks it and then reads
// its manifest; here that is deleted first, and then the marks are looked at once more: one of both sees the other.
func (p Place) RemoveUnused(ctx context.Context, folder string, now time.Time) error {
	if folder == "" {
		return errors.New("remove a backup: it has no folder")
	}
	if err := p.Unused(ctx, folder, now); err != nil {
		return err
	}
	key := p.Folder(folder) + "/" + manifestName
	manifest, err := store.ReadAll(ctx, p.Store, key, maxManifest)
	if errors.Is(err, store.ErrNotFound) {
		return p.Remove(ctx, folder)
	}
	if err != nil {
		return fmt.Errorf("read the manifest of %s: %w", folder, err)
	}
	// Without its manifest nobody would take it for a backup, nor for what is left of one. A store that is full takes no mark, and
	// that must not keep what would make room.
	removing := p.Folder(folder) + "/" + removingName
	if _, err := p.Store.Put(ctx, removing, strings.NewReader(now.UTC().Format(time.RFC3339))); err != nil && !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("begin to remove %s: %w", folder, err)
	}
	if err := p.Store.Delete(ctx, key); err != nil {
		return fmt.Errorf("remove the manifest of %s: %w", folder, err)
	}
	if err := p.Unused(ctx, folder, now); err != nil {
		back := context.WithoutCancel(ctx)
		_, put := p.Store.Put(back, key, bytes.NewReader(manifest))
		if put == nil {
			put = p.Store.Delete(back, removing)
		}
		return errors.Join(err, put)
	}
	return p.Remove(ctx, folder)
}

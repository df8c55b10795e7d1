package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// joined is a store in which somebody begins to use a backup the moment its manifest is deleted.
type joined struct {
	store.Store
	join func()
}

func (j joined) Delete(ctx context.Context, keys ...string) error {
	err := j.Store.Delete(ctx, keys...)
	if strings.HasSuffix(keys[0], manifestName) {
		j.join()
	}
	return err
}

// TestWhoUsesABackup keeps it, from the first moment on, and not longer than the mark is renewed.
func TestWhoUsesABackup(t *testing.T) {
	t.Parallel()
	s, err := store.NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	ctx, now := t.Context(), time.Now()
	p := Place{Store: s, Root: "shop/orders/uid"}
	whole := func() bool {
		_, err := p.ReadManifest(ctx, "a")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		return err == nil
	}
	must(t, p.WriteManifest(ctx, "a", Manifest{Backup: "a"}))
	end := p.use(ctx, "a", "restore")
	if err := p.RemoveUnused(ctx, "a", now); !errors.Is(err, ErrInUse) || !whole() {
		t.Errorf("in use: %v, and it is whole: %v", err, whole())
	}
	end(errors.New("cut off"))
	if err := p.RemoveUnused(ctx, "a", now.Add(usedFor-time.Minute)); !errors.Is(err, ErrInUse) {
		t.Errorf("another pod may go on: %v", err)
	}
	if err := p.Unused(ctx, "a", now.Add(usedFor+time.Minute)); err != nil {
		t.Errorf("nobody went on: %v", err)
	}
	end = p.use(ctx, "a", "restore")
	end(nil)
	must(t, p.Unused(ctx, "a", now))

	late := p
	late.Store = joined{s, func() { end = p.use(ctx, "a", "restore") }}
	if err := late.RemoveUnused(ctx, "a", now); !errors.Is(err, ErrInUse) || !whole() {
		t.Errorf("used in the last moment: %v, and it is whole: %v", err, whole())
	}
	end(nil)
	must(t, p.RemoveUnused(ctx, "a", now))
	if whole() {
		t.Error("it is still there")
	}
	must(t, p.RemoveUnused(ctx, "a", now)) // again is a success
}

// refusing is a store that deletes so often and then no more.
type refusing struct {
	store.Store
	left *int
}

func (r refusing) Delete(ctx context.Context, keys ...string) error {
	if *r.left--; *r.left < 0 {
		return errors.New("slow down")
	}
	return r.Store.Delete(ctx, keys...)
}

// TestARemovalThatWasCutOffIsFinished by the next one, wherever it was; what was never to be removed stays.
func TestARemovalThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	for deletes := range 5 {
		t.Run(strconv.Itoa(deletes), func(t *testing.T) {
			t.Parallel()
			s, err := store.NewFolder(t.TempDir(), "pvc://backups")
			must(t, err)
			ctx, now := t.Context(), time.Now()
			p := Place{Store: s, Root: "shop/orders/uid"}
			for _, folder := range []string{"a", "whole"} {
				_, err := s.Put(ctx, p.Folder(folder)+"/dump.sql.zst", strings.NewReader("much"))
				must(t, err)
				must(t, p.WriteManifest(ctx, folder, Manifest{Backup: folder}))
			}
			_, err = s.Put(ctx, p.Folder("begun")+"/dump.sql.zst", strings.NewReader("of a dump that goes on"))
			must(t, err)
			cut := p
			cut.Store = refusing{s, &deletes}
			if err := cut.RemoveUnused(ctx, "a", now); (err == nil) != (deletes >= 0) {
				t.Errorf("cut off: %v", err)
			}
			if _, err := p.ReadManifest(ctx, "a"); err == nil { // it had not begun
				must(t, p.RemoveUnused(ctx, "a", now))
			}
			for _, passed := range []time.Duration{0, usedFor + time.Minute} {
				before, err := p.Folders(ctx)
				must(t, err)
				must(t, p.FinishRemovals(ctx, now.Add(passed)))
				if folders, err := p.Folders(ctx); err != nil || passed == 0 && !slices.Equal(folders, before) {
					t.Errorf("at once: %v, after %v (%v)", folders, before, err)
				}
			}
			folders, err := p.Folders(ctx)
			must(t, err)
			if !slices.Equal(folders, []string{"begun", "whole"}) {
				t.Errorf("there are %v", folders)
			}
		})
	}
}

// full is a store that takes nothing.
type full struct{ store.Store }

func (full) Put(context.Context, string, io.Reader) (int64, error) { return 0, store.ErrFull }

// TestAFullStoreCanBeEmptied: what makes room needs none.
func TestAFullStoreCanBeEmptied(t *testing.T) {
	t.Parallel()
	s, err := store.NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	p := Place{Store: s, Root: "shop/orders/uid"}
	must(t, p.WriteManifest(t.Context(), "a", Manifest{Backup: "a"}))
	p.Store = full{s}
	must(t, p.RemoveUnused(t.Context(), "a", time.Now()))
	if folders, err := p.Folders(t.Context()); err != nil || len(folders) > 0 {
		t.Errorf("there are %v, %v", folders, err)
	}
}

// TestWhatIsUsedOrWholeIsNotFinishedOff, although its removal was begun.
func TestWhatIsUsedOrWholeIsNotFinishedOff(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s, err := store.NewFolder(root, "pvc://backups")
	must(t, err)
	ctx, began, later := t.Context(), time.Now().Add(-time.Hour), time.Now().Add(usedFor-time.Minute)
	p := Place{Store: s, Root: "shop/orders/uid"}
	for _, folder := range []string{"used", "whole", "left"} {
		_, err := s.Put(ctx, p.Folder(folder)+"/"+removingName, strings.NewReader("before"))
		must(t, err)
		must(t, os.Chtimes(filepath.Join(root, p.Folder(folder), removingName), began, began))
	}
	must(t, p.WriteManifest(ctx, "whole", Manifest{Backup: "whole"}))
	defer p.use(ctx, "used", "restore")(nil)
	must(t, p.FinishRemovals(ctx, later))
	if folders, err := p.Folders(ctx); err != nil || !slices.Equal(folders, []string{"used", "whole"}) {
		t.Errorf("there are %v, %v", folders, err)
	}
}

// TestARestoreUsesItsBackup until it is done.
func TestARestoreUsesItsBackup(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.replica)
	_, err := Dump(t.Context(), o)
	must(t, err)
	r := w.restore(t, o, w.fresh(t))
	looked := false
	r.Then = func(ctx context.Context, _ *podclient.Visit, _ Manifest) error {
		looked = true
		if err := o.Place.Unused(ctx, o.Folder, time.Now()); !errors.Is(err, ErrInUse) {
			t.Errorf("while it is restored: %v", err)
		}
		return nil
	}
	_, err = Restore(t.Context(), r)
	must(t, err)
	if err := o.Place.Unused(t.Context(), o.Folder, time.Now()); err != nil || !looked {
		t.Errorf("afterwards: %v", err)
	}
}

// TestAReservationOutlivesItsPod: a restore that failed waits for a person for days, and keeps what it needs.
func TestAReservationOutlivesItsPod(t *testing.T) {
	p, now := shelf(t), time.Now()
	must(t, p.WriteManifest(t.Context(), "a", Manifest{Backup: "a"}))
	must(t, p.WriteManifest(t.Context(), "b", Manifest{Backup: "b"}))
	kept := func(what string, now time.Time, a, b bool) {
		t.Helper()
		for folder, want := range map[string]bool{"a": a, "b": b} {
			if err := p.Unused(t.Context(), folder, now); err != nil != want || err != nil && !errors.Is(err, ErrInUse) {
				t.Errorf("%s: %s is kept: %v", what, folder, err)
			}
		}
	}
	r := p.Reserve(t.Context(), "uid-of-the-new-cluster", "")
	kept("while it plans", now, true, true)
	r.Narrow(t.Context(), "a")
	kept("once it has chosen", now, true, false)
	r.End(errors.New("the server is gone"))
	kept("after it failed", now.Add(reservedFor-time.Hour), true, false)
	kept("after nobody cared", now.Add(reservedFor+time.Hour), false, false)
	r = p.Reserve(t.Context(), "uid-of-the-new-cluster", "a")
	r.End(nil)
	kept("after it was done", now, false, false)
}
